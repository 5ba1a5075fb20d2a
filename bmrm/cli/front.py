"""``bmrm``: the list of the commands, and small files to try them with."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bmrm.cli.exits import Exit, run_on_first_rank

if TYPE_CHECKING:
    from bmrm.cli.signals import CommandInterrupts

PROGRAM = "bmrm"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command as `run_on_first_rank` does."""
    return run_on_first_rank(PROGRAM, front, argv)


def front(argv: Sequence[str], interrupts: CommandInterrupts) -> int:
    """Run the command and return the exit code."""
    from bmrm.cli import commands
    from bmrm.cli.parsing import CommandParser
    from bmrm.errors import escape_unprintable

    parser = CommandParser(commands.front())
    options = parser.parse_words(argv or ["--help"])
    interrupts.importing("bmrm.io.dump")
    from bmrm.cli.samples import NAMES, write_samples

    write_samples(options.folder)
    print(f"{escape_unprintable(options.folder)}: {', '.join(NAMES)}")
    return Exit.OK


if __name__ == "__main__":
    sys.exit(main())
