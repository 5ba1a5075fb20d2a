"""Builds the compiled core: one extension per file of ``src_cython``; ``_cuda`` includes all of ``src_cuda``.

Both use ``src_common``. Paths of #include start at these folders.

``BMRM_SANITIZE=1`` builds for the sanitizers of addresses and undefined behaviour (``scripts/fuzz.sh``).
``BMRM_CUDA`` says whether to build the CUDA backend (`cuda_compiler`). nvcc compiles each ``.cu`` on its own,
in parallel, into an object named by what went into it (`object_name`), so that a second build compiles
only what has changed. The CUDA runtime is linked statically, and no symbol of it is exported: at run time
the extension needs a driver, and only if a device is used.
"""

import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

COMMON = "src_common"
SOURCES = "src_cython"
CUDA = "src_cuda"
# Each extension, and the package that uses it and contains it, with a .pxd if other extensions cimport it.
MODULES = {
    "_ascent": "bmrm.linear.backends.host",
    "_cpu": "bmrm.matrix",
    "_cuda": "bmrm.matrix",
    "_dlpack": "bmrm.base",
    "_edges": "bmrm.io",
    "_graph": "bmrm.graph",
    "_joint": "bmrm.losses",
    "_losses": "bmrm.losses",
    "_qp": "bmrm.linear.bundle",
    "_reductions": "bmrm.reductions",
    "_svmlight": "bmrm.io",
    "_text": "bmrm.io",
    "_threads": "bmrm.base",
}
HEADERS = (".h", ".cuh", ".inl")
# Nothing reads the flags of floating-point exceptions; keeping them exact would stop loops with conditions
# from being vectorised; so would errno. A loop of few instructions that crosses a line of decoded code takes
# up to a third longer: the loop over a row's entries did so or not by chance.
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
SANITIZERS = ["-fsanitize=address,undefined"]
SANITIZED_FLAGS = [*SANITIZERS, "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer", "-O1", "-g1"]
CUDA_SOURCES = f"{CUDA}/**/*.cu"
CUDA_BUILD = "build/cuda"
ARCHITECTURES = ["75", "80", "86", "89", "90", "100", "120"]
NVCC_FLAGS = ["-std=c++17", "-O3", "-Xcompiler", "-fPIC,-fvisibility=hidden", f"-I{COMMON}", f"-I{CUDA}"]


def cuda_compiler(
    environ: Mapping[str, str], sources: Sequence[str], packages: Iterable[str] = ()
) -> str | None:
    """Path of the nvcc to build the CUDA backend with, or None to leave the backend out.

    ``BMRM_CUDA`` decides: ``off`` never builds it, ``auto`` (the default) builds it if there are an nvcc
    and CUDA sources, ``on`` builds it or fails. nvcc is looked for in ``CUDA_HOME``, on ``PATH``,
    and among the wheels of the toolkit (nvidia-cuda-nvcc, -runtime, -crt, -cccl, nvidia-nvvm) in the folders
    ``packages``.
    """
    choice = environ.get("BMRM_CUDA", "auto")
    if choice not in ("auto", "on", "off"):
        raise SystemExit(f"BMRM_CUDA: found {choice!r}, expected auto, on or off")
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


def architecture_flags(environ: Mapping[str, str], known: str) -> list[str]:
    """Options of nvcc that select the devices to compile for.

    Real code for each architecture that we support and this nvcc knows (``known`` is what its
    ``--list-gpu-code`` prints), and PTX of the newest for later ones. For developers, ``BMRM_CUDA_ARCH``
    selects some of them: ``90``, ``80,90``, or ``native`` for the devices of this machine.
    """
    choice = environ.get("BMRM_CUDA_ARCH", "")
    if choice == "native":
        return ["-arch=native"]
    available = re.findall(r"sm_(\w+)", known)
    wanted = choice.split(",") if choice else [name for name in ARCHITECTURES if name in available]
    for name in wanted:
        if name not in available:
            raise SystemExit(
                f"BMRM_CUDA_ARCH: found {name!r}, expected native or some of {','.join(available)}"
            )
    if not wanted:
        raise SystemExit(f"nvcc compiles for none of sm_{', sm_'.join(ARCHITECTURES)}")
    real = [f"-gencode=arch=compute_{name},code=sm_{name}" for name in wanted]
    return [*real, f"-gencode=arch=compute_{wanted[-1]},code=compute_{wanted[-1]}"]


def library_folders(dry_run: str) -> list[str]:
    """Folders of the toolkit's libraries, which nvcc prints in a dry run.

    It prints ``lib64`` for the wheels of the toolkit too, which have ``lib``.
    """
    line = re.search(r"^#\$ LIBRARIES=(.*)$", dry_run, re.MULTILINE)
    named = re.findall(r'"-L([^"]+)"', line[1]) if line else []
    return list(dict.fromkeys([*named, *(re.sub(r"/lib64(?=$|/stubs$)", "/lib", path) for path in named)]))


def headers_of(*roots: str) -> list[str]:
    """The headers in some folders and below."""
    paths = [path for root in roots for path in glob.glob(f"{root}/**/*.*", recursive=True)]
    return [path for path in paths if path.endswith(HEADERS)]


