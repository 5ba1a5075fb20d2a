"""The outer loop and its kinds of step."""
