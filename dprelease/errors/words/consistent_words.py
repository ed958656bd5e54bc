"""Catalogue: tables that agree."""

from __future__ import annotations

from dprelease.errors.template import Template

ASKED: dict[str, Template] = {
    "DP-CONSIST-001": Template(
        cause="'{column}' can't be a level of areas here: {reason}.",
        fix="name categories from the largest areas to the smallest, each `within` the one before "
        "in the table's schema.",
    ),
    "DP-CONSIST-002": Template(
        cause="'{column}' can't be a key of tables that agree: {reason}.",
        fix="keep one of the two, or let areas within areas be levels of `hierarchy`: tables that "
        "agree are sums over keys that say nothing of each other.",
    ),
    "DP-CONSIST-003": Template(
        cause="`invariants` are true values, published outside the guarantee, and nobody says that "
        "this is known.",
        fix="leave them out; or write `acknowledge: {words}` beside them.",
    ),
    "DP-CONSIST-006": Template(
        cause="Beside `invariants` a guarantee with `neighbours: {neighbours}` promises nothing: "
        "whether a unit is there shows in their totals.",
        fix="declare `neighbours: replace` in `budget`: a unit is then protected from being told "
        "from any other with the same part in the invariants.",
    ),
    "DP-CONSIST-007": Template(
        cause="`invariants` can't be asked of a session: what is outside the guarantee has to "
        "stand in a manifest.",
        fix="declare them in a release file, or leave them out.",
    ),
    "DP-CONSIST-011": Template(
        cause="'{column}' can't be one of tables that agree: {reason}.",
        fix="ask for counts and sums under `consistent`, and for the rest in a query of its own.",
    ),
    "DP-CONSIST-012": Template(
        cause="The noise '{mechanism}' of '{column}' in '{table}' has no certified variance, by "
        "which least squares could weigh it.",
        fix="take discrete_gaussian, or another law with thin tails.",
    ),
    "DP-CONSIST-013": Template(
        cause="`{key}` can't be had of these tables: {reason}.",
        fix="put it right, or leave it out.",
    ),
    "DP-CONSIST-014": Template(
        cause="The keys have {cells} combinations, too many for least squares in 64 bits.",
        fix="ask for fewer attributes in one family of tables.",
    ),
    "DP-CONSIST-015": Template(
        cause="What is measured does not determine '{column}' in the table {table} of level "
        "'{level}'.",
        fix="measure the table at this level or below, or publish down to a higher level.",
    ),
    "DP-CONSIST-004": Template(
        cause="The tables are sums of {cells} finest cells; the limit is {limit}.",
        fix="ask for fewer attributes in one family of tables.",
    ),
    "DP-CONSIST-030": Template(
        cause="'{query}' can't be one of the family '{family}': {reason}.",
        fix="let the queries of a family differ in their keys alone (group_by, marginals, cube or "
        "rollup), or leave out `family`.",
    ),
    "DP-CONSIST-020": Template(
        cause="The margin of '{column}' can't be as narrow as this target asks: with this budget "
        "it is {margin} at best.",
        fix="ask for a wider margin or fewer targets, or give {factor} times the rho, about {root} "
        "times the epsilon.",
    ),
    "DP-CONSIST-021": Template(
        cause="`targets` can't share a pure budget: there, what tables cost is not in proportion "
        "to the inverse of their variances.",
        fix="give the budget a delta or a rho, or weights to the columns.",
    ),
    "DP-CONSIST-022": Template(
        cause="`spend: least` does not say what is enough: {reason}.",
        fix="declare a `moe` under `targets` of tables that agree, and no amounts of their own; or "
        "leave it out, and all of the budget is spent.",
    ),
    "DP-CONSIST-023": Template(
        cause="The targets need about {needed}, and {amount} may be spent: with that the margin of "
        "'{column}' is {margin} at best.",
        fix="ask for a wider margin or fewer targets, or let more be spent.",
    ),
}

PRICED: dict[str, Template] = {
    "DP-CONSIST-005": Template(
        cause="The noise '{mechanism}' of '{column}' has no known price: what a unit has in "
        "several of the finest cells may add up in one cell of a coarser table.",
        fix="take discrete_gaussian, gaussian or a law whose loss has a bound, such as "
        "discrete_laplace; or let a unit have rows in one of the finest cells (max_groups: 1).",
    ),
}
