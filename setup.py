"""Builds the compiled core: one extension per file of ``src_cython``; ``_cuda`` includes all of ``src_cuda``.

Cython translates ``src_cython/_NAME.pyx``, and each ``.cpp`` in ``src_cython/NAME`` is one more translation
unit of the same module, or one per instruction set if it is called ``NAME_kernels.cpp``; ``src_common`` is
shared. Paths of #include start at these folders. All steps run side by side, whichever module they belong to,
and their results are kept (`building/steps.py`). The headers of ``src_common/device`` are copied into the
package too: there NVRTC compiles with them at run time.

The modules use the limited API of CPython 3.11, so one wheel serves all later versions, except the
free-threaded ones, which have no such interface yet.

``BMRM_SANITIZE=1`` builds for the sanitizers of addresses and undefined behaviour (``scripts/fuzz.sh``).
``BMRM_CUDA`` says whether to build the CUDA backend, ``BMRM_CUDA_ARCH`` for which GPUs (`building/cuda.py`);
``BMRM_CUDA=emulated`` builds it alone, for the CPU and for tests (`building/emulated.py`).
The CUDA runtime is linked statically, and no symbol of it is exported: at run time the extension needs a
driver, and only if a device is used.
"""

import glob
import os
import platform
import shutil
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # a build in isolation does not look here

from building import cuda, device_api, emulated
from building.checks import require_compiler, require_platform
from building.sdist import ReproducibleSdist
from building.steps import Step, Store, cache_folder, make

COMMON = "src_common"
SOURCES = "src_cython"
CUDA = "src_cuda"
IS_EMULATED = os.environ.get("BMRM_CUDA") == "emulated"
OBJECTS = f"{emulated.FOLDER}/objects" if IS_EMULATED else "build/objects"
SUMMARY = Path("build/summary.txt")
# Each extension, and the package that uses it and contains it, with a .pxd if other extensions cimport it.
MODULES = {
    "_ascent": "bmrm.linear.backends.host",
    "_clusters": "bmrm.unsupervised.clusters",
    "_cpu": "bmrm.matrix",
    "_cuda": "bmrm.matrix",
    "_dlpack": "bmrm.base",
    "_edges": "bmrm.io",
    "_graph": "bmrm.graph",
    "_joint": "bmrm.losses",
    "_losses": "bmrm.losses",
    "_manifold": "bmrm.unsupervised.manifold",
    "_mixtures": "bmrm.unsupervised.mixtures",
    "_pairs": "bmrm.pairs",
    "_parts": "bmrm.distributed",
    "_qp": "bmrm.linear.bundle",
    "_svmlight": "bmrm.io",
    "_text": "bmrm.io",
    "_threads": "bmrm.base",
}
# Folders that are copied into the package, and where.
COPIED = {"src_common/device": "bmrm/formulas/gpu/device"}
# Started first, in this order, so that none of them runs alone at the end.
LONGEST = (
    "src_cuda/formats/sliced.cu",
    "src_cuda/manifold/scaling_passes.cu",
    "src_cuda/training/losses/passes.cu",
    "src_cuda/graph/walk.cu",
    "src_cuda/training/losses/line.cu",
    "src_cuda/manifold/weighted_descent.cu",
    "src_cuda/training/losses/search_double.cu",
)
# How kernels are compiled for each instruction set; `src_cython/cpu/isa.h` chooses among them at run time.
INSTRUCTION_SETS: dict[str, list[str]] = {"baseline": []}
if platform.machine().lower() in ("x86_64", "amd64"):
    INSTRUCTION_SETS |= {name: [f"-DBMRM_FOR_{name.upper()}"] for name in ("avx2", "avx512")}
