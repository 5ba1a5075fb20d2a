"""Analyses of a row function before code is generated."""
