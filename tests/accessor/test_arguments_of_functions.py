"""Wrong arguments of all public functions raise errors of dprelease."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dprelease
from dprelease.errors import DpReleaseError, UsageError
from dprelease.errors.argument_types import checked_arguments
from dprelease.release.api import RunOptions
from tests.accessor.test_wrong_arguments import WRONG
from tests.release.build import write

NO_CALLABLES = {"__version__", "errors", "mechanisms", *dprelease.errors.__all__}
WITH_FRAMES = {"Session", "answer_details", "dp", "labelled"}
"""They are called with wrong arguments in `test_wrong_arguments`."""

MORE: dict[str, Any] = {
    "a path": Path("nothing.yaml"),
    "a folder": Path(),
    "a path with NUL": "a\0b",
    "bytes of a path": b"release.yaml",
    "a list of paths": [Path("nothing.yaml")],
    "a file of bytes": Path("noise.bin"),
    "a path in a file": "noise.bin/x",
    "a long path": "x" * 5000,
    "a list of texts": ["x", "y"],
    "a list of numbers": [1, 2],
    "a mapping of texts": {"a": "b"},
}
ALL = WRONG | MORE

ARGUMENTS: dict[str, dict[str, Any]] = {
    "PublishedRelease": {"path": "out/people"},
    "Release": {"declaration": {}},
    "areas": {"path": "out/people", "districts": {"a": ["b"]}},
    "audit": {"release": "release.yaml", "draws": False, "time_limit": 0},
    "calibrate": {"mechanism": "laplace", "epsilon": 1},
    "check": {"release": "release.yaml"},
    "compare": {"old": "out/people", "new": "out/people"},
    "export": {"folder": "out/people", "formats": "csv"},
    "export_to_database": {"folder": "out/people", "database": "new.duckdb", "overwrite": True},
    "export_to_store": {"folder": "out/people", "uri": "nowhere"},
    "federated_sum": {"folders": ["out/people"]},
    "local_estimate": {"path": "out/people", "column": "pay"},
    "plan": {"release": "release.yaml"},
    "profile_release": {"release": "release.yaml"},
    "read_ledger": {"path": "ledger.jsonl"},
    "read_release": {"path": "release.yaml"},
    "rehearse": {"release": "release.yaml", "rows": 10, "overwrite": True},
    "run": {"release": "release.yaml", "overwrite": True},
    "sign": {"folder": "out/people", "key": None},
    "signing_key": {"path": "key"},
    "sql": {
        "statement": "SELECT COUNT(*) AS n FROM people",
        "schema": "people.yaml",
        "epsilon": 1,
    },
    "verify": {"path": "out/people"},
    "write_report": {"folder": "out/people", "overwrite": True},
}
"""Valid arguments, of which one is replaced by a wrong one."""

OPTIONS = {
    "run": RunOptions.__annotations__,
    "calibrate": {"scale": "float"},
}


def parameters() -> Iterator[tuple[str, str]]:
    """Yield all public functions with each of their parameters."""
    for name in dprelease.__all__:
        if name in NO_CALLABLES | WITH_FRAMES:
            continue
        known = inspect.signature(getattr(dprelease, name)).parameters.values()
        named = [one.name for one in known if one.kind is not inspect.Parameter.VAR_KEYWORD]
        yield from ((name, one) for one in [*named, *OPTIONS.get(name, ()), "nothing"])


@pytest.mark.parametrize("name", sorted({*dprelease.__all__} - NO_CALLABLES))
def test_calls_with_a_wrong_signature_are_refused(name: str) -> None:
    """For missing, surplus and unknown arguments, the error shows the correct call."""
    function = getattr(dprelease, name)
    for arguments, named in (((), {}), ((None,) * 30, {}), ((), {"nothing": 4711})):
        with pytest.raises(UsageError, match=r"DP-SESSION-0(12|22)") as caught:
            function(*arguments, **named)
        assert "4711" not in str(caught.value)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a release file, a published release, and a file of bytes."""
    folder = tmp_path_factory.mktemp("arguments")
    dprelease.run(write(folder))
    (folder / "noise.bin").write_bytes(bytes(range(256)))
    return folder


@pytest.mark.share(0.15, by="name")
@pytest.mark.parametrize(("name", "parameter"), [*parameters()])
def test_wrong_arguments_raise_errors_of_dprelease(
    place: Path, monkeypatch: pytest.MonkeyPatch, name: str, parameter: str
) -> None:
    """Every failure is an error of dprelease."""
    monkeypatch.chdir(place)
    for what, value in ALL.items():
        message = ""
        try:
            getattr(dprelease, name)(**{**ARGUMENTS[name], parameter: value})
        except DpReleaseError as problem:
            message = str(problem)
        except Exception as problem:
            raise AssertionError(f"{name}({parameter}={what})") from problem
        assert "4711" not in message


def test_wrong_arguments_of_published_releases(place: Path) -> None:
    published = dprelease.PublishedRelease(place / "out/people")
    for method in ("columns", "quality", "to_arrow", "to_pandas", "to_polars"):
        for what, value in ALL.items():
            if value is None:
                continue
            with pytest.raises(DpReleaseError) as caught:
                getattr(published, method)(value)
            assert "4711" not in str(caught.value), what
    for parameter in ("ledger", "signers", "certify"):
        for value in ALL.values():
            with suppress(DpReleaseError):
                published.verify(**{parameter: value})


def test_two_private_schemas_are_refused_with_advice() -> None:
    people, visits = ({"table": name, "columns": {"age": {"type": "integer"}}} for name in "ab")
    with pytest.raises(UsageError, match=r"(?s)DP-SESSION-021.*dprelease\.sql"):
        dprelease.Session([people, visits], epsilon=1)
    with pytest.raises(UsageError, match="DP-SESSION-021"):
        dprelease.Session([{**people, "public": "true"}], epsilon=1)


def test_argument_types_follow_the_annotations() -> None:
    """Values of all annotated types are accepted, and of no other type."""

    @checked_arguments
    def function(
        path: str | Path, names: str | Sequence[str] = (), *, sure: bool = False, **more: float
    ) -> str:
        return "called"

    assert function("a", ["b"], sure=True, factor=0.5) == "called"
    assert function(Path("a"), np.array(["b"]), sure=np.True_, factor=np.float32(1)) == "called"  # type: ignore[arg-type]
    for wrong in ({"path": None}, {"names": [1]}, {"names": "b", "sure": 1}, {"factor": "1"}):
        with pytest.raises(UsageError, match="DP-SESSION-016"):
            function(**{"path": "a", **wrong})  # type: ignore[arg-type]
