"""Where walks run: the protocol of a backend, and the backends on the CPU and on a GPU."""
