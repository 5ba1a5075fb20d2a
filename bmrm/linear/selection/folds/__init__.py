"""Folds of cross validation as blocks of rows, so that what one fold's solve learns serves all others.

Let Q_g(w) = sum over the rows of fold g of s_i loss_i / S, with S the sum of all weights.  A solve that holds
fold f out minimises

    J_f(w) = lam Omega(w) + c_f sum over g != f of Q_g(w),        c_f = S / (S - S_f).

A cut of Q_g bounds Q_g whatever rows are held out and whatever lam is.  So every pass, whichever fold it is
made for, takes a cut of each Q_g, that of the fold held out included; one bundle (`FoldBundle`) keeps them
for all folds and all lam, and a solve weighs them by c_f and leaves those of its own fold out.  Its lower
bound is exact: a sum of lower bounds of the parts of its own risk.

The Hessian of the risk of all rows is close to that of all rows except one fold's, and the exact point of
evaluation hardly matters, because a Hessian only proposes a point.  So the Newton steps of all folds and all
lam use the same few Hessians.

The rows of a fold need not be neighbours in X: vectors over rows are kept sorted by fold, and `RowsByFold`
translates at the two products.
"""

from bmrm.linear.selection.folds.bundle import FoldBundle
from bmrm.linear.selection.folds.dealing import Folds, by_fold, deal
from bmrm.linear.selection.folds.objective import FoldObjective, FoldParts, FoldPoint
from bmrm.linear.selection.folds.rows import CachedProducts, RowsByFold

__all__ = [
    "CachedProducts",
    "FoldBundle",
    "FoldObjective",
    "FoldParts",
    "FoldPoint",
    "Folds",
    "RowsByFold",
    "by_fold",
    "deal",
]
