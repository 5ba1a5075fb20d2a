"""Compiled functions on a GPU: printers of CUDA C++, and its compiler."""
