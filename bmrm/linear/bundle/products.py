"""Products of the gradients of cuts, and of vectors of that length; compiled, on any number of threads.

``gram`` has the products of all rows of two arrays, ``combine`` a weighted sum of rows, and ``along`` a point
of a line.
"""

from bmrm.linear.bundle._qp import along, combine, gram

__all__ = ["along", "combine", "gram"]
