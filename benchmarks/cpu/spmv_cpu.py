"""Products with the resident matrix against the memory roof of the machine and against SciPy.

    python -m benchmarks.cpu.spmv_cpu [--shapes text,wide] [--threads 1,2] [--rounds 2] [--out FILE]

Every shape is generated (some with columns drawn by a Zipf law), and every product is timed in this process:
the best of several runs in each of several rounds, which alternate with the peer's. The peer is SciPy's
sparse product, which runs on one thread and sums in the type of the values, or for dense shapes BLAS on the
same number of threads. Two roofs are measured in the same process. One is the bandwidth of a plain read of
memory: GB/s counts the bytes of the stored format and of the two vectors, once each; "of roof" is its share
of that. The other is "gather alone": the sum of w[index] over the indices of the matrix in their stored
width, without values, rows or results. A product that sums in float64 does this and more. For X^T r the
indices are those of panels of 4096 rows.
"""

import argparse
import ctypes
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from benchmarks.common import report
from bmrm.matrix._cpu import Matrix, instruction_set

ROOFS_C = """
#include <stdint.h>
typedef double v8 __attribute__((vector_size(64), aligned(64)));
double read_all(const v8 *a, int64_t n, int threads) {
    double sum = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sum)
    {
        v8 s[4] = {{0}, {0}, {0}, {0}};
#pragma omp for schedule(static)
        for (int64_t i = 0; i < n; i += 4)
            for (int k = 0; k < 4; k++) s[k] += a[i + k];
        for (int k = 0; k < 4; k++)
            for (int j = 0; j < 8; j++) sum += s[k][j];
    }
    return sum;
}
void triad(double *a, const double *b, const double *c, int64_t n, int threads) {
#pragma omp parallel for simd num_threads(threads)
    for (int64_t i = 0; i < n; i++) a[i] = b[i] + 3.0 * c[i];
}
/* Eight loads merged in a register: faster than the gather instruction on Zen 5.  `early` entries ahead the
   indices are fetched, and 256 ahead their places where the vector is long (4 bytes). */
#define GATHER(type)                                                                            \\
    double gather_##type(const double *w, const type *j, int64_t n, int threads) {              \\
        double sum = 0;                                                                         \\
        _Pragma("omp parallel num_threads(threads) reduction(+ : sum)") {                       \\
            v8 s[2] = {{0}, {0}};                                                               \\
            _Pragma("omp for schedule(static)") for (int64_t k = 0; k < n; k += 16)             \\
                for (int u = 0; u < 2; u++) {                                                   \\
                    const type *i = j + k + 8 * u;                                              \\
                    __builtin_prefetch(i + 1024);                                               \\
                    if (sizeof(type) == 4)                                                      \\
                        for (int l = 0; l < 8; l++) __builtin_prefetch(w + i[l + 256]);         \\
                    s[u] += (v8){w[i[0]], w[i[1]], w[i[2]], w[i[3]],                            \\
                                 w[i[4]], w[i[5]], w[i[6]], w[i[7]]};                           \\
                }                                                                               \\
            for (int l = 0; l < 8; l++) sum += s[0][l] + s[1][l];                               \\
        }                                                                                       \\
        return sum;                                                                             \\
    }
GATHER(uint8_t) GATHER(uint16_t) GATHER(uint32_t)
"""


SECTIONS = """
## Products on the CPU

Memory bandwidth measured in the same run. GB/s count the bytes of the stored format.

[roof_gbs]
threads = {name} | read, GB/s = {read:.1f} | triad, GB/s = {triad:.1f}

A sparse product also has to gather: it loads w at every index. Gathering alone, the sum of w over the
indices of the matrix, without values, rows or results, took

[gather]
shape = {shape} | for = {product} | threads = {threads} | us = {us:.0f} | ns per nonzero = {ns_per_nnz:.3f}

The products themselves, compared with both roofs and a baseline: for a sparse product SciPy on one thread,
which sums in the type of the values; for a dense one OpenBLAS on the same number of threads. Runs of both
alternate. "Chosen" marks the default of the library.

[rows] where product in X w, X^T r
shape, values, product = {shape}, {values}, {product} | how = {how}{chosen:, chosen/} |
threads = {threads} | us = {us:.0f} | GB/s = {gbs:.1f} | of read roof = {of_roof:.0%} |
of gather alone = {of_gather:.0%} | times the baseline = {times_peer:.2f}
"""


