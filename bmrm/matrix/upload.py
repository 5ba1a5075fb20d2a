"""Upload text to a GPU while it is parsed.

Indices and values are then never in main memory as a whole. Row pointers and labels are: a few bytes per row.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from bmrm.errors import DeviceMemoryError
from bmrm.io.svmlight import resolve_thread_count
from bmrm.matrix.gpu.devices import import_cuda, parse_device
from bmrm.matrix.resident import DEFAULT_TOL, choose_gpu_dtype, wants_gpu
from bmrm.matrix.row_blocks import MAX_BLOCK_NONZEROS

if TYPE_CHECKING:
    from bmrm.matrix import _cuda

MAX_MEMORY_SHARE = 0.5
"""Maximum share of a GPU's free memory for X, as uploaded and prepared. The rest is for vectors and cuts,
whose length is unknown until the text has been read."""

SLOTS_PER_THREAD = 2
"""Maximum number of slots of the ring per thread: one is filled while another is copied to the GPU."""

MAX_SLOT_PAIRS = 1 << 18
"""Maximum number of nonzeros of a slot, in 2 to 3 MB of pinned memory. A piece of text of about a megabyte
seldom has more."""


class Landing:
    r"""Upload the text that `bmrm.io.read_data` parses to a GPU while it is parsed.

    This happens if a GPU is wanted, has room for X as one block of rows, and stores values in the type in
    which they are parsed, and if no limit on its memory is given. Then the indices and values that
    `read_data` returns are on the GPU, equal to the arrays that would be on the host, until the end of the
    ``with`` statement. Build a `Dataset` from them before that.

    Parameters
    ----------
    device : {"auto", "cpu", "cuda", "cuda:N"}, default "auto"
    dtype : {float32, float64}, default float32
        Type in which values are parsed.
    tol : float, default 1e-3
    threads : int, optional
    gpu_mem : int, optional
        As for `Dataset`.

    Examples
    --------
    >>> import os, tempfile
    >>> from bmrm import Dataset
    >>> from bmrm.io import read_data
    >>> path = os.path.join(tempfile.mkdtemp(), "tiny.svm")
    >>> with open(path, "w") as file:
    ...     _ = file.write("1 1:0.5\n-1 2:1\n")
    >>> with Landing(device="cpu") as landing:
    ...     data = read_data(path, land=landing)
    ...     dataset = Dataset(data.X, data.y, device="cpu")
    >>> landing.used, dataset.shape
    (False, (2, 2))
    """

    def __init__(
        self,
        *,
        device: str = "auto",
        dtype: DTypeLike = "float32",
        tol: float = DEFAULT_TOL,
        threads: int | None = None,
        gpu_mem: int | None = None,
    ) -> None:
        self._device, self._dtype, self._bounded = device, np.dtype(dtype), gpu_mem is not None
        self._keeps_type = choose_gpu_dtype(self._dtype, tol) == self._dtype
        self._slots = SLOTS_PER_THREAD * resolve_thread_count(threads)
        self._sink: _cuda.Landing | None = None

    @property
    def used(self) -> bool:
        """Whether a text is being uploaded to a GPU, or has been."""
        return self._sink is not None

    def __enter__(self) -> Landing:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._sink is not None:
            self._sink.release()

    def __call__(self, rows: int, nonzeros: int, pairs: int) -> Any:
        """Return the consumer of a text's indices and values, None for arrays on the host.

        The arguments are upper bounds: rows and nonzeros of the text, and nonzeros of a piece of it.
        """
        if self._bounded or not self._keeps_type or not wants_gpu(self._device, nonzeros):
            return None
        if not 0 < nonzeros <= MAX_BLOCK_NONZEROS or pairs > MAX_SLOT_PAIRS:
            return None
        cuda, number = import_cuda(), parse_device(self._device) or 0
        needed = cuda.Landing.predict_bytes(rows, nonzeros, self._dtype)
        if needed > MAX_MEMORY_SHARE * cuda.device_info(number)["free_bytes"]:
            return None
        try:
            slots = min(self._slots, nonzeros // pairs + 1)  # a short text has few pieces
            self._sink = cuda.Landing(nonzeros, self._dtype, slots, pairs, device=number)
        except DeviceMemoryError:  # another process took the memory meanwhile, or none can be pinned
            return None
        return self._sink
