"""The source distribution: the same bytes from the same files, whenever and by whomever it is made."""

import gzip
import os
import tarfile

from setuptools.command.sdist import sdist

# The time of all files: SOURCE_DATE_EPOCH, or the first one that a zip file can have as well, 1980-01-01.
FIRST_TIME = 315532800


class ReproducibleSdist(sdist):
    """Writes names in order, and no user, umask, or time of its own."""

    def make_archive(
        self,
        base_name: str,
        format: str,  # setuptools' name
        root_dir: str | None = None,
        base_dir: str | None = None,
        owner: str | None = None,
        group: str | None = None,
    ) -> str:
        """Write the archive of the folder ``base_dir``, and return its path."""
        if format != "gztar" or base_dir is None:
            raise SystemExit(f"sdist: found the format {format}, expected gztar")
        path = f"{base_name}.tar.gz"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with (
            open(path, "wb") as file,
            gzip.GzipFile("", "wb", fileobj=file, mtime=_time()) as packed,
            tarfile.open(mode="w", fileobj=packed, format=tarfile.PAX_FORMAT) as archive,
        ):
            archive.add(base_dir, filter=_neutral)  # in the order of the names
        return path


def _time() -> int:
    return int(os.environ.get("SOURCE_DATE_EPOCH", FIRST_TIME))


def _neutral(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """An entry without what differs between two checkouts of the same files."""
    entry.mtime = _time()
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
    return entry
