"""Principal components and singular vectors, with error bounds."""
