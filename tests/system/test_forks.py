"""A child that is forked while something is held: it is refused, and touches nothing of its parent's."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import dprelease
from dprelease.exact.scratch import private_folder
from dprelease.ledger.ledger import Ledger
from dprelease.release.runs.pipeline import run
from dprelease.schema.load import Declaration, read_declaration
from dprelease.system.forks import Maker
from dprelease.verification.verify import verify
from tests.covering import thinned
from tests.ledger.test_ledger import release_with_ledger
from tests.release import test_federated, test_local
from tests.release.build import SCHEMA, write

pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


def told_by_child(work: Callable[[], object]) -> str:
    """Return what a forked child answers, or the message of what it raises."""
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        answer = ""
        try:
            answer = str(work())
        except BaseException as error:  # noqa: BLE001 - it is told
            answer = f"{type(error).__name__} {error}"
        os.write(tell, answer.encode())
        os._exit(0)
    os.close(tell)
    with open(told, encoding="utf-8") as words:
        answer = words.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return answer


def test_maker_is_distinguished_from_its_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever their numbers: also in a grandchild, and in a process of `multiprocessing`."""
    monkeypatch.setattr(os, "getpid", lambda: 1)
    maker = Maker()
    assert maker.is_here
    assert told_by_child(lambda: maker.is_here) == "False"
    assert told_by_child(lambda: told_by_child(lambda: maker.is_here)) == "False"
    assert told_by_child(lambda: Maker().is_here) == "True"
    worker = multiprocessing.get_context("fork").Process(target=lambda: os._exit(maker.is_here))
    worker.start()
    worker.join(60)
    assert worker.exitcode == 0
    assert maker.is_here


RELEASES: dict[str, Callable[[Path], Declaration]] = {
    "central": lambda folder: read_declaration(write(folder)),
    "with a ledger": lambda folder: read_declaration(release_with_ledger(folder)),
    "local": lambda folder: read_declaration(test_local.write(folder)),
    "federated": lambda folder: test_federated.read_party(test_federated.write(folder, 1)),
}


def run_with_child(declaration: Declaration, at: int, how: str) -> tuple[Path, str]:
    """Return the release of a run that is forked at a step, and how it ended in the child.

    The child goes on as its parent does, or unwinds all that the parent holds; its parent waits
    until it has ended.
    """
    told, tell = os.pipe()
    steps: list[str] = []
    children: list[int] = []

    def fork(step: str) -> None:
        steps.append(step)
        if len(steps) != at:
            return
        children.append(os.fork())
        if children[0]:
            assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0
            return
        signal.alarm(60)
        if how == "raises":
            raise RuntimeError("the child gives up")

    found, words = Path(), "published"
    try:
        found = run(declaration, progress=fork)
    except Exception as error:  # noqa: BLE001 - it is told, and not raised in a child
        words = str(error)
    if children == [0]:
        os.write(tell, words.encode())
        os._exit(0)
    os.close(tell)
    assert words == "published", words
    with open(told, encoding="utf-8") as answer:
        return found, answer.read()


PLACES = [*((kind, 1) for kind in RELEASES), ("with a ledger", 2)]


@pytest.mark.share(0.25)
@pytest.mark.parametrize(("place", "how"), thinned(PLACES, ["goes on", "raises"], together=1))
def test_forked_child_does_not_publish_the_run(
    place: tuple[str, int], how: str, tmp_path: Path
) -> None:
    """The parent publishes once, as if nothing had been; what the child says names no value."""
    kind, at = place
    declaration = RELEASES[kind](tmp_path)
    folder, words = run_with_child(declaration, at, how)
    assert verify(folder).ok
    if how == "raises":
        assert words.startswith("the child gives up")
    else:
        # Whatever the child comes to first refuses: the next table to read, or the claimed folder.
        assert words.startswith(("DP-DATA-019", "DP-OUTPUT-013")), words
    left = {path.name for path in folder.parent.iterdir()}
    assert left == {folder.name}
    if kind == "with a ledger":
        kinds = [entry.body["kind"] for entry in Ledger(tmp_path / "ledger.sqlite").history()]
        assert kinds == ["open", "reserve", "read", "publish", "commit"]
        assert verify(folder, ledger=tmp_path / "ledger.sqlite").ok


