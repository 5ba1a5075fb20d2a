"""The commands ``bmrm-train``, ``bmrm-predict`` and ``bmrm-bench``.

Starting must be quick, so these modules import NumPy and the compiled core only in the functions that use
them.
"""
