"""Tag sequences with a chain model, trained with a Viterbi oracle and a certified gap.

A sequence x of n vectors has n tags. The model scores a tagging by

    sum_t <emission[y_t], x_t> + sum_t transition[y_t, y_{t + 1}],

and the oracle finds the best tagging by dynamic programming; for training it adds 1 for each wrong tag, the
Hamming cost. Neighbouring tags help if a vector alone is ambiguous:

    python examples/chain.py
"""

import numpy as np

import bmrm

TAGS = 4
SIZE = 3  # length of the vectors


def viterbi(scores: np.ndarray, transition: np.ndarray) -> np.ndarray:
    """Return the path with the largest sum of scores (n, K) and transitions (K, K)."""
    best, back = scores[0], []
    for row in scores[1:]:
        paths = best[:, None] + transition
        back.append(paths.argmax(axis=0))
        best = paths.max(axis=0) + row
    tags = [int(best.argmax())]
    for pointers in reversed(back):
        tags.append(int(pointers[tags[-1]]))
    return np.array(tags[::-1])


class Chain:
    """The oracle; the vector of weights has the emissions, then the transitions."""

    n_features = TAGS * SIZE + TAGS * TAGS

    def parts(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return w[: TAGS * SIZE].reshape(TAGS, SIZE), w[TAGS * SIZE :].reshape(TAGS, TAGS)

    def psi(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the joint features: sums of vectors per tag, and counts of pairs of tags."""
        emission, transition = np.zeros((TAGS, SIZE)), np.zeros((TAGS, TAGS))
        np.add.at(emission, y, x)
        np.add.at(transition, (y[:-1], y[1:]), 1.0)
        return np.concatenate([emission.ravel(), transition.ravel()])

    def most_violated(self, w: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
        emission, transition = self.parts(w)
        found = viterbi(x @ emission.T + (np.arange(TAGS) != y[:, None]), transition)
        return float((found != y).sum()), self.psi(x, found) - self.psi(x, y)

    def predict(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        emission, transition = self.parts(w)
        return viterbi(x @ emission.T, transition)


def draw(rng: np.random.Generator, sequences: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Draw tags that mostly follow a cycle, and noisy vectors for them."""
    centres = np.random.default_rng(5).normal(size=(TAGS, SIZE))
    inputs, outputs = [], []
    for _ in range(sequences):
        steps = np.where(rng.random(rng.integers(5, 10)) < 0.8, 1, rng.integers(0, TAGS))
        tags = np.cumsum(steps) % TAGS
        inputs.append(centres[tags] + rng.normal(size=(len(tags), SIZE)))
        outputs.append(tags)
    return inputs, outputs


def accuracy(predicted: list[np.ndarray], outputs: list[np.ndarray]) -> float:
    """Return the share of correct tags."""
    return float(np.mean(np.concatenate(predicted) == np.concatenate(outputs)))


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    X, Y = draw(rng, 60)
    X_test, Y_test = draw(rng, 60)
    chain = bmrm.solve(X, Y, bmrm.losses.Structured(Chain()), lam=1e-2, tol=1e-2)
    print(
        f"chain: {chain.status}, {chain.n_iter} passes, objective {chain.objective:.4f}, gap {chain.gap:.1e}"
    )
    single = bmrm.solve(np.vstack(X), np.concatenate(Y), "multiclass", lam=1e-2)
    alone = [single.predict(x) for x in X_test]
    as_chains, one_by_one = accuracy(chain.predict(X_test), Y_test), accuracy(alone, Y_test)
    print(f"correct tags in new sequences: {as_chains:.1%} as chains, {one_by_one:.1%} one by one")
    assert as_chains > one_by_one
