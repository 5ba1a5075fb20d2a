"""Damage files of every format at random, read them, and look for anything except a clean outcome.

    make fuzz                                 under the compiler's sanitizers, for FUZZ_SECONDS=600
    python scripts/fuzz.py [--seconds 600] [--seed N] [--out fuzz-failures]
    python scripts/fuzz.py --replay SEED:CASE           run one case again, in this process

Reading must return data, or raise an error of the documented classes whose text is one line of printable
characters. SVMlight text and edge text must be read as by the reference parsers of the tests, errors
included, and a damaged cache must give the same data as the text. A signal, a sanitizer report, and a case
that takes a minute or gigabytes are failures too, so cases run in a separate process. Each case depends only
on the seed and its number. The input of a failing case is kept in the folder --out, and the command that
replays it is printed.
"""

from __future__ import annotations

import argparse
import bz2
import faulthandler
import gzip
import io
import json
import lzma
import os
import random
import re
import resource
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import scipy.io
import scipy.sparse

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "io"))
import reference
import reference_edges

import bmrm
from bmrm.cli import loading
from bmrm.cli.options import parse as parse_options
from bmrm.errors import BmrmError, DataError, HostMemoryError
from bmrm.graph import Graph, read_graph
from bmrm.io import Csr, _svmlight, iter_svmlight, read_data
from bmrm.io.cache import SUFFIX
from bmrm.io.edges import EdgeParser, read_edges
from bmrm.linear.models import content
from bmrm.linear.models.checkpoint import Checkpoint, Problem, save
from bmrm.linear.models.model import Model
from bmrm.matrix.gpu import cache as device_cache
from bmrm.pairs import Histogram, histogram

_SEAL = re.compile(rb'(\\"checksum\\": \\")[0-9a-f]{16}')

CASE_TIMEOUT_SECONDS = 60.0
"""Maximum duration of a case."""

MAX_GROWTH_KIB = 1 << 20
"""Maximum growth of the process in a case: the files are small, and sizes in headers are not trusted."""

TEXT = b"""# two lists of labels, a query, all kinds of numbers
1,2 qid:3 1:0.5 7:-2.25e-3 12:1 # 0:9
+1 qid:3 0:.5\t3:100000000000000000000 4:1.\r

-1 qid:-4 3:0.30000000000000004 2:4.9e-324 1:1e308
2 5:1 6:1 7:1 8:1 9:0.12345678 10:0.1234567890123456
"""
EDGES = [
    b"# a graph\n10\t20\n20\t9007199254740993\r\n\n% 1 2\n-7 10\n0 0 # a loop\n12345678901234567,5\n",
    b"from,to,weight\n1,2,0.5\n3 , 1,-2e-3\n2,9,7\n",
    b"\xef\xbb\xbfann bob 1\n// a comment\nbob n\xc3\xa4me_that_is_long 2.5\ncy-7\tann\t3\n",
    b'Id;Target;Source;Type;Weight\n1;New York;"say ""hi""";Directed;3\n2;a;b;directed;1e3\n',
    b"ann bob {'weight': 3, 'label': \"it's\", 'x': (1, [2])}\nbob cat {}\ncat ann {'weight': 0.5}\n",
    b"% asym positive\n1 2 3 1082008561\n2 1 1 1082008562\n",
]
EDGE_TOKENS = [
    b"//",
    b'"',
    b";",
    b"{",
    b"source,target\n",
    b"%",
    b"\n1 2\n",
    b",",
    b"\t",
    b"\xc3\xa9",
    b"\xed\xa0\x80",
    b"9223372036854775808",
    b"1 2 3\n" * 20,
]
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
BYTES = [
    b"\0",
    b"\xff" * 8,
    b"9" * 12,
    b" ",
    b"\n",
    b"-",
    b'"',
    b"]",
    b"\x7f" + b"\xff" * 7,
    b"\x80" + b"\0" * 7,
]
ODD: list[Any] = [None, True, -1, 0, 1, 2, 2**31, 2**32 - 1, 2**40, 2**62, 2**63, 2**64, 10**400, 0.5, 1e308]
ODD += [
    float("nan"),
    float("inf"),
    "",
    "x",
    "\x1b[31m",
    "F64",
    "F8_E4M3",
    "C64",
    "<f8",
    "|O",
    [],
    {},
    [[]],
    [1] * 9,
]
EXPECTED = (BmrmError,)


