"""Each wait of ``src_cuda/runtime/staging.cu`` is needed, and the emulator shows where one is missing."""

from __future__ import annotations

import re

import compiled
import pytest

SOURCE = (compiled.ROOT / "src_cuda" / "runtime" / "staging.cu").read_text()
PROGRAM = (compiled.ROOT / "tests" / "matrix" / "staging.cpp").read_text()
WAIT = re.compile(r"BB_CHECK\(cudaStreamWaitEvent\(.*\)\);")


def wrong_bytes(source: str, *, ahead: bool, captured: bool) -> int:
    """Return the wrong bytes of products of streamed blocks, by a text of ``staging.cu``."""
    found: int = compiled.with_emulator(PROGRAM, source).wrong_bytes(ahead, captured)
    return found


@pytest.mark.parametrize("captured", [False, True], ids=["queued", "captured"])
@pytest.mark.parametrize("ahead", [False, True], ids=["late", "ahead"])
def test_blocks_stream_in_any_order_of_the_streams(ahead, captured):
    assert wrong_bytes(SOURCE, ahead=ahead, captured=captured) == 0


@pytest.mark.parametrize("captured", [False, True], ids=["queued", "captured"])
@pytest.mark.parametrize("which", range(3), ids=["begin", "await", "release"])
def test_a_missing_wait_shows(which, captured):
    waits = list(WAIT.finditer(SOURCE))
    assert len(waits) == 3
    without = SOURCE[: waits[which].start()] + SOURCE[waits[which].end() :]
    assert any(wrong_bytes(without, ahead=ahead, captured=captured) for ahead in (False, True))
