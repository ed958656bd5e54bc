"""Catalogue: mechanisms and budgets."""

from dprelease.errors.catalogue import Template

TEMPLATES: dict[str, Template] = {
    "DP-MECH-001": Template(
        cause="The noise scale that '{mechanism}' would need is outside the range that can be "
        "certified: {least} to {largest} steps.",
        fix="choose a larger or smaller `step` for the column, or another budget.",
    ),
    "DP-MECH-002": Template(
        cause="The mechanism '{mechanism}' has no parameter '{name}'.",
        fix="remove the parameter, or use one of: {known}.",
    ),
    "DP-MECH-003": Template(
        cause="A parameter of the mechanism '{mechanism}' is missing or not a decimal number.",
        fix="set each of these parameters to a decimal number: {known}.",
    ),
    "DP-MECH-004": Template(
        cause="There is no mechanism '{name}'{nearest}.",
        fix="use one of: {known}.",
    ),
    "DP-MECH-005": Template(
        cause="The mechanism '{mechanism}' does not allow this value of '{name}'; allowed: "
        "{admissible}.",
        fix="use an allowed value, or leave it out, so that the plan chooses it.",
    ),
    "DP-BUDGET-001": Template(
        cause="The epsilon of the budget is {found}; it must be between {least} and {largest}.",
        fix="choose an epsilon in this range; common values are between 0.1 and 10.",
    ),
    "DP-BUDGET-002": Template(
        cause="The delta of the budget is {found}; it must be 0, or between {least} and {largest}.",
        fix="leave delta out for a pure guarantee, or choose one far below 1 / (number of people).",
    ),
    "DP-BUDGET-003": Template(
        cause="'{column}' uses '{mechanism}', which has no pure guarantee, but delta is 0.",
        fix="use a pure mechanism ({pure}), or add a delta to the budget.",
    ),
    "DP-BUDGET-004": Template(
        cause="No noise that can be certified fits the budget: {reason}.",
        fix="use a larger budget, fewer columns, or larger steps.",
    ),
    "DP-BUDGET-005": Template(
        cause="The budget is declared in {kind}, but {name} declares {found}.",
        fix="declare the amounts of all parts in the same terms as the budget, or as weights.",
    ),
    "DP-BUDGET-006": Template(
        cause="The budget has no epsilon and no rho, and '{column}' has no amount and no accuracy.",
        fix="add an epsilon or a rho to the budget, or a moe, relative_moe or epsilon to the "
        "column.",
    ),
    "DP-BUDGET-007": Template(
        cause="The columns with a declared amount or accuracy cost {price} of the {amount} that "
        "{name} has: {columns}.",
        fix="declare less accuracy or a larger budget, or leave more to the other columns.",
    ),
    "DP-BUDGET-008": Template(
        cause="'{column}' can't have a margin of error of {moe}: no noise that can be used here "
        "is that small.",
        fix="declare a larger margin, a smaller step, or another mechanism.",
    ),
    "DP-BUDGET-009": Template(
        cause="The rho of the budget is {found}; it must be between {least} and {largest}.",
        fix="choose a rho in this range; common values are between 0.01 and 3.",
    ),
    "DP-BUDGET-010": Template(
        cause="'{column}' uses '{mechanism}', which has no zero-concentrated guarantee.",
        fix="use another mechanism, or declare the budget as an epsilon and a delta.",
    ),
    "DP-BUDGET-011": Template(
        cause="Keys that are not public can't be selected without a delta above 0.",
        fix="add a delta to the budget, or declare the keys in the table schema.",
    ),
    "DP-BUDGET-012": Template(
        cause="'{column}' uses '{mechanism}', whose privacy cost is not known where `max_rows` "
        "limits the rows of a privacy unit in all groups together.",
        fix="use auto, or symmetric noise such as discrete_laplace, discrete_gaussian, laplace or "
        "gaussian; or limit rows by max_groups and max_rows_per_group alone.",
    ),
    "DP-BUDGET-013": Template(
        cause="'{column}' uses '{mechanism}', whose noise has no certified variance, or is not "
        "symmetric. The variance of the noise is subtracted, and the interval is right for "
        "symmetric noise.",
        fix="use auto, or noise such as discrete_gaussian, gaussian, discrete_laplace or laplace.",
    ),
    "DP-BUDGET-090": Template(
        cause="The session's budget is too small for {what}: it costs {price}, and {left} is left.",
        fix="spend less on this query, or publish the results so far; a new budget for the same "
        "people adds to the old one.",
    ),
    "DP-BUDGET-091": Template(
        cause="The ledger's budget for '{table}' is too small: the release costs {price}, and "
        "{left} of {amount} {counted} is left.",
        fix="declare less accuracy, or use what is already published; a larger budget is a "
        "decision about the people in the table.",
    ),
    "DP-FED-001": Template(
        cause="Noise of '{mechanism}' can't be divided among parties: {reason}.",
        fix="use symmetric_alpha_stable, for which the privacy cost of the sum includes the "
        "rounding of every party.",
    ),
    "DP-FED-002": Template(
        cause="'{column}' declares {found}, which a single party can't compute.",
        fix="remove it, and process the sum of all parties instead.",
    ),
    "DP-FED-003": Template(
        cause="The messages do not belong together: {problem}.",
        fix="name one folder for each party, all of the same release.",
    ),
    "DP-FED-004": Template(
        cause="{problem}.",
        fix="agree on a number for each party, starting at 1, and start each run with its own: "
        "`--party 3`.",
    ),
    "DP-CONSIST-005": Template(
        cause="The noise '{mechanism}' of '{column}' has no known privacy cost here: the "
        "contributions of one privacy unit to several of the finest cells may add up in one cell "
        "of a coarser table.",
        fix="use discrete_gaussian, gaussian or a mechanism with a bounded privacy loss, such as "
        "discrete_laplace; or limit a privacy unit to one of the finest cells (max_groups: 1).",
    ),
}
