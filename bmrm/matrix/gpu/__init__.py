"""GPUs: detection, when one pays off, how much memory a solve needs, and the cache of measurements."""
