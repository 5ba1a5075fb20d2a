"""Rows on the device as the passes of k-means read them: binding of ``src_cuda/api/clusters.h``."""

PANEL_ROWS = BB_PANEL_ROWS
"""Number of rows of which `Clusters.potentials` returns one sum."""

MAX_TRIALS = BB_MAX_TRIALS
"""Maximum number of candidates for a centre of `Clusters.begin_choice`."""


def predict_cluster_bytes(int64_t n, int64_t d, int64_t k, dtype, bint uploaded):
    """Return the bytes that rows take on a device for passes with k centres.

    Parameters
    ----------
    n, d, k : int
    dtype : float32 or float64
    uploaded : bool
        Whether the rows are in main memory.
    """
    return bb_clusters_bytes(n, d, k, _type_of(dtype), uploaded)


def predict_sparse_cluster_bytes(int64_t n, int64_t d, int64_t entries, int64_t k, dtype):
    """Return the bytes that sparse rows take on a device for passes with k centres.

    Parameters
    ----------
    n, d : int
    entries : int
        Stored values.
    k : int
    dtype : float32, float64, or None
        None if all values are 1.
    """
    cdef bb_type kind = BB_FLOAT64 if dtype is None else _type_of(dtype)
    return bb_sparse_clusters_bytes(n, d, entries, k, kind, dtype is not None)


def count_cluster_additions(int64_t n, int64_t d, int64_t k):
    """Return the maximum number of additions that a term of a sum over rows and columns goes through."""
    return bb_clusters_additions(n, d, k)


@cython.no_gc_clear
cdef class RowValues:
    """One number of four bytes per row, on the device: labels or squared distances."""

    cdef Clusters rows
    cdef void* address
    cdef readonly object dtype

    def __dealloc__(self):
        if self.address != NULL and self.rows.handle != NULL:
            bb_clusters_give(self.rows.handle, self.address)

    def read(self, int64_t first, int64_t last):
        """Copy the numbers of some rows to the host."""
        out = np.empty(max(0, last - first), self.dtype)
        cdef void* to = _address(out)
        cdef int64_t count = len(out)
        if count:
            with nogil:
                check(bb_clusters_read(self.rows.handle, self.address, first, count, to))
        return out

    def write(self, values):
        """Replace all numbers by those on the host."""
        values = np.require(values, self.dtype, ("C", "A"))
        if values.shape != (self.rows.n,):
            raise ParameterError(f"values: found shape {values.shape}, expected {(self.rows.n,)}")
        cdef const void* source = _address(values)
        with nogil:
            check(bb_clusters_write(self.rows.handle, self.address, source))


