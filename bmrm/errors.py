"""Exceptions of the package; the command line maps each to one exit code."""


class BmrmError(Exception):
    """Base of every error that the package raises on purpose; its text is one line."""

    exit_code = 1


class ParameterError(BmrmError, ValueError):
    """An option or argument out of its range, or a combination that makes no sense."""

    exit_code = 2


class DataError(BmrmError, ValueError):
    """Data, labels, weights or a model file that cannot be used as they are."""

    exit_code = 3


class DeviceMemoryError(BmrmError, MemoryError):
    """The device has too little memory for the problem."""

    exit_code = 5
