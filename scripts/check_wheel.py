"""Run README, tutorial, how-to and the commands of all pages by an installed package, in empty folders."""

import contextlib
import io
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import numpy as np
import page_blocks
import scipy

import bmrm


def call(words: list[str]) -> int:
    """Run an installed command."""
    return subprocess.run(words, stdout=subprocess.DEVNULL, check=False).returncode


def main() -> None:
    """Run the pages; the first block that fails ends the script."""
    assert Path(bmrm.__file__).is_relative_to(sysconfig.get_path("platlib")), bmrm.__file__
    commands = 0
    for page in page_blocks.PAGES:
        with (
            tempfile.TemporaryDirectory() as folder,
            contextlib.chdir(folder),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            # Other pages import packages that are not here.
            python = page.name in ("README.md", "tutorial.md") or page.parent.name == "how-to"
            commands += page_blocks.run_page(page, call, python=python)
    assert commands >= 20
    versions = f"Python {sys.version.split()[0]}, NumPy {np.__version__}, SciPy {scipy.__version__}"
    print(f"check-wheel: {versions}: README and {commands} commands ran")


if __name__ == "__main__":
    main()