def mutated(rng: random.Random, data: bytes, tokens: list[bytes]) -> bytes:
    """Delete, copy, replace and insert some bytes and tokens."""
    found = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 3, 8])):
        at = rng.randrange(len(found) + 1)
        length = rng.choice([1, 1, 2, 8, 50])
        match rng.randrange(5):
            case 0:
                del found[at : at + length]
            case 1:
                found[at:at] = rng.choice(tokens)
            case 2:
                found[at : at + 1] = bytes([rng.randrange(256)])
            case 3:
                start = rng.randrange(len(found) + 1)
                found[at:at] = found[start : start + length]
            case 4:
                token = rng.choice(tokens)
                found[at : at + len(token)] = token
    return bytes(found)


def mangled(rng: random.Random, value: Any) -> Any:
    """Replace, remove or add something somewhere in a JSON document."""
    if rng.random() < 0.2 or not isinstance(value, dict | list) or not value:
        return rng.choice(ODD)
    if isinstance(value, dict):
        found = dict(value)
        key = rng.choice(list(found))
        if rng.random() < 0.15:
            del found[key]
        elif rng.random() < 0.1:
            found[rng.choice(["x", "w", "\x1b[31m", "values"])] = rng.choice(ODD)
        else:
            found[key] = mangled(rng, found[key])
        return found
    at = rng.randrange(len(value))
    return [*value[:at], *([mangled(rng, value[at])] if rng.random() < 0.8 else []), *value[at + 1 :]]


def repeatedly(rng: random.Random, change: Callable[[random.Random, Any], Any], value: Any) -> Any:
    """Apply a change once or a few times."""
    for _ in range(rng.choice([1, 1, 2, 3])):
        value = change(rng, value)
    return value


def split(whole: bytes) -> tuple[Any, bytes]:
    """Return the header of a safetensors file and its tensors."""
    length = int.from_bytes(whole[:8], "little")
    return json.loads(whole[8 : 8 + length]), whole[8 + length :]


def joined(header: Any, tensors: bytes) -> bytes:
    """Return a safetensors file with this header and these tensors."""
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + tensors


def graph_files(path: Path) -> list[tuple[str, bytes]]:
    """Return a file of a graph for each format that is neither text nor a matrix."""
    files = [
        ("mtx", b"%%MatrixMarket matrix coordinate real symmetric\n% c\n3 3 3\n1 1 2\n2 1 .5\n3 2 1e3\n"),
        ("metis", b"% a comment\n3 2 1\n2 5\n1 5 3 7\n2 7\n"),
    ]
    with suppress(ImportError):
        import pyarrow
        from pyarrow import ipc, parquet

        table = pyarrow.table({"target": ["b", "cc", "a"], "source": ["a", "a", "b"], "weight": [1, 2, 3]})
        with ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
        files.append(("arrow", path.read_bytes()))
        parquet.write_table(table, path)
        files.append(("parquet", path.read_bytes()))
    np.save(path.with_suffix(".npy"), np.array([[1, 2], [2, 5]]))
    return [*files, ("npy", path.with_suffix(".npy").read_bytes())]


