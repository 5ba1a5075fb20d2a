"""Formulas of one row for learning: a gradient, a vote, a split, item sets, rows near means, Newton's method.

The programs are those of Ma and Agrawal (ICS 2009) and their kind. Each is a plain Python function of one
row, and each result is compared with NumPy's, and with the plain loop over some of the rows.
"""

# ruff: noqa: F821, F841 (names in annotations are sizes; results are not read)

from itertools import combinations

import numpy as np
import scipy.sparse

from bmrm.reductions import dot, exp, inf, local, log, reduction, squared_distance


@reduction
def logistic_gradient(x, y, weights: "d", loss: (), gradient: "d"):
    margin = y * dot(x, weights)
    e = exp(-abs(margin))
    loss += log(1 + e) + max(-margin, 0.0)
    slope = -y * (e if margin > 0 else 1.0) / (1 + e)
    for f, v in x.stored():  # what a sparse row stores
        gradient[f] += slope * v


@reduction
def nearest_vote(x, points: ("m", "d"), classes: "m", label: int):
    near, who = local(3), local(3)  # of this row alone: the three nearest points
    for i in range(3):
        near[i] = inf
    for j in range(len(points)):
        distance, at = squared_distance(x, points[j]), j
        for i in range(3):
            if distance < near[i]:
                distance, near[i] = near[i], distance
                at, who[i] = who[i], at
    votes = local("kinds")
    for i in range(3):
        votes[classes[who[i]]] += 1
    most = 0
    for c in range(len(votes)):
        if votes[c] > votes[most]:
            most = c
    label = most


@reduction
def split_statistic(x, w, label, thresholds: ("d", "t"), below: ("d", "t", "classes"), total: "classes"):
    total[label] += w
    for f in range(len(x)):
        for t in range(len(thresholds[f])):
            if x[f] <= thresholds[f, t]:
                below[f, t, label] += w


@reduction
def item_sets(x, sets: ("m", "s"), count: "m"):
    for c in range(len(sets)):
        inside = True
        for i in range(len(sets[c])):
            inside = inside and x[sets[c, i]] > 0
        count[c] += inside


@reduction
def nearest_rows(x, means: ("k", "d"), best: "k", who: "k", bits: ()):
    for j in range(len(means)):
        distance = squared_distance(x, means[j])
        if distance < best[j]:  # a minimum and the row it is of; of equal ones the first
            best[j], who[j] = distance, x.index
    for f in range(len(x)):
        bits |= (1 << f) if x[f] > 2 else 0  # features that are above 2 in some row


def rosenbrock(x, y):
    """Return Rosenbrock's function, a curved valley whose lowest point is (1, 1)."""
    return (1 - x) ** 2 + 100 * (y - x * x) ** 2


@reduction
def descents(x, limit: int, turns: int, reached, worst):
    """Newton's method from each row on its own: some need more turns than others."""
    a, b, n = x[0], x[1], 0
    while n < limit:
        slope, curve = 2 * (a - 1) - 400 * a * (b - a * a), 1200 * a * a - 400 * b + 2
        side, other = 200 * (b - a * a), -400 * a
        det = 200 * curve - other * other
        if abs(det) < 1e-9:  # no step from here
            break
        a, b = a - (200 * slope - other * side) / det, b - (curve * side - other * slope) / det
        n += 1
        if rosenbrock(a, b) < 1e-20:
            break
    turns = n
    reached += rosenbrock(a, b) < 1e-20
    worst = max(worst, rosenbrock(a, b))


def gradient_descent(rng: np.random.Generator) -> None:
    X = scipy.sparse.random_array((2000, 50), density=0.1, format="csr", rng=rng)
    y = np.where(X @ rng.standard_normal(50) > 0, 1, -1)
    weights, losses = np.zeros(50), []
    for _ in range(20):
        out = logistic_gradient(X, y=y, weights=weights)
        losses.append(out.loss)
        error = abs(out.gradient - X.T @ (-y / (1 + np.exp(y * (X @ weights))))).max()
        weights = weights - 0.02 * out.gradient
    print(f"logistic loss: {losses[0]:.2f} at 0, {losses[-1]:.2f} at last, gradient {error:.1e} from NumPy's")


