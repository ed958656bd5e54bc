"""Catalogue: mechanisms and budgets."""

from __future__ import annotations

from dprelease.errors.template import Template

TEMPLATES: dict[str, Template] = {
    "DP-MECH-001": Template(
        cause=(
            "The noise scale that '{mechanism}' would need is outside what can be certified: "
            "{least} to {largest} lattice steps."
        ),
        fix="choose a coarser or finer `step` for the column, or another budget.",
    ),
    "DP-MECH-002": Template(
        cause="The mechanism '{mechanism}' has no parameter '{name}' to declare.",
        fix="it has: {known}; leave out what is not in this list.",
    ),
    "DP-MECH-003": Template(
        cause="A parameter of the mechanism '{mechanism}' is missing or not a decimal number.",
        fix="give each of: {known}.",
    ),
    "DP-MECH-004": Template(
        cause="There is no mechanism '{name}'{nearest}.",
        fix="use one of: {known}.",
    ),
    "DP-MECH-005": Template(
        cause="'{name}' of the mechanism '{mechanism}' has to be {admissible}.",
        fix="give a value in that range, or leave the shape to the plan.",
    ),
    "DP-BUDGET-001": Template(
        cause="The budget's epsilon is {found}; it has to lie between {least} and {largest}.",
        fix="give an epsilon in that range; common values lie between 0.1 and 10.",
    ),
    "DP-BUDGET-002": Template(
        cause="The budget's delta is {found}; it has to be 0, or between {least} and {largest}.",
        fix="leave delta out for a pure guarantee, or give one far below 1 / (number of people).",
    ),
    "DP-BUDGET-003": Template(
        cause="'{column}' uses '{mechanism}', which has no pure guarantee, but delta is 0.",
        fix="use a pure mechanism ({pure}), or give the budget a delta.",
    ),
    "DP-BUDGET-004": Template(
        cause="No noise that can be certified fits the budget: {reason}.",
        fix="give the release a larger budget, fewer columns, or coarser steps.",
    ),
    "DP-BUDGET-005": Template(
        cause="The budget is an {kind}, but {name} declares {found}.",
        fix="give all parts of a release in the budget's own terms, or as weights.",
    ),
    "DP-BUDGET-006": Template(
        cause="The budget has no epsilon and no rho, and '{column}' has no price and no accuracy.",
        fix="give the budget an epsilon or a rho, or the column a moe, relative_moe or epsilon.",
    ),
    "DP-BUDGET-007": Template(
        cause="What has a declared price or accuracy costs {price} of the {amount} that {name} "
        "has: {columns}.",
        fix="ask for less accuracy, declare a larger budget, or leave more to the other columns.",
    ),
    "DP-BUDGET-008": Template(
        cause="'{column}' can't have a margin of error of {moe}: no noise is that small here.",
        fix="ask for a larger margin, a finer step, or another mechanism.",
    ),
    "DP-BUDGET-009": Template(
        cause="The budget's rho is {found}; it has to lie between {least} and {largest}.",
        fix="give a rho in that range; common values lie between 0.01 and 3.",
    ),
    "DP-BUDGET-010": Template(
        cause="'{column}' uses '{mechanism}', which has no zero-concentrated guarantee.",
        fix="use another mechanism, or give the budget an epsilon and a delta.",
    ),
    "DP-BUDGET-011": Template(
        cause="Keys that are not public can't be selected without a delta above 0.",
        fix="give the budget a delta, or declare the keys in the table schema.",
    ),
    "DP-BUDGET-090": Template(
        cause="The session can't pay for {what}: it costs {price}, and {left} is left.",
        fix="ask for less, or publish what there is; a new budget for the same people adds up.",
    ),
    "DP-BUDGET-091": Template(
        cause="The ledger's budget for '{table}' does not allow it: it costs {price}, and {left} "
        "of {amount} {counted} is left.",
        fix="ask for less accuracy, or publish what there is; a larger budget is a decision about "
        "the people in the table.",
    ),
}
