"""Devices, statistics of a matrix, and the choice of a kernel; most of it needs no device."""

from libcpp.vector cimport vector


cdef extern from "choice/select.h" namespace "bmrm" nogil:
    cdef struct Prediction:
        double seconds, bytes, chunks, elements, items, partials, launches

    Prediction c_predict "bmrm::predict"(const bb_device&, const bb_constants&, const bb_stats&, const bb_plan&)
    vector[int32_t] c_worth_timing "bmrm::worth_timing"(
        const bb_constants&, const bb_stats&, const bb_plan*, const double*, int32_t) except +


cdef _host_arrays(indptr, indices, shape):
    """Row pointers and columns on the host, checked."""
    m, d = _shape(shape)
    idx = _vector(indices, "indices")
    _stored_type(idx, None, (np.int32, np.int64), "indices", "integers", "iu")
    idx = np.require(idx, dtype=np.int32, requirements=("C", "A"))
    ptr = _row_pointers(indptr, 0, m, idx.shape[0])
    if idx.size and not (0 <= idx.min() and idx.max() < d):
        raise DataError(f"indices: found {idx.min()} to {idx.max()}, expected 0 to {d - 1}")
    return ptr, idx


def device_count():
    """Return the number of CUDA devices, 0 if there is no driver.

    Returns
    -------
    int

    Examples
    --------
    >>> device_count() >= 0
    True
    """
    cdef int32_t count = 0
    cdef bb_status status
    with nogil:
        status = bb_device_count(&count)
    if status == BB_NO_DEVICE:
        return 0
    check(status)
    return count


def built_for():
    """Return the compute capabilities that this build has code for, as pairs of major and minor number.

    Returns
    -------
    tuple

    Examples
    --------
    >>> all(capability >= (7, 5) for capability in built_for())
    True
    """
    cdef int32_t[32] found
    cdef int32_t count = bb_built_for(found, 32), k
    return tuple([divmod(found[k], 10) for k in range(min(count, 32))])


def device_info(device=0):
    """Return the properties of a device.

    Parameters
    ----------
    device : int, default 0

    Returns
    -------
    dict
        ``id``, ``name``, ``major``, ``minor`` (compute capability), ``multiprocessors``, and in bytes
        ``shared_per_block``, ``shared_per_multiprocessor``, ``l2_bytes``, ``total_bytes``, ``free_bytes``.

    Raises
    ------
    DeviceCodeError
        If this build has no code for it.
    BmrmError
        If there is no such device.
    """
    cdef int32_t number = _device(device)
    cdef bb_device info
    with nogil:
        check(bb_device_info(number, &info))
    return {
        "id": info.id,
        "name": (<bytes>info.name).decode("utf-8", "replace"),
        "major": info.major,
        "minor": info.minor,
        "multiprocessors": info.multiprocessors,
        "shared_per_block": info.shared_per_block,
        "shared_per_multiprocessor": info.shared_per_multiprocessor,
        "l2_bytes": info.l2_bytes,
        "total_bytes": info.total_bytes,
        "free_bytes": info.free_bytes,
    }


def measure(device=0):
    """Measure the constants of a device that predictions need; takes a fraction of a second.

    Parameters
    ----------
    device : int, default 0

    Returns
    -------
    dict
        ``launch`` (seconds), ``copy``, ``read``, ``fill_shared`` (bytes per second), ``gather_shared``,
        ``gather_l2``, ``gather_memory`` (gathers per second).

    Raises
    ------
    BmrmError
        If there is no such device, or it fails.
    """
    cdef int32_t number = _device(device)
    cdef bb_constants found
    with nogil:
        check(bb_measure(number, &found))
    return _constants_to(found)


def constants(device=0):
    """Return the result of `measure`, once per kind of device; see `bmrm.matrix.gpu.devices.constants`."""
    from bmrm.matrix.gpu.devices import constants as kept

    return kept(device)


