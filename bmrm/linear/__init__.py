"""Regularised linear models: the objective, the bundle method that minimises it, and what comes of it."""
