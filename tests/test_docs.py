"""Every Python block of the documentation runs, every doctest holds, every link leads somewhere."""

import doctest
import importlib
import inspect
import json
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import bmrm
from bmrm import losses
from bmrm.cli import cluster, commands, front, graph, info, pairs, predict, train
from bmrm.linear import plan
from bmrm.linear.backends.host import ascent as host_ascent
from bmrm.linear.backends.host import row_space
from bmrm.linear.bundle import bundle, inner_qp, l2_model, proximal_model, separable_bound, steepness
from bmrm.linear.objective import class_intercepts, objective, passes
from bmrm.linear.regularizers import base
from bmrm.linear.solvers import (
    bundle_method,
    cutting,
    dual_ascent,
    interior_point,
    interior_rule,
    newton,
    smoothing,
    stalling,
    state,
    steps,
)
from bmrm.linear.solvers import settings as run_settings
from bmrm.losses import _losses
from bmrm.unsupervised.clusters import lower_bounds
from bmrm.unsupervised.clusters.lower_bounds import bound_by_samples

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "scripts"))
page_blocks = importlib.import_module("page_blocks")
PAGES, BLOCK = page_blocks.PAGES, page_blocks.BLOCK
RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.json"))
COMMANDS = {
    f"bmrm-{each.__name__.rpartition('.')[2]}": each.main
    for each in (cluster, graph, info, pairs, predict, train)
}
COMMANDS["bmrm"] = front.main
LINK = re.compile(r"\]\(([^)#]*)(?:#([^)]+))?\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def names(package: ModuleType) -> list[str]:
    return [
        package.__name__,
        *(m.name for m in pkgutil.walk_packages(package.__path__, package.__name__ + ".")),
    ]


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [p for p in PAGES if BLOCK.search(p.read_text())], ids=page_id)
def test_blocks_run(page, tmp_path, monkeypatch):
    """The blocks of a page share a folder and a namespace, as for a reader who types them in order."""
    monkeypatch.chdir(tmp_path)
    # Smaller samples than those of bmrm-cluster take a tenth of the time.
    monkeypatch.setattr(lower_bounds, "bound_by_samples", lambda *w: bound_by_samples(*w[:4], 60, *w[5:]))
    page_blocks.run_page(page, lambda words: COMMANDS[words[0]](words[1:]))


def test_the_examples_of_each_help_run(tmp_path, monkeypatch):
    """In one folder, in which those of ``bmrm`` write the samples."""
    monkeypatch.chdir(tmp_path)
    lines = [line for command in commands.every() for line in command.examples]
    for line in lines:
        if not line.startswith(("mpiexec", "bmrm-bench")):  # these need MPI and a GPU
            page_blocks.run_line(line, lambda words: COMMANDS[words[0]](words[1:]))


SCRIPT = re.compile(r"^```bash\n(.*?)^```$|^RUN ([^\n]*)$", re.MULTILINE | re.DOTALL)


def test_scripts_of_a_shell_are_well_formed():
    scripts = [whole or line for page in PAGES for whole, line in SCRIPT.findall(page.read_text())]
    assert len(scripts) >= 5
    for script in scripts:
        done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), script


def anchors(page: Path) -> set[str]:
    """Return the names that a page's headings have as targets of links."""
    headings = HEADING.findall(re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL))
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_between_files_lead_somewhere(page):
    links = [(file, anchor) for file, anchor in LINK.findall(page.read_text()) if "://" not in file]
    outside = [file for file, _ in LINK.findall(page.read_text()) if "://" in file]
    assert [file for file in outside if not re.fullmatch(r"https://[\w.-]+(/\S*)?", file)] == []
    targets = [((page.parent / file) if file else page, anchor) for file, anchor in links]
    assert [str(target) for target, _ in targets if not target.exists()] == []
    assert [(target.name, name) for target, name in targets if name and name not in anchors(target)] == []


class Unwrapping(doctest.DocTestFinder):
    """Finds the examples of decorated functions too."""

    def _from_module(self, module, object):
        return super()._from_module(module, inspect.unwrap(object) if callable(object) else object)


@pytest.mark.parametrize("name", names(bmrm))
def test_doctests(name, tmp_path, monkeypatch):
    if name == "bmrm.matrix._cuda" and not importlib.import_module(name).device_count():
        pytest.skip("there is no CUDA device")
    needs = {"bmrm.petsc": "petsc4py", "bmrm.distributed": "mpi4py", "bmrm.estimators": "sklearn"}
    needed = needs.get(".".join(name.split(".")[:2]))
    if needed and not os.environ.get("BMRM_REQUIRE_PETSC"):
        pytest.importorskip(needed, reason=f"{needed} is not installed; `make test` installs it")
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    for test in Unwrapping().find(module, name):
        if test.examples:  # the runner looks at the time of every file of Python that has been read
            runner.run(test)
    assert runner.failures == 0


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    return importlib.import_module("benchmarks.tables.pages")


def test_the_pages_of_results_are_what_the_results_say(tables):
    made = tables.written()
    assert [page_id(page) for page, text in made.items() if page.read_text() != text] == []
    assert {*(ROOT / "docs" / "performance").iterdir()} <= {*made}


def test_all_results_are_on_a_page(tables):
    shown = ["build", "certify", *(name for _, names in tables.PAGES.values() for name in names.split())]
    assert sorted(shown) == sorted({*shown})
    assert {*shown} >= {path.stem for path in RESULTS}


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_a_results_file_has_the_words_of_its_benchmark(tables, path):
    results = json.loads(path.read_text())
    if path.stem != "certify":
        assert results["sections"] == tables.sections_of(path.stem, results["command"])
    for aim in results.get("aims", []):
        reached = aim["value"] < aim["bound"] if aim["below"] else aim["value"] >= aim["bound"]
        assert aim["passed"] == reached


