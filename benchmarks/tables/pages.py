"""Write docs/performance.md, the pages of docs/performance and a table of CONTRIBUTING.md from results files.

    python -m benchmarks.tables.pages

The benchmark that measured a results file says what its tables are, as SECTIONS: `text.py` says how. The file
carries a copy. Words change in the benchmark; this command copies them, and leaves the numbers as they are.
"""

from __future__ import annotations

import ast
import json
import re
import statistics
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.common import report, sections
from benchmarks.tables import text

ROOT = Path(__file__).parents[2]
INDEX = ROOT / "docs" / "performance.md"
BUILD = ROOT / "CONTRIBUTING.md"
BEGIN, END = "<!-- times: begin -->\n", "<!-- times: end -->\n"
PAGES = {  # file, title and the results in it, as far as they have been measured
    "solves": (
        "Training on a CPU",
        "against_liblinear wide l1 multiclass petsc_tao convergence dense crossval ranking error_bounds "
        "two_builds busy",
    ),
    "gpu-solves": (
        "Training on a GPU",
        "thesis_ch5 against_torch dense_gpu ranking_gpu streamed both_devices both_passes both_graphs "
        "end_to_end_gpu own_loss_gpu error_bounds_gpu",
    ),
    "products": (
        "Products with a matrix",
        "spmv_cpu choice_cpu spmv_gpu bounds_gpu choice_gpu choice_families over_cpu petsc_bridge petsc_mat "
        "petsc_mat_ranks_gpu petsc_mat_gpu",
    ),
    "graphs": ("Graphs", "graph graph_gpu graph_peers graph_huge_gpu"),
    "estimators": (
        "k-means, mixtures, principal components and scaling",
        "estimators components mds cores gpu_clusters gpu_sparse_clusters gpu_seeding gpu_blocks gpu_mixture "
        "gpu_mds",
    ),
    "pairs": (
        "Pairs of points",
        "pairs_cpu pairs_cores pairs_cores_16 pairs_shapes pairs_gpu pairs_shapes_gpu pairs_paper "
        "pairs_nearest pairs_nearest_gpu pairs_kde pairs_kde_gpu pairs_statistics pairs_statistics_gpu",
    ),
    "reductions": (
        "Row functions and the choice of a device",
        "reductions_cpu reductions_gpu reductions_crossover",
    ),
    "ranks": (
        "Several ranks and GPUs",
        "scaling scaling_owned scaling_graph scaling_gpu scaling_graph_gpu",
    ),
    "loading": ("Loading and start-up", "load storage edges startup"),
}
INTRO = """# Performance

This page shows how fast bmrm is compared with other programs: the time of the baseline over ours in the
same run, as the median, minimum and maximum over several problems. Below 1, ours is slower. Links lead to
sizes, machines and commands.

"""
NOTE = """
## All results

All numbers are from results files in `benchmarks/results`. The command above a table (by its present name)
wrote the file; the baseline was measured on the same machine in the same run. An aim is a target that was
set in advance. GPU results from before 2026-11-26 were measured without the format `mixed`. `make tables`
generates these pages.

"""


def load(name: str) -> dict[str, Any]:
    """Read a results file."""
    found: dict[str, Any] = json.loads((report.RESULTS / f"{name}.json").read_text())
    return found


def all_of(names: str) -> list[dict[str, Any]]:
    """Read the results files of these names that are there."""
    return [load(name) for name in names.split() if (report.RESULTS / f"{name}.json").exists()]


