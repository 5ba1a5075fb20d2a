"""The compiler of Python functions of a row: to machine code for CPUs, and by CUDA C++ for GPUs."""
