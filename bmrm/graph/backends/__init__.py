"""Where walks run: the protocol of a backend, and the backend on the CPU."""
