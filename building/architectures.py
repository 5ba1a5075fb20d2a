"""Compiles the CUDA files that differ by architecture for the oldest ones: `make architectures`.

A build without a GPU compiles for one kind, so it sees one branch of each condition on `__CUDA_ARCH__`. Here
the files with the other branches are compiled for the oldest GPUs of `cuda.ALL` too, to machine code, since
only that checks inline assembly. Results are kept as those of a build are.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from building import cuda
from building.steps import Step, Store, cache_folder, make

# The conditions compare with 800 and 900.
BELOW = ("75", "80")
# Between them they include every header with such a condition; a test compares.
SOURCES = tuple(
    f"src_cuda/{name}.cu" for name in ("clusters/nearest", "manifold/laplacian", "mixtures/mixture")
)
ROOTS = ("src_cuda", "src_common")
CONDITION = re.compile(r"#\s*(?:el)?if.*__CUDA_ARCH__\s*[<>=]")


def closure(path: str, seen: set[str]) -> Iterator[str]:
    """Yield a source and all of ours that it includes, each once."""
    if path in seen:
        return
    seen.add(path)
    yield path
    for name in re.findall(r'^\s*#include "([^"]+)"', Path(path).read_text(), re.MULTILINE):
        for root in (os.path.dirname(path), *ROOTS):
            if os.path.exists(found := os.path.join(root, name)):
                yield from closure(found, seen)
                break


def main() -> None:
    """Compile them, with the nvcc of the build."""
    nvcc = cuda.nvcc()
    if nvcc is None:
        print("architectures: there is no nvcc, or BMRM_CUDA=off")
        return
    version = cuda.ask(nvcc, "--version")
    chains = [
        [
            Step(
                source,
                f"build/architectures/{source.replace('/', '-')}.{name}.cubin",
                (nvcc, *cuda.FLAGS, "-cubin", f"-arch=sm_{name}"),
                version,
            )
        ]
        for source in SOURCES
        for name in BELOW
    ]
    store = Store(cache_folder())
    ran = make(chains, store)
    store.trim()
    print(f"architectures: {len(SOURCES)} files compile for sm_{', sm_'.join(BELOW)} ({ran} compiled now)")


if __name__ == "__main__":
    main()
