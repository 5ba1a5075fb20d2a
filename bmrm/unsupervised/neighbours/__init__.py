"""Estimators that keep their points: nearest neighbours, and densities."""
