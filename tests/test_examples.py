"""Every program in examples/ runs in an empty folder and says what it should."""

import importlib.util
import io
import os
import re
import runpy
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import mpi
import pytest

import bmrm

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(name, folder):
    """Output of an example, run in this process, which has imported much; warnings are errors."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(folder)
        patch.setattr(sys, "argv", [str(EXAMPLES / name)])
        patch.syspath_prepend(EXAMPLES)
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
    assert err.getvalue() == ""
    return out.getvalue()


def run_apart(name, folder):
    """Output of an example in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(bmrm.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def run_on_ranks(name, folder, *options, ranks=2):
    """Output of an example on several ranks of MPI, with options of PETSc."""
    if not os.environ.get("BMRM_REQUIRE_PETSC"):
        pytest.importorskip("petsc4py", reason="petsc4py is not installed; `make test` installs it")
    done = mpi.run(ranks, EXAMPLES / name, *options, own_job=True, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def number(pattern, text):
    """The number that a pattern's group matches, once."""
    (found,) = re.findall(pattern, text)
    return float(found)


def test_train_and_certify_agrees_with_numpy(tmp_path):
    out = run_apart("train_and_certify.py", tmp_path)
    objective, bound = number(r"objective +(\S+)", out), number(r"lower bound +(\S+)", out)
    assert out.startswith("converged after")
    assert bound <= number(r"and (\S+) after 2000 steps", out) <= objective <= bound * (1 + 1.1e-6)
    assert number(r"NumPy's J +([\d.]+)", out) == objective
    assert "The certificate holds" in out


def test_row_formulas_agree_with_numpy(tmp_path):
    out = run("row_formulas.py", tmp_path)
    assert "inertia  result, sum" in out
    assert number(r"steps, (\S+)% of the labels", out) > 99.5
    assert (number(r"(\d+) falls", out), number(r"falls, (\S+) from", out) < 1e-7) == (0, True)
    assert number(r"histogram: (\d+) of 12000", out) < 12
    assert number(r"at most (\S+) from", out) < 1e-12


def test_learning_formulas_agree_with_numpy(tmp_path):
    out = run("learning_formulas.py", tmp_path)
    first, last = number(r"(\S+) at 0", out), number(r"(\S+) at last", out)
    assert last < 0.8 * first
    assert number(r"gradient (\S+) from", out) < 1e-12
    assert number(r"vote: (\S+)% right", out) > 90
    assert "stump: column 1, threshold 0.35" in out
    assert number(r"below it (\S+) from", out) < 1e-10
    assert "item sets of 3: 1 counted, [(2, 5, 7)]" in out
    assert "above 2: 0111" in out
    assert re.findall(r"(\d+) other than", out) == ["0"] * 7
    assert "0 of 5000 rows not there" in out


def test_train_and_certify_needs_no_scikit_learn(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    spec = importlib.util.spec_from_file_location("train_and_certify", EXAMPLES / "train_and_certify.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.main()
    assert "over 500 rows" in capsys.readouterr().out


def test_a_loss_on_arrays_of_a_library_agrees_with_the_built_in_one(tmp_path):
    out = run("gpu_loss.py", tmp_path)
    assert out.count("converged") == 2
    mine, known = (float(found) for found in re.findall(r"J (\S+),", out))
    assert mine == pytest.approx(known, rel=2e-4)


def test_own_loss_agrees_with_scipy_and_the_built_in_loss(tmp_path):
    out = run("own_loss.py", tmp_path)
    assert number(r"log-cosh: converged, objective (\S+),", out) == pytest.approx(
        number(r"SciPy's minimum +(\S+),", out), rel=1e-8
    )
    assert number(r"own (\S+),", out) == pytest.approx(number(r"built in (\S+)", out), rel=1e-6)


def test_chain_tags_better_than_single_labels(tmp_path):
    out = run("chain.py", tmp_path)
    assert "chain: converged" in out
    assert number(r"([\d.]+)% as chains", out) > number(r"([\d.]+)% one by one", out) + 5


def test_ranking_agrees_with_pairs_listed_one_by_one(tmp_path):
    out = run("ranking.py", tmp_path)
    wrong = {line.split()[0]: float(line.split()[-1][:-1]) for line in out.splitlines() if line.endswith("%")}
    assert list(wrong) == ["squared", "pairwise", "ndcg", "lambda_ndcg", "mrr"]
    assert max(wrong, key=wrong.get) == "squared"
    assert "of all pairs, one by one" in out


def test_an_operator_solves_as_scipys(tmp_path):
    out = run("operator_lsqr.py", tmp_path)
    found = dict(re.findall(r"(\w+): \d+ iterations in .*, residual (\S+),", out))
    assert float(found["operator"]) == pytest.approx(float(found["SciPy"]), abs=2e-6)
    assert [float(away) < 0.01 for away in re.findall(r"(\S+) from w", out)] == [True, True]
    assert "40000 x 2000, 400000 " in out


def test_lam_path_draws_its_picture(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed; the extra `plot` installs it")
    out = run("lam_path.py", tmp_path)
    assert re.findall(r"lam (\S+): converged", out) == ["0.01", "0.001", "0.0001", "1e-05"]
    picture = (tmp_path / "lam_path.png").read_bytes()
    assert picture.startswith(b"\x89PNG\r\n")
    assert len(picture) > 10_000


def test_select_lam_certifies_all_folds_and_draws(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed; the extra `plot` installs it")
    out = run("select_lam.py", tmp_path)
    assert len(re.findall(r"  converged", out)) == 10
    assert number(r"(\d+) passes for 50 solves", out) < 15 * 50
    assert (
        number(r"log loss on new rows (\S+);", out) < number(r"of the true probabilities (\S+)", out) + 0.03
    )
    assert abs(number(r"accuracy (\S+) held out", out) - number(r"held out, (\S+) on new rows", out)) < 0.02
    assert (tmp_path / "select_lam.png").read_bytes().startswith(b"\x89PNG\r\n")


def test_city_map_is_near_the_true_one(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed; the extra `plot` installs it")
    out = run("city_map.py", tmp_path)
    assert number(r"from distances: normalized stress (\S+)", out) < 0.002
    assert number(r"from distances: .* (\d+) km from", out) < 10
    assert number(r"from their order: .* (\d+) km from", out) < 50
    assert out.count("minimum") == 2
    assert (tmp_path / "city_map.png").read_bytes().startswith(b"\x89PNG\r\n")


def test_a_mixture_finds_what_k_means_cuts(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed; the extra `plot` installs it")
    out = run("clusters.py", tmp_path)
    assert number(r"k-means: .* (\S+)% of the points", out) < 90
    assert number(r"mixture: .* (\S+)% of the points", out) > 95
    assert 1.0 <= number(r"at most (\S+) times the optimum", out) < 10
    assert (tmp_path / "clusters.png").read_bytes().startswith(b"\x89PNG\r\n")


def test_scree_finds_the_number_of_components(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed; the extra `plot` installs it")
    out = run("scree.py", tmp_path)
    assert number(r"all eigenvalues: .* (\S+) of the value", out) < 1e-8
    assert number(r"likeliest with (\d+) components", out) == 6
    assert (tmp_path / "scree.png").read_bytes().startswith(b"\x89PNG\r\n")


def test_pairs_of_points_in_clouds_are_near(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed; the extra `plot` installs it")
    out = run("pair_distances.py", tmp_path)
    assert number(r"excess (\S+) at 0.2", out) > 20
    assert number(r"(\S+) at 30", out) < 0.1
    assert number(r"at random beyond 3: (\S+)", out) < 0.05
    assert (tmp_path / "pair_distances.png").read_bytes().startswith(b"\x89PNG\r\n")


def test_functions_of_two_points_find_what_is_known(tmp_path):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed; the extra `sklearn` installs it")
    out = run("pairs_functions.py", tmp_path)
    assert number(r"support vectors: (\S+)%", out) > 95
    assert number(r"recommender: (\S+) times", out) > 2.5
    assert re.findall(r"band join: (\d+) of 2\d+ rows wrong", out) == ["0"]
    assert abs(number(r"(\S+) of the same", out)) < 0.3 * number(r"(\S+) of others", out)
    assert number(r"Nadaraya-Watson: (\S+) from", out) < 0.15
    assert number(r"vote: (\S+)% of the kinds", out) > 90
    assert number(r"outliers: (\d+) of 10", out) == 10
    assert abs(number(r"dimension (\S+), known", out) - 1.2) < 0.05


def test_demo_checks_both_of_its_certificates(tmp_path):
    """It runs the installed commands, so it needs them next to this Python."""
    pytest.importorskip("sklearn", reason="scikit-learn is not installed; the extra `sklearn` installs it")
    commands = [Path(sys.executable).parent / name for name in ("bmrm-train", "bmrm-predict")]
    if not all(command.exists() for command in commands):
        pytest.skip("the commands are not installed next to this Python; `make test` installs them")
    assert run_apart("demo.py", tmp_path).endswith("Both certificates hold.\n")


def test_petscs_krylov_methods_agree_with_bmrm(tmp_path):
    out = run_on_ranks("petsc_ridge.py", tmp_path)
    assert number(r"LSQR against bmrm: (\S+)", out) < 1e-4
    assert number(r"CG against bmrm: (\S+)", out) < 1e-4
    assert "bmrm: converged" in out


def test_petscs_tao_trains_on_the_resident_matrix(tmp_path):
    out = run_on_ranks("petsc_tao.py", tmp_path)
    for method in ("bmrm", "blmvm"):
        assert 0.0 <= number(rf"TAO {method}: at most (\S+) above", out) < 1e-5
    assert 0 < number(r"TAO owlqn: keeps (\S+) of", out) < 60


def test_petscs_options_make_the_products_of_a_program_resident(tmp_path):
    resident = ["-mat_type", "python", "-mat_python_type", "bmrm.petsc.Resident"]
    petscs = run_on_ranks("petsc_options.py", tmp_path, ranks=1)
    ours = run_on_ranks("petsc_options.py", tmp_path, *resident)
    assert petscs.startswith("matrix: seqaij, 3000 x 200")
    assert ours.startswith("matrix: python, 3000 x 200")
    for pattern in (r"norm (\S+)", r"lsqr: (\d+) iterations", r"residual (\S+),"):
        assert number(pattern, ours) == pytest.approx(number(pattern, petscs), rel=1e-9)
    assert number(r"gradient (\S+)", ours) < 1e-6


def test_every_example_is_run_here():
    source = Path(__file__).read_text()
    assert [p.name for p in EXAMPLES.glob("*.py") if f'"{p.name}"' not in source] == []
