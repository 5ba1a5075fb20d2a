"""Products with the resident matrix against the memory roof of the machine and against scipy.

    python benchmarks/spmv_cpu.py [--shapes text,wide] [--threads 1,2] [--out FILE]

Every shape is generated (columns drawn by a Zipf law where said), every product timed in this process, the
best of several runs, beside the bandwidth of a plain read of memory measured in the same process. GB/s
counts the bytes of the stored format, the two vectors once each; "of roof" is its share of the read
bandwidth with as many threads.
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
import report
import scipy.sparse as sp

from bmrm._cpu import Matrix, instruction_set

STREAM_C = """
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
"""


def best_seconds(run: Callable[[], object], budget: float = 0.4, at_least: int = 5) -> float:
    """Shortest of the runs that fit in `budget` seconds."""
    times: list[float] = []
    end = time.perf_counter() + budget
    while len(times) < at_least or (time.perf_counter() < end and len(times) < 2000):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def stream(threads: list[int]) -> dict[str, dict[str, float]]:
    """Read and triad bandwidth in GB/s by number of threads, arrays of 512 MB."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "stream.c"), Path(folder, "stream.so")
        source.write_text(STREAM_C)
        flags = ["-O3", "-march=native", "-fopenmp", "-shared", "-fPIC"]
        subprocess.run([os.environ.get("CC", "cc"), *flags, source, "-o", library], check=True)
        code = ctypes.CDLL(str(library))
    code.read_all.restype = ctypes.c_double
    n = 1 << 26
    a, b, c = (aligned(n) for _ in range(3))
    pointer = [ctypes.c_void_p(x.ctypes.data) for x in (a, b, c)]
    result = {}
    for t in threads:
        read = best_seconds(lambda t=t: code.read_all(pointer[0], ctypes.c_int64(n // 8), t))
        triad = best_seconds(lambda t=t: code.triad(*pointer, ctypes.c_int64(n), t))
        result[str(t)] = {"read": 8 * n / read / 1e9, "triad": 24 * n / triad / 1e9}
    return result


def aligned(n: int) -> np.ndarray:
    """Ones, at an address divisible by 64."""
    raw = np.empty(n + 8)
    start = -raw.ctypes.data % 64 // 8
    raw[:] = 1
    return raw[start : start + n]


def sparse(m: int, d: int, per_row: float, *, zipf: bool, spread: float, seed: int = 0) -> sp.csr_matrix:
    """Random CSR; row lengths are lognormal of `spread`, columns of a row distinct."""
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
    """Bytes of X^T alone."""
    both = Matrix.predict_bytes(*X.shape, X.nnz, value_bytes, transpose=True)
    return both - Matrix.predict_bytes(*X.shape, X.nnz, value_bytes, transpose=False)


def measure(
    name: str, source: sp.csr_matrix | np.ndarray, kind: str, threads: list[int], roof: dict
) -> list[dict]:
    """All products of one matrix with values of one kind: "f32", "f64" or "ones"."""
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
    w_same, r_same = w.astype(dtype), r.astype(dtype)
    reference = {
        "X w": best_seconds(lambda: plain @ w_same, at_least=3),
        "X^T r": best_seconds(lambda: plain.T @ r_same, at_least=3),
    }
    value_bytes = {"f32": 4, "f64": 8, "ones": 0}[kind]
    rows = []

    def record(product: str, how: str, n: int, seconds: float, size: int) -> None:
        known = reference.get(product)
        rate = size / seconds / 1e9
        rows.append(
            {
                "shape": name, "values": kind, "product": product, "how": how, "threads": n,
                "us": seconds * 1e6, "gbs": rate, "of_roof": rate / roof[str(n)]["read"],
                "ns_per_nnz": seconds * 1e9 / X.nnz, "scipy_us": known and known * 1e6,
                "faster_than_scipy": known and known / seconds,
            }
        )  # fmt: skip

    indptr = None if dense else source.indptr.astype(np.int64)
    for n in threads:
        if dense:
            X = Matrix.from_dense(plain, threads=n)
        else:
            data = None if kind == "ones" else values
            X = Matrix(indptr, source.indices, data, source.shape, threads=n, transpose=True)
        vectors = 8 * (m + d)
        size = X.nbytes + vectors
        record("X w", "rows", n, best_seconds(lambda X=X: X.matvec(w, out_m)), size)
        ways = [("rows", X)] if dense else [("gather", X)]
        if not dense:
            start = time.perf_counter()
            X.build_transpose()
            record("build X^T", "", n, time.perf_counter() - start, transpose_bytes(X, value_bytes))
            ways.append(
                ("scatter", Matrix(indptr, source.indices, data, source.shape, threads=n, transpose=False))
            )
        for how, Y in ways:
            moved = transpose_bytes(Y, value_bytes) + vectors if how == "gather" else size
            record("X^T r", how, n, best_seconds(lambda Y=Y: Y.rmatvec(r, out_d)), moved)
            for P in (4, 16):
                starts = np.linspace(0, m, P + 1).astype(np.int64)
                out = np.empty((P, d))
                seconds = best_seconds(lambda Y=Y, s=starts, o=out: Y.rmatvec_blocks(r, s, o))
                record(f"X^T r, {P} blocks", how, n, seconds, moved + 8 * (P - 1) * d)
        by_rows = ways[-1][1]
        seconds = best_seconds(lambda Y=by_rows: Y.rmatvec(active, out_d))
        record("X^T r, 30 % of r", ways[-1][0], n, seconds, size)
        if n == threads[-1]:
            R, out = rng.standard_normal((m, 8)), np.empty((d, 8))
            seconds = best_seconds(lambda X=X, R=R, out=out: X.rmatmat(R, out))
            moved = size if dense else transpose_bytes(X, value_bytes)
            record("X^T R, 8 columns", ways[0][0], n, seconds, moved + 8 * vectors)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--shapes", default=",".join(SHAPES), help="comma-separated, of: " + ", ".join(SHAPES)
    )
    parser.add_argument("--values", default="f32,f64,ones")
    parser.add_argument("--threads", default=f"1,{len(os.sched_getaffinity(0))}")
    parser.add_argument("--out", default=str(Path(__file__).parent / "results" / "spmv_cpu.json"))
    options = parser.parse_args()
    threads = sorted({int(t) for t in options.threads.split(",")})
    roof = stream(threads)
    for t in threads:
        print(f"{t} threads: read {roof[str(t)]['read']:.1f} GB/s, triad {roof[str(t)]['triad']:.1f} GB/s")
    rows: list[dict] = []
    print("shape      values product            how     threads         us   GB/s  roof ns/nnz x scipy")
    for name in options.shapes.split(","):
        source = SHAPES[name]()
        for kind in options.values.split(","):
            if kind == "ones" and isinstance(source, np.ndarray):
                continue
            for row in measure(name, source, kind, threads, roof):
                rows.append(row)
                print(table_line(row), flush=True)
    report.write(options.out, instruction_set=instruction_set(), roof_gbs=roof, rows=rows)


def table_line(row: dict) -> str:
    known = f"{row['faster_than_scipy']:7.1f}" if row["faster_than_scipy"] else ""
    name = f"{row['shape']:10} {row['values']:6} {row['product']:18} {row['how']:8} {row['threads']:6d}"
    return (
        f"{name} {row['us']:10.1f} {row['gbs']:6.1f} {row['of_roof']:5.0%} {row['ns_per_nnz']:6.3f} {known}"
    )


if __name__ == "__main__":
    main()
