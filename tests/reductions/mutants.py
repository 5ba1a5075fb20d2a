"""Damaged functions: texts of which some parts are replaced by others."""

import ast
import copy
import linecache
import random


def damaged_scope(text, seed, scope):
    """Run the text of a damaged function; return what it defines, None if it is no longer Python."""
    name = f"<mutant {seed}>"
    try:
        found = damaged(text, seed)
        code = compile(found, name, "exec")
    except (SyntaxError, RecursionError, IndexError, ValueError):
        return None
    linecache.cache[name] = (len(found), None, found.splitlines(True), name)
    made = dict(scope)
    exec(code, made)
    return made


def damaged(text, seed):
    """The text of a function in which some expressions or statements are replaced by others."""
    draw = random.Random(seed)
    tree = ast.parse(text)
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
