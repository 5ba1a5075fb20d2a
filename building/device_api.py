"""Cython's declarations of the C interface of a device, made from its headers (``src_cuda/api``).

The headers are plain C and say each thing once: opaque types, structs, enumerations, constants in parentheses
and functions that begin with ``BB_API``. `_cuda` cimports all of them as `MODULE`.
"""

import re
from pathlib import Path

from building.steps import write

HEADERS = Path("src_cuda/api")
FOLDER = "build/declarations"
MODULE = "device_api"

COMMENT = re.compile(r"//[^\n]*")
INCLUDE = re.compile(r'#include "api/(\w+)\.h"')
DECLARATION = re.compile(
    r"^(?:#define (?P<constant>\w+) \(.*\)"
    r"|typedef struct \w+ (?P<opaque>\w+);"
    r"|(?P<kind>(?:typedef )?(?:struct|enum)) \{(?P<body>[^}]*)\} ?(?P<name>\w*);"
    r"|BB_API (?P<function>[^;]*);)",
    re.MULTILINE,
)
POINTER_TO_FUNCTION = re.compile(r"\(\*\w+\)\(.*\)$")
KEYWORD = re.compile(r"\bfrom\b")  # an argument in C that Python cannot have


def _members(kind: str, body: str) -> list[str]:
    """Return the lines of a struct or enumeration."""
    if kind.endswith("enum"):
        return [name.split("=")[0].strip() for name in body.split(",") if name.strip()]
    lines = [" ".join(line.split()) for line in body.split(";") if line.strip()]
    return [f"{line} noexcept nogil" if POINTER_TO_FUNCTION.search(line) else line for line in lines]


def declared(text: str) -> list[str]:
    """Return what a header declares, in Cython's words, as lines.

    >>> declared("typedef struct bb_rows bb_rows;\\nBB_API void bb_move(bb_rows* rows, const double* from);")
    ['ctypedef struct bb_rows:', '    pass', 'void bb_move(bb_rows* rows, const double* from_)']
    >>> declared("enum {\\n    BB_ONE = 1,  // the first\\n    BB_TWO\\n};")
    ['enum:', '    BB_ONE', '    BB_TWO']
    """
    lines: list[str] = []
    for found in DECLARATION.finditer(COMMENT.sub("", text)):
        if found["constant"]:
            lines.append(f"int {found['constant']}")
        elif found["opaque"]:
            lines += [f"ctypedef struct {found['opaque']}:", "    pass"]
        elif found["kind"]:
            kind = found["kind"].replace("typedef", "ctypedef")
            lines.append(f"{kind} {found['name']}".rstrip() + ":")
            lines += [f"    {member}" for member in _members(kind, found["body"])]
        else:
            lines.append(" ".join(KEYWORD.sub("from_", found["function"]).split()).replace("(void)", "()"))
    return lines


def _in_order(names: list[str], texts: dict[str, str]) -> list[str]:
    """Return headers, each after those that it includes."""
    found: list[str] = []
    for name in names:
        found += [one for one in _in_order(INCLUDE.findall(texts[name]), texts) if one not in found]
        found += [name] if name not in found else []
    return found


def declarations() -> str:
    """Return the declarations of all headers."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(HEADERS.glob("*.h"))}
    lines = ["from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t"]
    for name in _in_order(list(texts), texts):
        lines += ["", f'cdef extern from "api/{name}.h" nogil:', *(f"    {x}" for x in declared(texts[name]))]
    return "\n".join(lines) + "\n"


def write_declarations() -> None:
    """Write `MODULE` to `FOLDER`, if it is not there as it shall be."""
    write(Path(FOLDER, f"{MODULE}.pxd"), declarations().encode())
