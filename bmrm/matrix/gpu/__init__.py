"""GPUs: which there are, what runs on one, what fits, what was measured; the driver, uploads and arrays."""
