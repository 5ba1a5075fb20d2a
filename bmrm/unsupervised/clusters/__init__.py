"""k-means, exact, with a bound of how far it is from the best clusters."""