def object_name(source: str, headers: Iterable[str], command: Sequence[str]) -> str:
    """Name of an object: from the digest of its source, the headers and the compiler options."""
    digest = hashlib.sha256("\0".join(command).encode())
    for path in [source, *sorted(headers)]:
        with open(path, "rb") as file:
            digest.update(hashlib.sha256(path.encode()).digest() + hashlib.sha256(file.read()).digest())
    return f"{os.path.splitext(source)[0].replace('/', '-')}-{digest.hexdigest()[:20]}.o"


def ask(nvcc: str, *words: str) -> str:
    """The output of nvcc."""
    done = subprocess.run(
        [nvcc, *words], check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return done.stdout


def compile_cuda(nvcc: str, sources: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Compile the ``.cu`` files that have changed, and return the objects of all."""
    flags = [*NVCC_FLAGS, *architecture_flags(environ, ask(nvcc, "--list-gpu-code"))]
    headers = headers_of(COMMON, CUDA)
    key = [*flags, ask(nvcc, "--version")]
    objects = {path: os.path.join(CUDA_BUILD, object_name(path, headers, key)) for path in sources}
    stale = [path for path in sources if not os.path.exists(objects[path])]
    cores = os.cpu_count() or 1

    def compile_one(source: str) -> None:
        target = objects[source]
        part = f"{target}.{os.getpid()}"
        threads = f"--threads={max(1, cores // len(stale))}"
        subprocess.run([nvcc, "-c", *flags, threads, source, "-o", part], check=True)
        os.replace(part, target)

    os.makedirs(CUDA_BUILD, exist_ok=True)
    try:
        with ThreadPoolExecutor(cores) as pool:
            list(pool.map(compile_one, stale))
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"nvcc failed with status {error.returncode} on {error.cmd[-3]}") from None
    return list(objects.values())


def linked_list(objects: Sequence[str]) -> str:
    """File that lists the objects to link; it is newer than the extension only if the list has changed."""
    path, text = os.path.join(CUDA_BUILD, "linked.txt"), "\n".join(objects)
    known = ""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            known = file.read()
    if known != text:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return path


def main() -> None:
    """Run the build; the imports are here because only a build needs them."""
    import numpy as np
    from Cython.Build import cythonize
    from setuptools import Extension, setup
    from setuptools.command.build_ext import build_ext

    sanitized = os.environ.get("BMRM_SANITIZE") == "1"

    def extension(name: str, roots: Sequence[str], sources: Sequence[str] = ()) -> Extension:
        # -ffp-contract and the like stay at their defaults. -ffast-math is never used: sums have a fixed
        # order, and NaN and infinity must not be optimised away.
        return Extension(
            f"{MODULES[name]}.{name}",
            [os.path.join(SOURCES, f"{name}.pyx"), *sources],
            depends=headers_of(*roots),
            include_dirs=[*roots, np.get_include()],
            language="c++",
            extra_compile_args=[*COMPILE_FLAGS, *(SANITIZED_FLAGS if sanitized else [])],
            extra_link_args=["-pthread", *(SANITIZERS if sanitized else [])],
            define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")],
        )

    def units(name: str) -> list[str]:
        """The further translation units of a module: all of its folder."""
        return sorted(glob.glob(f"{SOURCES}/{name.removeprefix('_')}/**/*.cpp", recursive=True))

    extensions = [extension(name, [COMMON, SOURCES], units(name)) for name in MODULES if name != "_cuda"]
    cuda_sources = sorted(glob.glob(CUDA_SOURCES, recursive=True))
    nvcc = cuda_compiler(os.environ, cuda_sources, sys.path)
    if nvcc:
        host_sources = sorted(glob.glob(f"{CUDA}/**/*.cpp", recursive=True))
        cuda = extension("_cuda", [COMMON, SOURCES, CUDA], host_sources)
        cuda.library_dirs = library_folders(ask(nvcc, "--dryrun", cuda_sources[0]))
        cuda.libraries = ["cudart_static", "rt", "dl", "pthread"]
        cuda.extra_link_args.append("-Wl,--exclude-libs,ALL")
        extensions.append(cuda)

    class Build(build_ext):
        """Compiles the CUDA sources before the extension that their objects are linked into."""

        def build_extensions(self) -> None:
            for ext in self.extensions:
                if nvcc and ext.name == f"{MODULES['_cuda']}._cuda":
                    ext.extra_objects = compile_cuda(nvcc, cuda_sources, os.environ)
                    ext.depends.append(linked_list(ext.extra_objects))
            super().build_extensions()

    setup(
        ext_modules=cythonize(
            extensions,
            build_dir="build/cython",
            include_path=[SOURCES, "."],
            compiler_directives={
                "language_level": 3,
                "boundscheck": False,
                "wraparound": False,
                "cdivision": True,
                "freethreading_compatible": True,
            },
        ),
        cmdclass={"build_ext": Build},
        options={"build_ext": {"parallel": os.cpu_count()}},
    )


if __name__ == "__main__":
    main()
