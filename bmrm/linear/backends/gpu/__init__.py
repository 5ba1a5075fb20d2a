"""Weights, margins and cuts on one GPU."""
