"""Estimators take and return arrays of other libraries if scikit-learn's ``array_api_dispatch`` is on."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("sklearn", minversion="1.6")

from bmrm.estimators import BMRMClassifier, BMRMRegressor
from bmrm.estimators.spaces import Space, to_numpy

PROGRAM = Path(__file__).with_name("array_api_program.py")


@pytest.mark.skipif(not find_spec("array_api_strict"), reason="array-api-strict is not installed")
def test_checks_of_the_array_api():
    """In a process of its own, since scipy reads the environment when it is imported."""
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    done = subprocess.run(
        [sys.executable, str(PROGRAM)], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    passed = json.loads(done.stdout)
    assert passed["array_api_strict"] == 7
    assert passed["all"] >= 14
    assert passed.get("torch", 0) == (7 if find_spec("torch") else 0)


def test_the_tag():
    assert BMRMClassifier().__sklearn_tags__().array_api_support
    assert BMRMRegressor().__sklearn_tags__().array_api_support


def test_nothing_is_converted_while_the_dispatch_is_off():
    given = object()
    assert Space.of(given) == (None, None)
    assert to_numpy(given) is given