@cython.no_gc_clear
cdef class Clusters:
    """Dense rows on a device, or sparse ones by `sparse`.

    Parameters
    ----------
    X : ndarray or array on the device, of float32 or float64, shape (n, d), C-contiguous
        Used in place if it is on the device.
    weights : ndarray of float64, shape (n,), or None
    device : int, default 0
    memory_limit : int, optional
        Maximum number of bytes of device memory, besides X if it is there already.
    threads : int, optional
        Maximum number of threads for the upload.

    Raises
    ------
    DeviceMemoryError
        If the rows do not fit.
    """

    cdef bb_clusters* handle
    cdef object _owner, _dtype
    cdef bint _is_sparse
    cdef readonly int64_t n, d

    def __init__(self, X, weights=None, *, device=0, memory_limit=None, threads=None):
        array = _array(X, "X")
        if array.ndim != 2 or array.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise ParameterError(f"X: found {array.ndim} dimensions of {array.dtype}, expected 2 of floats")
        if isinstance(array, np.ndarray):
            array = np.require(array, requirements=("C", "A"))
        self._owner, (self.n, self.d), self._dtype = (X, array), array.shape, array.dtype
        cdef const double* w = NULL
        if weights is not None:
            weights = _input(weights, (self.n,), "weights")
            w = <const double*>_address(weights)
        cdef int32_t number = _device(device), team = _threads(threads)
        cdef int64_t limit = _memory_limit(memory_limit)
        cdef bb_type kind = _type_of(array.dtype)
        cdef const void* values = <const void*><size_t>(
            array.address if isinstance(array, _DeviceArray) else array.ctypes.data)
        cdef bb_device info
        with nogil:
            check(bb_device_info(number, &info))
            check(bb_clusters_dense(&info, self.n, self.d, kind, values, w, limit, team, &self.handle))
        if isinstance(array, np.ndarray):
            self._owner = None  # it was copied

    @staticmethod
    def sparse(
        indptr, indices, data, shape, weights=None, *, most=None, device=0, memory_limit=None, threads=None
    ):
        """Put compressed rows with ascending columns on a device.

        Parameters
        ----------
        indptr : ndarray of int64, shape (n + 1,)
        indices : ndarray of int32 or int64, shape (nnz,)
        data : ndarray of float32 or float64, shape (nnz,), or None
            None if all values are 1.
        shape : tuple of int
        most : int, optional
            Maximum number of stored values of rows that `load` puts in the place of these; default: nnz.
        weights, device, memory_limit, threads
            As for dense rows.
        """
        cdef Clusters self = Clusters.__new__(Clusters)
        self.n, self.d = _shape(shape)
        self._is_sparse = True
        starts = _row_pointers(indptr, 0, self.n, len(indices))
        columns = np.require(indices, np.int32, ("C", "A"))
        cdef const void* values = NULL
        cdef bb_type kind = BB_FLOAT64
        if data is not None:
            data = np.require(data, requirements=("C", "A"))
            self._dtype = data.dtype
            values, kind = <const void*>_address(data), _type_of(data.dtype)
        cdef int64_t most_entries = max(len(columns), 0 if most is None else most)
        cdef const double* w = NULL
        if weights is not None:
            weights = _input(weights, (self.n,), "weights")
            w = <const double*>_address(weights)
        cdef const int64_t* first = <const int64_t*>_address(starts)
        cdef const int32_t* places = <const int32_t*>_address(columns)
        cdef int32_t number = _device(device), team = _threads(threads)
        cdef int64_t limit = _memory_limit(memory_limit)
        cdef bb_device info
        with nogil:
            check(bb_device_info(number, &info))
            check(bb_clusters_sparse(
                &info, self.n, self.d, most_entries, first, places, kind, values, w, limit, team,
                &self.handle))
        return self

    def __dealloc__(self):
        cdef bb_clusters* handle = self.handle
        self.handle = NULL
        if handle != NULL:
            with nogil:
                bb_clusters_destroy(handle)

    def load(self, X, weights=None):
        """Replace rows that were uploaded by others, no more than at first; columns stay.

        Parameters
        ----------
        X : ndarray of the same type, shape (n, d), or Csr for sparse rows
        weights : ndarray of float64, shape (n,), or None as at first
        """
        if self._is_sparse:
            self._load_sparse(X, weights)
            return
        if X.ndim != 2 or X.shape[1] != self.d or X.dtype != self._dtype:
            raise ParameterError(f"X: found {X.shape} of {X.dtype}, expected {self.d} columns of {self._dtype}")
        X = np.require(X, requirements=("C", "A"))
        cdef int64_t n = len(X)
        cdef const double* w = NULL
        if weights is not None:
            weights = _input(weights, (n,), "weights")
            w = <const double*>_address(weights)
        cdef const void* values = _address(X)
        with nogil:
            check(bb_clusters_load(self.handle, n, values, w))
        self.n = n

    cdef int _load_sparse(self, X, weights) except -1:
        kind = None if X.data is None else X.data.dtype
        if X.shape[1] != self.d or kind != self._dtype:
            raise ParameterError(f"X: found {X.shape} of {kind}, expected {self.d} columns of {self._dtype}")
        cdef int64_t n = X.shape[0]
        starts = _row_pointers(X.indptr, 0, n, len(X.indices))
        columns = np.require(X.indices, np.int32, ("C", "A"))
        cdef const void* values = NULL
        if X.data is not None:
            data = np.require(X.data, requirements=("C", "A"))
            values = <const void*>_address(data)
        cdef const double* w = NULL
        if weights is not None:
            weights = _input(weights, (n,), "weights")
            w = <const double*>_address(weights)
        cdef const int64_t* first = <const int64_t*>_address(starts)
        cdef const int32_t* places = <const int32_t*>_address(columns)
        with nogil:
            check(bb_clusters_load_sparse(self.handle, n, first, places, values, w))
        self.n = n
        return 0

    def largest(self):
        """Return the maximum of ``abs(X)``; infinity if a value is not finite."""
        cdef double found
        with nogil:
            check(bb_clusters_largest(self.handle, &found))
        return found

    def pack(self, shift, double scale):
        """Make rows ready for passes; ``scale`` is a power of two, ``(X - shift) * scale`` at most about 1."""
        shift = _input(shift, (self.d,), "shift")
        cdef const double* offsets = <const double*>_address(shift)
        with nogil:
            check(bb_clusters_pack(self.handle, offsets, scale))

    def take(self, numbers):
        """Return some rows, dense in float64."""
        numbers = np.require(numbers, np.int64, ("C", "A"))
        out = np.empty((len(numbers), self.d))
        cdef const int64_t* chosen = <const int64_t*>_address(numbers)
        cdef int64_t count = len(numbers)
        cdef double* to = <double*>_address(out)
        if count:
            with nogil:
                check(bb_clusters_take(self.handle, chosen, count, to))
        return out

    cdef RowValues _column(self, uint32_t bits, dtype):
        cdef RowValues out = RowValues.__new__(RowValues)
        out.rows, out.dtype = self, np.dtype(dtype)
        with nogil:
            check(bb_clusters_lend(self.handle, bits, &out.address))
        return out

    def labels(self):
        """Return a column of labels, all -1."""
        return self._column(0xFFFFFFFF, np.int32)

    def distances(self):
        """Return a column of squared distances, all infinite."""
        return self._column(0x7F800000, np.float32)

    cdef bb_clusters* _get(self) except NULL:
        if self.handle == NULL:
            raise ParameterError("rows: there are none")
        return self.handle

    cdef void* _of(self, RowValues column, dtype) except NULL:
        if column.rows is not self or column.dtype != dtype:
            raise ParameterError("column: it belongs elsewhere")
        return column.address

    def assign(self, centers, RowValues labels, *, bint want_sums=True):
        """Label each row by its nearest centre; as `bmrm.unsupervised.clusters._clusters.Clusters.assign`."""
        centers = _input(centers, (len(centers), self.d), "centers")
        cdef int64_t k = len(centers)
        sums = np.empty((k, self.d)) if want_sums else None
        cluster_weights = np.empty(k)
        cdef const double* places = <const double*>_address(centers)
        cdef int32_t* column = <int32_t*>self._of(labels, np.int32)
        cdef double* to = NULL
        if want_sums:
            to = <double*>_address(sums)
        cdef double* weights = <double*>_address(cluster_weights)
        cdef bb_cluster_counts found
        with nogil:
            check(bb_clusters_assign(self.handle, places, k, column, to, weights, &found))
        return sums, cluster_weights, found.inertia, found.changed, found.rechecked

    def own_distances(self, centers, RowValues labels):
        """Return the squared distance of each row to the centre of its label."""
        centers = _input(centers, (len(centers), self.d), "centers")
        cdef int64_t k = len(centers)
        out = np.empty(self.n)
        cdef const double* places = <const double*>_address(centers)
        cdef const int32_t* column = <const int32_t*>self._of(labels, np.int32)
        cdef double* to = <double*>_address(out)
        with nogil:
            check(bb_clusters_own(self.handle, places, k, column, to))
        return out

    def single_moves(self, centers, RowValues labels, cluster_weights):
        """Return how many rows would each lower the inertia by a move, and the largest gain."""
        centers = _input(centers, (len(centers), self.d), "centers")
        cdef int64_t k = len(centers)
        cluster_weights = _input(cluster_weights, (k,), "cluster_weights")
        cdef const double* places = <const double*>_address(centers)
        cdef const double* weights = <const double*>_address(cluster_weights)
        cdef const int32_t* column = <const int32_t*>self._of(labels, np.int32)
        cdef bb_cluster_counts found
        with nogil:
            check(bb_clusters_moves(self.handle, places, k, column, weights, &found))
        return found.changed, found.largest

    def measure(self, centers):
        """Return the distances from each row to all centres, shape (n, k)."""
        centers = _input(centers, (len(centers), self.d), "centers")
        cdef int64_t k = len(centers)
        out = np.empty((self.n, k))
        cdef const double* places = <const double*>_address(centers)
        cdef double* to = <double*>_address(out)
        with nogil:
            check(bb_clusters_distances(self.handle, places, k, 0, self.n, to))
        return out

    def potentials(self, points, RowValues closest, *, bint take=False):
        """For each of some rows, given by their values, as a new centre: the sums of w min(closest, distance).

        Returns
        -------
        ndarray, shape (len(points), panels)
        """
        points = _input(points, (len(points), self.d), "points")
        out = np.empty((len(points), (self.n + BB_PANEL_ROWS - 1) // BB_PANEL_ROWS))
        cdef const double* chosen = <const double*>_address(points)
        cdef int64_t count = len(points)
        cdef float* column = <float*>self._of(closest, np.float32)
        cdef double* to = <double*>_address(out)
        with nogil:
            check(bb_clusters_potentials(self.handle, chosen, count, column, take, to))
        return out

    def begin_choice(self, int64_t first, uniform, int64_t part_rows, RowValues closest):
        """Begin k-means++ over dense rows; `choose` goes on with it.

        Parameters
        ----------
        first : int
            Row of the first centre.
        uniform : ndarray, shape (k - 1, trials)
            Numbers in [0, 1) that draw the candidates for the other centres, up to `MAX_TRIALS` for each.
        part_rows : int
            Rows of a part, whole panels; there are at most 128 parts.
        closest : RowValues
            All infinite; the choice needs it to its end.
        """
        if uniform.ndim != 2 or not uniform.shape[1]:
            raise ParameterError(f"uniform: found shape {uniform.shape}, expected one row per further centre")
        uniform = _input(uniform, uniform.shape, "uniform")
        cdef const double* numbers = <const double*>_address(uniform)
        cdef int64_t k = 1 + uniform.shape[0], trials = uniform.shape[1]
        cdef float* column = <float*>self._of(closest, np.float32)
        with nogil:
            check(bb_clusters_begin_choice(self.handle, first, numbers, k, trials, part_rows, column))

    def choose(self, int64_t count):
        """Choose up to ``count`` further centres and return their rows; fewer if there are no more to choose."""
        chosen = np.empty(count, np.int64)
        cdef int64_t* rows = <int64_t*>_address(chosen)
        cdef int64_t found
        with nogil:
            check(bb_clusters_choose(self.handle, count, rows, &found))
        return chosen[:found]

    def approach(self, points, int64_t first, double scale, RowValues closest, RowValues nearest):
        """Measure the rows against further points; return sums of w closest, by panels of rows.

        Parameters
        ----------
        points : ndarray, shape (count, d)
        first : int
            Number of the first of these points; 0 begins anew.
        scale : float
            A power of two, whose square distances are multiplied by.
        closest, nearest : RowValues
            The least squared distance so far, and the number of the point; of equal ones the first.
        """
        points = _input(points, (len(points), self.d), "points")
        cdef int64_t count = len(points)
        out = np.empty((self.n + BB_PANEL_ROWS - 1) // BB_PANEL_ROWS)
        cdef const double* places = <const double*>_address(points)
        cdef float* squares = <float*>self._of(closest, np.float32)
        cdef int32_t* numbers = <int32_t*>self._of(nearest, np.int32)
        cdef double* to = <double*>_address(out)
        with nogil:
            check(bb_clusters_approach(self.handle, places, count, first, scale, squares, numbers, to))
        return out

    def count(self, RowValues labels, int64_t k):
        """Return the number of rows with each label, of labels below ``k``."""
        out = np.empty(k, np.uint32)
        cdef const int32_t* column = <const int32_t*>self._of(labels, np.int32)
        cdef uint32_t* to = <uint32_t*>_address(out)
        with nogil:
            check(bb_clusters_count(self.handle, column, k, to))
        return out

    def draw_each(self, uint64_t key, int64_t first, double factor, RowValues closest):
        """Draw each row by itself with probability w closest factor; return their numbers, in any order.

        ``first`` is added to the numbers of rows for the generator of random numbers.
        """
        cdef RowValues drawn = self.labels()
        cdef const float* squares = <const float*>self._of(closest, np.float32)
        cdef int32_t* to = <int32_t*>drawn.address
        cdef int64_t count
        with nogil:
            check(bb_clusters_draw(self.handle, squares, key, first, factor, to, &count))
        return drawn.read(0, count)