def test_forked_child_can_not_change_a_reservation(tmp_path: Path) -> None:
    """Not given back, advanced or settled by a child, while it is held and before a row is read."""
    release_with_ledger(tmp_path)
    ledger = Ledger(tmp_path / "ledger.sqlite")
    declaration = read_declaration(tmp_path / "release.yaml")
    from dprelease.planning.prepare import prepare
    from dprelease.release.charging import charges_of

    charges = charges_of(prepare(declaration)[1])
    reservation = ledger.reserve(charges, "held")
    for step in (ledger.read, ledger.publish, ledger.cancel, ledger.fail):
        assert "DP-LEDGER-012" in told_by_child(lambda step=step: step(reservation))
    assert told_by_child(lambda: ledger.recover()) == "[]"  # its run is alive
    own = told_by_child(lambda: ledger.cancel(ledger.reserve(charges, "of the child")))
    assert own == "None"
    assert [entry.body["kind"] for entry in ledger.history()] == [
        "open",
        "reserve",
        "reserve",
        "cancel",
    ]
    ledger.read(reservation)
    ledger.fail(reservation)


def test_forked_child_does_not_cancel_reservations(tmp_path: Path) -> None:
    release_with_ledger(tmp_path)
    ledger = Ledger(tmp_path / "ledger.sqlite")
    declaration = read_declaration(tmp_path / "release.yaml")
    from dprelease.errors import RunState
    from dprelease.planning.prepare import prepare
    from dprelease.release.charging import charges_of

    charges = charges_of(prepare(declaration)[1])
    child = None
    try:
        with ledger.reserve_for_block(charges, "held", RunState()) as reservation:
            child = os.fork()
            if child == 0:
                raise RuntimeError("the child gives up")
            os.waitpid(child, 0)
            ledger.read(reservation)
            ledger.fail(reservation)
    except RuntimeError:
        assert child == 0
    finally:
        if child == 0:
            os._exit(0)
    kinds = [entry.body["kind"] for entry in ledger.history()]
    assert kinds == ["open", "reserve", "read", "commit"]


def test_forked_child_does_not_remove_folders(tmp_path: Path) -> None:
    child = None
    try:
        with private_folder(tmp_path, "p-") as folder:
            (folder / "spilled").write_text("rows")
            child = os.fork()
            if child == 0:
                raise RuntimeError("the child gives up")
            os.waitpid(child, 0)
            assert (folder / "spilled").exists()
    except RuntimeError:
        assert child == 0
    finally:
        if child == 0:
            os._exit(0)
    assert list(tmp_path.iterdir()) == []


def test_forked_child_can_not_use_the_session(tmp_path: Path) -> None:
    """A child can't query, charge or register; it can only read what is left."""
    (tmp_path / "people.yaml").write_text(SCHEMA)
    session = dprelease.Session(schema=tmp_path / "people.yaml", epsilon=2)
    df = pd.DataFrame(
        {"person": [1, 2], "city": ["Bern", "Oslo"], "age": [3, 4], "pay": [5.0, 6.0]}
    )
    df.dp.use(session)
    df.dp.count(epsilon=0.5)
    asked: dict[str, Callable[[], object]] = {
        "count": lambda: df.dp.count(epsilon=0.5),
        "sum": lambda: df.dp.groupby("city").agg({"pay": "sum"}, epsilon=0.5),
        "sql": lambda: df.dp.sql("SELECT COUNT(*) AS n FROM people", epsilon=0.5),
        "where": lambda: df.dp.where("age > 3").mean("pay", epsilon=0.5),
        "use": lambda: df.copy().dp.use(session, row_wise=True),
        "a locked session": lambda: session._charge(session.remaining, "all"),
    }
    for name, ask in asked.items():
        if name == "a locked session":
            session._lock.acquire()
        words = told_by_child(ask)
        assert "DP-SESSION-005" in words, (name, words)
        assert "no row was read, no budget was spent" in words
    session._lock.release()
    assert told_by_child(lambda: session.remaining.epsilon) == "3/2"
    df.dp.count(epsilon=0.5)
    assert session.remaining.epsilon == 1
    own = told_by_child(lambda: own_session(tmp_path / "people.yaml", df.copy()))
    assert own == "1"  # a child may have sessions of its own


def own_session(schema: Path, df: pd.DataFrame) -> object:
    df = pd.DataFrame(df.to_dict("list"))
    session = dprelease.Session(schema=schema, epsilon=2)
    df.dp.use(session)
    df.dp.count(epsilon=1)
    return session.remaining.epsilon
