"""The CUDA backend of bmrm, compiled: `bmrm.matrix.gpu.devices.import_cuda` finds it."""

from bmrm_cuda13.version import __version__ as __version__
