"""Weights, margins and cuts on several processes, on CPUs or GPUs."""
