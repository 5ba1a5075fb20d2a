"""Numbers that the ranks of a host exchange through memory that they share: binding of ``ranks/shared_sums.h``."""

from libc.stdint cimport int64_t
from libc.string cimport memcpy

from ranks.shared_sums cimport SharedSums as CSharedSums

import numpy as np

from bmrm.errors import ParameterError

include "common/vectors.pxi"


cdef class SharedSums:
    """A few numbers from each rank of a host, for all ranks to read and to add up.

    Parameters
    ----------
    memory : buffer
        `nbytes` bytes that all ranks share, initially zero.
    rank, size : int
    crowded : bool
        There are more ranks than cores: a waiting rank gives its core to others at once.

    Examples
    --------
    >>> sums = SharedSums(bytearray(SharedSums.nbytes(1)), 0, 1, crowded=False)
    >>> sums.post(np.array([1.0, 2.0]))
    >>> found = np.empty((1, 2))
    >>> sums.collect(found, 0.1), found
    (True, array([[1., 2.]]))
    """

    CAPACITY = 2048  # numbers of each rank: 16 KiB, twice for each turn
    cdef CSharedSums* impl
    cdef unsigned char[::1] memory

    def __cinit__(self, memory, int rank, int size, *, bint crowded):
        self.memory = memory
        if not 0 <= rank < size:
            raise ParameterError(f"rank: found {rank}, expected one of {size}")
        if len(self.memory) < SharedSums.nbytes(size):
            raise ParameterError(f"memory: found {len(self.memory)} bytes, expected {SharedSums.nbytes(size)}")
        self.impl = new CSharedSums(<double*>&self.memory[0], rank, size, SharedSums.CAPACITY, crowded)

    def __dealloc__(self):
        del self.impl

    @staticmethod
    def nbytes(int size):
        """Return the number of bytes for ``size`` ranks."""
        return 8 * CSharedSums.doubles(size, SharedSums.CAPACITY)

    @property
    def address(self):
        """Address of the C++ object, for code that sums without the interpreter."""
        return <size_t>self.impl

    def post(self, part):
        """Write this rank's numbers, at most `CAPACITY`. Every rank writes the same number of them, and then collects."""
        part = _input(part, (len(part),), "part")
        if len(part) > SharedSums.CAPACITY:
            raise ParameterError(f"part: found {len(part)} numbers, expected at most {SharedSums.CAPACITY}")
        cdef const double* numbers = <const double*>_address(part)
        self.impl.post(numbers, len(part))

    def collect(self, out, double seconds):
        """Copy the numbers of all ranks to ``out``, shape (size, length).

        Returns
        -------
        bool
            False if some rank has not written its numbers within ``seconds``; call again.
        """
        cdef int size = self.impl.size(), other
        out = _output(out, (size, out.shape[1]))
        cdef double* target = <double*>_address(out)
        cdef int64_t each = out.shape[1], most = <int64_t>(1e9 * seconds)
        cdef bint there
        with nogil:
            there = self.impl.wait(most)
            if there:
                for other in range(size):
                    memcpy(target + other * each, self.impl.numbers_of(other), each * 8)
        return there
