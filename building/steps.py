"""Steps of a build, each one call of a compiler, whose results are kept in the user's cache.

A step is current if nothing that went into it has changed: its command, the version of its tool, its source
and the files that this includes. Which these are only the compiler knows, and it says so when it compiles
(`-MMD` of gcc and nvcc, `--depfile` of Cython). So a step is looked up in two stages, as ccache's direct mode
does. Its recipe (command, version, name and content of the source) leads to the list of files that it
included last time, in this checkout or in any, and their contents lead to the result. A list that has become
wrong finds nothing, and the step runs again.

The cache only saves time. If it cannot be read or written, or an entry is damaged, one line says so and the
step runs; entries are checked by their digest. The least recently used ones go when all take more than
`MAX_BYTES`. Of two processes with the same step one waits for the other.
"""

import contextlib
import fcntl
import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from pathlib import Path

MAX_BYTES = 2 << 30
DIGEST_BYTES = 32
AGAIN = "what is not kept there is compiled again"


@dataclass(frozen=True)
class Step:
    """One call of a compiler; ``command`` lacks the names of files, which are relative to ``folder``."""

    source: str
    target: str
    command: tuple[str, ...]
    version: str  # of the tool, as it prints it
    asks_dependencies: tuple[str, ...] = ("-MMD", "-MF", "{list}")
    folder: str = "."

    @property
    def dependencies(self) -> str:
        """The file in which the tool lists what the source includes, as a rule of make."""
        return f"{self.target}.dep"

    def run(self) -> None:
        """Make the target.

        Raises
        ------
        SystemExit
            If the tool fails; it has printed why.
        """
        self.at(self.target).parent.mkdir(parents=True, exist_ok=True)
        asked = [word.format(list=self.dependencies) for word in self.asks_dependencies]
        done = subprocess.run([*self.command, *asked, self.source, "-o", self.target], cwd=self.folder)
        if done.returncode:
            self.at(self.target).unlink(missing_ok=True)
            tool = os.path.basename(self.command[0])
            raise SystemExit(f"{tool} failed with status {done.returncode} on {self.source}")

    def included(self) -> list[str]:
        """Return the files that the source included, by the list that the tool wrote."""
        text = self.at(self.dependencies).read_text(encoding="utf-8").partition(": ")[2]
        paths = text.replace("\\\n", " ").replace("\\ ", "\0").split()
        return sorted({path.replace("\0", " ") for path in paths} - {self.source})

    def recipe(self) -> str:
        """Digest of all that is known before the step runs; a tool is its version, wherever it is."""
        parts = [*self.command[1:], self.version, self.source, content_digest(self.at(self.source))]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def key(self, included: Iterable[str]) -> str:
        """Digest of the recipe and of the included files."""
        parts = [self.recipe(), *(f"{path}\0{content_digest(self.at(path))}" for path in included)]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def at(self, path: str) -> Path:
        """Where a file is."""
        return Path(self.folder, path)


@cache
def _digest(path: Path, modified: int, size: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def content_digest(path: Path) -> str:
    """Digest of a file; a file that is gone has one, too, which no content has."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return "missing"
    return _digest(path, found.st_mtime_ns, found.st_size)


class Store:
    """Results of steps in a folder; ``notes`` are the lines for the user about what is wrong with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notes: set[str] = set()

    def fetch(self, step: Step) -> bool:
        """Put the kept result of a step in its place, and say whether there is one."""
        try:
            for included in self._lists(step):
                entry = self._file(step.key(included), "made")
                if entry.exists():
                    break
            kept = entry.read_bytes()
            os.utime(entry)
        except FileNotFoundError:
            return False
        except (OSError, UnicodeDecodeError) as error:
            self._note(f"cannot read {self.folder} ({_reason(error)})")
            return False
        digest, content = kept[:DIGEST_BYTES], kept[DIGEST_BYTES:]
        if hashlib.sha256(content).digest() != digest:
            self._note(f"found damaged files in {self.folder}")
            return False
        write(step.at(step.target), content)
        return True

    def keep(self, step: Step) -> None:
        """Keep the result that a step has just made."""
        content, included = step.at(step.target).read_bytes(), step.included()
        try:
            write(self._file(step.key(included), "made"), hashlib.sha256(content).digest() + content)
            write(self._file(step.recipe(), "list"), "\n".join(included).encode())
        except OSError as error:
            self._note(f"cannot write to {self.folder} ({_reason(error)})")

    @contextlib.contextmanager
    def lock(self, step: Step) -> Iterator[None]:
        """Let other processes with the same step wait during the block, if the folder can be written."""
        with contextlib.ExitStack() as held:
            with contextlib.suppress(OSError):
                path = self._file(step.recipe(), "lock")
                path.parent.mkdir(parents=True, exist_ok=True)
                fcntl.flock(held.enter_context(open(path, "wb")), fcntl.LOCK_EX)
            yield

    def trim(self, max_bytes: int = MAX_BYTES) -> None:
        """Remove the least recently used results beyond a size; it looks at every file, so once per build."""
        try:
            entries = [(path.stat().st_mtime, path.stat().st_size, path) for path in self.folder.glob("*/*")]
            left = sum(size for _, size, _ in entries)
            for _, size, path in sorted(entries):
                if left <= max_bytes:
                    break
                path.unlink()
                left -= size
        except OSError:  # another build trims it, or nobody may: the size is no matter of this build
            return

    def _lists(self, step: Step) -> Iterator[list[str]]:
        """What the source included last time, here and then anywhere: headers of checkouts may differ."""
        with contextlib.suppress(FileNotFoundError):
            yield step.included()
        yield self._file(step.recipe(), "list").read_text(encoding="utf-8").splitlines()

    def _file(self, name: str, ending: str) -> Path:
        return self.folder / name[:2] / f"{name[2:]}.{ending}"

    def _note(self, what: str) -> None:
        self.notes.add(f"{what}: {AGAIN}")


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "not text"


def write(path: Path, content: bytes) -> None:
    """Write a file whole, and only if it differs, so that what is made from it stays current."""
    if path.exists() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        part.write_bytes(content)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def cache_folder() -> Path:
    """Return the folder of kept results, in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(cache) / "bmrm" / "objects"


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def make(chains: Sequence[Sequence[Step]], store: Store) -> int:
    """Bring the targets of chains of steps up to date, and return the number of steps that ran.

    The steps of a chain follow each other, chains run side by side and start in their order: the longest
    should be first.
    """
    ran = 0
    lock = threading.Lock()

    def run_chain(chain: Sequence[Step]) -> None:
        nonlocal ran
        for step in chain:
            with store.lock(step):
                if store.fetch(step):
                    continue
                step.run()
                store.keep(step)
            with lock:
                ran += 1

    with ThreadPoolExecutor(cores()) as pool:
        futures = [pool.submit(run_chain, chain) for chain in chains]
        done, waiting = wait(futures, return_when=FIRST_EXCEPTION)
        for future in waiting:
            future.cancel()
    for future in done:
        future.result()
    for note in sorted(store.notes):
        print(f"bmrm: {note}", file=sys.stderr)
    return ran
