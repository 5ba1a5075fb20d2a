"""Runs scikit-learn's own tests with classes of this package in the place of scikit-learn's.

A `Suite` names the modules of tests, the classes, and the tests that are known to fail, each with its reason.
`run_suites` runs pytest in its own process, with this module as the plugin. A known failure that passes is
a failure too: its line in the list is to go. The lists are those of one release of scikit-learn; with another
one the suites are skipped. A further list is a further ``sklearn_NAME.py`` with a ``SUITE``.
"""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import sklearn

RELEASE = "1.9"
"""Release of scikit-learn whose tests the lists of exceptions describe."""

NAMES = "BMRM_SKLEARN_SUITES"
"""Environment variable: the modules whose ``SUITE`` the plugin runs."""


@dataclass(frozen=True)
class Suite:
    """Modules of scikit-learn's tests, and what replaces what.

    Attributes
    ----------
    modules : sequence of str
    replaced : mapping of str to type
        Full names, as ``sklearn.cluster.KMeans``, to classes of this package.
    apart : mapping of str to str
        Tests that are not run, with the reason: mostly those of what this package does not have.
    exceptions : mapping of str to str
        Tests that fail, with the reason. A name without brackets means all cases of a test; ``*`` means any
        text, as in ``test_name[*sparse*]``.
    """

    modules: Sequence[str]
    replaced: Mapping[str, type]
    apart: Mapping[str, str] = field(default_factory=dict)
    exceptions: Mapping[str, str] = field(default_factory=dict)


def run_suites(names: Sequence[str], folder: Path) -> None:
    """Run ``SUITE`` of each module of some beside this file; ``folder`` is empty."""
    if not sklearn.__version__.startswith(f"{RELEASE}."):
        pytest.skip(f"found scikit-learn {sklearn.__version__}, the exceptions are those of {RELEASE}")
    modules = [module for name in names for module in _suite(name).modules]
    (folder / "pytest.ini").write_text("[pytest]\n")
    plugins = ["-p", "sklearn_suite", "-p", "no:cacheprovider", "-p", "no:xdist"]
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rfE", "--tb=short", *plugins, "--pyargs", *modules],
        cwd=folder,
        env={
            **os.environ,
            NAMES: " ".join(names),
            "PYTHONPATH": os.pathsep.join(paths),
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]


def pytest_configure() -> None:
    """Put the classes into scikit-learn, before its tests import them."""
    for suite in map(_suite, os.environ[NAMES].split()):
        for name, kind in suite.replaced.items():
            module, _, attribute = name.rpartition(".")
            setattr(importlib.import_module(module), attribute, kind)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is apart, and expect the exceptions to fail."""
    kept, apart = [], []
    for suite in map(_suite, os.environ[NAMES].split()):
        unused = {*suite.apart, *suite.exceptions}
        for item in [each for each in items if each.module.__name__ in suite.modules]:
            left_out, excepted = _listed(item.name, suite.apart), _listed(item.name, suite.exceptions)
            unused -= {left_out, excepted}
            (kept if left_out is None else apart).append(item)
            if excepted is not None:
                item.add_marker(pytest.mark.xfail(reason=suite.exceptions[excepted], strict=True))
        if unused:
            raise pytest.UsageError(f"found no test of the name {', '.join(sorted(unused))}")
    config.hook.pytest_deselected(items=apart)
    items[:] = kept


def _suite(name: str) -> Suite:
    found: Suite = importlib.import_module(name).SUITE
    return found


def _listed(name: str, known: Mapping[str, str]) -> str | None:
    """Return the name in a list that means a test; None if there is none."""
    for each in known:
        cases = "" if "[" in each else r"(\[.*\])?"
        if re.fullmatch(re.escape(each).replace(r"\*", ".*") + cases, name, re.DOTALL):
            return each
    return None
