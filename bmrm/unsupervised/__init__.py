"""Estimators that need no labels: clusters, mixtures, decompositions, and multidimensional scaling."""
