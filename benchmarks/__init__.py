"""Measurements that docs/performance.md is made from. `make bench` lists them.

Call each from the root of the checkout, for instance `python -m benchmarks.cpu.load`. Python then looks for
modules in that folder first, and would find the sources of bmrm, which may not be compiled. This module moves
the folder to the end of the path: an installed bmrm comes before it, and so does whatever PYTHONPATH names.
"""

import sys
from pathlib import Path

if sys.path and sys.path[0] == str(Path(__file__).parents[1]):
    sys.path.append(sys.path.pop(0))
