"""The two products of a bundle, and points of a line: binding of ``qp/cut_products.h``."""

cdef extern from "qp/cut_products.h" namespace "bmrm" nogil:
    void c_gram "bmrm::gram"(
        const double*, int64_t, const double*, int64_t, int64_t, int, double*) except +
    void c_combine "bmrm::combine"(
        const double*, int64_t, int64_t, const double*, int, double*) except +
    void c_along "bmrm::along"(const double*, const double*, double, int64_t, int, double*) except +


def gram(A_old, A_new, out=None, *, threads=None):
    """Return the products of all pairs of rows, ``A_old @ A_new.T``, summed in a fixed order.

    Parameters
    ----------
    A_old : ndarray of float64, shape (n, d)
        Other dtypes and layouts are copied.
    A_new : ndarray of float64, shape (P, d)
        Likewise.
    out : ndarray of float64, shape (n, P), optional
        Where to write, C-contiguous; a new array by default.
    threads : int, optional
        Maximum number of threads; the result does not depend on it.

    Returns
    -------
    ndarray of float64, shape (n, P)

    Raises
    ------
    ParameterError
        If the shapes disagree or `out` cannot be written in place.

    Examples
    --------
    >>> gram([[1.0, 2.0], [0.0, 1.0]], [[3.0, 4.0]])
    array([[11.],
           [ 4.]])
    """
    cdef int n_threads = _threads(threads)
    A_old = np.require(A_old, dtype=np.float64, requirements=("C", "A"))
    A_new = np.require(A_new, dtype=np.float64, requirements=("C", "A"))
    if A_old.ndim != 2 or A_new.ndim != 2 or A_old.shape[1] != A_new.shape[1]:
        raise ParameterError(
            f"gram: found shapes {A_old.shape} and {A_new.shape}, expected (n, d) and (P, d)")
    cdef int64_t n = A_old.shape[0], d = A_old.shape[1], P = A_new.shape[0]
    out = _output(out, (n, P))
    cdef const double* a = <const double*>_address(A_old)
    cdef const double* b = <const double*>_address(A_new)
    cdef double* target = <double*>_address(out)
    with nogil:
        c_gram(a, n, b, P, d, n_threads, target)
    return out


def combine(A, coef, out=None, *, threads=None):
    """Return a combination of rows, ``coef @ A``, without the rows whose coefficient is 0.

    Parameters
    ----------
    A : ndarray of float64, shape (n, d)
        Other dtypes and layouts are copied.
    coef : ndarray of float64, shape (n,)
        Likewise.
    out : ndarray of float64, shape (d,), optional
        Where to write, C-contiguous; a new array by default.
    threads : int, optional
        Maximum number of threads; the result does not depend on it.

    Returns
    -------
    ndarray of float64, shape (d,)

    Raises
    ------
    ParameterError
        If the shapes disagree or `out` cannot be written in place.

    Examples
    --------
    >>> combine([[1.0, 2.0], [0.0, 1.0]], [2.0, 0.0])
    array([2., 4.])
    """
    cdef int n_threads = _threads(threads)
    A = np.require(A, dtype=np.float64, requirements=("C", "A"))
    if A.ndim != 2:
        raise ParameterError(f"A: found {A.ndim} dimensions, expected 2")
    cdef int64_t n = A.shape[0], d = A.shape[1]
    coef = _input(coef, (A.shape[0],), "coef")
    out = _output(out, (A.shape[1],))
    cdef const double* a = <const double*>_address(A)
    cdef const double* c = <const double*>_address(coef)
    cdef double* target = <double*>_address(out)
    with nogil:
        c_combine(a, n, d, c, n_threads, target)
    return out


def along(x, y, double t, out=None, *, threads=None):
    """Return the point ``x + t y`` of a line.

    Parameters
    ----------
    x, y : ndarray of float64, shape (n,)
        Other dtypes and layouts are copied.
    t : float
    out : ndarray of float64, shape (n,), optional
        Where to write, C-contiguous; may be x. A new array by default.
    threads : int, optional
        Maximum number of threads; the result does not depend on it.

    Returns
    -------
    ndarray of float64, shape (n,)

    Raises
    ------
    ParameterError
        If the shapes disagree or `out` cannot be written in place.

    Examples
    --------
    >>> along([1.0, 2.0], [1.0, -1.0], 0.5)
    array([1.5, 1.5])
    """
    cdef int n_threads = _threads(threads)
    x = np.require(x, dtype=np.float64, requirements=("C", "A"))
    if x.ndim != 1:
        raise ParameterError(f"x: found {x.ndim} dimensions, expected 1")
    cdef int64_t n = x.shape[0]
    y = _input(y, (x.shape[0],), "y")
    out = _output(out, (x.shape[0],))
    cdef const double* a = <const double*>_address(x)
    cdef const double* b = <const double*>_address(y)
    cdef double* target = <double*>_address(out)
    with nogil:
        c_along(a, b, t, n, n_threads, target)
    return out
