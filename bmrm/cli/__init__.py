"""The commands, ``bmrm``, ``bmrm-train`` and others: one module each, and what they share.

Starting must be quick, so these modules import NumPy and the compiled core only in the functions that use
them.
"""
