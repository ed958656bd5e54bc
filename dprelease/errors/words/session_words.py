"""Catalogue: use of a pandas session."""

from __future__ import annotations

from dprelease.errors.template import Template

USED: dict[str, Template] = {
    "DP-SESSION-012": Template(
        cause="A question has no argument '{name}'{nearest}.",
        fix="leave it out, or give one that it has: {known}.",
    ),
    "DP-SESSION-013": Template(
        cause="histogram() takes the edges of its bins, in ascending order, and no {kind}.",
        fix="write for example bins=[0, 18, 65, 116]; edges that are found in the data would tell "
        "about it.",
    ),
    "DP-SESSION-014": Template(
        cause="agg() takes columns with their aggregates, and no {kind}.",
        fix='write for example agg({{"income": ["mean", "median"]}}, epsilon=1) or '
        'agg(pay=("income", "mean"), epsilon=1).',
    ),
    "DP-SESSION-016": Template(
        cause="`{name}` takes {wanted}, and no {kind}.",
        fix="give {wanted}; nothing was asked.",
    ),
    "DP-SESSION-015": Template(
        cause="{what} is missing its price: epsilon.",
        fix="say what it may spend of the session's budget, for example epsilon=0.1.",
    ),
}
"""Calls that Python itself would refuse with a TypeError."""

TEMPLATES: dict[str, Template] = {
    "DP-SESSION-001": Template(
        cause="This frame has no session.",
        fix="call df.dp.use(session) on it once.",
    ),
    "DP-SESSION-002": Template(
        cause=(
            "This frame does not hold the rows that its session began with; whether each of its "
            "rows comes from one row of them alone can't be known."
        ),
        fix=(
            "filter with df.dp.where('...') on the first frame; or, if you know that every row "
            "comes from one row of it alone, and no two from the same, call "
            "df.dp.use(session, row_wise=True)."
        ),
    ),
    "DP-SESSION-003": Template(
        cause="This frame belongs to another session already.",
        fix="use that session: the budget belongs to the people in the table, not to a frame.",
    ),
    "DP-SESSION-004": Template(
        cause="The session of this frame is gone.",
        fix="keep the session in a variable for as long as you ask questions. What it spent is "
        "spent: read the data anew for another session, and add up what both spend.",
    ),
    "DP-SESSION-005": Template(
        cause="A session can't be copied, pickled or used in a forked process: {what}.",
        fix="ask in the process that made the session; a copy would spend the same budget twice.",
    ),
    "DP-SESSION-006": Template(
        cause="The session needs a {wanted} for {what}.",
        fix="give it as a number or a decimal text, for example epsilon='0.5'.",
    ),
    "DP-SESSION-008": Template(
        cause="'{what}' can't be asked for here.",
        fix="known are: {known}.",
    ),
    "DP-SESSION-009": Template(
        cause="The table '{table}' declares no column '{column}'{nearest}.",
        fix="declared columns are: {known}.",
    ),
    "DP-SESSION-010": Template(
        cause=(
            "The column '{column}' is declared, but the rows that the session began with do not "
            "have it; whether each of its values comes from one row alone can't be known."
        ),
        fix=(
            "have it in the first frame that the session uses; or compute it with "
            "df.dp.derive(...); or, if you know that each value comes from its own row alone, call "
            "df.dp.use(session, row_wise=True)."
        ),
    ),
    "DP-SESSION-011": Template(
        cause="{what} has one of epsilon and rho; here it has {found}.",
        fix="give one: a session in epsilon is asked with an epsilon, one in rho with either.",
    ),
    "DP-SESSION-017": Template(
        cause="The answer would have two columns of the name '{name}'.",
        fix='name them apart, as in agg(pay=("income", "mean"), total=("income", "sum")).',
    ),
    "DP-SESSION-018": Template(
        cause="No label of the answer is in the language '{language}'; there are {known}.",
        fix="name one of them, or declare labels in that language in the table's schema.",
    ),
    "DP-SESSION-019": Template(
        cause="A frame is used with a session, and this is a {kind}.",
        fix="make one, as by session = dprelease.Session(schema='people.yaml', epsilon=1.0), and "
        "call df.dp.use(session).",
    ),
    "DP-SESSION-007": Template(
        cause="There is no such neighbouring relation.",
        fix="use one of: {known}.",
    ),
}
