"""The CUDA backend on the CPU: `BMRM_CUDA=emulated` compiles ``src_cuda`` with the C++ compiler, for tests.

``tests/emulator`` stands for the CUDA toolkit there. C++ has no launches with three angle brackets and no
shared memory, so what is compiled are copies in `FOLDER` with both written as calls; lines stay where they
are. The module lies in `FOLDER` too, outside the package: only tests import it.
"""

import glob
import re
from pathlib import Path

from building.steps import write

EMULATOR = "tests/emulator"
FOLDER = "build/emulated"
FLAGS = (
    f"-I{EMULATOR}", "-Isrc_common", f"-I{FOLDER}/src_cuda", "-include", "cuda_runtime.h", "-x", "c++",
    "-std=c++17", "-O1", "-g0", "-w", "-fPIC", "-pthread", "-fvisibility=hidden", "-fno-strict-aliasing",
)  # fmt: skip
DYNAMIC_SHARED = re.compile(r"extern __shared__ (?:__align__\(\d+\) )?([\w ]+?) (\w+)\[\];")
ADDRESS = "reinterpret_cast<const void*>("


def sources() -> list[str]:
    """The emulator's own sources."""
    return sorted(glob.glob(f"{EMULATOR}/*.cpp"))


def translate() -> None:
    """Write the sources to `FOLDER` as C++ has them."""
    for path in glob.glob("src_cuda/**/*.*", recursive=True):
        write(Path(FOLDER, path), in_cpp(Path(path).read_text(encoding="utf-8")).encode())


def translated(source: str) -> str:
    """Return where the copy of a source is; the emulator's own need none."""
    return source if source.startswith(EMULATOR) else f"{FOLDER}/{source}"


def in_cpp(text: str) -> str:
    """Return a text of CUDA in C++ with the classes of ``tests/emulator/cuda_runtime.h``.

    >>> in_cpp("sum<T><<<1, n>>>(x);")
    'emulator::Launch(1, n).of([=](auto... given) { sum<T>(given...); })(x);'
    """
    text = DYNAMIC_SHARED.sub(r"\1* \2 = emulator::dynamic_shared<\1>();", text)
    text = text.replace(ADDRESS, "emulator::erased(")
    while (begin := text.find("<<<")) >= 0:
        end = text.index(">>>", begin)
        kernel = _kernel_before(text, begin)
        body = f"[=](auto... given) {{ {text[kernel:begin]}(given...); }}"
        text = f"{text[:kernel]}emulator::Launch({text[begin + 3 : end]}).of({body}){text[end + 3 :]}"
    return text


def _kernel_before(text: str, end: int) -> int:
    """Return where the name of a kernel begins, with its template arguments, that ends before a position."""
    at, depth = len(text[:end].rstrip()), 0
    while depth or text[at - 1] in ">_:" or text[at - 1].isalnum():
        depth += (text[at - 1] == ">") - (text[at - 1] == "<")
        at -= 1
    return at