def vote(rng: np.random.Generator) -> None:
    middles = 4 * rng.standard_normal((3, 4))
    classes, true = rng.integers(0, 3, 100), rng.integers(0, 3, 500)
    points, X = (middles[c] + rng.standard_normal((len(c), 4)) for c in (classes, true))
    found = nearest_vote(X, points=points, classes=classes, kinds=3).label
    distances = ((X[:, None] - points) ** 2).sum(axis=2)
    votes = classes[np.argsort(distances, axis=1, kind="stable")[:, :3]]
    by_numpy = [np.bincount(row, minlength=3).argmax() for row in votes]
    print(f"vote: {(found == true).mean():.1%} right, {(found != by_numpy).sum()} other than NumPy's")


def stump(rng: np.random.Generator) -> None:
    X, weights = rng.random((1000, 3)), rng.random(1000)
    label = (X[:, 1] > 0.35).astype(int) ^ (rng.random(1000) < 0.1)
    thresholds = np.tile(np.linspace(0.05, 0.95, 19), (3, 1))
    out = split_statistic(X, w=weights, label=label, thresholds=thresholds, classes=2)
    above = out.total - out.below
    impurity = sum(side.prod(axis=2) / np.maximum(side.sum(axis=2), 1e-300) for side in (out.below, above))
    f, t = np.unravel_index(impurity.argmin(), impurity.shape)
    print(f"stump: column {f}, threshold {thresholds[f, t]:.2f}")
    below = [weights[(X[:, 1] <= 0.35) & (label == c)].sum() for c in (0, 1)]
    print(f"stump: weights below it {abs(out.below[1, 6] - below).max():.1e} from NumPy's")


def apriori(rng: np.random.Generator) -> None:
    baskets = rng.random((5000, 12)) < 0.1
    baskets[:1500, [2, 5, 7]] = True
    least, level = 1000, np.arange(12)[:, None]
    while len(level):
        out = item_sets(baskets, sets=level)
        wrong = sum(out.count[c] != baskets[:, items].all(axis=1).sum() for c, items in enumerate(level))
        frequent = [tuple(items) for items in level[out.count >= least].tolist()]
        print(f"item sets of {level.shape[1]}: {len(level)} counted, {frequent}, {wrong} other than NumPy's")
        joined = {tuple(sorted({*a, *b})) for a, b in combinations(frequent, 2)}
        level = np.array(sorted(each for each in joined if len(each) == level.shape[1] + 1))


def medoids(rng: np.random.Generator) -> None:
    X = rng.standard_normal((1000, 4)) * [1, 1, 1, 0.1]
    means = X.reshape(4, 250, 4).mean(axis=1)
    out = nearest_rows(X, means=means)
    distances = ((X[:, None] - means) ** 2).sum(axis=2)
    print(
        f"medoids: {(out.who != distances.argmin(axis=0)).sum()} other than NumPy's, above 2: {out.bits:04b}"
    )
    slow = nearest_rows.python(X[:100], means=means)
    fast = nearest_rows(X[:100], means=means)
    print(f"medoids: {(slow.who != fast.who).sum()} other than the plain loop's")


def newton(rng: np.random.Generator) -> None:
    starts = rng.uniform(-2, 2, (5000, 2))
    out, plain = (run(starts[:500], limit=60) for run in (descents, descents.python))
    print(f"newton: {(out.turns != plain.turns).sum()} other than the plain loop's")
    out = descents(starts, limit=60)
    print(
        f"newton: {out.turns.min()} to {out.turns.max()} turns, {5000 - out.reached} of 5000 rows not there"
    )


def main() -> None:
    rng = np.random.default_rng(0)
    for program in (gradient_descent, vote, stump, apriori, medoids, newton):
        program(rng)


if __name__ == "__main__":
    main()
