"""Estimators that store their points: nearest neighbours and kernel densities."""
