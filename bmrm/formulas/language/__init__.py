"""The language of row functions: what is read from Python's text, and the tree that it becomes."""