def statistics(indptr, indices, shape, *, value_bytes=4, vector_bytes=4):
    """Return the statistics of a product with a sparse matrix; computed on the host, no device is needed.

    Parameters
    ----------
    indptr : array_like of int64, shape (m + 1,)
    indices : array_like of int32, shape (nnz,)
    shape : tuple of int
        (m, d).
    value_bytes : {0, 1, 4, 8}, default 4
        Stored bytes per value: 0 for ones, 1 for codes of a dictionary.
    vector_bytes : {4, 8}, default 4
        Size of an element of the vectors in bytes.

    Returns
    -------
    dict
        The fields of ``bb_stats``.

    Raises
    ------
    DataError
        If the arrays do not describe a matrix of this shape.
    ParameterError
        If `shape` or a number of bytes is out of range.

    Examples
    --------
    >>> found = statistics([0, 2, 2, 3], [0, 2, 1], (3, 3))
    >>> found["nnz"], found["empty_rows"], found["longest"]
    (3, 1, 2)
    """
    m, d = _shape(shape)
    if value_bytes not in (0, 1, 4, 8) or vector_bytes not in (4, 8):
        raise ParameterError(
            f"value_bytes {value_bytes!r}, vector_bytes {vector_bytes!r}: expected 0, 1, 4 or 8, and 4 or 8")
    ptr, idx = _host_arrays(indptr, indices, shape)
    cdef const int64_t* p = <const int64_t*>_address(ptr)
    cdef const int32_t* i = <const int32_t*>_address(idx)
    cdef int64_t rows = m, cols = d
    cdef int32_t of_value = value_bytes, of_vector = vector_bytes
    cdef bb_stats stats
    with nogil:
        check_data(bb_statistics_host(p, i, rows, cols, of_value, of_vector, &stats))
    return _stats_to(&stats)


def candidates(device, stats):
    """Return the plans worth considering for an operator on a device, which need not be present.

    Parameters
    ----------
    device : dict
        From `device_info`.
    stats : dict
        From `statistics`.

    Returns
    -------
    list of Plan
    """
    cdef bb_device on = _device_from(device)
    cdef bb_stats of
    _stats_from(stats, &of)
    cdef bb_plan plans[256]
    cdef int32_t count = bb_candidates(&on, &of, plans, MAX_CANDIDATES)
    return [_plan_to(plans[k]) for k in range(min(count, MAX_CANDIDATES))]


def predict(device, constants, stats, plan):
    """Predict the seconds of a product with a plan.

    Parameters
    ----------
    device, constants, stats : dict
        From `device_info`, `measure` and `statistics`.
    plan : Plan or str
        A plan, or the name of a kernel without parameters.

    Returns
    -------
    float
    """
    cdef bb_device on = _device_from(device)
    cdef bb_constants known = _constants_from(constants)
    cdef bb_stats of
    _stats_from(stats, &of)
    return c_predict(on, known, of, _plan_from(plan)).seconds


def prediction(device, constants, stats, plan):
    """Predict the seconds of a product with a plan, and its operations.

    Parameters
    ----------
    device, constants, stats : dict
        From `device_info`, `measure` and `statistics`.
    plan : Plan or str

    Returns
    -------
    dict
        ``seconds``; ``bytes`` of the format; ``chunks``, ``elements`` (including padding), ``items``,
        ``partials`` (sums that a second kernel adds up) and ``launches``; the numbers may be fractions.
    """
    cdef bb_device on = _device_from(device)
    cdef bb_constants known = _constants_from(constants)
    cdef bb_stats of
    _stats_from(stats, &of)
    return c_predict(on, known, of, _plan_from(plan))


def worth_timing(constants, stats, plans, predicted):
    """Return the positions of the candidates that ``tune="best"`` builds and times, most promising first.

    Parameters
    ----------
    constants, stats : dict
        From `measure` and `statistics`.
    plans : list of Plan
    predicted : list of float
        Predicted seconds of each plan.

    Returns
    -------
    list of int
    """
    cdef bb_constants known = _constants_from(constants)
    cdef bb_stats of
    _stats_from(stats, &of)
    cdef vector[bb_plan] listed
    cdef vector[double] seconds = predicted
    for plan in plans:
        listed.push_back(_plan_from(plan))
    if listed.size() != seconds.size():
        raise ParameterError(f"predicted: found {seconds.size()} numbers, expected {listed.size()}")
    return c_worth_timing(known, of, listed.data(), seconds.data(), <int32_t>listed.size())
