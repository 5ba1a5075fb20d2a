"""The CUDA backend: which nvcc builds it, for which GPUs, and with which libraries."""

import ctypes
import glob
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from building.checks import require_nvcc

SOURCES = "src_cuda/**/*.cu"
FLAGS = ("-std=c++17", "-O3", "-Xcompiler", "-fPIC,-fvisibility=hidden", "-Isrc_common", "-Isrc_cuda")
# What `BMRM_CUDA_ARCH=all` compiles for: 86 and 89 run the code of 80, later ones than 120 take its PTX.
ALL = ("75", "80", "90", "100", "120")
# Without a GPU here and without a word from the user.
DEFAULT = "90"
# CUdevice_attribute of the driver's interface.
_CAPABILITY = (75, 76)


def compiler(environ: Mapping[str, str], sources: Sequence[str], packages: Iterable[str] = ()) -> str | None:
    """Path of the nvcc to build the CUDA backend with, or None to leave the backend out.

    ``BMRM_CUDA`` decides: ``off`` never builds it, ``auto`` (the default) builds it if there are an nvcc
    and CUDA sources, ``on`` builds it or fails. nvcc is looked for in ``CUDA_HOME``, on ``PATH``,
    and among the wheels of the toolkit (nvidia-cuda-nvcc, -runtime, -crt, -cccl, nvidia-nvvm) in the folders
    ``packages``.
    """
    choice = environ.get("BMRM_CUDA", "auto")
    if choice not in ("auto", "on", "off"):
        raise SystemExit(f"BMRM_CUDA: found {choice!r}, expected auto, on, off or emulated")
    if choice == "off":
        return None
    toolkit = environ.get("CUDA_HOME", "/usr/local/cuda")
    wheels = [path for folder in packages for path in sorted(glob.glob(f"{folder}/nvidia/cu*/bin"))]
    places = [os.path.join(toolkit, "bin"), environ.get("PATH", ""), *wheels]
    nvcc = shutil.which("nvcc", path=os.pathsep.join(places))
    missing = "nvcc (set CUDA_HOME or PATH)" if nvcc is None else "CUDA sources" if not sources else None
    if missing and choice == "on":
        raise SystemExit(f"BMRM_CUDA=on: found no {missing}; auto or off builds without the CUDA backend")
    return None if missing else nvcc


def ask(*words: str) -> str:
    """Return the output of a tool."""
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout


@cache
def nvcc() -> str | None:
    """Path of this machine's nvcc, if the CUDA backend is to be built; its release is checked."""
    found = compiler(os.environ, glob.glob(SOURCES, recursive=True), sys.path)
    if found:
        require_nvcc(found, ask(found, "--version"))
    return found


def gpus_present() -> list[str]:
    """Architectures of the GPUs of this machine, as ``90``, by its driver; none without a driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return []
    count, part = ctypes.c_int(), ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return []
    found = set()
    for number in range(count.value):
        parts = []
        for attribute in _CAPABILITY:
            driver.cuDeviceGetAttribute(ctypes.byref(part), attribute, number)
            parts.append(part.value)
        found.add(parts[0] * 10 + parts[1])
    return [str(name) for name in sorted(found)]


def architectures(choice: str, known: str, present: Sequence[str]) -> tuple[list[str], str]:
    """Return the architectures to compile for, and why.

    ``choice`` is ``BMRM_CUDA_ARCH``: some architectures (``80,90``), ``all`` for those of `ALL`, or empty
    for those of the GPUs that are ``present``. ``known`` is what nvcc's ``--list-gpu-code`` prints.
    """
    available = re.findall(r"sm_(\w+)", known)
    if choice:
        wanted = list(ALL) if choice == "all" else choice.split(",")
        for name in wanted:
            if name not in available:
                raise SystemExit(
                    f"BMRM_CUDA_ARCH={choice}: found {name!r}, expected all or some of {','.join(available)}"
                )
        return wanted, "as BMRM_CUDA_ARCH says"
    wanted = [name for name in present if name in available]
    if wanted:
        return wanted, "the GPUs of this machine" if len(wanted) > 1 else "the GPU of this machine"
    reason = f"nvcc knows no sm_{', sm_'.join(present)}" if present else "found no GPU here"
    return [DEFAULT], f"{reason}; BMRM_CUDA_ARCH selects others, as 80,90 or all"


def architecture_flags(names: Sequence[str]) -> list[str]:
    """Options of nvcc: machine code for each architecture, and PTX of the last for later ones."""
    real = [f"-gencode=arch=compute_{name},code=sm_{name}" for name in names]
    return [*real, f"-gencode=arch=compute_{names[-1]},code=compute_{names[-1]}"]


def library_folders(dry_run: str) -> list[str]:
    """Folders of the toolkit's libraries, which nvcc prints in a dry run.

    It prints ``lib64`` for the wheels of the toolkit too, which have ``lib``.
    """
    line = re.search(r"^#\$ LIBRARIES=(.*)$", dry_run, re.MULTILINE)
    named = re.findall(r'"-L([^"]+)"', line[1]) if line else []
    return list(dict.fromkeys([*named, *(re.sub(r"/lib64(?=$|/stubs$)", "/lib", path) for path in named)]))
