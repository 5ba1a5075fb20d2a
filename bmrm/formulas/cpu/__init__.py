"""Compiled functions on the CPU: printers of LLVM IR, and its compiler."""