def best_seconds(
    *runs: Callable[[], object] | None, budget: float = 0.25, at_least: int = 5
) -> list[float | None]:
    """Return the shortest of the runs of each that fit in `budget` seconds, in turns; None for None."""
    best = [None if run is None else float("inf") for run in runs]
    end, turns = time.perf_counter() + budget * sum(run is not None for run in runs), 0
    while turns < at_least or (time.perf_counter() < end and turns < 2000):
        turns += 1
        for k, run in enumerate(runs):
            if run is not None:
                start = time.perf_counter()
                run()
                best[k] = min(best[k], time.perf_counter() - start)
    return best


def roofs_library() -> ctypes.CDLL:
    """Compile and load the loops that everything is compared with."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "roofs.c"), Path(folder, "roofs.so")
        source.write_text(ROOFS_C)
        flags = ["-O3", "-march=native", "-fopenmp", "-shared", "-fPIC"]
        subprocess.run([os.environ.get("CC", "cc"), *flags, source, "-o", library], check=True)
        return ctypes.CDLL(str(library))


def gather_seconds(code: ctypes.CDLL, indices: np.ndarray, length: int, threads: int) -> float:
    """Return the time of gathering from a vector by these indices, and nothing else."""
    kind = f"uint{8 if length <= 1 << 8 else 16 if length <= 1 << 16 else 32}_t"
    run = getattr(code, f"gather_{kind}")
    run.restype = ctypes.c_double
    # The loop reads up to 272 indices beyond the end: they point at 0.
    padded = np.zeros(len(indices) + 512, kind[:-2])
    padded[: len(indices)] = indices
    w = aligned(length)
    j, x, n = padded.ctypes.data_as(ctypes.c_void_p), w.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64
    return best_seconds(lambda: run(x, j, n(len(indices)), threads))[0]


def stream(code: ctypes.CDLL, threads: list[int]) -> dict[str, dict[str, float]]:
    """Return read and triad bandwidth in GB/s by number of threads, for arrays of 512 MB."""
    code.read_all.restype = ctypes.c_double
    n = 1 << 26
    a, b, c = (aligned(n) for _ in range(3))
    pointer = [ctypes.c_void_p(x.ctypes.data) for x in (a, b, c)]
    result = {}
    for t in threads:
        read = best_seconds(lambda t=t: code.read_all(pointer[0], ctypes.c_int64(n // 8), t))[0]
        triad = best_seconds(lambda t=t: code.triad(*pointer, ctypes.c_int64(n), t))[0]
        result[str(t)] = {"read": 8 * n / read / 1e9, "triad": 24 * n / triad / 1e9}
    return result


def aligned(n: int) -> np.ndarray:
    """Return ones at an address divisible by 64."""
    raw = np.empty(n + 8)
    start = -raw.ctypes.data % 64 // 8
    raw[:] = 1
    return raw[start : start + n]


def sparse(m: int, d: int, per_row: float, *, zipf: bool, spread: float, seed: int = 0) -> sp.csr_matrix:
    """Return a random CSR matrix; row lengths are lognormal of `spread`, columns of a row distinct."""
    rng = np.random.default_rng(seed)
    lengths = per_row * np.exp(spread * rng.standard_normal(m) - spread**2 / 2)
    lengths = np.clip(np.rint(lengths), 1, d // 2).astype(np.int64)
    draws = rng.random(int(lengths.sum()))
    if zipf:
        law = np.cumsum(1 / (np.arange(d) + 10.0))
        columns = rng.permutation(d)[np.searchsorted(law / law[-1], draws).clip(0, d - 1)]
    else:
        columns = (draws * d).astype(np.int64)
    key = np.repeat(np.arange(m, dtype=np.int64), lengths) * d + columns
    key.sort()
    key = key[np.concatenate(([True], key[1:] != key[:-1]))]
    indptr = np.concatenate(([0], np.cumsum(np.bincount(key // d, minlength=m)))).astype(np.int64)
    values = rng.standard_normal(key.size)
    return sp.csr_matrix((values, (key % d).astype(np.int32), indptr), (m, d))


SHAPES: dict[str, Callable[[], sp.csr_matrix | np.ndarray]] = {
    "text": lambda: sparse(200_000, 47_236, 88, zipf=True, spread=0.7),
    "narrow": lambda: sparse(5_000_000, 127, 19, zipf=True, spread=0.0),
    "a9a-like": lambda: sparse(32_561, 123, 16, zipf=True, spread=0.0),
    "wide": lambda: sparse(16_000, 1_355_191, 560, zipf=True, spread=0.7),
    "long rows": lambda: sparse(20_000, 4_096, 1_500, zipf=False, spread=0.3),
    "dense": lambda: np.random.default_rng(0).standard_normal((200_000, 500)),
    "dense wide": lambda: np.random.default_rng(0).standard_normal((2_000, 50_000)),
}


def transpose_bytes(X: Matrix, value_bytes: int) -> int:
    """Return the bytes of X^T alone."""
    both = Matrix.predict_bytes(*X.shape, X.nnz, value_bytes, transpose=True)
    return both - Matrix.predict_bytes(*X.shape, X.nnz, value_bytes, transpose=False)


PANEL = 4096
"""Rows of a panel of X^T, whose indices count from its first row."""


def measure(name: str, source: sp.csr_matrix | np.ndarray, kind: str, threads: list[int]) -> list[dict]:
    """Measure all products of one matrix with values of one kind: "f32", "f64" or "ones"."""
    rng = np.random.default_rng(1)
    m, d = source.shape
    w, r, out_m, out_d = rng.standard_normal(d), rng.standard_normal(m), np.empty(m), np.empty(d)
    active = np.where(rng.random(m) < 0.3, r, 0.0)
    dtype = np.float32 if kind == "f32" else np.float64
    dense = isinstance(source, np.ndarray)
    if dense:
        plain = source.astype(dtype)
        values = None
    else:
        values = np.ones(source.nnz, dtype) if kind == "ones" else source.data.astype(dtype)
        plain = sp.csr_matrix((values, source.indices, source.indptr), source.shape)
    w_same, r_same, transposed = w.astype(dtype), r.astype(dtype), plain.T
    peers = {"X w": lambda: plain @ w_same, "X^T r": lambda: transposed @ r_same}
    value_bytes = {"f32": 4, "f64": 8, "ones": 0}[kind]
    rows = []

    def record(
        product: str, how: str, n: int, run: Callable[[], object], size: int, *, chosen: bool = False
    ) -> None:
        with threadpool_limits(n, "blas"):
            seconds, known = best_seconds(run, peers.get(product))
        rows.append(
            {
                "shape": name, "values": kind, "product": product, "how": how, "threads": n,
                "us": seconds * 1e6, "peer_us": known and known * 1e6, "bytes": size, "nnz": X.nnz,
                "chosen": chosen,
            }
        )  # fmt: skip

    indptr = None if dense else source.indptr.astype(np.int64)

    def resident(n: int, transpose: bool | None) -> Matrix:
        if dense:
            return Matrix.from_dense(plain, threads=n)
        data = None if kind == "ones" else values
        return Matrix(indptr, source.indices, data, source.shape, threads=n, transpose=transpose)

    for n in threads:
        X, own = resident(n, True), resident(n, None)
        own.rmatvec(r, out_d)
        vectors = 8 * (m + d)
        size = X.nbytes + vectors
        record("X w", "rows", n, lambda X=X: X.matvec(w, out_m), size, chosen=True)
        ways = [("rows", X)] if dense else [("gather", X)]
        if not dense:
            start = time.perf_counter()
            X.build_transpose()
            spent = time.perf_counter() - start
            build = {"product": "build X^T", "how": "", "us": spent * 1e6, "peer_us": None, "bytes": None}
            rows.append({**rows[-1], **build, "chosen": False})
            ways.append(("scatter", resident(n, False)))
        for how, Y in ways:
            moved = transpose_bytes(Y, value_bytes) + vectors if how == "gather" else size
            chosen = dense or own.has_transpose == (how == "gather")
            record("X^T r", how, n, lambda Y=Y: Y.rmatvec(r, out_d), moved, chosen=chosen)
            for P in (4, 16):
                starts = np.linspace(0, m, P + 1).astype(np.int64)
                out = np.empty((P, d))
                blocks = 8 * (P - 1) * d
                record(
                    f"X^T r, {P} blocks", how, n,
                    lambda Y=Y, s=starts, o=out: Y.rmatvec_blocks(r, s, o), moved + blocks, chosen=chosen,
                )  # fmt: skip
        by_rows = ways[-1][1]
        record("X^T r, 30 % of r", ways[-1][0], n, lambda Y=by_rows: Y.rmatvec(active, out_d), size)
        if n == threads[-1]:
            R, out = rng.standard_normal((m, 8)), np.empty((d, 8))
            moved = size if dense else transpose_bytes(X, value_bytes)
            record(
                "X^T R, 8 columns", ways[0][0], n,
                lambda X=X, R=R, out=out: X.rmatmat(R, out), moved + 8 * vectors,
            )  # fmt: skip
    return rows


def gather_alone(
    code: ctypes.CDLL, name: str, source: sp.csr_matrix | np.ndarray, threads: list[int]
) -> list[dict]:
    """Time "gather alone" for both products and each number of threads; nothing for a dense shape."""
    if isinstance(source, np.ndarray):
        return []
    m, d = source.shape
    row = np.repeat(np.arange(m, dtype=np.int64), np.diff(source.indptr))
    in_panels = row[np.lexsort((row, source.indices, row // PANEL))] % PANEL
    rows = []
    for n in threads:
        for product, indices, length in (("X w", source.indices, d), ("X^T r", in_panels, PANEL)):
            us = gather_seconds(code, indices, length, n) * 1e6
            rows.append({"shape": name, "product": product, "threads": n, "us": us, "nnz": source.nnz})
    return rows


def keep_best(best: list[dict], found: list[dict]) -> None:
    """Keep the shorter times of two rounds, row by row."""
    for kept, row in zip(best, found, strict=True):
        for key in ("us", "peer_us"):
            if row.get(key):
                kept[key] = min(kept[key], row[key])


def derive(rows: list[dict], alone: list[dict], roof: dict) -> None:
    """Add to each row what follows from its times and from the roofs."""
    for row in alone:
        row["ns_per_nnz"] = 1e3 * row["us"] / row["nnz"]
    gather = {(row["shape"], row["product"], row["threads"]): row["us"] for row in alone}
    for row in rows:
        bound = (
            None if row["how"] == "scatter" else gather.get((row["shape"], row["product"], row["threads"]))
        )
        row["ns_per_nnz"] = 1e3 * row["us"] / row["nnz"]
        row["gbs"] = row["bytes"] and row["bytes"] / row["us"] / 1e3
        row["of_roof"] = row["gbs"] and row["gbs"] / roof[str(row["threads"])]["read"]
        row["of_gather"] = bound and bound / row["us"]
        row["times_peer"] = row["peer_us"] and row["peer_us"] / row["us"]


def main() -> None:
    """Measure round after round; print the best and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--shapes", default=",".join(SHAPES), help="comma-separated, of: " + ", ".join(SHAPES)
    )
    parser.add_argument("--values", default="f32,f64,ones")
    parser.add_argument("--threads", default=f"1,{len(os.sched_getaffinity(0))}")
    parser.add_argument("--rounds", type=int, default=1, help="times to go through everything")
    parser.add_argument("--out", default=report.RESULTS / "spmv_cpu.json")
    options = parser.parse_args()
    threads = sorted({int(t) for t in options.threads.split(",")})
    code = roofs_library()
    sources = {name: SHAPES[name]() for name in options.shapes.split(",")}
    roof: dict[str, dict[str, float]] = {}
    rows: list[dict] = []
    alone: list[dict] = []
    for _ in range(options.rounds):
        for t, found in stream(code, threads).items():
            roof[t] = {key: max(value, roof.get(t, {}).get(key, 0.0)) for key, value in found.items()}
        gathers, products = [], []
        for name, source in sources.items():
            gathers += gather_alone(code, name, source, threads)
            for kind in options.values.split(","):
                if kind != "ones" or not isinstance(source, np.ndarray):
                    products += measure(name, source, kind, threads)
        keep_best(rows, products) if rows else rows.extend(products)
        keep_best(alone, gathers) if alone else alone.extend(gathers)
    derive(rows, alone, roof)
    for t in threads:
        print(f"{t} threads: read {roof[str(t)]['read']:.1f} GB/s, triad {roof[str(t)]['triad']:.1f} GB/s")
    for row in alone:
        where = f"{row['shape']:10} gather alone, {row['product']:5}"
        print(f"{where} {row['threads']} threads: {row['ns_per_nnz']:.3f} ns/nnz")
    print("shape      values product            how     threads         us   GB/s  roof ns/nnz gather x peer")
    for row in rows:
        print(table_line(row))
    report.write(
        options.out, SECTIONS, instruction_set=instruction_set(), roof_gbs=roof, gather=alone, rows=rows
    )


def table_line(row: dict) -> str:
    """Return one line for a row; a star marks the default of the library."""

    def cell(key: str, form: str) -> str:
        return format(row[key], form) if row[key] else " " * int(form.split(".")[0])

    name = f"{row['shape']:10} {row['values']:6} {row['product']:18} {row['how']:8} {row['threads']:6d}"
    numbers = (cell("gbs", "6.1f"), cell("of_roof", "5.0%"), cell("ns_per_nnz", "6.3f"))
    held = (cell("of_gather", "6.0%"), cell("times_peer", "7.2f"), "*" if row["chosen"] else "")
    return " ".join((name, f"{row['us']:10.1f}", *numbers, *held))


if __name__ == "__main__":
    main()
