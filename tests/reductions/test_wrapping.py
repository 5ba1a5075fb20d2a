"""Numbers at the end of 64 bits, and indices that only a condition keeps inside (guarded_cases.py)."""

import numpy as np
import pytest
from guarded_cases import CASES, ERROR, X

from bmrm.errors import ReductionError
from bmrm.formulas import native

pytestmark = pytest.mark.skipif(not native.can_compile(), reason="llvmlite is not installed")


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("name", CASES)
def test_no_index_that_no_row_has_is_read_and_every_other_is_checked(name, kind):
    row_function, words, expected = CASES[name]
    if isinstance(expected, str):
        assert expected == ERROR
        with pytest.raises(ReductionError, match="found the index"):
            row_function(X.astype(kind), device="cpu", **words)
        return
    found = row_function(X.astype(kind), device="cpu", **words)
    if expected is None:
        expected = row_function.python(X.astype(kind), **words)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)
