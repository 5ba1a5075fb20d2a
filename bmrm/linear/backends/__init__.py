"""Storage of weights, margins and cuts: in main memory, on a GPU, or on several ranks."""
