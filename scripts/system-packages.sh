#!/bin/sh
# Installs missing system packages with apt-get:
#
#   system-packages.sh build    those that `pip install .` needs: venv, Python headers, a C++ compiler
#   system-packages.sh petsc    also a BLAS for PETSc
#
# If none is missing, it does nothing and needs no rights. PYTHON names the interpreter.
set -eu

python=${PYTHON:-python3}
missing=

has_blas() {
    echo 'int main(void) { return 0; }' | cc -x c -o /dev/null - -lopenblas 2>/dev/null
}

"$python" -c 'import venv, ensurepip' 2>/dev/null || missing="$missing python3-venv"
"$python" -c 'import os, sysconfig as s; os.stat(os.path.join(s.get_path("include"), "Python.h"))' 2>/dev/null ||
    missing="$missing python3-dev"
command -v g++ >/dev/null || missing="$missing g++"
if [ "$1" = petsc ]; then
    has_blas || missing="$missing libopenblas-dev"
fi
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
    as_root=
elif command -v sudo >/dev/null; then
    as_root=sudo
else
    as_root=none
fi
if [ "$as_root" = none ] || ! command -v apt-get >/dev/null; then
    echo "make: install these packages first (Debian's names):$missing" >&2
    exit 1
fi

apt() {
    # shellcheck disable=SC2086  # the list is meant to split
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get "$@" >&2
}

echo "make: installing$missing" >&2
# shellcheck disable=SC2086
apt install -y -q --no-install-recommends $missing || {
    # There is no package list yet, or it names files that the mirror has replaced.
    apt update -q
    apt install -y -q --no-install-recommends $missing
}
