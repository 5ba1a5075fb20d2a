"""scikit-learn's own tests pass with the classes of this package, except for what the lists say."""

from pathlib import Path

import pytest

pytest.importorskip("sklearn")
from sklearn_suite import run_suites

SUITES = [path.stem for path in Path(__file__).parent.glob("sklearn_*.py") if path.stem != "sklearn_suite"]
"""Modules with a list each, as ``sklearn_NAME.py``."""


def test_the_tests_of_scikit_learn_pass(tmp_path):
    run_suites(sorted(SUITES), tmp_path)
