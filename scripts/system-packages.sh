#!/bin/sh
# Installs, by apt-get, the system packages among these that are missing:
#
#   system-packages.sh build    what `pip install .` needs: venv, Python headers, a C++ compiler
#   system-packages.sh petsc    a BLAS for PETSC as well
#
# Does nothing, and needs no rights, where they are all there. PYTHON names the interpreter to serve.
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
    echo "make: these are needed first (names of Debian's packages):$missing" >&2
    exit 1
fi

apt() {
    # shellcheck disable=SC2086  # the list is meant to split
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get "$@" >&2
}

echo "make: installing$missing" >&2
# shellcheck disable=SC2086
apt install -y -q --no-install-recommends $missing || {
    # No package list yet, or one that names files the mirror has since replaced.
    apt update -q
    apt install -y -q --no-install-recommends $missing
}
