#!/bin/sh
# On a machine with an NVIDIA GPU and nvcc: builds in place for that GPU, then does what PART says; all parts without it.
#   tests       the tests that need a GPU, except those of graphs, reductions, pairs and estimators without labels
#   solves      kills of a training run, and the table of solves on the thesis's ten data sets
#   products    the table of products compared with NVIDIA's libraries
#   graph       the tests of graphs, and their figures compared with cuSPARSE
#   reductions  the tests of reductions and of estimators without labels, and their figures compared with CuPy and
#               PyTorch
#   pairs       the tests of pairs of points, their figures compared with plain kernels and PyTorch, and a paper's kernels
# Each part takes less than 8 minutes. If PYTHON has the packages, it is used unchanged and nothing is downloaded;
# otherwise they are installed into the environment VENV. GRAPH_ARGS are options of benchmarks/gpu/graph_gpu.py,
# REDUCTION_ARGS those of benchmarks/reductions/gpu.py, PAIR_ARGS those of benchmarks/pairs/gpu.py.
set -eu
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
venv=${VENV:-.venv}
part=${PART:-all}

case $part in
all | tests | solves | products | graph | reductions | pairs) ;;
*)
    echo "PART: found $part, expected tests, solves, products, graph, reductions or pairs" >&2
    exit 2
    ;;
esac

if ! "$python" -c 'import Cython, cupy, hypothesis, numpy, pytest, safetensors, scipy, setuptools, xdist' 2>/dev/null; then
    scripts/system-packages.sh build
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
    python=$venv/bin/python
    "$python" -m pip --disable-pip-version-check install -q \
        'Cython>=3.0' 'cupy-cuda13x[ctk]' 'hypothesis>=6' 'networkx>=3.4' 'numpy>=2.0' 'pytest>=8' 'pytest-xdist>=3' \
        python-flint safetensors scipy 'setuptools>=77'
fi

wants() { [ "$part" = all ] || [ "$part" = "$1" ]; }

export PYTHONPATH="$PWD"
BMRM_CUDA=on "$python" setup.py -q build_ext --inplace
"$python" -c 'from bmrm.matrix import _cuda; print("GPU:", _cuda.device_info()["name"])'
if wants tests; then
    "$python" -m pytest -q $(grep -v -E '^tests/(graph|reductions|pairs|unsupervised)/' scripts/gpu-tests.txt)
fi
if wants solves; then
    "$python" scripts/kill_runs.py
    "$python" -m benchmarks.gpu.thesis_ch5
fi
if wants products; then
    "$python" -m benchmarks.gpu.spmv_gpu
fi
if wants graph; then
    "$python" -m pytest -q $(grep '^tests/graph/' scripts/gpu-tests.txt)
    "$python" -m benchmarks.gpu.graph_gpu ${GRAPH_ARGS:-}
fi
if wants reductions; then
    "$python" -m pytest -q -n 8 -p no:benchmark $(grep -E '^tests/(reductions|unsupervised)/' scripts/gpu-tests.txt)
    "$python" -m benchmarks.reductions.gpu ${REDUCTION_ARGS:-}
    "$python" -m benchmarks.reductions.gpu_clusters
    "$python" -m benchmarks.reductions.gpu_seeding
    "$python" -m benchmarks.reductions.gpu_mixture
    "$python" -m benchmarks.reductions.gpu_mds
fi
if wants pairs; then
    "$python" -m pytest -q -n 8 -p no:benchmark $(grep '^tests/pairs/' scripts/gpu-tests.txt)
    "$python" -m benchmarks.pairs.gpu ${PAIR_ARGS:-}
    "$python" -m benchmarks.pairs.shapes --device cuda
    "$python" -m benchmarks.pairs.kde_gpu
    "$python" -m benchmarks.pairs.statistics_gpu
    "$python" -m benchmarks.pairs.paper --most 1000000 --ncu
fi
