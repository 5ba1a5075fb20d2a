"""The data matrix X on a device, with labels, weights and groups."""
