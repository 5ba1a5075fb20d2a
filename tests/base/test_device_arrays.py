"""Arrays lent to a user's loss and returned by it: the protocols, without a device."""

import gc
import importlib.util
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bmrm
import bmrm.matrix.gpu.devices
from bmrm.base import _dlpack
from bmrm.base.foreign_arrays import (
    ARRAY_KINDS,
    RowNumbersOnDevice,
    borrow_rows,
    from_host,
    import_library,
    to_host,
)
from bmrm.errors import BmrmError, DataError, ParameterError
from bmrm.losses import CallableLoss


class Lender:
    """An array lent through one of our capsules."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return _dlpack.CPU, 0

    def __dlpack__(self, **ignored):
        array = self.array
        return _dlpack.lend(array, array.ctypes.data, len(array), array.dtype, (_dlpack.CPU, 0))


@given(st.lists(st.floats(allow_nan=False), max_size=20), st.sampled_from([np.float32, np.float64]))
def test_numpy_reads_a_lent_array(numbers, dtype):
    with np.errstate(over="ignore"):
        array = np.array(numbers, dtype)
    taken = np.from_dlpack(Lender(array))
    assert taken.dtype == dtype
    np.testing.assert_array_equal(taken, array)
    if len(array):
        assert taken.ctypes.data == array.ctypes.data


def test_a_lent_array_lives_until_it_is_released():
    array = np.arange(4.0)
    before = sys.getrefcount(array)
    taken = np.from_dlpack(Lender(array))
    assert sys.getrefcount(array) == before + 1
    del taken
    assert sys.getrefcount(array) == before
    capsule = Lender(array).__dlpack__()  # which no library takes
    assert sys.getrefcount(array) == before + 1
    del capsule
    gc.collect()
    assert sys.getrefcount(array) == before


@pytest.mark.parametrize(
    "array",
    [np.zeros(3), np.zeros((4, 6), np.float32)[1:, ::2], np.zeros((2, 3), bool), np.zeros(2, np.int16)],
    ids=str,
)
def test_borrowed_arrays(array):
    found = _dlpack.Borrowed(array.__dlpack__())
    assert (found.address, found.shape, found.dtype) == (array.ctypes.data, array.shape, array.dtype.name)
    assert found.strides == tuple(step // array.itemsize for step in array.strides)
    assert found.device == (_dlpack.CPU, 0)


def test_a_capsule_can_be_used_once():
    capsule = np.zeros(2).__dlpack__()
    _dlpack.Borrowed(capsule)
    for wrong in (capsule, 3):
        with pytest.raises(ValueError, match="PyCapsule"):
            _dlpack.Borrowed(wrong)


class OnGpu:
    """An array that claims to be on a GPU; the tests use only what it claims."""

    def __init__(self, array, number=0):
        self.array, self.number = array, number

    def __dlpack_device__(self):
        return _dlpack.CUDA, self.number

    def __dlpack__(self, *, stream):
        self.stream = stream
        return self.array.__dlpack__()


class Faced:
    """An array that has only ``__cuda_array_interface__``."""

    def __init__(self, array, **more):
        self.array = array
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (array.ctypes.data, False),
            "version": 3,
            **more,
        }


def take(array, rows=4, waited=None):
    return borrow_rows(array, "loss mine: values", rows, 0, 77, (waited if waited is not None else []).append)


def test_a_result_by_dlpack():
    given = OnGpu(np.zeros(8, np.float32)[::2])
    found = take(given)
    assert found[:3] == (given.array.ctypes.data, 2, 4)
    assert given.stream == 77  # on which it will be read


@pytest.mark.parametrize(
    ("more", "waited"),
    [({}, [1]), ({"stream": 5}, [5]), ({"stream": None}, []), ({"version": 2}, [1])],
)
def test_a_result_by_the_cuda_array_interface(more, waited):
    streams = []
    array = np.zeros(8)[::2]
    found = take(Faced(array, strides=array.strides, **more), waited=streams)
    assert isinstance(found, RowNumbersOnDevice)
    assert found[:3] == (array.ctypes.data, 2, 8)
    assert streams == waited
    assert take(Faced(np.zeros(4), **more)).stride == 1


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (OnGpu(np.zeros(3)), r"loss mine: values: found shape \(3,\), expected \(4,\), one per row"),
        (OnGpu(np.zeros((4, 1))), r"found shape \(4, 1\)"),
        (OnGpu(np.zeros(4, np.int64)), "found dtype int64, expected float32 or float64"),
        (Faced(np.zeros(4, np.float16)), "found dtype float16, expected float32 or float64"),
        (OnGpu(np.zeros(4), 1), "found on GPU 1, expected on GPU 0, like the margins"),
        (np.zeros(4), "found on the host, expected on GPU 0"),
        ([0.0] * 4, "found list, expected an array on GPU 0"),
    ],
)
def test_results_of_the_wrong_shape_type_or_device(array, message):
    with pytest.raises(DataError, match=message):
        take(array)


def test_kinds_of_arrays():
    with pytest.raises(ParameterError, match="arrays: found 'tensorflow', expected one of numpy, cupy"):
        CallableLoss(lambda u, y: (u, u), arrays="tensorflow")


@pytest.mark.parametrize("kind", ARRAY_KINDS)
def test_to_a_library_and_back(kind):
    name = {"numpy": "numpy", "dlpack": "numpy"}.get(kind, kind)
    if importlib.util.find_spec(name) is None:
        with pytest.raises(
            ParameterError, match=f"arrays: found '{kind}', expected a library that is installed"
        ):
            import_library(kind)
    elif kind != "cupy" or bmrm.matrix.gpu.devices.gpu() is not None:
        there = from_host(kind, np.array([1.0, 2.0]))
        np.testing.assert_array_equal(to_host(kind, there), [1.0, 2.0])


def test_a_loss_that_uses_only_dlpack():
    def squared(u, y):
        e = np.from_dlpack(u) - np.from_dlpack(y)
        return Lender(0.5 * e * e), Lender(e)

    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 3))
    y = X @ [1.0, -2.0, 0.5] + 0.1
    mine = bmrm.solve(X, y, CallableLoss(squared, arrays="dlpack"), lam=1e-2, tol=1e-8)
    known = bmrm.solve(X, y, "squared", lam=1e-2, tol=1e-8)
    assert mine.objective == pytest.approx(known.objective, rel=1e-8)


def test_errors_of_results_on_the_host():
    X, y = np.eye(3), np.arange(3.0)
    with pytest.raises(DataError, match=r"loss flat: values: found shape \(\), expected \(3,\), one per row"):
        bmrm.solve(X, y, CallableLoss(lambda u, y: (0.0, u), "flat"))
    with pytest.raises(DataError, match="loss low: found the value -1, expected at least its minimum, 0"):
        bmrm.solve(X, y, CallableLoss(lambda u, y: (0 * u - 1, u), "low", minimum=0.0))
    with pytest.raises(BmrmError, match="loss wild: its derivatives are not finite"):
        bmrm.solve(X, y, CallableLoss(lambda u, y: (0 * u, np.nan * u), "wild"))
