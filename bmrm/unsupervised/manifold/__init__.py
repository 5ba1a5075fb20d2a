"""Multidimensional scaling by majorisation."""
