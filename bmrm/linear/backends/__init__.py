"""Where weights, margins and cuts live: in main memory, on a GPU, or on several ranks."""
