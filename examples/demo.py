"""Train, predict and check the certificate on two small data sets, by the installed commands.

The first set is the breast-cancer data that scikit-learn ships. ``benchmarks/common/textdata.py`` draws the
second at random, in the shape of text. Both go to the folder ``demo`` as SVMlight text, the form in which a
user's own data would come. Three quarters of the rows are for training.

The check reads the model's weights and the text again, by code that is not the program's. It evaluates the
objective from its definition: the value must be the one that the certificate states, and not below the bound.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from safetensors.numpy import load_file
from sklearn.datasets import dump_svmlight_file, load_breast_cancer, load_svmlight_file

FOLDER = Path("demo")
TEXT = Path(__file__).parents[1] / "benchmarks" / "common" / "textdata.py"
COMMANDS = Path(sys.executable).parent
LAM = 1e-4


def breast_cancer(path: Path) -> None:
    """Write 569 tumours of 30 measurements, each scaled to mean 0 and standard deviation 1."""
    X, y = load_breast_cancer(return_X_y=True)
    shuffled = np.random.default_rng(0).permutation(y.size)
    dump_svmlight_file(
        ((X - X.mean(axis=0)) / X.std(axis=0))[shuffled], y[shuffled], str(path), zero_based=False
    )


def text(path: Path) -> None:
    """Write 60 000 rows of about 50 out of 5 000 words, labelled by a noisy linear rule."""
    size = ["--rows", "60000", "--cols", "5000", "--nnz-per-row", "50"]
    subprocess.run([sys.executable, TEXT, path, *size], check=True)


def split(path: Path) -> tuple[Path, Path]:
    """Write the first three quarters of the rows to one file and the rest to another."""
    rows = path.read_bytes().splitlines(keepends=True)
    cut = 3 * len(rows) // 4
    train, test = path.with_suffix(".train"), path.with_suffix(".test")
    train.write_bytes(b"".join(rows[:cut]))
    test.write_bytes(b"".join(rows[cut:]))
    return train, test


def run(*arguments: object) -> str:
    """Run one of the package's commands and return its output."""
    command, *rest = map(str, arguments)
    print("$", command, *rest, flush=True)
    done = subprocess.run([COMMANDS / command, *rest], check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"demo: {command} ended with exit code {done.returncode}")
    return done.stdout


def objective(weights: dict[str, np.ndarray], X: sp.csr_matrix, y: np.ndarray, loss: str) -> float:
    """Return J(w) = lam/2 |w|^2 + the mean loss, from its definition."""
    margin = np.where(y > 0, 1, -1) * (X @ weights["w"] + weights["intercept"])
    losses = np.maximum(0.0, 1.0 - margin) if loss == "hinge" else np.logaddexp(0.0, -margin)
    return 0.5 * LAM * float(weights["w"] @ weights["w"]) + float(losses.mean())


def demonstrate(data: Path, loss: str, *options: str) -> None:
    """Train on three quarters of the rows, check the certificate, predict the rest."""
    train, test = split(data)
    model, out = data.with_suffix(".model"), data.with_suffix(".out")

    command = ["bmrm-train", "--loss", loss, "--lambda", LAM, *options, "--json", "-q", train, model]
    report = json.loads(run(*command))
    print(f"  {report['n_samples']} rows, {report['n_features']} features, {report['nnz']} nonzeros")
    print(f"  {report['status']} after {report['iterations']} iterations")
    print(f"  objective {report['objective']:.8f}, no model is below {report['lower_bound']:.8f}")

    weights = load_file(model)
    evaluated = objective(weights, *load_svmlight_file(str(train), n_features=weights["w"].size), loss)
    print(f"  objective from its definition {evaluated:.8f}")
    if abs(evaluated - report["objective"]) > 1e-6 * evaluated or evaluated < report["lower_bound"]:
        sys.exit(f"demo: the certificate of {model} does not hold")

    run("bmrm-predict", "-q", test, model, out)
    labels = load_svmlight_file(str(test), n_features=weights["w"].size)[1]
    print(f"  {np.mean(np.loadtxt(out) == labels):.1%} of the {labels.size} held-out rows are correct\n")


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for write, loss, options in ((breast_cancer, "logistic", ["--intercept"]), (text, "hinge", [])):
        data = FOLDER / f"{write.__name__}.svm"
        write(data)
        demonstrate(data, loss, *options)
    print("Both certificates hold.")


if __name__ == "__main__":
    main()