class Corpus:
    """Good files in a folder, and the path of the damaged file."""

    def __init__(self, folder: Path) -> None:
        self.path, self.text = folder / "input", folder / "text"
        rng = np.random.default_rng(0)
        X = scipy.sparse.random(6, 5, 0.4, "csr", random_state=rng)
        market, dense, archive, packed, array, columns = (io.BytesIO() for _ in range(6))
        scipy.io.mmwrite(market, X)
        scipy.io.mmwrite(dense, X.toarray(), symmetry="general")
        parts = {
            "shape": X.shape,
            "indptr": X.indptr,
            "indices": X.indices,
            "data": X.data,
            "y": np.arange(6),
        }
        np.savez(archive, format="csr", **parts)
        np.savez_compressed(packed, format="csr", **parts)
        np.save(array, X.toarray())
        np.save(columns, np.asfortranarray(X.toarray(), np.float32))
        self.binary = [file.getvalue() for file in (archive, packed, array, columns)]
        self.market = [file.getvalue() for file in (market, dense)]
        self.packed = [gzip.compress(TEXT), bz2.compress(TEXT), lzma.compress(TEXT), bz2.compress(TEXT) * 2]
        with suppress(ImportError):
            import zstandard

            self.packed.append(zstandard.compress(TEXT))

        self.text.write_bytes(TEXT)
        self.expected = read_data(self.text, cache=True, dtype="float64")
        self.cache = Path(f"{self.text}{SUFFIX}").read_bytes()
        self.graphs = graph_files(folder / "graph")
        self.edges, self.edge_caches = folder / "edges", []
        for text, weights in ((EDGES[0], False), (EDGES[1], True), (EDGES[2], True)):
            self.edges.write_bytes(text)
            os.utime(self.edges, ns=(0, 0))
            read_edges(self.edges, cache=True, weights=weights)
            self.edge_caches.append((text, Path(f"{self.edges}{SUFFIX}").read_bytes(), weights))

        y = np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
        dense_X = rng.standard_normal((6, 5))
        self.X = dense_X
        result = bmrm.solve(dense_X, y, lam=0.1, max_iter=3, cuts_per_pass=1)
        several = bmrm.solve(dense_X, np.arange(6) % 3, lam=0.1, loss="multiclass", max_iter=3)
        ordinal = bmrm.solve(dense_X, np.arange(6) % 3, lam=0.1, loss="ordinal", max_iter=3)
        models = [Model.from_result(found) for found in (result, several, ordinal)]
        isotonic = bmrm.calibrate(dense_X @ result.w, y, "isotonic")
        models.append(Model.from_result(result, calibration=isotonic))
        self.models = []
        for model in models:
            model.save(self.path)
            self.models.append(self.path.read_bytes())
        save(self.path, models[0], Problem(6, 30, 1, False, None), result.bundle.working())
        self.checkpoint = self.path.read_bytes()
        histogram(dense_X, edges=[0.0, 1.0, 2.0, 5.0]).save(self.path)
        self.histogram = self.path.read_bytes()

    def write(self, content: bytes) -> Path:
        """Write the damaged file."""
        self.path.write_bytes(content)
        return self.path


def text_case(rng: random.Random, corpus: Corpus) -> None:
    """Compare the reader with the reference parser on a mutated text."""
    options = {
        "dtype": rng.choice(["float32", "float64"]),
        "zero_based": rng.choice(["auto", "auto", True, False]),
        "n_features": rng.choice([None, None, 12, 13]),
        "duplicates": rng.choice(["error", "sum"]),
        "query_id": rng.random() < 0.2,
        "labels": rng.choice(["numbers", "numbers", "text"]),
    }
    how = {"threads": rng.choice([1, 2, 3, 7]), "block_bytes": rng.choice([1, 3, 64, 1 << 20])}
    for _ in range(10):
        reference.assert_agrees(corpus.write(mutated(rng, TEXT, TOKENS)).read_bytes(), options, **how)


def file_case(rng: random.Random, corpus: Corpus) -> None:
    """Read a mutated text as a file, in blocks and parts of odd sizes."""
    path = corpus.write(mutated(rng, TEXT * rng.choice([1, 1, 30]), TOKENS))
    options = {"threads": rng.choice([1, 3]), "dtype": rng.choice(["float32", "float64"])}
    options["labels"] = rng.choice(["numbers", "text"])
    with suppress(DataError):
        whole = read_data(path, **options).X
        parts = list(
            iter_svmlight(path, rows_bytes=rng.choice([1, 40, 1 << 20]), n_features=whole.shape[1], **options)
        )
        assert sum(X.nnz for X, _ in parts) == whole.nnz


def changing_case(rng: random.Random, corpus: Corpus) -> None:
    """Read a text that changes between the reader's passes."""
    path = corpus.write(TEXT * 30)

    def write(*counted: int) -> None:
        content = mutated(rng, TEXT * rng.choice([0, 1, 30, 31]) + b" ", TOKENS)
        with open(path, "r+b") as file:
            file.write(content)
            if rng.random() < 0.5:
                file.truncate()

    with suppress(DataError):
        read_data(path, land=write, threads=rng.choice([1, 3]))


def edges_case(rng: random.Random, corpus: Corpus) -> None:
    """Compare the reader of edges with the reference parser on a mutated text."""
    options = {
        "labels": rng.choice(["auto", "auto", "integer", "string"]),
        "weights": rng.choice([None, True, False]),
    }
    how = {"threads": rng.choice([1, 2, 3, 7]), "block_bytes": rng.choice([1, 3, 64, 1 << 20])}
    for _ in range(10):
        text = mutated(rng, rng.choice(EDGES), [*TOKENS, *EDGE_TOKENS])
        reference_edges.assert_agrees(corpus.write(text).read_bytes(), options, **how)


