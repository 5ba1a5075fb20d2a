"""Files that are truncated or changed while they are read, and permissions of the package's own files."""

import gzip
import os
import stat

import numpy as np
import pytest
import scipy.sparse as sp

import bmrm
from bmrm.base.atomic import atomic_write, check_writable
from bmrm.errors import DataError
from bmrm.io import iter_svmlight, read_data
from bmrm.io.cache import SUFFIX
from bmrm.io.formats import iter_dense_rows, read_matrix_file
from bmrm.io.sources import open_source
from bmrm.io.svmlight import read_text
from bmrm.io.tensors import open_tensors
from bmrm.io.text import Grammar

STEADY = "expected a file that does not change while it is read$"
GRAMMAR = Grammar.from_arguments(None, "auto", "float32", False, "error")
LINE = b"1 1:0.5 2:0.25 7:1\n"


def cut_open(path, size, read):
    """Read a source that is truncated after it was opened."""
    with open_source(path) as source:
        os.truncate(path, size)
        read(source)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "x.svm"
    path.write_bytes(LINE * 200_000)  # several blocks of the reader
    return path


@pytest.mark.parametrize("size", [0, 4096, 1 << 21])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_truncated_text(text, size, threads):
    with pytest.raises(
        DataError, match=f"^{text}: found {size} bytes instead of {200_000 * len(LINE)}, {STEADY}"
    ):
        cut_open(text, size, lambda source: read_text(source, GRAMMAR, threads))


@pytest.mark.parametrize("size", [0, 4096, 3 << 20])
def test_a_text_truncated_between_two_reads(text, size):
    def cut(*counted):
        os.truncate(text, size)

    with pytest.raises(DataError, match=STEADY):
        read_data(text, land=cut)


