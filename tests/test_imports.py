"""Imports run one way: every import of every module is one that its package may make, wherever it stands."""

import ast
import functools
import graphlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

BASE = "base"
DATA = f"{BASE} io matrix"
METHOD = "linear.regularizers linear.objective linear.bundle linear.solvers"

TABLE = {
    # What knows no loss
    "base": "",
    "io": BASE,
    "matrix": f"{BASE} io",
    "distributed": DATA,
    # The method, from the ground up
    "losses linear.regularizers": BASE,
    "linear.objective": f"{BASE} losses linear.regularizers",
    "linear.bundle": f"{BASE} losses linear.regularizers linear.objective",
    "linear.solvers": f"{BASE} losses linear.regularizers linear.objective linear.bundle",
    # A problem, and the plan of its solution
    "linear.intercept": f"{DATA} losses",
    "linear.inputs": f"{DATA} distributed losses linear.regularizers",
    "linear.problem": f"{DATA} losses linear.regularizers linear.intercept",
    "linear.memory": f"{DATA} distributed linear.bundle linear.solvers",
    "linear.plan": f"{DATA} losses {METHOD} linear.intercept linear.problem linear.memory",
    # Where it runs, and what comes of it
    "linear.models": f"{DATA} losses linear.objective linear.bundle",
    "linear.backends": f"{DATA} distributed losses {METHOD} linear.models linear.intercept linear.problem "
    "linear.memory linear.plan",
    "linear.result": f"{BASE} losses {METHOD} linear.models linear.backends",
    "linear.precision": f"{DATA} losses linear.regularizers linear.solvers linear.problem linear.result",
    "linear.warm_start": f"{DATA} losses {METHOD} linear.models linear.intercept linear.problem linear.plan "
    "linear.backends linear.result",
    "linear.solve": f"{DATA} losses {METHOD} linear.models linear.intercept linear.inputs linear.problem "
    "linear.plan linear.backends linear.result linear.precision linear.warm_start",
    # What is made of several solves
    "linear.storage": f"{DATA} losses linear.bundle linear.solvers linear.models linear.inputs linear.result "
    "linear.precision linear.solve",
    "linear.plots": BASE,
    "linear.path": f"{DATA} linear.models linear.inputs linear.result linear.plots linear.solve",
    "linear.selection": f"{DATA} losses {METHOD} linear.models linear.intercept linear.inputs linear.plan "
    "linear.backends linear.result linear.precision linear.plots linear.solve",
    # Other wings
    "graph formulas": f"{DATA} distributed",
    "reductions pairs": f"{DATA} distributed formulas",
    "unsupervised": f"{DATA} distributed formulas pairs",
    # Faces
    "petsc": f"{DATA} distributed losses linear",
    "estimators": f"{BASE} losses linear",
    "cli": f"{DATA} distributed losses linear graph petsc unsupervised pairs",
    "__main__": "cli",
}
"""Packages, or modules of `bmrm.linear`, and what each of them may import, besides itself and `errors`."""

ALLOWED = {row: set(below.split()) for rows, below in TABLE.items() for row in rows.split()}
ALWAYS_ALLOWED = {"errors"}


def find_modules() -> dict[str, Path]:
    found = {}
    for path in sorted([*(ROOT / "bmrm").rglob("*.py"), *(ROOT / "bmrm").rglob("*.pyi")]):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found[name.removesuffix(".__init__").removeprefix("bmrm").removeprefix(".")] = path
    return found


MODULES = find_modules()


@functools.cache
def imports_of(name: str) -> set[str]:
    """Modules of the package that a module imports: when it loads, inside functions, and for types alone."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[name].read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: found a relative import"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.add(whole if whole.removeprefix("bmrm.") in MODULES else str(node.module))
    return {other.removeprefix("bmrm").removeprefix(".") for other in found if is_ours(other)} - {name}


def is_ours(module: str) -> bool:
    return module == "bmrm" or module.startswith("bmrm.")


def is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def row_of(module: str) -> str | None:
    return max((row for row in ALLOWED if is_within(module, row)), key=len, default=None)


@pytest.mark.parametrize("name", sorted(MODULES.keys() - {"", *ALWAYS_ALLOWED}))
def test_a_module_imports_what_its_package_may(name):
    row = row_of(name)
    below = ALWAYS_ALLOWED | (set() if row is None else ALLOWED[row] | {row})
    wrong = {other for other in imports_of(name) if not any(is_within(other, package) for package in below)}
    assert wrong == set()


def test_no_module_is_imported_by_what_it_imports():
    order = graphlib.TopologicalSorter({name: imports_of(name) - {""} for name in MODULES if name})
    order.prepare()  # raises a CycleError with the cycle


def test_the_table_is_short_and_runs_one_way():
    assert len(TABLE) <= 30
    rows = list(ALLOWED)
    for number, row in enumerate(rows):
        later = {other for other in rows[number:] for below in ALLOWED[row] if is_within(other, below)}
        assert later == set(), row


def test_packages_that_know_no_loss_import_none():
    faces = {"petsc", "estimators", "cli"}
    for row in ("base", "io", "matrix", "distributed"):
        assert not {"losses", "linear", "graph", *faces} & ALLOWED[row]
    wings = {"linear", "graph", "reductions", "unsupervised"}
    assert not {"losses", *wings} & ALLOWED["pairs"]
    for wing in wings - {"linear"}:
        assert not {"losses", *wings - {wing}} & ALLOWED[wing]
    assert not any(faces & ALLOWED[row] for row in ALLOWED if row not in ("cli", "__main__"))
    assert "estimators" not in ALLOWED["cli"]


def test_the_top_of_the_package_has_few_entries():
    assert len([path for path in (ROOT / "bmrm").iterdir() if not path.name.startswith("__")]) <= 16
