"""Compares the stubs of the compiled modules with the modules, as they are installed: `make stubs`.

`stubtest-allowlist.txt` lists what may differ, with the reasons. Modules that were not built are left out.
"""

import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import bmrm

ROOT = Path(__file__).parents[1]
OPTIONS = (
    "--concise",
    # Says of a class only that it cannot be a base together with others, which nobody needs here.
    "--ignore-disjoint-bases",
    f"--mypy-config-file={ROOT / 'pyproject.toml'}",
    f"--allowlist={ROOT / 'scripts' / 'stubtest-allowlist.txt'}",
)


def compiled_modules() -> list[str]:
    """Return the names of the installed modules that have a stub."""
    package = Path(bmrm.__file__).parent
    stubs = [path.relative_to(package.parent).with_suffix("") for path in sorted(package.rglob("*.pyi"))]
    names = [".".join(stub.parts) for stub in stubs]
    return [name for name in names if find_spec(name)]


def main() -> int:
    """Run stubtest; its status is 1 if a stub differs."""
    # Modules of the working directory would hide those of the standard library.
    with tempfile.TemporaryDirectory() as empty:
        command = [sys.executable, "-m", "mypy.stubtest", *OPTIONS, *compiled_modules()]
        return subprocess.run(command, cwd=empty).returncode


if __name__ == "__main__":
    sys.exit(main())
