"""Catalogue: the ledger."""

from __future__ import annotations

from dprelease.errors.template import Template

TEMPLATES: dict[str, Template] = {
    "DP-LEDGER-001": Template(
        cause="There is no ledger '{name}'.",
        fix="make it once with `dprelease ledger init`; a run never does, for a new ledger is a "
        "fresh budget.",
    ),
    "DP-LEDGER-013": Template(
        cause="There is no ledger '{name}'; nothing was verified.",
        fix="name the ledger that paid for the release, from the folder where you are.",
    ),
    "DP-LEDGER-002": Template(
        cause="'{name}' is damaged, or no ledger: {problem}.",
        fix="stop releasing; restore the last good copy, check it with `dprelease ledger check` "
        "against the releases on disk, and ask who wrote to it.",
    ),
    "DP-LEDGER-003": Template(
        cause="The ledger '{name}' was written by a newer version: format {found}, known {known}.",
        fix="upgrade dprelease before you release with it.",
    ),
    "DP-LEDGER-004": Template(
        cause="The ledger '{name}' stayed locked by another process.",
        fix="wait until the other run has ended, and try again; nothing has to be deleted.",
    ),
    "DP-LEDGER-005": Template(
        cause="The ledger '{name}' can't be written: {problem}.",
        fix="make room on its disk, or give yourself the right to write there; then run again.",
    ),
    "DP-LEDGER-025": Template(
        cause="'{journal}', which the database of the ledger '{name}' would open, is no file that "
        "it can read: {problem}.",
        fix="find out who put it there, and move it out of the folder; if it is a journal of "
        "another run, get the right to read it: the ledger is not whole without it.",
    ),
    "DP-LEDGER-006": Template(
        cause="The ledger '{name}' has no budget for the table '{table}'{nearest}.",
        fix="open one with `dprelease ledger init --table ... --owner ...`; known are: {known}.",
    ),
    "DP-LEDGER-007": Template(
        cause="The ledger '{name}' already has a budget for '{table}'.",
        fix="a budget lasts; a larger one needs a decision about the people, not a command.",
    ),
    "DP-LEDGER-008": Template(
        cause="The ledger's budget of '{table}' is for {declared}; this release is for {found}.",
        fix="declare the ledger's `neighbours` in the budget and its unit in the table's "
        "`privacy_unit`; or open a budget for what is declared: `ledger init` takes `--unit` with "
        "the id column, and no `--unit` where each row is a unit.",
    ),
    "DP-LEDGER-009": Template(
        cause="No reservation '{id}' is open in the ledger '{name}'.",
        fix="see `dprelease ledger history`; a reservation ends once.",
    ),
    "DP-LEDGER-011": Template(
        cause="The ledger '{name}' did not pay for the release in '{output}': {problem}.",
        fix="the ledger was rolled back or is another one: find the copy that paid, check it with "
        "`dprelease ledger check`, and release nothing until then.",
    ),
    "DP-LEDGER-012": Template(
        cause="The reservation '{id}' in the ledger '{name}' is of a run in another process, which "
        "this one was forked from.",
        fix="let that run end by itself, and begin one of its own in this process.",
    ),
    "DP-LEDGER-023": Template(
        cause="The ledger '{name}' can't be used in this process: the one that it was forked from "
        "had a ledger open then, and its locks can't be told apart from this one's.",
        fix="use the ledger in the parent, or start another process (`spawn` in place of `fork`).",
    ),
    "DP-LEDGER-014": Template(
        cause="The budget of '{table}' has no period now: {problem}.",
        fix="see `dprelease ledger show`, and set the clock of this machine if it is wrong.",
    ),
    "DP-LEDGER-015": Template(
        cause="The entries of the ledger '{name}' are signed, and no key was given.",
        fix="say --key, with an Ed25519 key that the ledger's signers name.",
    ),
    "DP-LEDGER-016": Template(
        cause="The key {who} can't sign for the ledger '{name}': {problem}.",
        fix="sign with a key that `dprelease ledger show` lists, or have one of its holders add "
        "yours with `dprelease ledger signers`.",
    ),
    "DP-LEDGER-017": Template(
        cause="No budget can renew so: {problem}.",
        fix="say --every year or --every month, --begins YYYY-MM-DD, and --periods if they end.",
    ),
    "DP-LEDGER-018": Template(
        cause="The ledger '{name}' is not what these signers vouch for: {problem}.",
        fix="stop releasing; restore the last copy that they vouch for, and ask who wrote to it.",
    ),
    "DP-LEDGER-019": Template(
        cause="The ledger '{name}' has signers already.",
        fix="replace their list with `dprelease ledger signers`, signed by one of them.",
    ),
    "DP-LEDGER-020": Template(
        cause="The release publishes exactly what the ledger's budget of '{table}' was not opened "
        "with: '{invariant}'. Allowed there: {allowed}.",
        fix="leave the invariant out; or open a budget for these people with `dprelease ledger "
        "init --invariant`, in words as these, if nothing was released about them without it.",
    ),
    "DP-LEDGER-021": Template(
        cause="A budget of '{table}' with invariants can't count units that are added or removed: "
        "their totals show each of them.",
        fix="say --neighbours replace, or leave --invariant out.",
    ),
    "DP-LEDGER-022": Template(
        cause="'{invariant}' of '{table}' stands for two functions of the rows: the release, or "
        "one that the ledger '{name}' paid for, publishes another of this name exactly.",
        fix="declare its keys and those of all tables that agree with it, its condition, its "
        "computed columns and the unit's bounds as they were then; or leave the invariant out. The "
        "difference of two exact tables is exact, and nobody allowed it.",
    ),
    "DP-LEDGER-010": Template(
        cause="'{column}' can't be charged to the budget of '{table}', which counts {counted}: its "
        "mechanism has no such guarantee.",
        fix="use another mechanism, and declare keys that are found in the data. Bounded noise and "
        "such keys are paid for by the whole of a budget with a delta: in its first release alone.",
    ),
}
