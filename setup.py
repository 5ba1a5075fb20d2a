"""Build of the compiled core: one Cython extension a file of ``src_cython``."""

import glob
import os
import shutil
from collections.abc import Mapping

SOURCES = "src_cython"
MODULES = ["_cpu", "_losses", "_qp", "_svmlight"]
CUDA_SOURCES = "src_cuda/**/*.cu"


def cuda_compiler(environ: Mapping[str, str], sources: list[str]) -> str | None:
    """Path of the nvcc to build the CUDA backend with, or None to leave the backend out.

    ``BMRM_CUDA`` decides: ``off`` never builds it, ``auto`` (the default) where there are an nvcc
    and CUDA sources, ``on`` builds it or fails.
    """
    choice = environ.get("BMRM_CUDA", "auto")
    if choice not in ("auto", "on", "off"):
        raise SystemExit(f"BMRM_CUDA: found {choice!r}, expected auto, on or off")
    if choice == "off":
        return None
    toolkit = environ.get("CUDA_HOME", "/usr/local/cuda")
    nvcc = shutil.which("nvcc", path=os.pathsep.join([os.path.join(toolkit, "bin"), environ.get("PATH", "")]))
    missing = "nvcc (set CUDA_HOME or PATH)" if nvcc is None else "CUDA sources" if not sources else None
    if missing and choice == "on":
        raise SystemExit(f"BMRM_CUDA=on: found no {missing}; auto or off builds without the CUDA backend")
    return None if missing else nvcc


def main() -> None:
    """Run the build; the imports are here because only a build needs them."""
    import numpy as np
    from Cython.Build import cythonize
    from setuptools import Extension, setup

    def extension(name: str) -> Extension:
        # -ffp-contract and friends stay at their defaults; -ffast-math is never used: sums are
        # ordered by hand, and NaN and inf must be seen where they occur.
        return Extension(
            f"bmrm.{name}",
            [os.path.join(SOURCES, f"{name}.pyx")],
            depends=[p for p in glob.glob(f"{SOURCES}/**/*.*", recursive=True) if p.endswith((".h", ".inl"))],
            include_dirs=[SOURCES, np.get_include()],
            language="c++",
            extra_compile_args=["-O3", "-std=c++17", "-fopenmp", "-fvisibility=hidden", "-g0"],
            extra_link_args=["-fopenmp"],
            define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")],
        )

    # There is nothing of it to build yet; a wrong BMRM_CUDA must fail all the same.
    cuda_compiler(os.environ, glob.glob(CUDA_SOURCES, recursive=True))
    setup(
        ext_modules=cythonize(
            [extension(name) for name in MODULES],
            build_dir="build/cython",
            compiler_directives={
                "language_level": 3,
                "boundscheck": False,
                "wraparound": False,
                "cdivision": True,
                "freethreading_compatible": True,
            },
        ),
        options={"build_ext": {"parallel": os.cpu_count()}},
    )


if __name__ == "__main__":
    main()
