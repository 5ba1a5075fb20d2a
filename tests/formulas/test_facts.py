"""What varies from row to row, and along which axis: also for rows of two axes, which no text has yet."""

from bmrm.formulas.analysis.facts import find_facts
from bmrm.formulas.language.tree import (
    Apply,
    Argument,
    Block,
    Const,
    For,
    ForStored,
    If,
    Leave,
    Load,
    Local,
    Program,
    RowItem,
    RowNumber,
    Set,
    SetItem,
    Value,
    Var,
    While,
)

ZERO = Const(0, "int")
X, Y = (RowItem(axis, ZERO, 1) for axis in "xy")


def facts_of(*body):
    """Facts of statements of two rows, with a number per row of each."""
    arguments = [
        Argument("h", "parameter", (), "real"),
        Argument("p", "parameter", ("k",), "real"),
        Argument("u", "parameter", (), "real", axes=("x",)),
        Argument("v", "parameter", (), "real", axes=("y",)),
        Argument("out", "output", (), "real", axes=("x",)),
    ]
    locals_ = dict.fromkeys("abcde", "real")
    arrays = {"q": Local((3,), "real")}
    named = {argument.name: argument for argument in arguments}
    return find_facts(Program("f", ("x", "y"), "d", named, locals_, arrays, body, ()), {"k": 2, "d": 3})


def var(name):
    return Var(name, "real")


def product(a, b):
    return Apply("mul", (a, b), "real", 1)


def test_a_value_varies_along_the_axes_of_what_it_reads():
    facts = facts_of(
        Set("a", X), Set("b", product(Y, Value("v", "real"))), Set("c", product(var("a"), var("b")))
    )
    assert facts.varying == {"a": {"x"}, "b": {"y"}, "c": {"x", "y"}, "out": {"x"}}
    assert facts.axes_of(Value("h", "real"), Load("p", (ZERO,), "real", 1)) == set()
    assert facts.axes_of(Value("u", "real"), RowNumber("y")) == {"x", "y"}
    assert facts.axes_of(Load("p", (RowNumber("y"),), "real", 1)) == {"y"}
    assert facts.axes_of(Load("q", (ZERO,), "real", 1)) == {"x", "y"}
    assert facts.varies(var("a"))
    assert not facts.varies(var("d"))


def test_branches_and_loops_add_the_axes_of_their_conditions():
    test = Apply("lt", (X, Const(1.0, "real")), "bool", 1)
    inner = Set("a", Y), SetItem("q", (ZERO,), var("a"), 1)
    facts = facts_of(
        If(test, (Set("b", Const(1.0, "real")), *inner), ()),
        For("j", ZERO, Apply("int", (Y,), "int", 1), 1, (Set("c", Const(1.0, "real")),)),
        ForStored("x", "f", "e", (Set("d", Value("h", "real")),)),
    )
    assert facts.varying == {
        "a": {"x", "y"}, "b": {"x"}, "j": {"y"}, "c": {"y"}, "f": {"x"}, "e": {"x"}, "d": {"x"}, "out": {"x"}
    }  # fmt: skip


def test_axes_travel_around_a_loop():
    body = Set("a", var("b")), Set("b", var("c")), Set("c", product(X, Y))
    facts = facts_of(For("j", ZERO, Const(9, "int"), 1, body))
    assert all(facts.varying[name] == {"x", "y"} for name in "abc")
    assert "j" not in facts.varying


NINE = Const(9, "int")


def less(a, b):
    return Apply("lt", (a, b), "bool", 1)


def test_a_loop_is_left_along_the_axes_of_its_test():
    inner = For("j", ZERO, NINE, 1, (Set("a", Const(1.0, "real")),))
    facts = facts_of(
        While("first", (), less(X, Value("h", "real")), (inner,), 1),
        While("second", (), less(Value("h", "real"), Const(1.0, "real")), (Set("b", Y),), 1),
        While("third", (Set("c", Value("v", "real")),), less(var("c"), var("d")), (Set("d", X),), 1),
    )
    assert facts.left == {"first", "third"}
    assert facts.masked == {"j"}  # the same for all rows that are still there
    assert facts.varying == {"a": {"x"}, "b": {"y"}, "c": {"x", "y"}, "d": {"x", "y"}, "out": {"x"}}


def test_a_row_leaves_all_loops_up_to_the_one_that_it_names():
    leave = If(less(X, var("c")), (Leave("outer"),), ())
    inner = For("j", ZERO, NINE, 1, (Block("j.iteration", (leave, Set("a", Const(1.0, "real")))),))
    facts = facts_of(For("outer", ZERO, NINE, 1, (inner, Set("b", Value("h", "real")))), Set("d", ZERO))
    assert facts.left == {"outer", "j", "j.iteration"}
    assert facts.varying == {"a": {"x"}, "b": {"x"}, "out": {"x"}}
    together = If(less(var("c"), var("d")), (Leave("outer"),), ())
    facts = facts_of(For("outer", ZERO, NINE, 1, (together, Set("b", Value("h", "real")))))
    assert facts.left == set()
    assert facts.varying == {"out": {"x"}}


def test_a_loop_under_a_condition_counts_for_each_row():
    inner = For("j", ZERO, NINE, 1, (If(less(X, var("a")), (Leave("j"),), ()), Set("b", Y)))
    facts = facts_of(If(less(Y, var("a")), (inner,), ()))
    assert facts.left == {"j"}
    assert facts.masked == set()
    assert facts.varying == {"j": {"y"}, "b": {"x", "y"}, "out": {"x"}}
