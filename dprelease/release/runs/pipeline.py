"""Run a declared release: choose its limits if it declares that, plan it, and execute the steps.

The limits are published by a release of their own, next to the folder of the other release. Its
steps are those of any release: it is charged before a row is read, and appears by one rename. So a
run finds the limits that an earlier run has published, and never pays for them twice, whatever
stopped the earlier run after that.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from dprelease.documents.chosen_limits import read_chosen_limits
from dprelease.documents.file_records import LedgerRecord
from dprelease.documents.release_manifest import ReleaseManifest
from dprelease.errors import BudgetError, ChargeState, OutputError, RunState
from dprelease.numerics.entropy import BitSource, Entropy
from dprelease.planning.plan import Plan
from dprelease.query.limit_release import SUFFIX, limit_release, with_chosen_limits
from dprelease.release.charging import refuse_missing_ledger, unpaid_problem
from dprelease.release.execute import RunRequest, execute
from dprelease.release.folder import claim_target
from dprelease.release.kinds import plan_release
from dprelease.release.path_conflicts import refuse_own_source
from dprelease.release.run_options import with_table_versions
from dprelease.schema.load import Declaration
from dprelease.schema.release_parts.limit_choice import ChosenLimits


def with_private_limits(declaration: Declaration, request: RunRequest) -> Declaration:
    """Return a release with the limits that are chosen privately for it, if it declares any.

    If an earlier run has published limits for this declaration, they are used, and nothing is
    charged.

    Raises DpReleaseError: the errors of `execute`, for the release of the limits. DP-OUTPUT-023 if
    the folder of the limits is not such a release; DP-BUDGET-091 if the ledger can't pay for limits
    and tables.
    """
    if declaration.choices is None:
        return declaration
    state = request.state
    target = request.output or declaration.folder / declaration.spec.output
    target = target if target.name not in ("", "..") else target.resolve()
    folder = target.with_name(f"{target.name}{SUFFIX}")
    if not os.path.lexists(folder):
        with state.add_state_to_errors():
            _refuse_impossible(declaration, target, request.overwrite)
        try:
            limits = plan_release(limit_release(declaration))
            execute(limits, replace(request, output=folder, overwrite=False))
        except OutputError as error:
            if error.code != "DP-OUTPUT-001":  # another run has published them in the meantime
                raise
        else:
            # The limits are a release of their own: errors of the other one must say that nothing
            # has been read or charged for it yet.
            state.rows, state.charge, state.released = False, ChargeState.NONE, False
            state.limits = True
    with state.add_state_to_errors():
        return with_chosen_limits(declaration, _published_limits(declaration, folder))


def _refuse_impossible(declaration: Declaration, target: Path, overwrite: bool) -> None:
    """Raise errors of the release with the highest limits that can be found before limits are paid.

    The limits stay usable after such an error, but they would be paid for nothing if the release
    can't be run at all.
    """
    release = plan_release(declaration)
    release.check(trial=True)
    refuse_own_source(declaration, release.plan, target)
    refuse_missing_ledger(declaration, release.plan)
    # Claimed on trial: limits for a release that can't be published there would be paid for
    # nothing.
    with claim_target(target, overwrite, RunState()):
        pass
    if declaration.spec.ledger is not None:
        _refuse_unaffordable(declaration.folder / declaration.spec.ledger, release.plan)


def _refuse_unaffordable(path: Path, plan: Plan) -> None:
    """Raise DP-BUDGET-091 if a ledger can't pay for the limits of a plan and then for its tables.

    The second charge finds a budget that is not unused any more, so costs add up in the measure of
    the ledger.
    """
    from dprelease.ledger.ledger import Ledger
    from dprelease.release.ledger_forecast import charge_outlooks, charges_with_limits

    ledger = Ledger(path)
    for one in charge_outlooks(ledger, ledger.state(), charges_with_limits(plan)):
        if not 0.0 <= one.price <= one.left:
            raise BudgetError(
                "DP-BUDGET-091",
                table=one.table,
                price=f"{one.price:.6g}",
                left=f"{float(one.left):.6g}",
                amount=f"{float(one.amount):.6g}",
                counted=one.counted,
            )


def _published_limits(declaration: Declaration, folder: Path) -> ChosenLimits:
    """Return the limits that a folder publishes; raise DP-OUTPUT-023 if they can't be used."""
    chosen, problem = None, ""
    try:
        chosen = read_chosen_limits(declaration, folder)
    except OSError:
        problem = "it is not a complete release"
    except ValueError as refused:
        problem = str(refused)
    if chosen is not None and declaration.spec.ledger is not None:
        paid = None if chosen.paid is None else LedgerRecord.model_validate(chosen.paid)
        ledger = declaration.folder / declaration.spec.ledger
        unpaid = unpaid_problem(ledger, paid, chosen.digest)
        problem = "" if unpaid is None else f"the ledger did not pay for it: {unpaid}"
    if chosen is None or problem:
        raise OutputError("DP-OUTPUT-023", name=folder.name, problem=problem)
    return chosen


def run(
    declaration: Declaration,
    *,
    output: Path | None = None,
    overwrite: bool = False,
    bits: BitSource | None = None,
    frames: Mapping[str, object] | None = None,
    progress: Callable[[str], None] = lambda _step: None,
    state: RunState | None = None,
) -> Path:
    """Publish a release and return its folder; if the run fails, nothing becomes readable.

    `frames` maps the name of a table, or the name in `source: {frame: ...}`, to a frame. `bits`: a
    source of random bits, only for tests. `state` is updated by every step, and is valid even after
    an exception.

    Raises DpReleaseError: any of its subclasses. The message says whether rows were read, and what
    is charged. It also says so in the rare case that the release is readable nevertheless.
    """
    request = RunRequest(
        output, overwrite, bits or Entropy(), frames or {}, progress, state or RunState()
    )
    return publish(declaration, request)[0]


def publish(declaration: Declaration, request: RunRequest) -> tuple[Path, ReleaseManifest]:
    """Publish a release; return its folder and its manifest. Errors are those of `run`."""
    declaration = with_table_versions(declaration, request.frames)
    declaration = with_private_limits(declaration, request)
    return execute(plan_release(declaration), request)
