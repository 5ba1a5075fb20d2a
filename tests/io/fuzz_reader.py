"""Mutates good files and looks for anything but a clean outcome; run by hand for as long as you like.

    python tests/io/fuzz_reader.py [--seconds 300] [--seed 0]

Text must agree with the reference parser, faults included; every other format must give data or a
`DataError` of one line; a damaged cache must give what the text gives.
"""

import argparse
import gzip
import io
import random
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.io
import scipy.sparse
from reference import assert_agrees

from bmrm.errors import DataError
from bmrm.io import Csr, read_data
from bmrm.io.cache import SUFFIX

TEXT = b"""# two lists of labels, a query, all kinds of numbers
1,2 qid:3 1:0.5 7:-2.25e-3 12:1 # 0:9
+1 qid:3 0:.5\t3:100000000000000000000 4:1.\r

-1 qid:-4 3:0.30000000000000004 2:4.9e-324 1:1e308
2 5:1 6:1 7:1 8:1 9:0.12345678 10:0.1234567890123456
"""
TOKENS = [
    b":",
    b" ",
    b"\n",
    b"-",
    b".",
    b"e",
    b"0",
    b"9",
    b"#",
    b",",
    b"\0",
    b"\xff",
    b"nan",
    b"1e999",
    b"qid:",
]
TOKENS += [b" 1:1", b"\n1 2:3", b"99999999999", b"1" * 40, b" " * 40, b"0" * 20, b"\r", b"1:1 " * 20]


def mutated(rng, data, tokens):
    """Apply some cuts, copies, replaced bytes and inserted tokens."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 3, 8])):
        at = rng.randrange(len(data) + 1)
        length = rng.choice([1, 1, 2, 8, 50])
        match rng.randrange(4):
            case 0:
                del data[at : at + length]
            case 1:
                data[at:at] = rng.choice(tokens)
            case 2:
                data[at : at + 1] = bytes([rng.randrange(256)])
            case 3:
                start = rng.randrange(len(data) + 1)
                data[at:at] = data[start : start + length]
    return bytes(data)


def text_case(rng):
    """Hold a mutated text against the reference."""
    options = {
        "dtype": rng.choice(["float32", "float64"]),
        "zero_based": rng.choice(["auto", "auto", True, False]),
        "n_features": rng.choice([None, None, 12, 13]),
        "duplicates": rng.choice(["error", "sum"]),
        "query_id": rng.random() < 0.2,
    }
    how = {"threads": rng.choice([1, 2, 3, 7]), "block_bytes": rng.choice([1, 3, 64, 1 << 20])}
    assert_agrees(mutated(rng, TEXT, TOKENS), options, **how)


def seeds():
    """Small good files of the other formats."""
    X = scipy.sparse.random(6, 5, 0.4, "csr", random_state=np.random.default_rng(0))
    market, dense, archive, array = (io.BytesIO() for _ in range(4))
    scipy.io.mmwrite(market, X)
    scipy.io.mmwrite(dense, X.toarray())
    np.savez(
        archive, format="csr", shape=X.shape, indptr=X.indptr, indices=X.indices, data=X.data, y=np.arange(6)
    )
    np.save(array, X.toarray())
    return [file.getvalue() for file in (market, dense, archive, array)] + [gzip.compress(TEXT)]


def format_case(rng, path, good):
    """Read a mutated file of another format."""
    path.write_bytes(mutated(rng, rng.choice(good), [b"\0", b"\xff" * 8, b"9" * 12, b" ", b"\n", b"-"]))
    try:
        data = read_data(path)
    except DataError as error:
        assert "\n" not in str(error), str(error)  # noqa: PT017
        return
    if isinstance(data.X, Csr):
        data.X.to_scipy().check_format(full_check=True)


def cache_case(rng, path, expected, good):
    """Read a text beside a mutated cache."""
    Path(str(path) + SUFFIX).write_bytes(mutated(rng, good, [b"\0", b"\xff" * 8, b"9", b'"', b"]"]))
    data = read_data(path, cache=True, dtype="float64")
    assert data.X.shape == expected.X.shape
    assert all((mine == other).all() for mine, other in zip(data.X[:3], expected.X[:3], strict=True))


def fuzz(seconds, seed):
    """Run random cases for a time; return how many."""
    rng = random.Random(seed)
    good = seeds()
    count, end = 0, time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        path, text = Path(folder, "mutated"), Path(folder, "text")
        text.write_bytes(TEXT)
        expected = read_data(text, cache=True, dtype="float64")
        cache = Path(str(text) + SUFFIX).read_bytes()
        while time.monotonic() < end:
            for _ in range(20):
                text_case(rng)
            format_case(rng, path, good)
            cache_case(rng, text, expected, cache)
            count += 22
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print(f"{fuzz(arguments.seconds, arguments.seed)} cases, nothing found")


if __name__ == "__main__":
    main()
