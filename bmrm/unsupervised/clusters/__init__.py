"""k-means with exact labels, and a bound on how far its inertia is from the optimum."""
