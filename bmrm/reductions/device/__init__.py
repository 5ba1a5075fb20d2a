"""Estimators and reductions on a GPU: where they run, and the passes of each over rows that are there."""
