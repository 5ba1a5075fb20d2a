"""Damaged row functions: each gets one clear error, or compiles to text that LLVM accepts."""

import ast
import copy
import linecache
import os
import random

import pytest
from random_programs import SCOPE, Writer, random_arguments

from bmrm.distributed.reading import read_rows
from bmrm.errors import DataError, ReductionError
from bmrm.formulas.cpu import native
from bmrm.reductions import Reduction

MUTANTS = int(os.environ.get("BMRM_RANDOM_PROGRAMS", "25")) * 4

pytestmark = pytest.mark.skipif(not native.can_compile(), reason="llvmlite is not installed")


def mutated(seed):
    """The text of a random function in which some expressions or statements are replaced by others."""
    draw = random.Random(seed)
    tree = ast.parse(Writer(seed, exact=False).text())
    function = tree.body[-1] if draw.random() < 0.7 else draw.choice(tree.body)
    body = function.body
    for _ in range(draw.randint(1, 3)):
        nodes = list(ast.walk(ast.Module(body, [])))
        wanted = ast.stmt if draw.random() < 0.3 else ast.expr
        found = [node for node in nodes if isinstance(node, wanted)]
        spare = [node for node in found if isinstance(getattr(node, "ctx", ast.Load()), ast.Load)]
        parent = draw.choice([node for node in nodes if any(isinstance(c, wanted) for c in children(node))])
        name, place = draw.choice([(n, p) for n, p, c in places(parent) if isinstance(c, wanted)])
        new = copy.deepcopy(draw.choice(spare))
        if place is None:
            setattr(parent, name, new)
        else:
            getattr(parent, name)[place] = new
    function.body = body
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def places(node):
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            yield name, None, value
        elif isinstance(value, list):
            yield from ((name, place, each) for place, each in enumerate(value) if isinstance(each, ast.AST))


def children(node):
    return [child for _, _, child in places(node)]


def test_a_damaged_function_is_refused_or_compiles():
    import llvmlite.binding as llvm

    compiled = refused = 0
    for seed in range(MUTANTS):
        try:
            text = mutated(seed)
            code = compile(text, f"<mutant {seed}>", "exec")
        except (SyntaxError, RecursionError, IndexError, ValueError):
            continue  # no longer Python
        linecache.cache[f"<mutant {seed}>"] = (len(text), None, text.splitlines(True), f"<mutant {seed}>")
        scope = dict(SCOPE)
        exec(code, scope)
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
