"""Principal components and singular vectors, with bounds of their errors."""