@pytest.mark.parametrize(
    "content", [b"\n", b"1 1:1\n", b"1:1 ", b":", b"1", b" ", b"\0", b"#", b"1,", b"1 2:3\n4"]
)
def test_a_text_that_changes_and_keeps_its_size(text, content):
    size = text.stat().st_size

    def rewrite(*counted):
        with open(text, "r+b") as file:
            file.write((content * (size // len(content) + 1))[:size])

    with pytest.raises(DataError, match=STEADY):
        read_data(text, land=rewrite)
    assert text.stat().st_size == size


def test_a_text_that_grows(text):
    def grow(*counted):
        with open(text, "ab") as file:
            file.write(b"1 1:")

    with pytest.raises(DataError, match=STEADY):
        read_data(text, land=grow)


def test_rows_yielded_before_a_text_is_truncated(text):
    parts = iter_svmlight(text, rows_bytes=1 << 20)
    assert next(parts)[0].shape[1] == 7
    os.truncate(text, 1 << 20)
    with pytest.raises(DataError, match=STEADY):
        list(parts)


def test_a_text_replaced_by_another_file(text):
    """The opened file itself does not change."""

    def replace(*counted):
        (text.parent / "new").write_bytes(b"1 1:1\n")
        os.replace(text.parent / "new", text)

    assert read_data(text, land=replace).X.shape == (200_000, 7)


def write_npz(path):
    sp.save_npz(path, sp.random(2000, 50, 0.5, "csr", random_state=0), compressed=False)


def write_mtx(path):
    path.write_text("%%MatrixMarket matrix coordinate real general\n9 9 9\n" + "1 1 1\n" * 9)


WRITERS = {
    "npy": lambda path: np.save(path, np.ones((2000, 50))),
    "npz": write_npz,
    "mtx": write_mtx,
}


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_other_truncated_files(tmp_path, kind, share):
    path = tmp_path / f"x.{kind}"
    WRITERS[kind](path)
    size = int(share * path.stat().st_size)
    with pytest.raises(DataError, match=f"^{path}: found .*, {STEADY}"):
        cut_open(path, size, lambda source: read_matrix_file(source, kind, GRAMMAR))


def test_a_truncated_compressed_text(tmp_path):
    path = tmp_path / "x.svm.gz"
    noise = np.random.default_rng(0).random(200_000)
    path.write_bytes(gzip.compress("".join(f"1 1:{x:.17g}\n" for x in noise).encode(), 1))
    with pytest.raises(DataError, match=STEADY):
        cut_open(path, path.stat().st_size // 2, lambda source: read_text(source, GRAMMAR, 1))


def test_arrays_do_not_change_with_their_files(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.ones((2000, 50), np.float32))
    X = read_data(path).X
    os.truncate(path, 0)
    assert X.sum() == 100_000

    path = tmp_path / "x.svm"
    path.write_bytes(LINE * 2000)
    read_data(path, cache=True)
    data = read_data(path, cache=True)
    assert data.from_cache
    os.truncate(str(path) + SUFFIX, 0)
    assert data.X.data.sum() == pytest.approx(2000 * 1.75)


def test_dense_rows_in_chunks(tmp_path):
    path = tmp_path / "x.npy"
    X = np.arange(35.0).reshape(7, 5)
    np.save(path, X)

    def read():
        with open_source(path) as source:
            parts = iter_dense_rows(source, 3)
            return parts and list(parts)

    parts = read()
    assert [len(part) for part in parts] == [3, 3, 1]
    assert (np.vstack(parts) == X).all()
    X[4, 2] = np.nan
    np.save(path, X)
    with pytest.raises(DataError, match=rf"^{path}: row 5, column 3 has nan"):
        read()
    np.save(path, np.asfortranarray(X))
    assert read() is None


def test_a_truncated_model(tmp_path):
    path = str(tmp_path / "model")
    bmrm.solve(np.eye(4), [1, 1, -1, -1], lam=0.1).save(path)

    def read():
        with open_tensors(path) as file:
            os.truncate(path, 3)
            file.read("w", "F64", 1)

    with pytest.raises(DataError, match=f"^model file: found 3 bytes instead of .*, {STEADY}"):
        read()


# The permissions of files.


@pytest.fixture
def umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode_of(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o444, 0o660])
def test_a_cache_is_readable_by_whoever_may_read_its_text(tmp_path, umask, mode):
    path = tmp_path / "x.svm"
    path.write_bytes(LINE)
    path.chmod(mode)
    for _ in range(2):
        read_data(path, cache=True)
        assert mode_of(str(path) + SUFFIX) == mode
        os.unlink(str(path) + SUFFIX)
    read_data(path, cache=True)
    path.chmod(0o600)
    os.utime(path)  # else the old cache, which stays as it is, would do
    read_data(path, cache=True)
    assert mode_of(str(path) + SUFFIX) == 0o600


@pytest.mark.parametrize("there", [True, False])
def test_a_link_with_the_name_of_a_cache(tmp_path, caplog, there):
    path, victim = tmp_path / "x.svm", tmp_path / "victim"
    path.write_bytes(LINE)
    link = str(path) + SUFFIX
    if there:
        victim.write_bytes(b"precious")
    os.symlink(victim, link)
    assert not read_data(path, cache=True).from_cache
    assert caplog.messages == [f"{link}: no cache written: not a regular file"]
    assert os.readlink(link) == str(victim)
    assert not there or victim.read_bytes() == b"precious"
    # A sound cache behind a link is not read either.
    os.unlink(link)
    read_data(path, cache=True)
    os.replace(link, victim)
    os.symlink(victim, link)
    assert not read_data(path, cache=True).from_cache


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640, 0o604, 0o666])
def test_a_temporary_file_never_has_more_permissions_than_its_target(tmp_path, umask, mode):
    target = tmp_path / "target"
    target.write_bytes(b"old")
    target.chmod(mode)
    with atomic_write(target) as file:
        (temporary,) = tmp_path.glob(".*.bmrm-tmp")
        assert mode_of(temporary) & ~mode == 0
        assert mode_of(temporary) & 0o077 == 0
        file.write(b"new")
    assert mode_of(target) == mode
    assert target.read_bytes() == b"new"


def test_checking_a_private_file_grants_no_permissions(tmp_path, monkeypatch, umask):
    target = tmp_path / "target"
    target.touch(0o600)
    modes = []
    unlink = os.unlink
    monkeypatch.setattr(os, "unlink", lambda path: (modes.append(mode_of(path)), unlink(path)))
    check_writable(target)
    assert modes == [0o600]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files to any group")
def test_a_new_file_keeps_the_group_of_the_old_one(tmp_path):
    target = tmp_path / "target"
    target.touch()
    os.chown(target, -1, 12345)
    target.chmod(0o640)
    with atomic_write(target):
        pass
    assert (target.stat().st_gid, mode_of(target)) == (12345, 0o640)


def test_a_group_that_cannot_be_kept_gets_the_permissions_of_others(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    target = tmp_path / "target"
    target.touch()
    target.chmod(0o664)
    status = target.stat()
    other = os.stat_result((*status[:5], status.st_gid + 1, *status[6:]))
    monkeypatch.setattr(os, "fchown", refuse)
    with atomic_write(target, like=other):
        pass
    assert mode_of(target) == 0o644
