"""What `setup.py` builds with: the tools, the objects that they make, and where these are kept."""
