"""Damaged row functions: each gets one clear error, or compiles to text that LLVM accepts."""

import os

import pytest
from mutants import damaged_scope
from random_programs import SCOPE, Writer, random_arguments

from bmrm.distributed.reading import read_rows
from bmrm.errors import DataError, ReductionError
from bmrm.formulas.cpu import native
from bmrm.reductions import Reduction

MUTANTS = int(os.environ.get("BMRM_RANDOM_PROGRAMS", "25")) * 4

pytestmark = pytest.mark.skipif(not native.can_compile(), reason="llvmlite is not installed")


def test_a_damaged_function_is_refused_or_compiles():
    import llvmlite.binding as llvm

    compiled = refused = 0
    for seed in range(MUTANTS):
        scope = damaged_scope(Writer(seed, exact=False).text(), seed, SCOPE)
        if scope is None:
            continue
        X, words = random_arguments(seed, 5)
        try:
            found = Reduction(scope["row"])
            call = found._binder.bind(
                read_rows(X), {n: v for n, v in words.items() if n not in found.results}
            )
            printed = found._host.code_of(call)
        except (ReductionError, DataError):
            refused += 1
            continue
        llvm.parse_assembly(printed.text).verify()
        compiled += 1
    assert compiled > MUTANTS // 20
    assert refused > MUTANTS // 20
