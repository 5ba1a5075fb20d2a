"""Regularised linear models: objective, bundle method, models, metrics and selection."""
