"""Numbers of the ranks of a host, put up in memory that they share: binding of ``shared_sums.h``."""


cdef class Board:
    """A place where each rank of a host puts numbers for all ranks to read.

    Parameters
    ----------
    memory : buffer
        `nbytes` bytes shared by all ranks, zero at first.
    rank, size : int
    crowded : bool
        There are more ranks than cores: a rank that waits gives its core away at once.

    Examples
    --------
    >>> board = Board(bytearray(Board.nbytes(1)), 0, 1, crowded=False)
    >>> board.post(np.array([1.0, 2.0]))
    >>> found = np.empty((1, 2))
    >>> board.collect(found, 0.1), found
    (True, array([[1., 2.]]))
    """

    ROOM = 2048
    cdef CSharedSums* board
    cdef unsigned char[::1] memory

    def __cinit__(self, memory, int rank, int size, *, bint crowded):
        self.memory = memory
        if not 0 <= rank < size:
            raise ParameterError(f"rank: found {rank}, expected one of {size}")
        if len(self.memory) < Board.nbytes(size):
            raise ParameterError(f"memory: found {len(self.memory)} bytes, expected {Board.nbytes(size)}")
        self.board = new CSharedSums(<double*>&self.memory[0], rank, size, Board.ROOM, crowded)

    def __dealloc__(self):
        del self.board

    @staticmethod
    def nbytes(int size):
        """Bytes of memory for so many ranks."""
        return 8 * CSharedSums.doubles(size, Board.ROOM)

    @property
    def address(self):
        """Where the C++ object is, for code that adds up without the interpreter."""
        return <size_t>self.board

    def post(self, part):
        """Put up this rank's numbers, at most `ROOM`; every rank puts up as many, and then collects."""
        part = _input(part, (len(part),), "part")
        if len(part) > Board.ROOM:
            raise ParameterError(f"part: found {len(part)} numbers, expected at most {Board.ROOM}")
        cdef const double* numbers = <const double*>_address(part)
        self.board.post(numbers, len(part))

    def collect(self, out, double seconds):
        """Copy the numbers of all ranks to ``out``, shape (size, length).

        Returns
        -------
        bool
            False where some rank has not put up its own within ``seconds``; call again.
        """
        cdef int size = self.board.size(), other
        out = _output(out, (size, out.shape[1]))
        cdef double* target = <double*>_address(out)
        cdef int64_t each = out.shape[1], most = <int64_t>(1e9 * seconds)
        cdef bint there
        with nogil:
            there = self.board.wait(most)
            if there:
                for other in range(size):
                    memcpy(target + other * each, self.board.numbers_of(other), each * 8)
        return there
