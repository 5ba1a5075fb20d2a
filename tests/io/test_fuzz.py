"""A few seconds of the fuzzer; see fuzz_reader.py for running it longer."""

import warnings

from fuzz_reader import fuzz


def test_some_seconds_of_fuzzing():
    with warnings.catch_warnings():
        # numpy may warn of odd headers and values before it refuses them.
        warnings.simplefilter("ignore")
        assert fuzz(seconds=4, seed=0) > 100
