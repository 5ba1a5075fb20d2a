"""The native sources include one another in one direction: each folder only what its row of a table names.

Includes are written from the roots ``src_common``, ``src_cython`` and ``src_cuda``; those of what a compiled
module declares for others (``bmrm/**/*.pxd``) from the root of the repository. A binding at the top of
``src_cython`` may include anything.
"""

import itertools
import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOTS = ("src_common", "src_cython", "src_cuda")
BINDINGS = "src_cython"
SUFFIXES = {".h", ".inl", ".cuh", ".cpp", ".cu", ".pyx", ".pxd", ".pxi"}

# What the files of a folder may include besides their own folder: folders, or one file.
MAY_INCLUDE = {
    "{src_common,src_common/device,src_cuda/api,bmrm/base}": "",
    "src_cuda/runtime": "src_cuda/api src_common/device{,_limits.h}",
    "src_cuda/{formats,rows}": "src_cuda/{runtime,api} src_common/{device,host_device.h,device_limits.h}",
    "src_cuda/{choice,matrix}": "src_cuda/{choice,formats,runtime,api} src_common/host_device.h",
    "src_cuda/distributed": "src_cuda/{formats,runtime,api}",
    "src_cuda/{training,joint}": "src_cuda/{training,matrix,distributed,formats,runtime,api} src_common",
    "src_cuda/graph": "src_cuda/{matrix,distributed,runtime,api}",
    "src_cuda/{clusters,mixtures,decomposition,pairs}": (
        "src_cuda/{rows,runtime,api} src_common{,/device,/pairs}"
    ),
    "src_cuda/manifold": "src_cuda/{pairs,runtime,api} src_common{,/device}",
    "{src_common/pairs,src_cython/common}": "src_common bmrm/base",
    "src_cython/{cpu,text,losses,joint,parts}": "src_cython/common src_common",
    "{src_cython/svmlight,src_cython/edges,bmrm/io}": "src_cython/{text,common} src_common",
    "src_cython/{dual,graph,qp} bmrm/matrix": "src_cython/{cpu,common} src_common",
    "src_cython/{clusters,mixtures,pairs}": "src_cython/{parts,cpu,common} src_common{,/pairs}",
    "src_cython/manifold": "src_cython/{pairs,cpu,common} src_common",
    "src_cython/cuda": "src_cuda/choice src_cython/common src_cython/cpu/consecutive_rows.h",
}

INCLUDE = re.compile(r'^\s*(?:#\s*include|cdef\s+extern\s+from|include)\s+"([^"<]+)"', re.MULTILINE)
CIMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+cimport\s|cimport\s+(.+)$)", re.MULTILINE)
# Declarations of Cython and NumPy, and those that the build makes from `src_cuda/api`.
FOREIGN = {"cpython", "cython", "device_api", "libc", "libcpp", "numpy"}


def expand(words: str) -> list[str]:
    """The words; a word with ``{a,b}`` appears once with a and once with b."""
    out = []
    for word in words.split():
        parts = re.fullmatch(r"([^{]*)\{([^}]*)\}([^}]*)", word)
        out += [parts[1] + name + parts[3] for name in parts[2].split(",")] if parts else [word]
    return out


def table() -> dict[str, list[str]]:
    return {folder: expand(named) for row, named in MAY_INCLUDE.items() for folder in expand(row)}


def sources() -> list[Path]:
    native = [p for root in ROOTS for p in (ROOT / root).rglob("*") if p.suffix in SUFFIXES]
    return sorted([*native, *(ROOT / "bmrm").rglob("*.pxd")])


def folder_of(path: str) -> str:
    """The folder whose row holds for a file: two levels down, or the root itself."""
    return "/".join(path.split("/")[:-1][:2])


def written(text: str) -> list[str]:
    """The names of files that a source includes, as written there."""
    modules = [name for one, some in CIMPORT.findall(text) for name in (one or some).split(",")]
    modules = [name.split(" as ")[0].strip() for name in modules]
    ours = [name for name in modules if name.lstrip(".").split(".")[0] not in FOREIGN]
    return [*INCLUDE.findall(text), *(name.replace(".", "/") + ".pxd" for name in ours)]


def included(source: Path) -> list[tuple[str, list[str]]]:
    """Each name that a source includes, and the files that it may mean."""
    found = []
    for name in written(source.read_text()):
        meant = [name] if name.startswith("bmrm/") else [f"{root}/{name}" for root in ROOTS]
        found.append((name, [path for path in meant if (ROOT / path).is_file()]))
    return found


def graph() -> dict[str, set[str]]:
    """The files that each file includes."""
    return {
        str(source.relative_to(ROOT)): {path for _, found in included(source) for path in found}
        for source in sources()
    }


def test_every_folder_has_a_row():
    assert len(MAY_INCLUDE) <= 16
    folders = {folder_of(path) for path in graph()} - {BINDINGS}
    assert folders == set(table())


def test_every_include_is_one_file():
    lost = [
        f"{source.relative_to(ROOT)} includes {name}: {found or 'no such file'}"
        for source in sources()
        for name, found in included(source)
        if len(found) != 1
    ]
    assert lost == []


def test_includes_follow_the_table():
    rows = table()
    wrong = [
        f"{path} includes {target}"
        for path, targets in graph().items()
        for target in sorted(targets)
        if folder_of(path) not in (BINDINGS, folder_of(target))
        and not {folder_of(target), target} & set(rows[folder_of(path)])
    ]
    assert wrong == []


def test_no_file_includes_itself_by_way_of_others():
    tuple(TopologicalSorter(graph()).static_order())  # raises CycleError with the cycle


def test_every_row_names_what_is_there():
    assert [name for named in table().values() for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize(
    "line",
    [
        '#include "a/b.h"',
        '    #include "a/b.h"',
        'cdef extern from "a/b.h" namespace "x" nogil:',
        'include "a/b.h"',
    ],
)
def test_every_way_to_include_is_seen(line):
    assert written(f"x\n{line}\n") == ["a/b.h"]
    assert written("from a.b cimport c\n") == written("cimport a.b as d\n") == ["a/b.pxd"]
    assert written("from libc.stdint cimport int64_t\n#include <string.h>\n") == []


def test_classes_that_free_memory_of_a_device_keep_what_they_need_for_it():
    found = []
    for path in sorted((ROOT / "src_cython" / "cuda").glob("*.pxi")):
        text = path.read_text()
        starts = [match.start() for match in re.finditer(r"^cdef class ", text, re.MULTILINE)]
        for start, end in itertools.pairwise([*starts, len(text)]):
            if "def __dealloc__" in text[start:end]:
                name = text[start:end].split()[2].split("(")[0].rstrip(":")
                found.append(name)
                assert text[:start].endswith("@cython.no_gc_clear\n"), f"{path.name}: {name}"
    assert {"Basis", "Clusters", "Problem", "Walk"} <= set(found)
