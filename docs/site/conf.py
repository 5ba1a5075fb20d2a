"""Options of Sphinx for the pages that scripts/docs_site.py prepares. Nothing is downloaded."""

import inspect
import sys
from pathlib import Path
from typing import Any

from sphinx.util.inspect import stringify_signature

import bmrm

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from docs_site import replaced

project = "bmrm"
author = "bmrm developers"
version = release = bmrm.__version__
root_doc = "index"
extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
]
templates_path = [str(Path(__file__).parent / "_templates")]  # else it is sought beside the pages

autodoc_mock_imports = replaced()

# Attributes of the package, which import statements do not find.
for name in ("metrics", "plots"):
    sys.modules[f"bmrm.{name}"] = getattr(bmrm, name)

autodoc_typehints = "none"
autodoc_member_order = "bysource"
autosummary_ignore_module_all = False
numpydoc_show_class_members = False
default_role = "autolink"
nitpick_ignore_regex = [("py:.*", r"(array_api|math|mpi4py|numpy|petsc4py|scipy|sklearn)\..*")]

myst_heading_anchors = 6

copybutton_exclude = ".linenos, .gp"  # prompts are not copied

html_theme = "pydata_sphinx_theme"
html_static_path = [str(Path(__file__).parent / "_static")]
html_css_files = ["site.css"]
html_title = "bmrm"
html_show_sourcelink = False
html_theme_options = {
    "header_links_before_dropdown": 5,
    "navbar_align": "left",
    "navigation_with_keys": False,
    "show_prev_next": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_context = {"default_mode": "auto"}


def skip(app: Any, kind: str, name: str, found: object, skipped: bool, options: Any) -> bool | None:
    """Leave out what scikit-learn, or its stand-in, adds to classes, and the fields of named tuples."""
    made = name.startswith("set_") and name.endswith("_request")
    made |= str(getattr(found, "__module__", "")).startswith("sphinx.")
    return True if made or name == "get_metadata_routing" or type(found).__name__ == "_tuplegetter" else None


def signature(
    app: Any, kind: str, name: str, found: Any, options: Any, given: str, returned: str
) -> tuple[str, str] | None:
    """Return the parameters of a class's own ``__init__``, which a ``__new__`` of a base class would hide."""
    if kind != "class" or "__init__" not in vars(found):
        return None
    _, *parameters = inspect.signature(found.__init__).parameters.values()
    return stringify_signature(inspect.Signature(parameters), show_annotation=False), returned


def setup(app: Any) -> None:
    """Connect what Sphinx calls."""
    app.connect("autodoc-skip-member", skip)
    app.connect("autodoc-process-signature", signature)
