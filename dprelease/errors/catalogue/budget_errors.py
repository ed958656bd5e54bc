"""Catalogue: mechanisms, budgets, and ledgers."""

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


LEDGERS: dict[str, Template] = {
    "DP-LEDGER-001": Template(
        cause="There is no ledger '{name}'.",
        fix="check the path; to start a ledger, create it once with `dprelease ledger init`. A "
        "run never creates one, because a new ledger is a new budget.",
    ),
    "DP-LEDGER-013": Template(
        cause="There is no ledger '{name}'; nothing was verified.",
        fix="name the ledger that the release was charged to; the path is relative to the current "
        "folder.",
    ),
    "DP-LEDGER-002": Template(
        cause="'{name}' is damaged, or is not a ledger: {problem}.",
        fix="stop releasing; restore the last good copy, check it with `dprelease ledger check` "
        "against the releases on disk, and find out who wrote to it.",
    ),
    "DP-LEDGER-003": Template(
        cause="The ledger '{name}' was written by a newer version of dprelease: it has format "
        "{found}, and this version knows {known}.",
        fix="upgrade dprelease before you use this ledger.",
    ),
    "DP-LEDGER-004": Template(
        cause="Another process kept the ledger '{name}' locked.",
        fix="wait until that process has finished, and try again; do not delete anything.",
    ),
    "DP-LEDGER-005": Template(
        cause="The ledger '{name}' can't be written: {problem}.",
        fix="check that its disk has room and that you may write there; then run again.",
    ),
    "DP-LEDGER-025": Template(
        cause="The database of the ledger '{name}' would open '{journal}', which is not a file "
        "that it can read: {problem}.",
        fix="find out who put it there, and move it out of the folder; but if it is a journal of "
        "another run, get permission to read it: the ledger is incomplete without it.",
    ),
    "DP-LEDGER-006": Template(
        cause="The ledger '{name}' has no budget for the table '{table}'{nearest}.",
        fix="create one with `dprelease ledger init --table ... --owner ...`; the ledger has "
        "budgets for: {known}.",
    ),
    "DP-LEDGER-007": Template(
        cause="The ledger '{name}' already has a budget for '{table}'.",
        fix="use that budget; a larger one needs a decision about the people in the table, not a "
        "command.",
    ),
    "DP-LEDGER-008": Template(
        cause="The ledger's budget for '{table}' is for {declared}, but this release is for "
        "{found}.",
        fix="declare the ledger's `neighbours` in the budget and its privacy unit in the table's "
        "`privacy_unit`; or create a budget for what the release declares: `ledger init` takes "
        "`--unit` with the id column, and no `--unit` if each row is a privacy unit.",
    ),
    "DP-LEDGER-009": Template(
        cause="The ledger '{name}' has no open reservation '{id}'.",
        fix="look it up with `dprelease ledger history`; a reservation can be closed only once.",
    ),
    "DP-LEDGER-011": Template(
        cause="The release in '{output}' was not charged to the ledger '{name}': {problem}.",
        fix="do not release anything yet: this is another ledger, or an older copy was restored. "
        "Find the copy that was charged, and check it with `dprelease ledger check`.",
    ),
    "DP-LEDGER-012": Template(
        cause="The reservation '{id}' in the ledger '{name}' belongs to a run in the parent "
        "process of this one.",
        fix="let that run finish, and start a separate run in this process.",
    ),
    "DP-LEDGER-023": Template(
        cause="The ledger '{name}' can't be used in this process: it was forked while its parent "
        "had a ledger open, and the locks of the two processes can't be distinguished.",
        fix="use the ledger in the parent process, or start the child with `spawn` instead of "
        "`fork`.",
    ),
    "DP-LEDGER-014": Template(
        cause="The budget of '{table}' has no current period: {problem}.",
        fix="see its periods with `dprelease ledger show`, and correct the clock of this machine "
        "if it is wrong.",
    ),
    "DP-LEDGER-015": Template(
        cause="The entries of the ledger '{name}' must be signed, and no key was named.",
        fix="add --key with an Ed25519 key of one of the ledger's signers.",
    ),
    "DP-LEDGER-016": Template(
        cause="The key {who} can't sign for the ledger '{name}': {problem}.",
        fix="sign with a key that `dprelease ledger show` lists, or ask the holder of such a key "
        "to add yours with `dprelease ledger signers`.",
    ),
    "DP-LEDGER-017": Template(
        cause="The renewal of the budget is not valid: {problem}.",
        fix="use --every year or --every month with --begins YYYY-MM-DD, and --periods if the "
        "renewals end.",
    ),
    "DP-LEDGER-018": Template(
        cause="The ledger '{name}' is not the one that these signers signed: {problem}.",
        fix="stop releasing; restore the last copy that they signed, and find out who wrote to "
        "this one.",
    ),
    "DP-LEDGER-019": Template(
        cause="The ledger '{name}' already has signers.",
        fix="replace the list with `dprelease ledger signers`, signed by one of them.",
    ),
    "DP-LEDGER-020": Template(
        cause="The release publishes exact values that the ledger's budget for '{table}' does not "
        "allow: '{invariant}'. Allowed are: {allowed}.",
        fix="remove the invariant; or, if nothing was released about these people without it, "
        "create a budget for them with `dprelease ledger init --invariant` and exactly this text.",
    ),
    "DP-LEDGER-021": Template(
        cause="A budget of '{table}' with invariants can't have the neighbours add_remove: the "
        "exact totals reveal whether a person is in the data.",
        fix="use --neighbours replace, or remove --invariant.",
    ),
    "DP-LEDGER-022": Template(
        cause="'{invariant}' of '{table}' has two meanings: the release, or an earlier one "
        "charged to the ledger '{name}', publishes different exact values under this name.",
        fix="declare its keys and those of all tables that are consistent with it, its condition, "
        "its computed columns and the limits of the privacy unit as in the earlier release; or "
        "remove the invariant. The difference of two exact tables is exact, too, and the budget "
        "does not allow it.",
    ),
    "DP-LEDGER-010": Template(
        cause="'{column}' can't be charged to the budget for '{table}', which is counted in "
        "{counted}: its mechanism has no such guarantee.",
        fix="use another mechanism, and declare keys instead of finding them in the data. Keys "
        "from the data can be charged to a budget that was created with --rho-delta. Otherwise "
        "they, and bounded noise, can only be charged to the whole of a budget with a delta, in "
        "its first release.",
    ),
    "DP-LEDGER-026": Template(
        cause="The rho_delta of the budget is {found}; it must be a part of the budget's delta.",
        fix="choose a smaller number, for example half of delta; a budget in epsilon needs a delta "
        "above 0.",
    ),
}
