"""Runs of a release with a ledger that are killed; `python -m tests.ledger.crash FOLDER MODE N [KEY]`.

MODE "steps": SIGKILL before and after every step, every Nth of them; "instants": SIGKILL at N random
instants. KEY signs what is written, where the ledger has signers. After each kill the parent recovers and checks that what is readable is charged, that what
read nothing is not, and that nothing is charged twice.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from dprelease.documents.file_records import LedgerRecord
from dprelease.exact import engines
from dprelease.ledger.entries import READ
from dprelease.ledger.ledger import Ledger
from dprelease.ledger.store import Store
from dprelease.release import charging, execute
from dprelease.release import folder as staged
from dprelease.release.charging import reservation_problem
from dprelease.release.runs import family_run, pipeline
from dprelease.schema.load import read_declaration
from dprelease.signatures.keys import SigningKey, signing_key
from tests.processes import ended


def stepping(
    count: list[int], target: int, function: Callable[..., object]
) -> Callable[..., object]:
    """Return the function, killing this process before or after its call at the target count."""

    def tick() -> None:
        count[0] += 1
        if count[0] == target:
            os.kill(os.getpid(), signal.SIGKILL)

    def wrapped(*args: object, **kwargs: object) -> object:
        tick()
        found = function(*args, **kwargs)
        tick()
        return found

    return wrapped


def run_with_steps(release: Path, target: int) -> int:
    """Run the release, dying at one step; return the number of steps of a whole run."""
    count = [0]
    for owner, names in (
        (execute, ("open_publication",)),
        (engines, ("open_engines",)),
        (family_run, ("streaming", "write_pieces")),
        (staged, ("_sync_to_disk", "exchange", "rename_new")),
        (Ledger, ("reserve", "read", "publish", "commit", "cancel")),
        (Store, ("append", "entries")),
        (Path, ("chmod",)),
    ):
        for name in names:
            setattr(owner, name, stepping(count, target, getattr(owner, name)))
    pipeline.run(replace(read_declaration(release), key=key()), overwrite=True)
    return count[0]


def key() -> SigningKey | None:
    return signing_key(sys.argv[4]) if len(sys.argv) > 4 else None


def child(work: Callable[[], object]) -> int:
    """Return the process number of a fork that does some work."""
    number = os.fork()
    if number == 0:
        try:
            work()
        finally:
            os._exit(0)
    return number


def check(folder: Path) -> None:
    """Recover, and compare the ledger with what is readable."""
    path = folder / "ledger.sqlite"
    ledger = Ledger(path, key())
    ledger.recover()
    state = ledger.state()
    for reservation in state.reservations.values():
        assert not reservation.is_open, reservation
        assert reservation.is_charged == (READ in reservation.steps), reservation
        assert len(reservation.steps) <= 3, reservation
    charged = sum(r.is_charged for r in state.reservations.values())
    price = float(next(iter(state.accounts.values())).amount) / 1000
    periods = {charge.get("period") for charge in state.all_charges("office/people")}
    spent = sum(float(state.spent("office/people", period)) for period in periods)
    assert abs(spent / (charged * price) - 1) < 0.01 if charged else True
    out = folder / "out"
    readable = [out / "people", *out.glob(".people.dprelease-replaced")] if out.exists() else []
    for place in readable:
        if (place / "manifest.json").exists():
            record = json.loads((place / "manifest.json").read_text(encoding="utf-8"))
            assert reservation_problem(path, LedgerRecord.model_validate(record["ledger"])) is None
            assert (place / "manifest.json.sig").exists() == (key() is not None)


def main() -> None:
    folder, mode, number = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    release = folder / "release.yaml"
    assert charging is not None
    reader, writer = os.pipe()
    whole = child(lambda: os.write(writer, str(run_with_steps(release, 0)).encode()))
    os.close(writer)  # a child that fails ends what is read
    ended(whole)
    steps = int(os.read(reader, 20))
    start = time.monotonic()
    ended(child(lambda: run_with_steps(release, 0)))
    length = time.monotonic() - start
    kills = 0
    for at in range(1, steps + 1, number) if mode == "steps" else range(number):
        target = at if mode == "steps" else 0
        running = child(lambda target=target: run_with_steps(release, target))
        if mode == "instants":
            time.sleep(random.uniform(0, 1.1 * length))
            os.kill(running, signal.SIGKILL)
        kills += ended(running) == -signal.SIGKILL
        check(folder)
    ended(child(lambda: run_with_steps(release, 0)))
    check(folder)
    assert (folder / "out" / "people" / "manifest.json").exists()
    print("killed", kills, "of", steps)


if __name__ == "__main__":
    main()
