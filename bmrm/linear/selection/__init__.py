"""Cross validation, and the choice of lam with it."""
