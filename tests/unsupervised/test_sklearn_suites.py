"""scikit-learn's own tests pass with the classes of this package, except for what the lists say."""

from pathlib import Path

import pytest

pytest.importorskip("sklearn")
from sklearn_suite import run_suite

SUITES = [path.stem for path in Path(__file__).parent.glob("sklearn_*.py") if path.stem != "sklearn_suite"]
"""Modules with a list each, as ``sklearn_NAME.py``."""


@pytest.mark.parametrize("module", sorted(SUITES))
def test_the_tests_of_scikit_learn_pass(module, tmp_path):
    run_suite(module, tmp_path)
