"""The commands, ``bmrm``, ``bmrm-train`` and others: one module each, and their common code.

Starting must be quick, so these modules import NumPy and the compiled core only in the functions that use
them.
"""
