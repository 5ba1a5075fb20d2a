"""A landing in main memory instead of `_cuda.Landing`: as late as a bus can be, and as strict."""

import ctypes
from threading import Lock

import numpy as np

SLOT = np.dtype([("indices", np.uintp), ("values", np.uintp)])
LEND = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p)
SEND = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_int64, ctypes.c_int32
)
NAME = b"svmlight_block_consumer"


class Sink(ctypes.Structure):
    _fields_ = [
        ("context", ctypes.c_void_p), ("slots", ctypes.c_int32), ("lend", LEND), ("send", SEND)
    ]  # fmt: skip


class HostLanding:
    """Collects what is sent; ``fails_at`` is the number of the call that fails.

    What a slot holds is copied when the slot is lent again, and then overwritten.
    """

    def __init__(self, nonzeros, dtype, slots, each, *, device=0, fails_at=None):
        self.indices, self.values = np.full(nonzeros, -9, np.int32), np.ones(nonzeros, dtype)
        self.slots = [(np.empty(each, np.int32), np.empty(each, dtype)) for _ in range(slots)]
        self.on_the_way = [None] * slots
        self.lent = [False] * slots
        self.end = self.calls = 0
        self.fails_at, self.failure, self.released = fails_at, None, False
        self.sending = Lock()
        self.sink = Sink(
            None,
            slots,
            LEND(lambda _, *given: self.call(self.lend, *given)),
            SEND(lambda _, *given: self.call(self.send, *given)),
        )
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        self.capsule = new(ctypes.addressof(self.sink), NAME, None)

    @staticmethod
    def predict_bytes(rows, nonzeros, dtype):
        return nonzeros * (4 + np.dtype(dtype).itemsize)

    def call(self, work, *arguments):
        """No exception passes through a C function; a Ctrl-C may arrive here too."""
        try:
            self.calls += 1
            if self.calls == self.fails_at:
                raise RuntimeError("the bus is down")
            work(*arguments)
        except BaseException as error:
            self.failure = self.failure or error
        return int(self.failure is not None)

    def lend(self, slot, out):
        assert not self.lent[slot]
        self.arrive(slot)
        self.lent[slot] = True
        there = np.frombuffer((ctypes.c_char * SLOT.itemsize).from_address(out), SLOT)
        there["indices"], there["values"] = (array.ctypes.data for array in self.slots[slot])

    def send(self, slot, first, count, ones):
        assert self.sending.acquire(blocking=False), "two at a time"
        assert self.lent[slot]
        assert first == self.end
        self.lent[slot], self.end = False, first + count
        self.on_the_way[slot] = (first, count, ones)
        self.sending.release()

    def arrive(self, slot):
        if self.on_the_way[slot] is not None:
            first, count, ones = self.on_the_way[slot]
            for to, held in zip((self.indices, self.values), self.slots[slot], strict=True):
                if to is self.indices or not ones:
                    to[first : first + count] = held[:count]
                held[:] = 99
            self.on_the_way[slot] = None

    def settle(self, count, shift):
        for slot in range(len(self.slots)):
            self.arrive(slot)
        assert not any(self.lent)
        assert self.failure is None
        assert count == self.end
        self.indices[:count] += shift
        return self.indices[:count], self.values[:count]

    def release(self):
        self.released = True
