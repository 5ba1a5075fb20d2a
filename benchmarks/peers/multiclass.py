"""Multi-class training against LIBLINEAR's -s 4 (Crammer and Singer) at equal objective.

    python -m benchmarks.peers.multiclass [--out FILE]

Two generated sets of 20 000 rows and 20 classes: `letter`, dense, 16 features, each class a mixture of three
Gaussians, of the size of the UCI letter data; and `text`, sparse, with the same number of features as rows
and Zipf's frequencies, some of them raised in each class, so that the classes are separable and the dual is
the easier problem. No bias, C = 1, lam = 1 / (C m).

Two of 2000 rows and 62 000 words, with 5, 20 and 100 classes, at lam = 1e-4: `topics`, rows as
`benchmarks.common.textdata` draws them, of length 1, and the class of the largest of K planted margins; and
`counts`, rows of numbers of words as they are, of very unlike lengths, a tenth of them words of the class,
and a third of the classes drawn anew.

LIBLINEAR 2.50 (package liblinear-official) is called in C with its data in place. On the large sets, for each
of its tolerances: its seconds and objective, and ours until the best objective is as low, including making X
resident. On the wide sets: our seconds to a certified relative gap of 1e-3 with all defaults, and those of
LIBLINEAR at the loosest of its tolerances, from 1e-2 on, that reaches our objective. One function of NumPy
evaluates all objectives. Seconds are of the processor; each side has one thread. On the wide sets the two
take turns.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import scipy.sparse as sp

import bmrm
from benchmarks.common import report
from benchmarks.common.textdata import text_matrix

ROWS, CLASSES = 20_000, 20
LAM = 1.0 / ROWS
EPSILONS = {"letter": (1.0, 1e-1, 1e-2), "text": (1.0, 1e-1)}

WIDE, WIDE_CLASSES, WIDE_LAM, GAP = (2000, 62_000), (5, 20, 100), 1e-4, 1e-3
WIDE_EPSILONS = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4)


SECTIONS = """
## Several classes

Training alone on 20 000 rows of 20 classes: LIBLINEAR 2.50's `-s 4` (Crammer and Singer) at some of its
tolerances, and `multiclass` until its objective is as low. One function of NumPy and SciPy evaluates
both objectives; each has one thread. `letter` is dense with 16 features. `text` is sparse, with the
same number of features as rows and separable classes; there both use dual coordinate ascent.

[against]
set = {set}, -e {epsilon:g} | J LIBLINEAR = {liblinear_objective:.7f} | J bmrm = {bmrm_objective:.7f} |
bmrm s = {bmrm_seconds:.2f} | LIBLINEAR s = {liblinear_seconds:.2f} | times faster = {times_faster:.1f}

To a certified relative gap of 1e-3:

[certified]
set, loss = {set}, `{loss}` | seconds = {seconds:.2f} | passes = {passes}

To a certified relative gap of 1e-3 on 2000 rows and 62 000 words, with all defaults at lam
{wide_lam:g}, and LIBLINEAR at the loosest of its tolerances that reaches the same objective. `topics`
has rows of length 1 and planted classes; `counts` has raw word counts, and a third of its labels are
noise. Seconds are processor time.

[wide]
set = {set}, {classes} classes | J bmrm = {bmrm_objective:.7f} | J LIBLINEAR = {liblinear_objective:.7f} |
-e = {epsilon:g} | bmrm s = {bmrm_seconds:.2f} | LIBLINEAR s = {liblinear_seconds:.2f} | ratio = {ratio:.2f}
"""


def letter(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows of mixtures of three Gaussians per class."""
    y = rng.integers(0, CLASSES, ROWS)
    centres = 1.3 * rng.normal(size=(CLASSES, 3, 16))
    return centres[y, rng.integers(0, 3, ROWS)] + rng.normal(size=(ROWS, 16)), y


def text(rng: np.random.Generator) -> tuple[sp.csr_matrix, np.ndarray]:
    """Draw rows of 60 words by Zipf's law, a third of them from the words of the class; each of length 1."""
    words, per_row = 20_000, 60
    y = rng.integers(0, CLASSES, ROWS)
    shares = 1.0 / np.arange(1, words + 1)
    common = rng.choice(words, size=(ROWS, per_row), p=shares / shares.sum())
    topics = rng.permuted(np.tile(np.arange(words), (CLASSES, 1)), axis=1)[:, :500]
    own = topics[y[:, None], rng.integers(0, 500, size=(ROWS, per_row))]
    found = np.where(rng.random((ROWS, per_row)) < 1 / 3, own, common)
    X = sp.csr_matrix(
        (np.ones(found.size), found.ravel(), np.arange(0, found.size + 1, per_row)), (ROWS, words)
    )
    X.sum_duplicates()
    X.data = 1.0 + np.log(X.data)
    return sp.csr_matrix(sp.diags(1.0 / np.sqrt(X.multiply(X).sum(axis=1).A1)) @ X), y


