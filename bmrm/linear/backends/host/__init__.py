"""Weights, margins and cuts in NumPy arrays, with compiled loops."""