# Modules with no loop over data in what Cython translates, nor in the headers that this includes.
BINDINGS = ("_clusters", "_cpu", "_graph", "_losses", "_manifold", "_mixtures", "_pairs")
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "freethreading_compatible": True,
}
# Nothing reads the flags of floating-point exceptions; keeping them exact would stop loops with conditions
# from being vectorised; so would errno. A loop of few instructions that crosses a line of decoded code takes
# up to a third longer: the loop over a row's entries did so or not by chance. -ffp-contract and the like stay
# at their defaults but for `UNFUSED`. -ffast-math is never used: sums have a fixed order, and NaN and
# infinity must not be optimised away.
COMPILE_FLAGS = [
    "-O3",
    "-falign-loops=32",
    "-std=c++17",
    "-fopenmp-simd",  # the loops marked for SIMD; threads are our own
    "-pthread",
    "-fno-trapping-math",
    "-fno-math-errno",
    "-fvisibility=hidden",
    "-g0",
]
# Files that decide in which bin a pair of points counts round each operation, on all instruction sets alike.
# GCC's default fuses products with sums where the processor can.
UNFUSED = f"{SOURCES}/pairs/"
IS_SANITIZED = os.environ.get("BMRM_SANITIZE") == "1"
SANITIZERS = ["-fsanitize=address,undefined"]
SANITIZED_FLAGS = [*SANITIZERS, "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer", "-O1", "-g1"]
HAS_LIMITED_API = not sysconfig.get_config_var("Py_GIL_DISABLED")
LIMITED_API = ["-DPy_LIMITED_API=0x030B0000"] if HAS_LIMITED_API else []
OPTIONS = {"bdist_wheel": {"py_limited_api": "cp311"}} if HAS_LIMITED_API else {}


def extension(name: str) -> Extension:
    """A module with all of its sources."""
    sources = [f"{SOURCES}/{name}.pyx", *sorted(glob.glob(f"{SOURCES}/{name[1:]}/**/*.cpp", recursive=True))]
    if name == "_cuda":
        sources += sorted(glob.glob(f"{CUDA}/**/*.cpp", recursive=True))
        sources += sorted(glob.glob(cuda.SOURCES, recursive=True))
    if IS_EMULATED:
        sources += emulated.sources()
    return Extension(
        f"{MODULES[name]}.{name}",
        sources,
        language="c++",
        extra_link_args=["-pthread"],
        py_limited_api=HAS_LIMITED_API,
    )


class Tools:
    """The compilers, and the steps that each does."""

    def __init__(self, cxx: Sequence[str]) -> None:
        import Cython

        python = sysconfig.get_path("include")
        roots = [f"-I{COMMON}", f"-I{SOURCES}", f"-I{CUDA}", f"-I{python}"]
        sanitized = SANITIZED_FLAGS if IS_SANITIZED else []
        directives = [word for item in DIRECTIVES.items() for word in ("-X", f"{item[0]}={item[1]}")]
        self._cython = (sys.executable, "-m", "cython", "--cplus", "-I", SOURCES, "-I", ".", *directives)
        self._cython_version = Cython.__version__
        self._cxx = (*cxx, *roots, *LIMITED_API, *COMPILE_FLAGS, *sanitized)
        self._cxx_version = cuda.ask(cxx[0], "--version")
        self.summary = "bmrm: built without the CUDA backend"
        if IS_EMULATED:
            emulated.translate()
            self._nvcc, self._nvcc_version = (*cxx, *emulated.FLAGS), self._cxx_version
            self.summary = f"bmrm: built the CUDA backend for tests in {emulated.FOLDER}"
        elif found := cuda.nvcc():
            names, reason = cuda.architectures(
                os.environ.get("BMRM_CUDA_ARCH", ""), cuda.ask(found, "--list-gpu-code"), cuda.gpus_present()
            )
            self._nvcc = (found, *cuda.FLAGS, *cuda.architecture_flags(names))
            self._nvcc_version = cuda.ask(found, "--version") + self._cxx_version
            self.summary = f"bmrm: built for GPUs with sm_{', sm_'.join(names)} ({reason})"

    def chains(self, source: str) -> list[list[Step]]:
        """The steps from a source to its object, or to that of each instruction set."""
        chain = self._chain(source)
        if not source.endswith("_kernels.cpp"):
            return [chain]
        (step,) = chain
        return [
            [replace(step, target=f"{step.target}.{name}", command=(*step.command, *defined))]
            for name, defined in INSTRUCTION_SETS.items()
        ]

    def _chain(self, source: str) -> list[Step]:
        target = f"{OBJECTS}/{source.replace('/', '-')}.o"
        if IS_EMULATED and source.startswith((CUDA, emulated.EMULATOR)):
            return [Step(emulated.translated(source), target, (*self._nvcc, "-c"), self._nvcc_version)]
        if source.endswith(".cu"):
            return [Step(source, target, (*self._nvcc, "-c"), self._nvcc_version)]
        if not source.endswith(".pyx"):
            unfused = ["-ffp-contract=off"] if source.startswith(UNFUSED) else []
            return [Step(source, target, (*self._cxx, *unfused, "-c"), self._cxx_version)]
        name = os.path.basename(source).removesuffix(".pyx")
        translated = f"build/cython/{name}.cpp"
        named = (*self._cython, "--module-name", f"{MODULES[name]}.{name}")
        if name == "_cuda":
            device_api.write_declarations()
            named = (*named, "-I", device_api.FOLDER)
        level = ["-O1"] if name in BINDINGS or IS_EMULATED else []
        return [
            Step(source, translated, named, self._cython_version, asks_dependencies=("--depfile",)),
            Step(translated, target, (*self._cxx, *level, "-c"), self._cxx_version),
        ]


