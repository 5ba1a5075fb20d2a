#!/bin/sh
# On a machine with an NVIDIA GPU and nvcc: builds in place for that GPU, runs the tests that need it, and prints the
# tables of solves on the thesis's ten data sets and of products compared with NVIDIA's libraries. If PYTHON has the
# packages, it is used unchanged and nothing is downloaded; otherwise they are installed into the environment VENV.
set -eu
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
venv=${VENV:-.venv}

if ! "$python" -c 'import Cython, cupy, hypothesis, numpy, pytest, safetensors, scipy, setuptools' 2>/dev/null; then
    scripts/system-packages.sh build
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
    python=$venv/bin/python
    "$python" -m pip --disable-pip-version-check install -q \
        'Cython>=3.0' 'cupy-cuda13x[ctk]' 'hypothesis>=6' 'numpy>=2.0' 'pytest>=8' safetensors scipy 'setuptools>=77'
fi

export PYTHONPATH="$PWD"
BMRM_CUDA=on BMRM_CUDA_ARCH=native "$python" setup.py -q build_ext --inplace
"$python" -c 'from bmrm.matrix import _cuda; print("GPU:", _cuda.device_info()["name"])'
"$python" -m pytest -q $(cat scripts/gpu-tests.txt)
"$python" scripts/kill_runs.py
"$python" -m benchmarks.gpu.thesis_ch5
exec "$python" -m benchmarks.gpu.spmv_gpu
