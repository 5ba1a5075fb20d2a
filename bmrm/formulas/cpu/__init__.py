"""Compiled functions on the CPU: printers of LLVM's text, and the compiler that they feed."""
