"""Estimators that need no labels: clusters, mixtures, decompositions, scaling, and neighbours."""
