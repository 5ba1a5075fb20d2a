"""Coordinate ascent in the dual on the matrix in main memory; ``dual/coordinate_ascent.h`` says how."""

from libc.stdint cimport int32_t, int64_t
from libcpp.memory cimport unique_ptr

from bmrm.matrix._cpu cimport Matrix
from cpu.matrix cimport CMatrix

import numpy as np

from bmrm.errors import ParameterError


cdef extern from "dual/coordinate_ascent.h" namespace "bmrm" nogil:
    cdef struct Conjugate:
        pass

    cdef struct Constant:
        double value, penalty
        bint held

    cdef cppclass CAscent "bmrm::Ascent":
        void step(double*, double) except +
        void set(double*)
        void get(double*)
        void balance(const double*)
        double conjugate()
        bint enough()

    unique_ptr[CAscent] ascent_of_margins(
        const CMatrix&, int64_t, int64_t, int64_t, double, Constant, const Conjugate*) except +
    unique_ptr[CAscent] ascent_of_classes(
        const CMatrix&, int64_t, int64_t, int64_t, double, Constant, const int32_t*, const double*, const double*
    ) except +


include "common/vectors.pxi"


cdef class Ascent:
    """The derivatives r of a risk with respect to its margins, on their way to the maximum of the dual.

    The risk is a sum over rows, the penalty is ``lam/2 |w|^2``. r starts at the feasible point nearest to zero,
    and ``w = -X^T r / lam`` is kept up to date with it. A single thread does all the work, in an order that
    depends only on the number of rows.

    Parameters
    ----------
    X : Matrix
        With m rows and d columns.
    conjugates : ndarray of float64, shape (m K, 6), or tuple
        The conjugate of each margin's loss: place, width, bend, low, high, entropy (``conjugates.h``), including
        the weights. Or, for the largest of K margins plus costs less the margin of the row's class: the class
        of each row (int32), the costs (K, K) or None, and the weights of the rows.
    columns : int
        K, the number of margins per row.
    lam : float
        Positive.
    constant : float, default 0
        Value of a constant feature, which comes last; 0 for none.
    penalty : float, optional
        Penalty on the constant's weight, by default ``lam``; may be 0 if the weight is held.
    held : bool, default False
        Hold the constant's weight near its value at the start of a step. Then it does not belong to r, but
        converges to the weight that does as steps go on, each from a balanced r.

    Raises
    ------
    ParameterError
        If the arrays do not fit the matrix, or a number is out of range.

    References
    ----------
    Hsieh, Chang, Lin, Keerthi, Sundararajan, ICML 2008, 408. Keerthi, Sundararajan, Chang, Hsieh, Lin, KDD
    2008, 408. Yu, Huang, Lin, Machine Learning 85 (2011) 41.

    Examples
    --------
    The hinge loss of one row, 2, with the label 1: its conjugate is r for -1 <= r <= 0.

    >>> from bmrm.matrix._cpu import Matrix
    >>> ascent = Ascent(Matrix.from_dense([[2.0]]), np.array([[1.0, 0.0, 0.0, -1.0, 0.0, 0.0]]), 1, 1.0)
    >>> w, r = np.zeros(1), np.empty(1)
    >>> ascent.step(w), ascent.get(r)
    (None, None)
    >>> w, r, ascent.conjugate
    (array([0.5]), array([-0.25]), -0.25)
    """

    cdef unique_ptr[CAscent] impl
    cdef Matrix _X
    cdef int64_t _rows, _weights, _columns

    def __init__(self, Matrix X, conjugates, int64_t columns, double lam, double constant=0.0, penalty=None, *,
                 bint held=False):
        cdef int64_t m = X._m, d = X._d
        cdef Constant one = Constant(constant, lam if penalty is None else <double>penalty, held)
        if columns < 1 or not lam > 0.0:
            raise ParameterError(f"columns, lam: found {columns} and {lam:g}, expected positive numbers")
        if not one.penalty >= 0.0 or (constant != 0.0 and one.penalty == 0.0 and not held):
            raise ParameterError(f"penalty: found {one.penalty:g}, expected a positive number, or 0 if held")
        self._X, self._rows, self._columns = X, m * columns, columns
        self._weights = (d + (constant != 0.0)) * columns
        cdef const Conjugate* rows
        cdef const int32_t* y
        cdef const double* cost
        cdef const double* weight
        if isinstance(conjugates, tuple):
            classes, costs, weights = conjugates
            classes = np.require(classes, np.int32, requirements=("C", "A"))
            weights = _input(weights, (m,), "weights")
            if classes.shape != (m,) or (m and not (0 <= classes.min() and classes.max() < columns)):
                raise ParameterError(f"classes: expected {m} numbers from 0 to {columns - 1}")
            costs = None if costs is None else _input(costs, (columns, columns), "costs")
            y, weight = <const int32_t*>_address(classes), <const double*>_address(weights)
            cost = NULL
            if costs is not None:
                cost = <const double*>_address(costs)
            self.impl = ascent_of_classes(X._get()[0], m, d, columns, lam, one, y, cost, weight)
        else:
            conjugates = _input(conjugates, (m * columns, 6), "conjugates")
            rows = <const Conjugate*>_address(conjugates)
            self.impl = ascent_of_margins(X._get()[0], m, d, columns, lam, one, rows)

    def step(self, w, double wanted=0.0):
        """Sweep over all rows, then a few times over those that may still move.

        Parameters
        ----------
        w : ndarray of float64, shape (d K,), or ((d + 1) K,) with a constant
            ``-X^T r / lam``, row after row; updated in place.
        wanted : float, default 0
            End early if the objective at w seems to be within this distance of the dual.

        Raises
        ------
        ParameterError
            If `w` cannot be written in place.
        """
        cdef double* target = <double*>_address(_output(w, (self._weights,)))
        with nogil:
            self.impl.get().step(target, wanted)

    def balance(self, sums):
        """Make the sums of r equal to ``sums``, shape (K,), as far as the bounds allow.

        Has no effect on classes, whose shares add up already.
        """
        self.impl.get().balance(<const double*>_address(_input(sums, (self._columns,), "sums")))

    def set(self, r):
        """Move to the feasible point nearest to ``r``, shape (m K,), and write it there."""
        self.impl.get().set(<double*>_address(_output(r, (self._rows,))))

    def get(self, r):
        """Write the derivatives to ``r``, shape (m K,)."""
        self.impl.get().get(<double*>_address(_output(r, (self._rows,))))

    @property
    def conjugate(self):
        """Sum of the conjugates at r."""
        return self.impl.get().conjugate()

    @property
    def enough(self):
        """Whether the last step ended because the gap seemed to be as wanted."""
        return self.impl.get().enough()