def graph_file_case(rng: random.Random, corpus: Corpus) -> None:
    """Read a graph from a mutated file of any format that `read_graph` knows."""
    kind, good = rng.choice(corpus.graphs)
    path = corpus.write(mutated(rng, good, [*TOKENS, *EDGE_TOKENS]))
    with suppress(DataError, HostMemoryError):
        graph = read_graph(path, format=rng.choice([kind, kind, "auto"]), weights=rng.choice([None, False]))
        assert graph.n_edges == graph.edges_by_target[0][-1]


def changing_edges_case(rng: random.Random, corpus: Corpus) -> None:
    """Read edges from a file, plain or packed, that changes between the reader's passes."""
    good = rng.choice(EDGES)
    path = corpus.write(rng.choice([bytes, bytes, gzip.compress])(good * 30))

    class Changing(EdgeParser):
        def _reserve(self, edges: int) -> None:
            with open(path, "r+b") as file:
                file.write(mutated(rng, good * rng.choice([0, 1, 30, 31]) + b" ", [*TOKENS, *EDGE_TOKENS]))
                if rng.random() < 0.5:
                    file.truncate()

    options = {"labels": rng.choice(["auto", "integer", "string"]), "threads": rng.choice([1, 3])}
    with suppress(DataError), mock.patch("bmrm.io.edges.EdgeParser", Changing):
        read_edges(path, **options)


def read_any(path: Path, **options: Any) -> None:
    """Read a file of any format, and check that the data are valid."""
    data = read_data(path, **options)
    if isinstance(data.X, Csr):
        data.X.to_scipy().check_format(full_check=True)
    else:
        assert data.X.ndim == 2


def market_case(rng: random.Random, corpus: Corpus) -> None:
    """Read a mutated Matrix Market file."""
    read_any(
        corpus.write(mutated(rng, rng.choice(corpus.market), [*TOKENS, b"symmetric", b"pattern", b"array"]))
    )


def binary_case(rng: random.Random, corpus: Corpus) -> None:
    """Read a mutated npz or npy file."""
    read_any(corpus.write(mutated(rng, rng.choice(corpus.binary), BYTES)))


def npy_case(rng: random.Random, corpus: Corpus) -> None:
    """Read an npy file with a valid header that has odd types and shapes."""
    file = io.BytesIO()
    header = {
        "descr": rng.choice(
            ["<f8", "<f4", ">f8", "<f2", "<i8", "|b1", "|u1", "<c16", "|O", "<U3", "|V5", "<m8[s]", "|S0"]
        ),
        "fortran_order": rng.random() < 0.3,
        "shape": tuple(
            rng.choice([0, 1, 2, 3, 6, 2**31, 2**40, 2**62, -1])
            for _ in range(rng.choice([0, 1, 2, 2, 2, 3]))
        ),
    }
    rng.choice([np.lib.format.write_array_header_1_0, np.lib.format.write_array_header_2_0])(file, header)
    read_any(corpus.write(file.getvalue() + rng.randbytes(rng.choice([0, 8, 47, 48, 144]))))


def packed_case(rng: random.Random, corpus: Corpus) -> None:
    """Read a mutated compressed text, which may be compressed twice."""
    content = mutated(rng, rng.choice(corpus.packed), BYTES)
    read_any(corpus.write(gzip.compress(content) if rng.random() < 0.1 else content))


def damaged_cache(rng: random.Random, content: bytes) -> bytes:
    """Damage a cache: its bytes, or its header, which may still match its checksum."""
    if rng.random() < 0.5:
        length = int.from_bytes(content[8:16], "little")
        text = (
            json.dumps(repeatedly(rng, mangled, json.loads(content[24 : 24 + length]))).encode().ljust(length)
        )
        checksum = _svmlight.checksum(text).to_bytes(8, "little")
        content = content[:8] + len(text).to_bytes(8, "little") + checksum + text + content[24 + length :]
    return mutated(rng, content, BYTES) if rng.random() < 0.6 else content


