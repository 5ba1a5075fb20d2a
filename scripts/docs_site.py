"""Prepare the pages of the site: `make docs` gives the folder that this writes to Sphinx.

python scripts/docs_site.py FOLDER

The pages of docs/ are plain Markdown, so that they read well and link to each other wherever they are shown.
This adds what only a site has. README is its first page. Lists of links become its navigation, links to
programs lead to pages of examples, and there is a page of reference for every public name. Marks of figures
are left out.
"""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from sphinx.ext.autodoc.mock import _MockModule, mock

ROOT = Path(__file__).parents[1]

ROOTS = {"index.md": "README.md", "contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
"""Pages that stand at the root of the repository, by their names on the site."""

NAVIGATION = (
    "index.md",
    "start.md",
    "guides.md",
    "gallery.md",
    "comparison.md",
    "develop.md",
    "performance.md",
)
"""Pages whose lists of links are chapters of the site."""

WINGS = {
    "bmrm.graph": "",
    "bmrm": "",
    "bmrm.unsupervised": "",
    "bmrm.estimators": "sklearn",
    "bmrm.reductions": "",
    "bmrm.pairs": "",
    "bmrm.losses": "",
    "bmrm.io": "",
    "bmrm.distributed": "mpi4py",
    "bmrm.petsc": "petsc4py",
    "bmrm.metrics": "",
    "bmrm.plots": "",
    "bmrm.errors": "",
}
"""The modules that users import names from, and the package that each needs. The first of equals counts."""

OPTIONAL = (
    "igraph",
    "joblib",
    "llvmlite",
    "matplotlib",
    "mpi4py",
    "networkx",
    "petsc4py",
    "pyarrow",
    "sklearn",
)
"""Packages that are replaced if they are not here: the reference only needs their names."""

CHAPTERS = {
    "Linear models": ("linear", "cli"),
    "Losses": ("losses",),
    "Metrics and plots": ("linear.models.metrics", "linear.models.class_metrics", "linear.plots"),
    "Estimators for scikit-learn": ("estimators",),
    "Clusters, mixtures, decompositions, neighbours": ("unsupervised",),
    "Graphs": ("graph",),
    "Reductions": ("reductions",),
    "Words of row functions": ("formulas",),
    "Pairs of points": ("pairs",),
    "Data and devices": ("matrix", "io"),
    "Ranks of MPI": ("distributed",),
    "PETSc": ("petsc",),
    "Errors": ("errors",),
}
"""The pages of reference, and the packages below `bmrm` whose names each has; the longest fit decides."""


def replaced() -> list[str]:
    """Return the optional packages that are not here; two stand-ins have what an import of ours looks at."""
    missing = [name for name in OPTIONAL if find_spec(name) is None]
    if "sklearn" in missing:
        sys.modules["sklearn"] = _MockModule("sklearn")
        sys.modules["sklearn"].__version__ = "1.6"
    if "petsc4py" in missing:
        whole, part = _MockModule("petsc4py"), _MockModule("petsc4py.PETSc")
        whole.PETSc, part.__file__, part.IntType = part, None, "int32"
        sys.modules |= {"petsc4py": whole, "petsc4py.PETSc": part}
    return missing


def slug(title: str) -> str:
    """Return a heading as GitHub writes it in links."""
    return re.sub(r"[^\w\- ]", "", title).lower().replace(" ", "-")


def toctree(pages: list[str]) -> str:
    """Return a chapter of the navigation that is not shown on the page."""
    return "\n```{toctree}\n:hidden:\n\n" + "\n".join(pages) + "\n```\n"


def linked_pages(text: str) -> list[str]:
    """Return the pages that the list items of a page begin with."""
    return list(dict.fromkeys(re.findall(r"^- \[[^\]]*\]\(([^)#:]+)\.md\)", text, flags=re.MULTILINE)))


def on_site(text: str, folder: str) -> str:
    """Return a page with links that hold on the site; `folder` leads from the page to the root."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    for name, path in ROOTS.items():
        text = text.replace(f"](../{folder}{path}", f"]({folder}{name}")
    text = re.sub(rf"\]\(\.\./{folder}examples/(\w+)\.py\)", rf"]({folder}examples/\1.md)", text)
    # Other links to files outside of docs/ have no target there.
    return re.sub(rf"\[([^\]]*)\]\(\.\./{folder}(?!examples/\w+\.md)[^)]*\)", r"\1", text)


def write_pages(folder: Path) -> None:
    """Write the pages of docs/ and of the root."""
    docs = ROOT / "docs"
    for path in sorted(docs.glob("**/*.md")):
        page = path.relative_to(docs)
        text = on_site(path.read_text(), "../" * len(page.parents[1:]))
        if page.name in NAVIGATION:
            text += toctree(linked_pages(text))
        (folder / page).parent.mkdir(parents=True, exist_ok=True)
        (folder / page).write_text(text)
    for name, path in ROOTS.items():
        text = re.sub(r"<!--.*?-->", "", (ROOT / path).read_text(), flags=re.DOTALL).replace("](docs/", "](")
        for page, root in ROOTS.items():
            text = text.replace(f"]({root}", f"]({page}")
        text = re.sub(r"(?<!!)\[([^\]]*)\]\((?!\w[\w/-]*\.md|#|http)[^)]*\)", r"\1", text)
        chapters = toctree(linked_pages((docs / name).read_text())) if (docs / name).exists() else ""
        (folder / name).write_text(text + chapters)
    shutil.copytree(docs / "pictures", folder / "pictures")


def write_examples(folder: Path) -> None:
    """Write a page for each program of examples/."""
    (folder / "examples").mkdir()
    for path in sorted((ROOT / "examples").glob("*.py")):
        text = path.read_text()
        says = ast.get_docstring(ast.parse(text)) or ""
        code = text.split('"""\n', 2)[-1].strip()
        picture = f"pictures/{path.stem}.svg"
        drawn = f"![What it draws](../{picture})\n\n" if (ROOT / "docs" / picture).exists() else ""
        page = f"# {path.name}\n\n{says}\n\n{drawn}```python\n{code}\n```\n"
        (folder / "examples" / f"{path.stem}.md").write_text(page)


def public_names(wing: str) -> dict[str, Any]:
    """Return what a module lists, or else its own functions and classes, by dotted names; no modules."""
    home = pkgutil.resolve_name(wing)
    listed = {*getattr(home, "__all__", ()), *getattr(home, "_NEED_MORE", ())}
    own = {name for name, found in vars(home).items() if getattr(found, "__module__", "") == home.__name__}
    names = {name for name in listed or own if not name.startswith("_")}
    found = {f"{wing}.{name}": getattr(home, name) for name in sorted(names)}
    return {name: value for name, value in found.items() if not isinstance(value, ModuleType)}


def has_page(found: Any) -> bool:
    """Return whether a name has a page of its own; others are constants."""
    return inspect.isroutine(found) or inspect.isclass(found)


def chapter_of(module: str) -> str:
    """Return the page of reference of what is defined in a module."""
    home = module.removeprefix("bmrm") + "."
    fits = [(len(p), title) for title, ps in CHAPTERS.items() for p in ps if home.startswith(f".{p}.")]
    return max(fits, default=(0, next(iter(CHAPTERS))))[1]


def reference() -> dict[str, tuple[list[str], list[str]]]:
    """Return the chapters by title: names of functions and classes, and those of constants."""
    chapters: dict[str, tuple[list[str], list[str]]] = {title: ([], []) for title in CHAPTERS}
    seen = set()
    for wing in WINGS:
        for name, found in public_names(wing).items():
            if id(found) not in seen and has_page(found):
                chapters[chapter_of(found.__module__)][0].append(name)
            elif id(found) not in seen:
                chapters[chapter_of(wing)][1].append(name)
                if callable(found) and type(found).__module__.startswith(
                    "bmrm.pairs"
                ):  # the only one of its kind
                    chapters[chapter_of(wing)][0].append(f"{type(found).__module__}.{type(found).__name__}")
            seen.add(id(found))
    return chapters


def write_reference(folder: Path) -> None:
    """Write a table of names for each chapter, from which Sphinx makes a page for each name."""
    (folder / "reference").mkdir()
    links = []
    for title, (names, constants) in reference().items():
        lines = [
            title,
            "=" * len(title),
            "",
            ".. autosummary::",
            "   :toctree: generated",
            "   :nosignatures:",
            "",
        ]
        lines += [f"   {name}" for name in names]
        lines += [f"\n.. py:data:: {name}" for name in constants]
        (folder / "reference" / f"{slug(title)}.rst").write_text("\n".join(lines) + "\n")
        links.append(f"- [{title}](reference/{slug(title)}.rst)")
    pages = [f"reference/{slug(title)}" for title in CHAPTERS]
    with open(folder / "reference.md", "a") as file:
        file.write("\n" + "\n".join(links) + "\n" + toctree(pages))


if __name__ == "__main__":
    out = Path(sys.argv[1])
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    write_pages(out)
    write_examples(out)
    missing = replaced()
    if missing:
        print("not installed, so replaced:", *missing)
    with mock(missing):
        write_reference(out)
