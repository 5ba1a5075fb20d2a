"""The language of row functions: what Python code they may contain, and the typed tree that it becomes."""
