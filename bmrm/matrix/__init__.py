"""X on a device, with its labels, weights and groups."""
