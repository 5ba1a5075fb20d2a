"""Counts over the sources that must stay as they are."""

import ast
import functools
import importlib
import re
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

PACKAGE = ROOT / "bmrm"

FILES = sorted(PACKAGE.rglob("*.py"))

MAX_FILE_LINES = 800

MAX_CLASS_LINES = 500

MAX_FUNCTION_LINES = 80
"""Without the docstring."""

KINDS_OF_ROWS = {
    "Csr",
    "Dataset",
    "DenseRows",
    "DeviceArray",
    "DeviceRows",
    "DeviceSparseRows",
    "MatrixRows",
    "RowBlocks",
    "RowSet",
    "RowsInPlace",
    "Shard",
    "SparseRows",
    "StoredRows",
}


def lines_of(node: ast.stmt) -> int:
    """The lines of a statement."""
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function without its docstring."""
    return lines_of(function) - (lines_of(function.body[0]) if ast.get_docstring(function) else 0)


@functools.cache
def nodes_of(path: Path) -> list[ast.AST]:
    """All parts of a file's syntax tree."""
    return list(ast.walk(ast.parse(path.read_text())))


def definitions(kind: type | tuple[type, ...]):
    """All classes or functions, also those within others, by "file:name"."""
    for path in FILES:
        for node in nodes_of(path):
            if isinstance(node, kind):
                yield f"{path.relative_to(PACKAGE)}:{node.name}", node


def test_files_are_short():
    lengths = {str(path.relative_to(PACKAGE)): len(path.read_text().splitlines()) for path in FILES}
    assert {name: length for name, length in lengths.items() if length > MAX_FILE_LINES} == {}


def test_classes_are_short():
    lengths = {name: lines_of(found) for name, found in definitions(ast.ClassDef)}
    assert {name: length for name, length in lengths.items() if length > MAX_CLASS_LINES} == {}


def test_functions_are_short():
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    lengths = {name: code_lines(found) for name, found in definitions(kinds)}
    assert {name: length for name, length in lengths.items() if length > MAX_FUNCTION_LINES} == {}


def names_in(node: ast.AST) -> set[str]:
    """The last parts of all names in an expression."""
    found = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return found | {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}


def asks_for_a_kind(node: ast.AST) -> bool:
    """Whether an expression asks what kind of rows something is: isinstance(x, Kind), type(x) is Kind."""
    match node:
        case ast.Call(func=ast.Name("isinstance" | "issubclass"), args=[_, kinds]):
            return bool(names_in(kinds) & KINDS_OF_ROWS)
        case ast.Compare(left=ast.Call(func=ast.Name("type"))):
            return bool(names_in(node) & KINDS_OF_ROWS)
        case ast.MatchClass(cls=kind):
            return bool(names_in(kind) & KINDS_OF_ROWS)
    return False


def test_methods_do_not_ask_what_kind_of_rows_they_have():
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for wing in ("formulas", "reductions", "unsupervised", "graph")
        for path in sorted((PACKAGE / wing).rglob("*.py"))
        for node in nodes_of(path)
        if asks_for_a_kind(node)
    ]
    assert found == []


def test_every_way_to_ask_is_seen():
    for text in (
        "isinstance(x, Csr)",
        "isinstance(x, (np.ndarray, rows.DenseRows))",
        "isinstance(x, Csr | Dataset)",
        "type(x) is DeviceArray",
        "type(x) in (DenseRows, SparseRows)",
        "match x:\n    case rows.SparseRows():\n        pass",
    ):
        assert any(map(asks_for_a_kind, ast.walk(ast.parse(text)))), text
    assert not any(map(asks_for_a_kind, ast.walk(ast.parse("isinstance(x, np.ndarray); type(x) is int"))))


def test_a_class_name_occurs_once():
    found: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in nodes_of(path)[0].body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


ESTIMATOR_MODULES = ("estimator", "passes", "cpu", "gpu", "work")
"""What an estimator has in its folder, besides files of its method."""

MAX_PYTHON_PLACES = 6

NATIVE_PLACES = {"decomposition": 4, "mixtures": 7}
"""Native files of estimators with one kernel; those of k-means and MDS have several."""

USED_INSIDE = {"bb_candidates", "bb_copy", "bb_device_info", "bb_prepare_bytes"}
"""Functions of the C interface that others of its sources, or several bindings, call too."""

NATIVE = {
    str(path.relative_to(ROOT)): re.sub("//.*", "", path.read_text())
    for root in ("src_cython", "src_cuda")
    for path in sorted((ROOT / root).rglob("*.*"))
}

WORDS = {path: set(re.findall(r"\w+", text)) for path, text in NATIVE.items()}


def declared_in(header: str) -> list[str]:
    """The functions of a header of the C interface."""
    return re.findall(r"BB_API [^;(]*?(bb_\w+)\(", NATIVE[f"src_cuda/{header}"])


def files_with(word: str) -> set[str]:
    """The native files that have a word."""
    return {path for path, words in WORDS.items() if word in words}


