"""Which cases run each time and which in audits; cases and noise are drawn anew only in audits."""

from __future__ import annotations

import gc
import math
import os
import shutil
import signal
import threading
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.covering import GOLDEN, cover
from tests.replay import Keyed, repeatable

settings.register_profile(
    "dev",
    deadline=None,
    derandomize=True,
    max_examples=20,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "audit", deadline=None, max_examples=1000, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))
if settings.get_current_profile_name() == "dev":  # it would hide faults planted in the noise
    repeatable.install()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin the noise of a test before its fixtures draw any."""
    repeatable.begin(item.nodeid)


gc.disable()  # what is collected lives until the end: searching it takes a fifth of the collection


def pytest_collection_finish() -> None:
    """Exclude what has been collected from later searches for garbage."""
    gc.freeze()
    gc.enable()


# Each run waits for the disk, for a fifth of its time; no test needs what outlasts a power loss.
MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 8 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# Shells let what they start in the background ignore it, and with it all that this starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _interrupts() -> None:
    """Let an interrupt be one: older PySpark leaves a handler that fails once its session ended."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def replayed_noise(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw the same noise in every run of a test: its limits are narrower than any noise may be."""
    from dprelease.numerics.entropy import Entropy

    stream = Keyed(request.node.name)
    monkeypatch.setattr(Entropy, "words", lambda _, n: stream.words(n))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to audits all cases of a test but those that its marks `share` and `each` say.

    A case that is selected by its name always runs.
    """
    cases = [item for item in items if item.get_closest_marker("audit") is None]
    _leave_shares(cases)
    by_test: dict[str, list[pytest.Item]] = {}
    for item in cases:
        if item.get_closest_marker("each") is not None:
            by_test.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for same in by_test.values():
        # Values of parameters may have no hash; those of several cases are the same object.
        cells = [tuple(map(id, item.callspec.params.values())) for item in same]  # type: ignore[attr-defined]
        chosen = cover(cells, together=1)
        for item, cell in zip(same, cells, strict=True):
            if cell not in chosen:
                item.add_marker(pytest.mark.audit)


def _leave_shares(items: list[pytest.Item]) -> None:
    """Leave to audits what the marks `share` say.

    The shares of a file and of a test multiply. The first case always stays (with `by`, the first
    one for each value of that parameter), and the others are spread evenly, as by
    `covering.spread`.
    """
    seen: Counter[tuple[object, ...]] = Counter()
    for item in items:
        marks = list(item.iter_markers("share"))
        share = math.prod(mark.args[0] for mark in marks)
        if share == 1:
            continue
        case = item.callspec.params if isinstance(item, pytest.Function) else {}
        by = [case[mark.kwargs["by"]] for mark in marks if "by" in mark.kwargs]
        cases = (item.nodeid.partition("[")[0], *by)
        if seen[cases] * GOLDEN % 1 >= share:
            item.add_marker(pytest.mark.audit)
        seen[cases] += 1
