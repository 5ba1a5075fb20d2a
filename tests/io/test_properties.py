"""The reader against the reference, on valid and invalid random texts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import assert_agrees, parse
from sklearn.datasets import load_svmlight_file

from bmrm.errors import DataError
from bmrm.io import load_svmlight

BLANKS = st.sampled_from([b" ", b" ", b" ", b"  ", b"\t", b" \r\t ", b"\x0b\x0c"])
NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(-10, 10).map("{:.6g}".format),
    st.floats(-1, 1, width=32).map("{:.17e}".format),
    st.integers(-(10**25), 10**25).map(str),
    st.from_regex(r"[+-]?[0-9]{1,20}\.?[0-9]{0,20}([eE][+-]?[0-9]{1,3})?", fullmatch=True),
    st.from_regex(r"-?0?\.[0-9]{1,19}", fullmatch=True),
    st.just("1"),
).map(str.encode)
OPTIONS = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["float32", "float64"]),
        "zero_based": st.sampled_from(["auto", True, False]),
        "n_features": st.sampled_from([None, None, 12, 1000]),
        "duplicates": st.sampled_from(["error", "sum"]),
        "query_id": st.booleans(),
        "labels": st.sampled_from(["numbers", "numbers", "text"]),
    }
)
HOW = st.fixed_dictionaries(
    {"threads": st.sampled_from([1, 2, 3, 7]), "block_bytes": st.sampled_from([1, 5, 40, 1 << 20])}
)


@st.composite
def lines(draw):
    """A line that is mostly valid."""
    label = draw(st.sampled_from([b"1", b"-1", b"+1", b"0.5", b"1,3,5", b"2e-1", b"", b"spam", b"1:"]))
    tokens = [label, *draw(st.sampled_from([[], [], [b"qid:7"], [b"qid:-3"]]))]
    indices = draw(st.lists(st.integers(0, 12), max_size=6))
    if draw(st.booleans()):
        indices = sorted(set(indices))
    tokens += [b"%d:%b" % (index, draw(NUMBERS)) for index in indices]
    text = draw(st.sampled_from([b"", b"", b" "])) + tokens[0]
    for token in tokens[1:]:
        text += draw(BLANKS) + token
    return text + draw(st.sampled_from([b"", b"", b" ", b"\r", b"#", b" # 0:1 a comment", b"\t"]))


LINES = st.one_of(lines(), lines(), st.sampled_from([b"", b" ", b"\r", b"# 1 0:1", b"1", b"-1\r"]))
TEXTS = st.builds(
    lambda parts, end: b"\n".join(parts) + end, st.lists(LINES, max_size=8), st.sampled_from([b"", b"\n"])
)
PIECES = st.sampled_from(
    b"1|0|12|:| |\n|-|+|.|e|5|qid:|#|,|\r|\x00|1:1|nan|inf|1e999|99999999999|00000000000007|x|\xff|3:4 |1 "
    b"|0:1|0.5|1e-5|1:0.00000000000000000001|\n1 1:1 2:2\n".split(b"|")
)


@settings(max_examples=150, deadline=None)
@given(TEXTS, OPTIONS, HOW)
def test_plausible_texts(text, options, how):
    assert_agrees(text, options, **how)


@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES, max_size=30).map(b"".join), OPTIONS, HOW)
def test_texts_of_pieces(text, options, how):
    assert_agrees(text, options, **how)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200), OPTIONS, HOW)
def test_random_bytes(text, options, how):
    assert_agrees(text, options, **how)


@settings(max_examples=100, deadline=None)
@given(st.lists(NUMBERS, min_size=1, max_size=20))
def test_values_are_those_of_float(numbers):
    expected = np.array([float(number) for number in numbers])
    finite = np.isfinite(expected)
    numbers = [number for number, good in zip(numbers, finite, strict=True) if good]
    text = b"0 " + b" ".join(b"%d:%b" % pair for pair in enumerate(numbers, 1))
    X, *_ = parse(text)
    data = np.ones(X.nnz) if X.data is None else X.data
    assert data.tobytes() == expected[finite].tobytes()


@settings(max_examples=60, deadline=None)
@given(TEXTS, OPTIONS, st.integers(2, 5))
def test_parts_make_the_whole(text, options, parts):
    try:
        X, y, query, zero_based = parse(text, **options)
    except DataError as error:
        with pytest.raises(DataError) as caught:
            parse(text, parts=parts, **options)
        messages = {str(error), str(caught.value)}
        # A row without a label is only known to be a fault at the end of a part, after any other.
        assert len(messages) == 1 or any("expected a label before" in message for message in messages)
        return
    X2, y2, query2, zero_based2 = parse(text, parts=parts, **options)
    assert zero_based == zero_based2
    assert X.shape == X2.shape
    assert repr(y) == repr(y2)
    assert repr(query) == repr(query2)
    assert X.indptr.tobytes() == X2.indptr.tobytes()
    assert X.indices.tobytes() == X2.indices.tobytes()
    assert (X.data is None) == (X2.data is None)
    assert X.data is None or X.data.tobytes() == X2.data.tobytes()


def sklearn_lines():
    """Lines that scikit-learn also reads: sorted indices, single labels, no unusual blanks."""
    row = st.dictionaries(st.integers(0, 30), NUMBERS, max_size=6)
    tail = st.sampled_from([b"", b" ", b" # 5:5", b"\r"])
    return st.builds(
        lambda label, row, tail: (
            b" ".join([label, *(b"%d:%b" % pair for pair in sorted(row.items()))]) + tail
        ),
        st.sampled_from([b"1", b"-1", b"+1", b"2.5e0"]),
        row,
        tail,
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(sklearn_lines(), min_size=1, max_size=6), st.sampled_from(["auto", True]))
def test_agrees_with_scikit_learn(tmp_path_factory, rows, zero_based):
    path = tmp_path_factory.getbasetemp() / "agrees.svm"
    path.write_bytes(b"\n".join(rows))
    theirs, their_labels = load_svmlight_file(str(path), zero_based=zero_based)
    if not np.isfinite(theirs.data).all() or not theirs.nnz:
        return
    ours, labels = load_svmlight(path, zero_based=zero_based)
    assert ours.shape == theirs.shape
    assert ours.indptr.tolist() == theirs.indptr.tolist()
    assert ours.indices.tolist() == theirs.indices.tolist()
    assert ours.data.tobytes() == theirs.data.tobytes()
    assert labels.tolist() == their_labels.tolist()
