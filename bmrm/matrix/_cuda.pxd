"""Declarations of `_cuda`: the class that its matrix shares with `_cpu`."""

include "common/products_declaration.pxi"
