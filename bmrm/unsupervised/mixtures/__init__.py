"""Mixtures of normal distributions, fitted by expectation maximisation."""