def sections_of(name: str, command: str) -> list[dict[str, Any]]:
    """Return what the benchmark of a results file says of its tables, without importing it."""
    source = ROOT / (command.split()[2].replace(".", "/") + ".py")
    found = {}
    for node in ast.parse(source.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node.value
    on_gpu = "SECTIONS_ON_GPU" if name.endswith("_gpu") else "SECTIONS"
    return sections.parse(ast.literal_eval(found.get(on_gpu, found["SECTIONS"])))


def anchor(title: str) -> str:
    """Return the name that a heading has as a target of links."""
    return re.sub(r"[^\w\- ]", "", title).lower().replace(" ", "-")


def section_text(results: dict[str, Any], section: dict[str, Any]) -> str:
    """Return a section: what ran, when and where, and its body."""
    ran = "`{command}`, {date}, {machine[cpu]}, {machine[cores]} cores, {machine[system]}."
    head = f"\n## {text.fill(section['title'], results)}\n\n{text.fill(ran, results)}\n\n"
    return head + text.body(results, section)


def page(title: str, names: str) -> str:
    """Return a page: the sections of some results files."""
    parts = ((results, part) for results in all_of(names) for part in results["sections"])
    return f"# {title}\n" + "".join(section_text(*part) for part in parts)


def linked(file: str, results: dict[str, Any], section: dict[str, Any], shown: str = "") -> str:
    """Return a link from the index to a section."""
    title = text.fill(section["title"], results)
    return f"[{shown or title}](performance/{file}.md#{anchor(title)})"


class Headline(NamedTuple):
    """How many times faster than a peer something is: of several problems, each once."""

    what: str
    link: str
    against: str
    ratios: list[float]
    on: str

    def cells(self) -> list[str]:
        """Return its row in the table at the head of the index."""
        found = statistics.median(self.ratios), min(self.ratios), max(self.ratios)
        middle, least, most = (f"{each:.3g}" for each in found)
        return [self.link, self.against, middle, least if least == most else f"{least} to {most}", self.on]


def headline(file: str, results: dict[str, Any], section: dict[str, Any]) -> Headline:
    """Return the headline of a section."""
    about = section["headline"]
    cells = [text.cell(f"{{{about['ratio']}}}", row) for row in text.rows(results, about["rows"])]
    ratios = [float(cell) for cell in cells if cell != text.NOTHING]
    shown = linked(file, results, section, about["what"])
    return Headline(
        about["what"], shown, text.fill(about["against"], results), ratios, text.fill(about["on"], results)
    )


def measured() -> list[tuple[str, dict[str, Any]]]:
    """Return all results, each with its page."""
    return [(file, results) for file, (_, names) in PAGES.items() for results in all_of(names)]


def headlines() -> list[Headline]:
    """Return the headlines of all results."""
    return [
        headline(file, results, section)
        for file, results in measured()
        for section in results["sections"]
        if "headline" in section
    ]


def missed(file: str, results: dict[str, Any]) -> list[list[str]]:
    """Return the rows of the aims of a results file that are not reached."""
    columns = list(text.AIMS.values())[:3]
    return [
        [*(text.cell(column, aim) for column in columns), linked(file, results, results["sections"][0])]
        for aim in results.get("aims", [])
        if not aim["passed"]
    ]


def contents(file: str, title: str, found: list[dict[str, Any]]) -> str:
    """Return what the index says of a page."""
    links = [linked(file, results, section) for results in found for section in results["sections"]]
    aims = [aim["passed"] for results in found for aim in results.get("aims", [])]
    reached = f" {sum(aims)} of {len(aims)} aims are reached." if aims else ""
    return f"- [{title}](performance/{file}.md): {', '.join(links)}.{reached}\n"


def index() -> str:
    """Return the page at the head: what is fast, where everything is, and the aims that are missed."""
    each = measured()
    found = {file: [results for other, results in each if other == file] for file in PAGES}
    heads = [head.cells() for head in headlines()]
    return (
        INTRO
        + text.markdown(["what", "against", "times faster", "least to most", "on"], heads)
        + NOTE
        + "".join(contents(file, PAGES[file][0], found[file]) for file in PAGES)
        + "\n## Aims that are missed\n\n"
        + text.markdown(
            ["result", "measured", "aim", "section"],
            [row for file, results in each for row in missed(file, results)],
        )
    )


def build() -> str:
    """Return CONTRIBUTING.md with the table of the times of the build."""
    results = load("build")
    before, _, rest = BUILD.read_text().partition(BEGIN)
    made = text.body(results, results["sections"][0])
    return f"{before}{BEGIN}\n{made}\n{END}{rest.partition(END)[2]}"


def written() -> dict[Path, str]:
    """Return the text of all pages that results files make."""
    pages = {INDEX.with_suffix("") / f"{file}.md": page(*about) for file, about in PAGES.items()}
    return {INDEX: index(), **pages, BUILD: build()}


def main() -> None:
    for path in sorted(report.RESULTS.glob("*.json")):
        results = json.loads(path.read_text())
        if "sections" in results:
            results["sections"] = sections_of(path.stem, results["command"])
            path.write_text(json.dumps(results, indent=1) + "\n")
    for path, made in written().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(made)
        print(f"written to {path}")


if __name__ == "__main__":
    main()
