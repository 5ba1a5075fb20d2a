"""Cross validation, and the choice of lam by it."""