def test_the_figures_of_the_certificate_are_what_the_results_say():
    text = " ".join((ROOT / "docs" / "algorithm.md").read_text().split())
    (cpu,) = json.loads((ROOT / "benchmarks" / "results" / "certify.json").read_text())["backends"]
    assert f"made {cpu['solves']:,} solves of {cpu['cases']:,} problems" in text
    assert f"{cpu['unconverged_share']:.1%}".replace("%", " %") + " end with it" in text
    beyond = cpu["beyond_a_dual_in_float64"] / cpu["unconverged"]
    assert f"For {beyond:.0%}".replace("%", " %") in text
    assert sum(cpu["kinds"].values()) == 8
    assert not {"bound", "bound by an ulp", "tolerance"} & set(cpu["kinds"])


def test_the_gallery_shows_every_example():
    text = (ROOT / "docs" / "gallery.md").read_text()
    shown = [f"../examples/{path.name}" for path in sorted((ROOT / "examples").glob("*.py"))]
    assert re.findall(r"^- \[\w+\]\(([^)]*)\)", text, flags=re.MULTILINE) == shown


def test_the_readme_has_a_block_that_runs():
    assert BLOCK.search((ROOT / "README.md").read_text())


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_marked_figures_are_what_the_results_say_and_ratios_are_marked(tables, page):
    text, marks = page.read_text(), importlib.import_module("benchmarks.tables.marks")
    assert marks.faults(text, tables.load) == []
    if page.parent.name != "performance":  # those pages are made of results
        assert marks.unmarked(text) == []


def test_the_tables_of_losses_are_what_the_losses_say(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    tables = importlib.import_module("losses_tables")
    text = tables.PAGE.read_text()
    assert text == tables.page(text)


def test_the_tables_of_the_page_on_migration_are_current(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    tables = importlib.import_module("migration_tables")
    text = tables.PAGE.read_text()
    assert text == tables.page(text)


def without_machine(text: str) -> str:
    """Return a sample without times and dates, and with numbers to three digits: sums differ by processor."""
    text = re.sub(r"\d+(\.\d+)? (m?s|min)\b|changed \S+", "", text)
    return re.sub(r"\d+\.\d+(e[+-]\d+)?", lambda match: f"{float(match[0]):.2e}", text)


def test_the_samples_of_the_commands_are_what_they_print(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    samples = importlib.import_module("command_samples")
    text = samples.PAGE.read_text()
    assert len(samples.BLOCK.findall(text)) == 4
    assert without_machine(text) == without_machine(samples.page(text))


def test_the_page_of_losses_and_the_quick_start_name_every_loss():
    for page in ("losses.md", "quickstart.md"):
        text = (ROOT / "docs" / page).read_text()
        assert [name for name in losses.NAMES if f"`{name}`" not in text] == []


def as_python(formula: str) -> str:
    """A loss's formula with its powers, bars and products as Python writes them."""
    formula = re.sub(r"\|([^|]+)\|", r"abs(\1)", formula.replace("^", "**"))
    return re.sub(r"(?<!if)(?<!else)(?<=[\w)]) (?=[(\w])(?!if|else)|(?<=\))(?=\()", "*", formula)


@pytest.mark.parametrize("name", _losses.names())
def test_the_formula_of_a_loss_is_what_it_computes(name):
    loss = losses.get(name)
    labels = [-1.0, 1.0] if loss.task == "binary" else [0.0, 1.5]
    code = as_python(loss.about.formula)
    for y in labels:
        for u in np.linspace(-3.0, 3.0, 31):
            # b is the term that novelty detection adds to the risk, once and not to each row.
            value = eval(code, {"exp": np.exp, "log": np.log, "u": u, "y": y, "b": 0.0, **loss.params})
            assert loss.value(np.array([u]), np.array([y]))[0] == pytest.approx(value, abs=1e-12), code


def test_the_algorithm_page_uses_the_names_of_the_code():
    text = (ROOT / "docs" / "algorithm.md").read_text()
    constants = re.findall(r"`([A-Z_]{4,})`", text)
    assert len(constants) > 5
    places = (
        bundle,
        bundle_method,
        class_intercepts,
        cutting,
        dual_ascent,
        host_ascent,
        interior_point,
        interior_rule,
        newton,
        passes,
        base,
        inner_qp,
        l2_model,
        proximal_model,
        separable_bound,
        steepness,
        row_space,
        plan,
        run_settings,
        smoothing,
        stalling,
        state,
        steps,
    )
    loop = text.split("## The loop")[1].split("###")[0]
    constants += re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", loop)
    assert [n for n in constants if not any(hasattr(place, n) for place in places)] == []
    called = re.findall(r"(?<![.\w])(\w+)\(", re.sub("(?:min|max)[(]", "", loop))
    assert len(called) > 7
    owners = bundle_method.BundleMethod, state.State, cutting.Cutter, steps.Step
    assert [name for name in called if not any(hasattr(owner, name) for owner in owners)] == []
    kinds = {"objective": objective.Objective, "line": objective.Line, "step": steps.Step}
    methods = re.findall(r"\b(objective|line|step)\.(\w+)\(", loop)
    assert len(methods) == 3
    assert [name for kind, name in methods if not hasattr(kinds[kind], name)] == []
