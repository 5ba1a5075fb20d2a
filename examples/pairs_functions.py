"""Functions of two points at work: learning, joining and testing with all pairs of points.

A kernel matrix for a support vector machine, recommendations from items that are alike, a join of rows by key
and band, a test of two samples, regression by a kernel, a vote of neighbours, outliers, and the dimension of
an attractor. Each result is compared with what is known of the data.
"""

# ruff: noqa: F821 (names in annotations are sizes)

import numpy as np

from bmrm.pairs import dot, exp, nearest, sqrt, squared_distance, statistic

rng = np.random.default_rng(0)


@statistic
def laplace(x, y, gamma, K: float):
    K[x.index, y.index] = exp(-gamma * sqrt(squared_distance(x, y)))


def support_vectors():
    from sklearn.svm import SVC

    angle, label = rng.uniform(0, 2 * np.pi, 600), np.arange(600) % 2
    radius = 1 + label + 0.2 * rng.normal(size=600)
    x = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    train, test = x[:400], x[400:]
    machine = SVC(kernel="precomputed").fit(laplace(train, train, gamma=1.0).K, label[:400])
    right = machine.predict(laplace(test, train, gamma=1.0).K) == label[400:]
    print(f"support vectors: {100 * right.mean():.1f}% of the rings right")


@statistic
def alike(x, y, least, share: float):
    cosine = dot(x, y) / (x.length * y.length)
    if cosine >= least:
        share[x.index, y.index] = cosine


def recommender(users=400, items=90, kinds=6):
    taste, kind = rng.integers(0, kinds, users), np.arange(items) % kinds
    likes = rng.random((users, items)) < np.where(taste[:, None] == kind, 0.6, 0.05)
    hidden = rng.random(likes.shape) < 0.2
    known = (likes & ~hidden).astype(float)
    length = np.sqrt((known**2).sum(axis=0)) + 1e-9
    scores = known @ alike(known.T, least=0.1, length=length).share
    scores[~hidden] = -1
    best = scores.argsort(axis=1)[:, -3:]
    hits = np.take_along_axis(likes, best, axis=1).mean()
    print(f"recommender: {hits / likes[hidden].mean():.1f} times as many likes as by chance")


@statistic
def same_day(x, y, width, change: float):
    if x.day == y.day and abs(x.price - y.price) <= width:
        change[x.index, y.index] = y.price - x.price


def band_join():
    days = rng.integers(0, 50, 3000), rng.integers(0, 50, 2000)
    prices = rng.random(3000), rng.random(2000)
    rows = np.empty((3000, 0)), np.empty((2000, 0))  # nothing but numbers by name
    found = same_day(*rows, width=0.01, day=days, price=prices).change
    left, right = np.nonzero(days[0][:, None] == days[1])
    apart = prices[1][right] - prices[0][left]
    known = np.abs(apart) <= 0.01
    print(f"band join: {found.nnz - known.sum()} of {known.sum()} rows wrong")
    assert np.array_equal(found[left[known], right[known]], apart[known])


@statistic
def likeness(x, y, h, total):
    total += exp(-squared_distance(x, y) / (2 * h * h))


def mean_discrepancy(n=500, h=1.0):
    normal, other = rng.normal(size=(2, n, 2))
    laplacian = rng.laplace(scale=np.sqrt(0.5), size=(n, 2))  # of the same mean and variance

    def squared(x, y):
        own = likeness(x, h=h).total + likeness(y, h=h).total
        return 2 * own / (n * (n - 1)) - 2 * likeness(x, y, h=h).total / n**2

    same, different = squared(normal, other), squared(normal, laplacian)
    print(f"mean discrepancy: {same:.5f} of the same, {different:.5f} of others")


@statistic
def smooth(x, y, h, top: "rows", bottom: "rows"):
    near = exp(-squared_distance(x, y) / (2 * h * h))
    top[x.index] += near * y.value
    bottom[x.index] += near


def nadaraya_watson():
    x, at = rng.uniform(-3, 3, (2000, 1)), np.linspace(-2.5, 2.5, 50)[:, None]
    found = smooth(at, x, h=0.1, value=np.sin(x[:, 0]) + rng.normal(size=2000))
    error = np.sqrt(np.mean((found.top / found.bottom - np.sin(at[:, 0])) ** 2))
    print(f"Nadaraya-Watson: {error:.2f} from the sine, with noise of 1")


def vote(k=15):
    kind = rng.integers(0, 3, 1500)
    x = rng.normal(size=(1500, 5)) + 2.5 * np.eye(5)[kind]
    _, who = nearest(k, x[1000:], x[:1000])
    votes = (kind[who][:, :, None] == np.arange(3)).sum(axis=1)
    print(f"vote: {100 * (votes.argmax(axis=1) == kind[1000:]).mean():.1f}% of the kinds right")


def outliers(k=10):
    x = rng.normal(size=(1000, 3))
    x[:10] *= 8 / np.linalg.norm(x[:10], axis=1)[:, None]
    distances, _ = nearest(k, x)
    farthest = distances[:, -1].argsort()[-10:]
    print(f"outliers: {(farthest < 10).sum()} of 10 found")


@statistic
def correlation_sum(x, y, squares: "radii", count: "radii"):
    d = squared_distance(x, y)
    for r in range(len(squares)):
        if d <= squares[r]:
            count[r] += 1


def dimension(n=4000):
    x = np.zeros((n + 100, 2))
    for i in range(1, len(x)):  # Henon's map
        x[i] = 1 - 1.4 * x[i - 1, 0] ** 2 + x[i - 1, 1], 0.3 * x[i - 1, 0]
    radii = np.geomspace(0.01, 0.3, 10)
    count = correlation_sum(x[100:], squares=radii**2).count
    slope = np.polyfit(np.log(radii), np.log(count), 1)[0]
    print(f"correlation sum: dimension {slope:.2f}, known 1.2")


if __name__ == "__main__":
    support_vectors()
    recommender()
    band_join()
    mean_discrepancy()
    nadaraya_watson()
    vote()
    outliers()
    dimension()
