"""Run what README shows, Python and commands, with the installed package, on small files made here."""

import contextlib
import io
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import scipy

import bmrm

README = Path(__file__).parents[1] / "README.md"


def write_files() -> None:
    """Write the files that README's commands name into the current folder."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4))
    classes = np.argmax(X[:, :3], axis=1)
    bmrm.dump_svmlight(X, np.where(classes == 0, 1, -1), "train.svm")
    bmrm.dump_svmlight(X[:20], np.where(classes[:20] == 0, 1, -1), "test.svm")
    names = np.array(["setosa", "versicolor", "virginica"])[classes]
    rows = [
        f"{i},{row[0]},{row[1]},{row[2]},{name}" for i, (row, name) in enumerate(zip(X, names, strict=True))
    ]
    Path("flowers.csv").write_text("\n".join(["id,sepal,petal,stem,species", *rows, ""]))
    Path("edges.txt").write_text("".join(f"{i} {(3 * i + 1) % 17}\n" for i in range(17)))
    np.save("rows.npy", X)
    np.save("points.npy", X)


def main() -> None:
    """Run the blocks and the commands; the first that fails ends the script."""
    assert Path(bmrm.__file__).is_relative_to(sysconfig.get_path("platlib")), bmrm.__file__
    text = README.read_text(encoding="utf-8")
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for block in re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            exec(block, names)
    write_files()
    commands = re.findall(r"^    (bmrm-.+)$", text, re.MULTILINE)
    assert {line.split()[0] for line in commands} >= {
        "bmrm-train",
        "bmrm-predict",
        "bmrm-graph",
        "bmrm-cluster",
        "bmrm-pairs",
    }
    for line in commands:
        subprocess.run(line.split(), check=True, stdout=subprocess.DEVNULL)
    versions = f"Python {sys.version.split()[0]}, NumPy {np.__version__}, SciPy {scipy.__version__}"
    print(f"check-wheel: {versions}: {len(commands)} commands of README ran")


if __name__ == "__main__":
    main()
