"""Fixtures shared by the suite."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of published data sets; tests that want it skip where it is absent."""
    root = Path(os.environ.get("BMRM_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not root.is_dir():
        pytest.skip(f"published data sets not found at {root}; set BMRM_TEST_DATA to their folder")
    return root


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing that earlier runs remembered of a GPU, and nothing left to later ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def ctrl_c() -> None:
    """A shell that starts the suite in the background has it ignore Ctrl-C, which tests are about."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let interior-point steps begin after the first cut; count them."""
    from bmrm import parts
    from bmrm.interior import InteriorPoint
    from bmrm.outlook import Outlook

    steps: list[int] = []
    step = InteriorPoint.step
    monkeypatch.setattr(parts, "newton_pays", lambda *_: False)
    monkeypatch.setattr(Outlook, "better_inside", lambda *_: True)
    monkeypatch.setattr(InteriorPoint, "step", lambda self: steps.append(1) or step(self))
    return steps
