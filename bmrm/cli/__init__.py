"""The commands ``bmrm-train`` and ``bmrm-predict``.

Starting must be quick, so these modules import NumPy and the compiled core only where they use them.
"""
