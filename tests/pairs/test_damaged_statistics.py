"""Damaged functions of two points: each gets one clear line, or compiles to text that LLVM accepts."""

import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from random_statistics import Writer, random_call

from bmrm.errors import DataError, ReductionError
from bmrm.formulas.cpu import native
from bmrm.pairs import Statistic, squared_distance

sys.path.append(str(Path(__file__).parents[1] / "reductions"))
from mutants import damaged_scope

MUTANTS = int(os.environ.get("BMRM_RANDOM_STATISTICS", "100"))

pytestmark = pytest.mark.skipif(not native.can_compile(), reason="llvmlite is not installed")


def test_a_damaged_function_is_refused_or_compiles():
    import llvmlite.binding as llvm

    compiled, refused = 0, []
    for seed in range(MUTANTS):
        scope = damaged_scope(Writer(seed).text(), seed, {"squared_distance": squared_distance})
        if scope is None:
            continue
        sets, marks, words = random_call(seed, 5, 4)
        given = {name: tuple(each[name] for each in marks) for name in marks[0]}
        try:
            found = Statistic(scope["pair"])
            taken = {*found._taken, *found._pairs.marks}
            words = {name: value for name, value in (words | given).items() if name in taken}
            printed = found.source("cpu", *sets, **words)
        except (ReductionError, DataError) as error:
            refused.append(str(error))
            continue
        llvm.parse_assembly(printed).verify()
        compiled += 1
    assert compiled > MUTANTS // 25
    assert len(refused) > MUTANTS // 20
    assert not any("\n" in text for text in refused)
    lowered = re.compile(r"(?<![\w)\]])\.[a-z]|\[\.|__|a row function|\by\.rows")
    assert not [text for text in refused if lowered.search(text)]


def test_errors_speak_of_what_is_written():
    def pair(x, y, total):
        total += max(y.mass, y[0]).z

    def other(x, y, total):
        total += len(y.index)

    with pytest.raises(
        ReductionError, match=r"'max\(y.mass, y\[0\]\).z' is not available in a function of two"
    ):
        Statistic(pair)(np.ones((2, 1)), mass=np.ones(2))
    with pytest.raises(ReductionError, match=r"len takes the point or an array, found y.index"):
        Statistic(other)(np.ones((2, 1)))