def topics(rng: np.random.Generator, classes: int) -> tuple[sp.csr_matrix, np.ndarray]:
    """Draw rows of text, each of length 1, and their classes from planted weights."""
    X, _ = text_matrix(*WIDE)
    X = sp.csr_matrix((X.data, X.indices, X.indptr), X.shape)
    U = X @ rng.standard_normal((WIDE[1], classes))
    return X, (U + 0.5 * U.std() * rng.standard_normal(U.shape)).argmax(axis=1)


def counts(rng: np.random.Generator, classes: int) -> tuple[sp.csr_matrix, np.ndarray]:
    """Draw numbers of words by Zipf's law, a tenth of them from the words of the class, and noisy classes."""
    (rows, words), own = WIDE, 2000
    y = rng.integers(0, classes, rows)
    row = np.repeat(np.arange(rows), np.maximum(5, rng.lognormal(np.log(300.0), 1.0, rows)).astype(int))
    vocabularies = np.stack([rng.permutation(words)[:own] for _ in range(classes)])
    word = np.where(
        rng.random(len(row)) < 0.1,
        vocabularies[y[row], by_zipf(rng, own, len(row))],
        by_zipf(rng, words, len(row)),
    )
    X = sp.csr_matrix((np.ones(len(row)), (row, word)), WIDE)
    return X, np.where(rng.random(rows) < 0.3, rng.integers(0, classes, rows), y)


def by_zipf(rng: np.random.Generator, words: int, count: int) -> np.ndarray:
    """Draw words by Zipf's law."""
    shares = 1.0 / np.arange(1, words + 1)
    return np.searchsorted(np.cumsum(shares / shares.sum())[:-1], rng.random(count))


def objective(X: np.ndarray | sp.csr_matrix, y: np.ndarray, W: np.ndarray, lam: float) -> float:
    """Return J(W), by NumPy and SciPy in float64 alone."""
    U, rows = X @ W, np.arange(len(y))
    own = U[rows, y].copy()
    U += 1.0
    U[rows, y] = own
    return float(0.5 * lam * (W**2).sum() + (U.max(axis=1) - own).mean())


def liblinear_train(problem: object, epsilon: float, d: int, cost: float) -> tuple[float, np.ndarray]:
    """Time one call of `train` in C; also return the weights, one column per class."""
    from liblinear import liblinear

    parameter = liblinear.parameter(f"-s 4 -c {cost!r} -e {epsilon} -q")
    liblinear.liblinear.set_print_string_function(parameter.print_func)
    start = time.process_time()
    model = liblinear.liblinear.train(problem, parameter)
    spent = time.process_time() - start
    classes = model.contents.nr_class
    order = np.argsort(model.contents.label[:classes])
    return spent, np.array(model.contents.w[: d * classes]).reshape(d, classes)[:, order]


def reach(X: np.ndarray | sp.csr_matrix, y: np.ndarray, target: float) -> tuple[float, bmrm.Result]:
    """Return the seconds until the best objective is at most `target`, from X in host memory."""
    start = time.process_time()
    data = bmrm.Dataset(X, y, threads=1)
    result = bmrm.solve(
        data, loss="multiclass", lam=LAM, tol=1e-12, callback=lambda state: state.objective <= target
    )
    return time.process_time() - start, result


def certify(X: np.ndarray | sp.csr_matrix, y: np.ndarray, loss: str, lam: float) -> tuple[float, bmrm.Result]:
    """Return the seconds until the gap is certified, from X in host memory."""
    start = time.process_time()
    result = bmrm.solve(X, y, loss, lam=lam, tol=GAP, threads=1)
    return time.process_time() - start, result