@pytest.mark.parametrize("name", ["clusters", "decomposition", "manifold", "mixtures"])
def test_an_estimator_takes_few_python_files(name):
    """Those of its folder that CONTRIBUTING asks for, and those elsewhere that name it; faces may use it."""
    folder = PACKAGE / "unsupervised" / name
    own = [path for path in FILES if path.parent == folder and path.stem in ESTIMATOR_MODULES]
    others = [
        path
        for path in FILES
        if not path.is_relative_to(folder.parent)
        and not path.is_relative_to(PACKAGE / "cli")
        and f"unsupervised.{name}" in path.read_text()
    ]
    assert len(own) + len(others) <= MAX_PYTHON_PLACES, [*own, *others]


@pytest.mark.parametrize(("name", "most"), NATIVE_PLACES.items())
def test_an_estimator_takes_few_native_files(name, most):
    """Its folders and its module, and of the C interface its header and the bindings of that."""
    folders = (f"src_cython/{name}/", f"src_cuda/{name}/", f"src_cython/_{name}.pyx")
    own = {path for path in NATIVE if path.startswith(folders)}
    headers = {found for path in own for found in re.findall(r'#include "(api/\w+\.h)"', NATIVE[path])}
    bindings = {
        path
        for header in headers
        for function in declared_in(header)
        for path in files_with(function)
        if path.startswith("src_cython/cuda/")
    }
    assert len(own) + len(headers) + len(bindings) <= most, sorted({*own, *headers, *bindings})


def test_a_function_of_the_c_interface_is_in_three_native_files():
    """Its header, its definition and its binding; declarations for Cython are made from the header."""
    headers = [path.removeprefix("src_cuda/") for path in NATIVE if path.startswith("src_cuda/api/")]
    places = {name: files_with(name) for header in headers for name in declared_in(header)}
    assert len(places) > 100
    wrong = {name: found for name, found in places.items() if len(found) != 3 and name not in USED_INSIDE}
    assert wrong == {}


NEED_MORE_THAN_A_GPU = {
    "tests/linear/backends/test_device_ranks.py",  # ranks
    "tests/petsc/test_petsc.py",
    "tests/petsc/test_petsc_options.py",
}


def test_files_with_tests_for_a_gpu_are_listed():
    listed = (ROOT / "scripts" / "gpu-tests.txt").read_text().split()
    assert len(listed) == len(set(listed))
    assert not [name for name in listed if not (ROOT / name).is_file()]
    marked = re.compile(r"^from devices import .*\b(gpu|large)\b", re.MULTILINE)
    found = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("test_*.py")
        if marked.search(path.read_text())
    }
    assert found - NEED_MORE_THAN_A_GPU <= set(listed)


def is_ours(name: str | None) -> bool:
    """Whether a dotted name is of the package; its GPU module is left out, since it needs a GPU build."""
    return name is not None and name.split(".")[0] == "bmrm" and not name.endswith("_cuda")


def imported_names(tree: ast.AST) -> Iterator[tuple[str, str, str | None]]:
    """The local name, the module and the name in it, if any, of each import of the package."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (
                    (n.asname or "bmrm", n.name if n.asname else "bmrm", None)
                    for n in names
                    if is_ours(n.name)
                )
            case ast.ImportFrom(module=module, names=names, level=0) if is_ours(module):
                yield from (
                    (n.asname or n.name, module, n.name) for n in names if is_ours(f"{module}.{n.name}")
                )


def imported(module: str, name: str | None) -> object:
    """What an import statement would bind."""
    found = importlib.import_module(module)
    if name is None:
        return found
    return getattr(found, name, None) or importlib.import_module(f"{module}.{name}")


def has(module: types.ModuleType, name: str) -> bool:
    """Whether a module has a name, which may need an optional package."""
    try:
        return hasattr(module, name)
    except ImportError:
        return True


def missing_names(path: Path) -> list[str]:
    """What a file imports from the package, or reads as an attribute of its modules, and is not there."""
    tree = ast.parse(path.read_text())
    modules, missing = {}, []
    for local, module, name in imported_names(tree):
        try:
            found = imported(module, name)
        except ImportError as error:
            if is_ours(error.name):  # else it needs an optional package that is not here
                missing.append(f"{module}.{name}")
            continue
        if isinstance(found, types.ModuleType):
            modules[local] = found
    stored = {
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    stored |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=local), attr=attribute, ctx=ast.Load()):
                if local in modules and local not in stored and attribute != "_cuda":
                    missing += [] if has(modules[local], attribute) else [f"{local}.{attribute}"]
    return missing


@pytest.mark.parametrize("folder", ["benchmarks", "building", "examples", "scripts", "tests"])
def test_programs_beside_the_package_use_names_that_it_has(folder):
    """Most of these programs run seldom; a name that is gone would show only then."""
    found = {str(path.relative_to(ROOT)): missing_names(path) for path in (ROOT / folder).rglob("*.py")}
    assert {name: missing for name, missing in found.items() if missing} == {}
