"""A plugin of pytest for runs over a planted fault: writes down what failed, how, and where.

It goes on after a failure, but not with the same test of other parameters; Hypothesis makes no
example smaller, and the same ones in every run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

TOLD = "PLANTED_TOLD"
"""Names the file that is written: a line of JSON for each test that failed."""

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
    """Leave out a test that has failed."""
    if _test(item) in _failed:
        pytest.skip("it has found the fault")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[Any]:
    """Write down a failure."""
    report = yield
    if report.failed and call.excinfo is not None:
        _failed.add(_test(item))
        errors = sorted({type(error).__name__ for error in leaves(call.excinfo.value)})
        words = str(call.excinfo.value)[:300]
        told = {"test": _test(item), "when": call.when, "errors": errors, "words": words}
        with open(os.environ[TOLD], "a", encoding="utf-8") as file:
            file.write(json.dumps(told) + "\n")
    return report


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors of a group."""
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from leaves(one)
    else:
        yield error
