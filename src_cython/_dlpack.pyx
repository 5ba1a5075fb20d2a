"""Arrays lent to other libraries and borrowed from them without a copy: DLPack.

A capsule named "dltensor" carries the address, shape, type and device of an array, and a function that returns
it; the consumer renames the capsule.  The lender is responsible for waiting for work that is under way on a
device.

References
----------
DLPack, https://dmlc.github.io/dlpack/latest (the C structures and the protocol in Python).
"""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New, PyCapsule_SetName
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t
from libc.stdlib cimport free, malloc

import numpy as np

cdef struct DLDevice:
    int32_t device_type, device_id

cdef struct DLDataType:
    uint8_t code, bits
    uint16_t lanes

cdef struct DLTensor:
    void* data
    DLDevice device
    int32_t ndim
    DLDataType dtype
    int64_t* shape
    int64_t* strides
    uint64_t byte_offset

cdef struct DLManagedTensor:
    DLTensor dl_tensor
    void* manager_ctx
    void (*deleter)(DLManagedTensor*) noexcept

# A one-dimensional tensor with its shape and stride. The tensor comes first, so that both have the same address.
cdef struct Vector:
    DLManagedTensor tensor
    int64_t size, stride

CPU, CUDA = 1, 2
cdef int FLOAT = 2
cdef dict KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}
cdef const char* FRESH = "dltensor"
cdef const char* USED = "used_dltensor"


cdef void _give_back(DLManagedTensor* tensor) noexcept with gil:
    Py_DECREF(<object>tensor.manager_ctx)
    free(tensor)


cdef void _drop(object capsule) noexcept:
    """Give back an array that nobody took."""
    if PyCapsule_IsValid(capsule, FRESH):
        _give_back(<DLManagedTensor*>PyCapsule_GetPointer(capsule, FRESH))


def lend(owner, size_t address, int64_t size, dtype, tuple device):
    """Return the capsule of a contiguous vector of floats, which keeps its owner alive until it is given back.

    Parameters
    ----------
    owner : object
    address, size : int
        Address of the vector, and its length.
    dtype : {float32, float64}
    device : tuple of int
        Kind of device (`CPU`, `CUDA`) and number.

    Returns
    -------
    capsule

    Examples
    --------
    >>> import numpy as np
    >>> numbers = np.arange(3.0)
    >>> array = Borrowed(lend(numbers, numbers.ctypes.data, 3, numbers.dtype, (CPU, 0)))
    >>> array.address == numbers.ctypes.data, array.shape, array.dtype
    (True, (3,), 'float64')
    """
    cdef Vector* vector = <Vector*>malloc(sizeof(Vector))
    if vector == NULL:
        raise MemoryError
    cdef DLTensor* tensor = &vector.tensor.dl_tensor
    vector.size, vector.stride = size, 1
    tensor.data = <void*>address
    tensor.device.device_type, tensor.device.device_id = device
    tensor.ndim = 1
    tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes = FLOAT, 8 * np.dtype(dtype).itemsize, 1
    tensor.shape, tensor.strides, tensor.byte_offset = &vector.size, &vector.stride, 0
    vector.tensor.manager_ctx = <void*>owner
    vector.tensor.deleter = _give_back
    Py_INCREF(owner)
    try:
        return PyCapsule_New(vector, FRESH, _drop)
    except BaseException:
        _give_back(&vector.tensor)
        raise


cdef class Borrowed:
    """An array of another library, from the capsule that its ``__dlpack__`` made.

    Parameters
    ----------
    capsule : capsule
        Taken by this object, which gives the array back when it is deleted.

    Attributes
    ----------
    address : int
    shape, strides : tuple of int
        Strides count elements.
    dtype : str
        As NumPy names it.
    device : tuple of int
        Kind and number.

    Raises
    ------
    ValueError
        If it is not the capsule of an array, or one that was taken before.
    """

    cdef DLManagedTensor* tensor

    def __cinit__(self, capsule):
        self.tensor = <DLManagedTensor*>PyCapsule_GetPointer(capsule, FRESH)
        PyCapsule_SetName(capsule, USED)

    def __dealloc__(self):
        if self.tensor != NULL and self.tensor.deleter != NULL:
            self.tensor.deleter(self.tensor)

    @property
    def address(self):
        return <size_t>self.tensor.dl_tensor.data + <size_t>self.tensor.dl_tensor.byte_offset

    @property
    def shape(self):
        return tuple([self.tensor.dl_tensor.shape[k] for k in range(self.tensor.dl_tensor.ndim)])

    @property
    def strides(self):
        cdef int ndim = self.tensor.dl_tensor.ndim
        if self.tensor.dl_tensor.strides != NULL:
            return tuple([self.tensor.dl_tensor.strides[k] for k in range(ndim)])
        found, step = [], 1
        for extent in reversed(self.shape):
            found.append(step)
            step *= extent
        return tuple(reversed(found))

    @property
    def dtype(self):
        kind = self.tensor.dl_tensor.dtype
        lanes = f"x{kind.lanes}" if kind.lanes != 1 else ""
        name = KINDS.get(kind.code, f"kind{kind.code}_")
        return name if name == "bool" else f"{name}{kind.bits}{lanes}"

    @property
    def device(self):
        return self.tensor.dl_tensor.device.device_type, self.tensor.dl_tensor.device.device_id