def middle(runs: list) -> tuple:
    """Return the run with the median time."""
    return sorted(runs, key=lambda found: found[0])[len(runs) // 2]


def median(run, repeats: int):
    """Return that of several runs."""
    return middle([run() for _ in range(repeats)])


def compare(name: str, X: np.ndarray | sp.csr_matrix, y: np.ndarray, repeats: int) -> list[dict]:
    """Measure both sides at each of LIBLINEAR's tolerances."""
    from liblinear import liblinear

    problem = liblinear.problem(y, sp.csr_matrix(X))
    optimum = bmrm.solve(X, y, "multiclass", lam=LAM, tol=1e-4, threads=1, max_time=10.0).lower_bound
    rows = []
    for epsilon in EPSILONS[name]:

        def train(epsilon: float = epsilon) -> tuple[float, np.ndarray]:
            return liblinear_train(problem, epsilon, X.shape[1], 1.0)

        theirs, W = median(train, repeats)
        target = objective(X, y, W, LAM)
        ours, result = median(lambda target=target: reach(X, y, target), repeats)
        row = {
            "set": name,
            "epsilon": epsilon,
            "liblinear_objective": target,
            "bmrm_objective": objective(X, y, result.w, LAM),
            "gap": target - optimum,
            "liblinear_seconds": theirs,
            "bmrm_seconds": ours,
            "bmrm_passes": result.n_iter,
            "times_faster": theirs / ours,
        }
        rows.append(row)
        print(
            f"{name:7} -e {epsilon:<6g} LIBLINEAR {theirs:7.3f} s, J {target:.7f}   "
            f"bmrm {ours:7.3f} s, J {row['bmrm_objective']:.7f}, {result.n_iter} passes   "
            f"{row['times_faster']:.1f} times faster",
            flush=True,
        )
    return rows


def wide(name: str, X: sp.csr_matrix, y: np.ndarray, repeats: int) -> dict:
    """Measure both sides to the same objective, which ours certifies."""
    from liblinear import liblinear

    problem, (m, d) = liblinear.problem(y.astype(float), X), X.shape

    def ours() -> tuple[float, bmrm.Result]:
        return certify(X, y, "multiclass", WIDE_LAM)

    def theirs(epsilon: float) -> tuple[float, np.ndarray]:
        return liblinear_train(problem, epsilon, d, 1.0 / (WIDE_LAM * m))

    own = [ours()]
    target = objective(X, y, own[0][1].w, WIDE_LAM)
    for epsilon in WIDE_EPSILONS:
        others = [theirs(epsilon)]
        reached = objective(X, y, others[0][1], WIDE_LAM)
        if reached <= target:
            break
    for _ in range(repeats - 1):
        own.append(ours())
        others.append(theirs(epsilon))
    seconds, result = middle(own)
    liblinear_seconds, _ = middle(others)
    row = {
        "set": name,
        "classes": int(y.max()) + 1,
        "values": X.nnz,
        "bmrm_seconds": seconds,
        "bmrm_objective": target,
        "bmrm_status": result.status,
        "bmrm_gap": result.gap,
        "liblinear_seconds": liblinear_seconds,
        "liblinear_objective": reached,
        "epsilon": epsilon,
        "ratio": seconds / liblinear_seconds,
    }
    print(
        f"{name:7} {row['classes']:3} classes   bmrm {seconds:7.3f} s, J {target:.7f}, {result.status}   "
        f"LIBLINEAR -e {epsilon:g} {liblinear_seconds:7.3f} s, J {reached:.7f}   ratio {row['ratio']:.2f}",
        flush=True,
    )
    return row


def certified(name: str, X: np.ndarray | sp.csr_matrix, y: np.ndarray, repeats: int) -> list[dict]:
    """Train our own losses to a certified gap."""
    rows = []
    for loss in ("multiclass", "softmax"):
        seconds, result = median(lambda loss=loss: certify(X, y, loss, LAM), repeats)
        rows.append(
            {
                "set": name,
                "loss": loss,
                "seconds": seconds,
                "passes": result.n_iter,
                "objective": result.objective,
                "gap": result.gap,
                "parts": result.timings,
            }
        )
        print(f"{name:7} {loss:10} to a gap of {result.gap:.1e}: {seconds:.3f} s, {result.n_iter} passes")
    return rows


def main() -> None:
    """Run the comparisons and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", default=report.RESULTS / "multiclass.json")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    sets = {"letter": letter(rng), "text": text(rng)}
    against = [row for name, (X, y) in sets.items() for row in compare(name, X, y, options.repeats)]
    alone = certified("letter", *sets["letter"], options.repeats)
    widely = [
        wide(draw.__name__, *draw(np.random.default_rng(1), classes), options.repeats)
        for draw in (topics, counts)
        for classes in WIDE_CLASSES
    ]
    report.write(
        options.out, SECTIONS, lam=LAM, against=against, certified=alone, wide_lam=WIDE_LAM, wide=widely
    )


if __name__ == "__main__":
    main()
