"""A plugin of pytest for runs with a planted fault: it records which tests failed, when and why.

After the first failure of a test it skips the other parameters of that test. Hypothesis tries the
same examples in every run, and makes none smaller.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

LOG = "PLANTED_FAILURES"
"""The environment variable with the path of the log: a line of JSON for each failure."""

settings.register_profile(
    "planted",
    deadline=None,
    derandomize=True,
    max_examples=60,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
_failed: set[str] = set()


def _test(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that has failed with other parameters."""
    if _test(item) in _failed:
        pytest.skip("it found the fault")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[Any]:
    """Record a failure."""
    report = yield
    if report.failed and call.excinfo is not None:
        _failed.add(_test(item))
        errors = sorted({type(error).__name__ for error in leaves(call.excinfo.value)})
        words = str(call.excinfo.value)[:300]
        failure = {"test": _test(item), "when": call.when, "errors": errors, "words": words}
        with open(os.environ[LOG], "a", encoding="utf-8") as file:
            file.write(json.dumps(failure) + "\n")
    return report


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors of a group."""
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from leaves(one)
    else:
        yield error
