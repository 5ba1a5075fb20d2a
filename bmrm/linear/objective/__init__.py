"""J(w) = lam Omega(w) + R(w): its values, its lines, its cuts, and their rounding errors."""