def cache_case(rng: random.Random, corpus: Corpus) -> None:
    """Read a text with a mutated cache."""
    content = damaged_cache(rng, corpus.cache)
    Path(f"{corpus.text}{SUFFIX}").write_bytes(content)
    shutil.copy(f"{corpus.text}{SUFFIX}", corpus.path)
    data, expected = read_data(corpus.text, cache=True, dtype="float64"), corpus.expected
    if not data.from_cache or content == corpus.cache:
        assert data.X.shape == expected.X.shape
        assert all((mine == other).all() for mine, other in zip(data.X[:3], expected.X[:3], strict=True))


def edge_cache_case(rng: random.Random, corpus: Corpus) -> None:
    """Read edge text with a mutated cache."""
    path, (text, good, weights) = corpus.edges, rng.choice(corpus.edge_caches)
    path.write_bytes(text)
    os.utime(path, ns=(0, 0))
    content = damaged_cache(rng, good)
    Path(f"{path}{SUFFIX}").write_bytes(content)
    shutil.copy(f"{path}{SUFFIX}", corpus.path)
    found, expected = (read_edges(path, cache=cache, weights=weights) for cache in (True, False))
    assert found.from_cache or content != good
    if not found.from_cache or content == good:
        for name in ("sources", "targets", "weights", "labels"):
            assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    Graph((found.sources, found.targets), n_nodes=found.n_nodes)


def damaged_tensors(rng: random.Random, good: bytes) -> bytes:
    """Damage a safetensors file: its bytes, its header, or the document in its header."""
    header, tensors = split(good)
    if rng.random() < 0.4:
        key = rng.choice(list(header["__metadata__"]))
        document = repeatedly(rng, mangled, json.loads(header["__metadata__"][key]))
        header["__metadata__"][key] = json.dumps(document)
    elif rng.random() < 0.6:
        header = repeatedly(rng, mangled, header)
    damaged = joined(header, tensors)
    if rng.random() < 0.5:
        damaged = sealed(damaged)
    return mutated(rng, damaged, BYTES) if rng.random() < 0.5 else damaged


def sealed(whole: bytes) -> bytes:
    """Insert the correct checksum into a file, so that the code after its check is reached."""
    with suppress(DataError):  # the file has no place for a checksum
        return b"".join(content.sealed(_SEAL.sub(rb"\g<1>" + content.UNKNOWN.encode(), whole)))
    return whole


def model_case(rng: random.Random, corpus: Corpus) -> None:
    """Load a damaged model and predict with it."""
    model = Model.load(corpus.write(damaged_tensors(rng, rng.choice(corpus.models))))
    if model.n_features == 5:
        model.predict(corpus.X)
        if model.has_probabilities:
            model.predict_probability(corpus.X)


def checkpoint_case(rng: random.Random, corpus: Corpus) -> None:
    """Load a damaged checkpoint and its cuts."""
    found = Checkpoint.load(corpus.write(damaged_tensors(rng, corpus.checkpoint)))
    found.cuts(0, 5)
    found.cuts(1, 3)


def histogram_case(rng: random.Random, corpus: Corpus) -> None:
    """Load a damaged histogram of pairs, add it to itself, and write it again."""
    found = Histogram.load(corpus.write(mutated(rng, corpus.histogram, TOKENS)))
    (found + found).save(corpus.path)


def numbers_case(rng: random.Random, corpus: Corpus) -> None:
    """Read damaged weights, costs, options and cached kernel plans."""
    path = str(corpus.write(mutated(rng, b"1\n0.5\n2e3\n0\n", TOKENS)))
    with suppress(BmrmError):
        loading.numbers(path, 4, "weight", "rows")
    corpus.write(mutated(rng, b"0 1 2\n1,0,1\n2 1 0\n", TOKENS))
    with suppress(BmrmError):
        loading.read_costs(path)
    corpus.write(mutated(rng, b'lambda = 0.1\nloss = "hinge"\ntol = 1e-3\n', [*TOKENS, b"[", b"=", b'"']))
    with suppress(BmrmError):
        parse_options(["--config", path, "data"])
    name = Path(device_cache.record_path("fuzz"))
    name.parent.mkdir(parents=True, exist_ok=True)
    plan = {"kernel": "x", "lanes": 1, "cap": 2, "tiles": 3, "tile": 4}
    name.write_bytes(json.dumps(mangled(rng, {"constants": None, "plans": {"a": [plan, plan]}})).encode())
    device_cache.read_record("fuzz")


