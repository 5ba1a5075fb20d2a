"""The compiler of formulas in Python: from a function of one row to code for the CPU and text for the GPU."""
