"""A file appears whole or not at all."""

import errno
import fcntl
import os
import stat

import pytest

from bmrm.base import atomic
from bmrm.base.atomic import atomic_write, check_writable


def test_appears_only_at_the_end(tmp_path):
    target = tmp_path / "out"
    with atomic_write(target) as file:
        file.write(b"new")
        assert not target.exists()
    assert target.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["out"]


def test_failure_leaves_the_old_file(tmp_path):
    target = tmp_path / "out"
    target.write_bytes(b"old")

    def fail():
        with atomic_write(target) as file:
            file.write(b"new")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        fail()
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["out"]


def test_permissions_follow_the_umask_and_the_old_file(tmp_path):
    previous = os.umask(0o027)
    try:
        with atomic_write(tmp_path / "new"):
            pass
    finally:
        os.umask(previous)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    (tmp_path / "new").chmod(0o604)
    with atomic_write(tmp_path / "new"):
        pass
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o604


def test_link_stays_a_link(tmp_path):
    (tmp_path / "link").symlink_to("target")
    with atomic_write(tmp_path / "link") as file:
        file.write(b"x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"x"


def test_full_disk_names_the_file():
    def fill():
        with atomic_write("/dev/full") as file:
            file.write(b"x" * 100)

    with pytest.raises(OSError, match="/dev/full") as caught:
        fill()
    assert caught.value.errno == errno.ENOSPC


@pytest.mark.parametrize("use", [check_writable, lambda path: atomic_write(path).__enter__()])
@pytest.mark.parametrize("place", ["missing/out", "file/out", "."])
def test_bad_folder_names_the_file(tmp_path, place, use):
    (tmp_path / "file").write_bytes(b"")
    path = tmp_path / place
    with pytest.raises(OSError, match=r".") as caught:
        use(path)
    assert caught.value.filename == str(path)
    assert str(caught.value).endswith(f": '{path}'")
    assert os.listdir(tmp_path) == ["file"]


def test_foreign_error_keeps_its_name(tmp_path):
    def read_something_missing():
        with atomic_write(tmp_path / "out"):
            open(tmp_path / "missing input").close()

    with pytest.raises(FileNotFoundError) as caught:
        read_something_missing()
    assert caught.value.filename == str(tmp_path / "missing input")


def test_check_writable_leaves_nothing(tmp_path):
    check_writable(tmp_path / "out")
    assert os.listdir(tmp_path) == []
    check_writable("/dev/null")


def leave(folder, number=0):
    """A temporary file as left by a killed process."""
    path = folder / f".123-{number}.bmrm-tmp"
    path.write_bytes(b"half")
    return path


def test_abandoned_files_are_removed_by_the_next_write(tmp_path):
    leave(tmp_path)
    other = tmp_path / ".123.bmrm-tmp"  # no name of ours
    other.write_bytes(b"")
    with atomic_write(tmp_path / "out"):
        assert len(os.listdir(tmp_path)) == 2
    assert sorted(os.listdir(tmp_path)) == [".123.bmrm-tmp", "out"]


def test_files_locked_by_another_writer_stay(tmp_path):
    held = leave(tmp_path)
    with held.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        check_writable(tmp_path / "out")
        assert held.exists()


def test_a_link_with_the_name_of_an_abandoned_file_is_not_followed(tmp_path):
    (tmp_path / "precious").write_bytes(b"x")
    (tmp_path / ".1-1.bmrm-tmp").symlink_to("precious")
    check_writable(tmp_path / "out")
    assert (tmp_path / "precious").read_bytes() == b"x"


def test_a_writer_uses_another_name_if_its_file_was_removed(tmp_path, monkeypatch):
    swept = []

    def sweep_once(descriptor):
        if not swept:
            swept.append(os.listdir(tmp_path)[0])
            os.unlink(tmp_path / swept[0])
        return True

    monkeypatch.setattr(atomic, "_try_lock", sweep_once)
    with atomic_write(tmp_path / "out") as file:
        file.write(b"whole")
    assert swept
    assert (tmp_path / "out").read_bytes() == b"whole"