CASES = (
    *(
        text_case,
        file_case,
        file_case,
        changing_case,
        edges_case,
        edges_case,
        changing_edges_case,
        graph_file_case,
        graph_file_case,
        market_case,
        market_case,
        binary_case,
        binary_case,
        npy_case,
    ),
    *(
        packed_case,
        packed_case,
        cache_case,
        cache_case,
        edge_cache_case,
        edge_cache_case,
        model_case,
        model_case,
        checkpoint_case,
        checkpoint_case,
    ),
    histogram_case,
    numbers_case,
)


def run_case(seed: int, number: int, corpus: Corpus) -> None:
    """Run one case; raise for anything except a clean outcome."""
    rng = random.Random(f"{seed}:{number}")
    case = rng.choice(CASES)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        case(rng, corpus)
    except EXPECTED as error:
        text = str(error)
        assert text.isprintable(), f"not one line of printable characters: {text!r}"
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < MAX_GROWTH_KIB, f"took {grown >> 10} MiB"


def quietly(folder: Path) -> Corpus:
    """Make the good files; silence warnings, and keep all files in the folder."""
    warnings.simplefilter("ignore")  # NumPy warns about odd headers before it refuses them
    np.seterr(all="ignore")
    os.environ["XDG_CACHE_HOME"] = str(folder)
    return Corpus(folder)


def work(seed: int, first: int, folder: Path) -> None:
    """Run cases in this process, with the current number in a file; exit at the first that fails."""
    faulthandler.enable()
    corpus = quietly(folder)
    number = first
    with open(folder / "number", "wb", buffering=0) as file:
        while True:
            os.pwrite(file.fileno(), b"%20d" % number, 0)
            try:
                run_case(seed, number, corpus)
            except BaseException:
                traceback.print_exc()
                sys.exit(1)
            number += 1


def at_work(folder: Path) -> int:
    """Return the number of the current case, -1 before the first."""
    try:
        return int((folder / "number").read_bytes() or b"-1")
    except FileNotFoundError:
        return -1


def until(process: subprocess.Popen[bytes], folder: Path, end: float) -> bool:
    """Wait for the process or for ``end``, and kill a process that hangs; return whether a case failed."""
    number, since = -1, time.monotonic()
    while process.poll() is None:
        time.sleep(0.2)
        now = time.monotonic()
        if at_work(folder) != number:
            number, since = at_work(folder), now
        if now > end and number >= 0:
            process.kill()
            process.wait()
            return False
        if now - since > (CASE_TIMEOUT_SECONDS if number >= 0 else 5 * CASE_TIMEOUT_SECONDS):
            process.send_signal(signal.SIGABRT)  # with a traceback
            process.wait()
    return True


def fuzz(seconds: float, seed: int, out: Path) -> int:
    """Run cases in separate processes; return how many failed."""
    number, failed, end = 0, 0, time.monotonic() + seconds
    while time.monotonic() < end and failed < 20:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            words = [sys.executable, __file__, "--seed", str(seed), "--work", str(number), "--out", name]
            with open(folder / "log", "wb") as log:
                process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT)
                bad = until(process, folder, end)
            number = at_work(folder)
            if bad:
                failed += 1
                kept = out / f"{seed}-{number}"
                shutil.copytree(folder, kept, dirs_exist_ok=True)
                print((folder / "log").read_text(errors="replace")[-4000:])
                print(f"FAILED with status {process.returncode}; files in {kept}; replay with:")
                print(f"  {sys.executable} {__file__} --replay {seed}:{number}", flush=True)
                number += 1
    print(f"{number} cases of seed {seed}, {failed} failed")
    return failed


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, help="default: a new one, which is printed")
    parser.add_argument("--out", type=Path, default=Path("fuzz-failures"), help="folder for failing inputs")
    parser.add_argument("--replay", metavar="SEED:CASE")
    parser.add_argument("--work", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work is not None:
        work(arguments.seed, arguments.work, arguments.out)
    if arguments.replay is not None:
        seed, number = map(int, arguments.replay.split(":"))
        with tempfile.TemporaryDirectory() as name:
            run_case(seed, number, quietly(Path(name)))
        return
    seed = secrets.randbelow(1 << 32) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", flush=True)
    sys.exit(fuzz(arguments.seconds, seed, arguments.out) > 0)


if __name__ == "__main__":
    main()
