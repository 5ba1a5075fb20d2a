"""Counts over the sources that must stay as they are."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "bmrm"

KINDS_OF_ROWS = {
    "Csr",
    "Dataset",
    "DenseRows",
    "DeviceArray",
    "DeviceRows",
    "DeviceSparseRows",
    "MatrixRows",
    "RowBlocks",
    "RowSet",
    "RowsInPlace",
    "Shard",
    "SparseRows",
    "StoredRows",
}


def names_in(node: ast.AST) -> set[str]:
    """The last parts of all names in an expression."""
    found = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return found | {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}


def asks_for_a_kind(node: ast.AST) -> bool:
    """Whether an expression asks what kind of rows something is: isinstance(x, Kind), type(x) is Kind."""
    match node:
        case ast.Call(func=ast.Name("isinstance" | "issubclass"), args=[_, kinds]):
            return bool(names_in(kinds) & KINDS_OF_ROWS)
        case ast.Compare(left=ast.Call(func=ast.Name("type"))):
            return bool(names_in(node) & KINDS_OF_ROWS)
        case ast.MatchClass(cls=kind):
            return bool(names_in(kind) & KINDS_OF_ROWS)
    return False


def test_methods_do_not_ask_what_kind_of_rows_they_have():
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for wing in ("formulas", "reductions", "unsupervised", "graph")
        for path in sorted((PACKAGE / wing).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if asks_for_a_kind(node)
    ]
    assert found == []


def test_every_way_to_ask_is_seen():
    for text in (
        "isinstance(x, Csr)",
        "isinstance(x, (np.ndarray, rows.DenseRows))",
        "isinstance(x, Csr | Dataset)",
        "type(x) is DeviceArray",
        "type(x) in (DenseRows, SparseRows)",
        "match x:\n    case rows.SparseRows():\n        pass",
    ):
        assert any(map(asks_for_a_kind, ast.walk(ast.parse(text)))), text
    assert not any(map(asks_for_a_kind, ast.walk(ast.parse("isinstance(x, np.ndarray); type(x) is int"))))
