"""Whether there is a GPU, whether it pays, what fits on it, and what was measured there."""
