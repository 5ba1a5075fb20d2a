"""Which columns of a table of edges are source, target and weight."""

from __future__ import annotations

import pytest

from bmrm.errors import DataError, ParameterError
from bmrm.io.edge_columns import check_columns, choose_columns


@pytest.mark.parametrize(
    ("names", "options", "expected"),
    [
        ("id source target", {}, (1, 2, None)),
        ("target source", {}, (1, 0, None)),
        ("source target time", {}, (0, 1, None)),
        ("Weight To From", {}, (2, 1, 0)),
        ("weight dst src", {"weights": False}, (2, 1, None)),
        ("Source Target Type Id Label Weight", {}, (0, 1, 5)),
        ("FromNodeId ToNodeId", {}, (0, 1, None)),
        ("SOURCE_SUBREDDIT TARGET_SUBREDDIT POST_ID", {}, (0, 1, None)),
        (":END_ID :START_ID :TYPE", {}, (1, 0, None)),
        ("source_url source target", {}, (1, 2, None)),
        ("x source", {}, (1, 0, None)),
        ("s t w", {}, (0, 1, 2)),
        ("s t strength", {"weights": True}, (0, 1, 2)),
        ("V1 V2 V3", {}, (0, 1, None)),
        ("0 1 2", {"weights": True}, (0, 1, 2)),
        ("a b c", {"columns": ("c", "a")}, (2, 0, None)),
        ("a b c", {"columns": ("c", "a", "b")}, (2, 0, 1)),
        ("source target weight cost", {"weight": "cost"}, (0, 1, 3)),
    ],
)
def test_names_say_which_columns_are_which(names, options, expected):
    assert choose_columns(names.split(), **options) == expected


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        ("a b c", {}, "found the columns 'a', 'b', 'c', expected some named source and target"),
        ("a b from_date to_date", {}, "expected some named source and target"),
        ("source src target", {}, "found several columns of sources: 'source', 'src'"),
        ("source target w weight", {}, "found several columns of weights"),
        ("source target time", {"weights": True}, "found no column of weights"),
        ("a b", {"columns": ("a", "c")}, "found no column 'c', expected one of 'a', 'b'"),
        ("a a b", {"columns": ("a", "b")}, "found the column 'a' twice"),
        ("source target", {"weight": "cots"}, "found no column 'cots'"),
    ],
)
def test_what_names_do_not_say_is_refused(names, options, message):
    with pytest.raises(DataError, match=message):
        choose_columns(names.split(), **options)


@pytest.mark.parametrize("columns", ["a,b", ("a",), ("a", "b", "c", "d"), ("a", "a"), (1, 2), 7])
def test_columns_are_two_or_three_names(columns):
    with pytest.raises(ParameterError, match="columns: found"):
        check_columns(columns, None)


def test_a_column_of_weights_without_weights_is_refused():
    with pytest.raises(ParameterError, match="with weights=False"):
        check_columns(("a", "b", "c"), False)
