"""Distance histograms and pair counts of points, exact on CPU and GPU; numbers of all pairs of points."""
