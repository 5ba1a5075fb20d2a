"""Fixtures shared by the suite."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of published data sets; tests that want it skip where it is absent."""
    root = Path(os.environ.get("BMRM_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not root.is_dir():
        pytest.skip(f"published data sets not found at {root}; set BMRM_TEST_DATA to their folder")
    return root