class Build(build_ext):
    """Runs the steps of all modules side by side, then links each."""

    def finalize_options(self) -> None:
        super().finalize_options()
        if IS_EMULATED:  # no package shall contain it
            self.inplace, self.build_lib = False, emulated.FOLDER

    def run(self) -> None:
        super().run()
        for source, name in COPIED.items():
            target = Path("." if self.inplace else self.build_lib, name)
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(source, target)

    def build_extensions(self) -> None:
        require_compiler(self.compiler.compiler_so_cxx, sysconfig.get_path("include"))
        tools = Tools(self.compiler.compiler_so_cxx)
        order = {source: number for number, source in enumerate(LONGEST)}
        sources = sorted(
            (source for ext in self.extensions for source in ext.sources),
            key=lambda source: (order.get(source, len(order)), source),
        )
        chains = {source: tools.chains(source) for source in sources}
        store = Store(cache_folder())
        make([chain for of_source in chains.values() for chain in of_source], store)
        store.trim()
        for ext in self.extensions:
            self._link(ext, [chain[-1].target for source in ext.sources for chain in chains[source]])
        if not IS_EMULATED:
            SUMMARY.write_text(f"{tools.summary}\n", encoding="utf-8")
        print(tools.summary, file=sys.stderr)

    def _link(self, ext: Extension, objects: Sequence[str]) -> None:
        """Link a module, if its objects or options have changed since it was linked."""
        target, record = Path(self.get_ext_fullpath(ext.name)), Path(f"{OBJECTS}/{ext.name}.linked")
        text = "\n".join([*objects, *ext.libraries, *ext.library_dirs, *ext.extra_link_args, str(target)])
        linked = target.exists() and record.exists() and record.read_text(encoding="utf-8") == text
        if linked and all(os.stat(path).st_mtime_ns <= target.stat().st_mtime_ns for path in objects):
            return
        self.compiler.link_shared_object(
            objects,
            str(target),
            libraries=ext.libraries,
            library_dirs=ext.library_dirs,
            extra_postargs=ext.extra_link_args,
            build_temp=self.build_temp,
            target_lang="c++",
        )
        record.write_text(text, encoding="utf-8")


def extensions() -> list[Extension]:
    """The modules to build, with the options of the linker."""
    if IS_EMULATED:
        return [extension("_cuda")]
    found = [extension(name) for name in MODULES if name != "_cuda"]
    if compiler := cuda.nvcc():
        backend = extension("_cuda")
        backend.library_dirs = cuda.library_folders(cuda.ask(compiler, "--dryrun", backend.sources[-1]))
        backend.libraries = ["cudart_static", "rt", "dl", "pthread"]
        backend.extra_link_args.append("-Wl,--exclude-libs,ALL")
        found.append(backend)
    if IS_SANITIZED:
        for ext in found:
            ext.extra_link_args += SANITIZERS
    return found


if __name__ == "__main__":
    require_platform(sys.platform, sys.version_info)
    commands = {"build_ext": Build, "sdist": ReproducibleSdist}
    setup(ext_modules=extensions(), cmdclass=commands, options=OPTIONS)
