"""A result as text: the certificate."""

import re
from dataclasses import replace

import numpy as np
import pytest

import bmrm

X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.5, 2.0]])
Y = np.array([1.0, -1.0, 1.0, -1.0])


@pytest.fixture(scope="module")
def result():
    return bmrm.solve(X, Y, lam=0.1)


def test_a_result_prints_its_certificate(result):
    share = 100 * result.gap / result.lower_bound
    first, *lines = str(result).splitlines()
    assert first.startswith(f"converged after {result.n_iter} iterations, ")
    assert lines[:3] == [
        f"objective    {result.objective:.10g}",
        f"lower bound  {result.lower_bound:.10g}",
        f"gap          {result.gap:.3g}: at most {share:.2g} % above the optimum",
    ]


def test_a_notebook_shows_the_certificate(result):
    shown = result._repr_html_()
    cells = dict(re.findall("<tr><th>(.*?)</th><td>(.*?)</td></tr>", shown))
    assert cells["objective"] == f"{result.objective:.10g}"
    assert shown.startswith("<p>converged after ")
    assert cells["data"] == "4 rows, 2 features, 8 values"


@pytest.mark.parametrize(
    ("bound", "known"),
    [(-np.inf, "nothing is known of the optimum"), (-1.0, "at most 1.5 above the optimum")],
)
def test_bounds_that_are_not_positive_give_no_share(result, bound, known):
    text = str(replace(result, objective=0.5, lower_bound=bound, gap=0.5 - bound))
    assert text.splitlines()[3].endswith(f": {known}")
