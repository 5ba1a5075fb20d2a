"""Sum the columns of a mapped file in little memory; print a sum and how much memory that took."""
# ruff: noqa: F821 (annotations name sizes)

import re
import resource
import sys
from pathlib import Path

import numpy as np

from bmrm.distributed import rows
from bmrm.reductions import reduction


@reduction
def totals(x, total: "d"):
    for f in range(len(x)):
        total[f] += x[f]


def peak(of: str) -> int:
    """Return a number of bytes of the status of this process."""
    return 1024 * int(re.findall(rf"{of}:\s+(\d+) kB", Path("/proc/self/status").read_text())[0])


X = np.load(sys.argv[1], mmap_mode="r")
totals(np.zeros((4096, 64), np.float32), threads=1)  # all code is loaded
totals(np.zeros((4096, 64), np.float64), threads=1)
used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_DATA, (used + (96 << 20), used + (96 << 20)))
rows.available_bytes = lambda: 300 << 20
Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
before = peak("VmRSS")
found = totals(X, threads=2)
print(found.total[0], (peak("VmHWM") - before) / 2**20)
