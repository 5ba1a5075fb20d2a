"""Quality of the choice of a GPU kernel for other matrices: grids, bands, rows that are full, a large graph.

    python -m benchmarks.gpu.choice_families [--out FILE]

The matrices are the families of `choice_matrices` and a graph of shapes.py in float64, several times larger
than those of `choice_gpu`. They are measured as there, with cuSPARSE as the peer.
"""

from __future__ import annotations

import argparse
import itertools

from benchmarks.common import report, shapes
from benchmarks.gpu import choice_gpu, gpu_resident
from benchmarks.gpu.choice_matrices import FAMILIES, LARGE, Case, Rows
from bmrm.matrix import _cuda

SECONDS = 80.0
GRAPH, KIND = "livejournal-like", "float64"

SECTIONS = """
## Grids, bands, full rows and a large graph on a GPU

{gpu[name]}. Differences on grids, finite elements, bands, two full rows among short ones, and a graph of 89
million edges. The loss of a pick is its time over that of the best of all candidates, minus one.

[aims]

[groups]
matrices = {group} | products = {products} | tuned mean = {tuned mean:.1%} | worst = {tuned worst:.1%} |
predicted mean = {predicted mean:.1%} | predicted worst = {predicted worst:.1%}

The loss without one of the kernels:

[without]
without = {kernel} | best mean = {best[mean]:.2%} | worst = {best[worst]:.0%} |
tuned mean = {tuned[mean]:.2%} | tuned worst = {tuned[worst]:.0%} | predicted mean = {predicted[mean]:.2%} |
predicted worst = {predicted[worst]:.0%}
"""


def large_graph() -> Rows:
    matrix = shapes.generate(GRAPH)
    return Rows(*gpu_resident.host_arrays(matrix, KIND), matrix.shape)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=str(report.RESULTS / "choice_families.json"))
    options = parser.parse_args()
    graph = Case(f"{LARGE} {GRAPH}", KIND, large_graph)
    matrices = itertools.chain([(graph, graph.make())], choice_gpu.made(list(FAMILIES)))
    rows = list(choice_gpu.measure(matrices, SECONDS, choice_gpu.Peer()))
    gpu, constants = _cuda.device_info(), _cuda.constants()
    found = choice_gpu.summary_of(rows, constants, verbose=False)
    report.write(options.out, SECTIONS, gpu=gpu, constants=constants, **found)


if __name__ == "__main__":
    main()
