"""The compiler of Python functions of a row: to machine code for CPUs, and to CUDA C++ for GPUs."""
