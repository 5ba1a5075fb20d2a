"""Draws of k-means++ (C++ in ``draws.h``)."""

cdef extern from "reductions/draws.h" namespace "bmrm" nogil:
    cdef struct Draw:
        int64_t place
        double rest

    void c_add_in_order "bmrm::add_in_order"(const double*, int64_t, int64_t, double*)
    double left_in_place(double, double, double)
    Draw c_descend "bmrm::descend"(const double*, int64_t, double)
    int64_t c_draw_row "bmrm::draw_row<1024>"(const float*, const double*, int64_t, double)


SEEDING_PANEL_ROWS = 1024
"""Maximum number of rows that `draw_row` takes: rows of which a pass of k-means++ returns one sum."""


def add_in_order(values, int64_t each):
    """Return the sums of every ``each`` numbers along the last axis, added in order.

    Parameters
    ----------
    values : ndarray of float64, shape (m,) or (c, m)
    each : int

    Returns
    -------
    ndarray of float64, shape (ceil(m / each),) or (c, ceil(m / each))
    """
    values = _input(values, values.shape, "values")
    cdef int64_t count = values.shape[values.ndim - 1]
    sums = np.empty((*values.shape[:values.ndim - 1], (count + each - 1) // each))
    cdef const double* source = <const double*>_address(values)
    cdef double* target = <double*>_address(sums)
    cdef int64_t c, rows = values.size // max(1, count), size = sums.shape[sums.ndim - 1]
    for c in range(rows):
        c_add_in_order(source + c * count, count, each, target + c * size)
    return sums


def descend(sums, double number):
    """Return the place that a number in [0, 1] draws in proportion to sums, and what is left of the number."""
    sums = _input(sums, sums.shape, "sums")
    cdef Draw found = c_descend(<const double*>_address(sums), len(sums), number)
    return found.place, found.rest


def draw_row(closest, weights, double number):
    """Return the row of a panel that a number in [0, 1] draws in proportion to w D^2.

    Parameters
    ----------
    closest : ndarray of float32, shape (n,)
        Squared distances of up to `SEEDING_PANEL_ROWS` rows.
    weights : ndarray of float64, shape (n,), or None
    number : float
    """
    closest = np.require(closest, np.float32, ("C", "A"))
    cdef int64_t count = len(closest)
    if not 0 < count <= 1024:
        raise ParameterError(f"closest: found {count} numbers, expected 1 to 1024")
    cdef const double* w = NULL
    if weights is not None:
        weights = _input(weights, (count,), "weights")
        w = <const double*>_address(weights)
    return c_draw_row(<const float*>_address(closest), w, count, number)
