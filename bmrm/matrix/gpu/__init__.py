"""GPUs: which exist, what runs on one, what fits, measured rates; the driver, uploads and arrays."""
