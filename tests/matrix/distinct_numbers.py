"""Distinct numbers, without the hash table of NumPy 2.4: for half a million it takes fifty times as long."""

import numpy as np


def distinct_numbers(numbers):
    """Return the distinct integers, none of them negative, in their order."""
    ordered = np.sort(numbers)
    return ordered[np.diff(ordered, prepend=-1) > 0]
