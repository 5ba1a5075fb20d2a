"""Quality of the choice of a GPU kernel for matrices of other fields: grids, bands and rows that are full.

    python -m benchmarks.gpu.choice_families [--out FILE]

The matrices are the families of `choice_matrices`, measured as `choice_gpu` does, with cuSPARSE as the peer.
"""

from __future__ import annotations

import argparse

from benchmarks.common import report
from benchmarks.gpu import choice_gpu
from benchmarks.gpu.choice_matrices import FAMILIES
from bmrm.matrix import _cuda

SECONDS = 60.0

SECTIONS = """
## Grids, bands and full rows on a GPU

{gpu[name]}. Differences on grids, finite elements, bands, and two full rows among short ones. The loss of a
pick is its time over that of the best of all candidates, minus one.

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=str(report.RESULTS / "choice_families.json"))
    options = parser.parse_args()
    rows = list(choice_gpu.measure(choice_gpu.made(list(FAMILIES)), SECONDS, choice_gpu.Peer()))
    gpu, constants = _cuda.device_info(), _cuda.constants()
    found = choice_gpu.summary_of(rows, constants, verbose=False)
    report.write(options.out, SECTIONS, gpu=gpu, constants=constants, **found)


if __name__ == "__main__":
    main()
