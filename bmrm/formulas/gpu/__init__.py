"""Compiled functions on a GPU: printers of CUDA C++, and the compiler that they feed."""
