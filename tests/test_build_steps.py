"""The steps of a build: which run again, and what a cache that is damaged, full or read-only does to them."""

import importlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))
steps = importlib.import_module("building.steps")

FILES = {"a": "use one h\na", "b": "b", "one h": "use two\none", "two": "two", "three": "3"}
# A compiler: the result is the source and what it includes by lines "use FILE", which have the same form.
COMPILER = """
import sys
flag, _, _, listed, source, _, target = sys.argv[1:]
def read(path):
    seen.append(path)
    for line in open(path).read().splitlines():
        yield from read(line[4:]) if line.startswith("use ") else [line]
seen = []
lines = [flag, *read(source)]
if "broken" in lines:
    sys.exit(3)
open("ran", "a").write(source + "\\n")
open(target, "w").write("\\n".join(lines))
open(listed, "w").write(target + ": " + " \\\\\\n ".join(path.replace(" ", "\\\\ ") for path in seen) + "\\n")
"""


@pytest.fixture(autouse=True)
def tree(tmp_path, monkeypatch) -> Path:
    """A folder with two sources, and a header of one of them that includes another one."""
    tree = tmp_path / "tree"
    tree.mkdir()
    monkeypatch.chdir(tree)
    for name, text in {
        "a": "use one h\na",
        "b": "b",
        "one h": "use two\none",
        "two": "two",
        "three": "3",
    }.items():
        Path(name).write_text(text)
    Path("cc.py").write_text(COMPILER)
    return tree


@pytest.fixture
def store(tmp_path) -> steps.Store:
    return steps.Store(tmp_path / "store")


def built(store: steps.Store, *sources: str, flag: str = "-O3", version: str = "1") -> list[str]:
    """The sources that were compiled; the results are checked."""
    ran = Path("ran")
    ran.unlink(missing_ok=True)
    command = (sys.executable, "cc.py", flag)
    steps.make([[steps.Step(source, f"out/{source}.o", command, version)] for source in sources], store)
    for source in sources:
        whole = Path(source).read_text()
        for name in ("one h", "two", "three"):
            whole = whole.replace(f"use {name}", Path(name).read_text())
        whole = whole.replace("use two", Path("two").read_text()).replace(
            "use three", Path("three").read_text()
        )
        assert Path(f"out/{source}.o").read_text() == f"{flag}\n{whole}"
    return sorted(ran.read_text().split()) if ran.exists() else []


def test_only_what_a_change_reaches_is_compiled_again(store):
    assert built(store, "a", "b") == ["a", "b"]
    assert built(store, "a", "b") == []
    Path("two").write_text("changed")
    assert built(store, "a", "b") == ["a"]
    Path("one h").write_text("use three\none")
    assert built(store, "a", "b") == ["a"]
    Path("three").write_text("4")
    assert built(store, "a", "b") == ["a"]
    Path("two").write_text("no longer included")
    assert built(store, "a", "b") == []
    Path("b").write_text("bb")
    assert built(store, "a", "b") == ["b"]


def test_earlier_contents_are_found_again(store):
    built(store, "a")
    Path("two").write_text("changed")
    built(store, "a")
    Path("two").write_text("two")
    assert built(store, "a") == []


def test_options_and_the_version_of_the_tool_count(store):
    built(store, "b")
    assert built(store, "b", flag="-O1") == ["b"]
    assert built(store, "b", version="2") == ["b"]
    assert built(store, "b") == []


def test_another_checkout_finds_what_this_one_compiled(store, tree, monkeypatch):
    built(store, "a")
    other = tree.with_name("other")
    subprocess.run(["cp", "-r", tree, other], check=True)
    monkeypatch.chdir(other)
    assert built(store, "a") == []


def test_checkouts_whose_headers_include_other_files_displace_nothing(store, tree, monkeypatch):
    built(store, "a")
    other = tree.with_name("other")
    subprocess.run(["cp", "-r", tree, other], check=True)
    monkeypatch.chdir(other)
    Path("one h").write_text("use three\none")
    assert built(store, "a") == ["a"]
    for folder in (tree, other):
        monkeypatch.chdir(folder)
        assert built(store, "a") == []


def test_a_step_runs_in_its_folder(store, tree, monkeypatch):
    monkeypatch.chdir(tree.parent)
    step = steps.Step("b", "out/b.o", (sys.executable, "cc.py", "-O2"), "1", folder=str(tree))
    assert steps.make([[step]], store) == 1
    assert (tree / "out" / "b.o").read_text() == "-O2\nb"
    assert steps.make([[step]], store) == 0


def test_of_two_builds_at_once_one_compiles(store):
    command = (sys.executable, "cc.py", "-O2")
    both = [steps.Step("a", f"out/{number}.o", command, "1") for number in range(2)]
    with ThreadPoolExecutor(2) as pool:
        ran = list(pool.map(lambda step: steps.make([[step]], steps.Store(store.folder)), both))
    assert sorted(ran) == [0, 1]
    assert Path("out/0.o").read_text() == Path("out/1.o").read_text()


def test_a_current_result_keeps_its_time(store, tree):
    built(store, "a")
    before = Path("out/a.o").stat().st_mtime_ns
    built(store, "a")
    assert Path("out/a.o").stat().st_mtime_ns == before


def test_a_source_that_the_compiler_refuses_ends_the_build(store):
    Path("b").write_text("broken")
    with pytest.raises(SystemExit, match=r"failed with status 3 on b$"):
        built(store, "b")
    assert not Path("out/b.o").exists()
    with pytest.raises(SystemExit):
        built(store, "b")


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "list"])
def test_a_damaged_cache_costs_time_alone(store, capsys, damage):
    built(store, "a")
    for path in list(store.folder.glob("*/*.made")):
        content = path.read_bytes()
        changed = {"cut": content[:-1], "flipped": content[:-1] + b"\x00", "empty": b"", "list": content}[
            damage
        ]
        path.write_bytes(changed)
    if damage == "list":
        for path in store.folder.glob("*/*.list"):
            path.write_bytes(b"\xff\xfe")
    for path in Path("out").iterdir():
        path.unlink()
    assert built(store, "a") == ["a"]
    assert capsys.readouterr().err.count(f"{store.folder}") == 1
    store.notes.clear()
    assert built(store, "a") == []
    assert capsys.readouterr().err == ""


def test_a_cache_that_cannot_be_written_costs_time_alone(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    store = steps.Store(tmp_path / "file" / "store")
    assert built(store, "a", "b") == ["a", "b"]
    assert built(store, "a") == ["a"]
    assert "bmrm: cannot write to" in capsys.readouterr().err


def test_a_full_disk_costs_time_alone(store, capsys, monkeypatch):
    write = steps.write

    def fail_in_the_cache(path: Path, content: bytes) -> None:
        if store.folder in path.parents:
            raise OSError(28, "No space left on device")
        write(path, content)

    monkeypatch.setattr(steps, "write", fail_in_the_cache)
    assert built(store, "a", "b") == ["a", "b"]
    error = capsys.readouterr().err
    assert error == f"bmrm: cannot write to {store.folder} (No space left on device): {steps.AGAIN}\n"


def test_the_least_recently_used_results_go_first(store):
    built(store, "a", "b")
    Path("b").write_text("x" * 1000)
    built(store, "b")
    size = sum(path.stat().st_size for path in store.folder.glob("*/*"))
    store.trim(size)
    assert built(store, "b") == []
    store.trim(0)
    assert list(store.folder.glob("*/*")) == []
