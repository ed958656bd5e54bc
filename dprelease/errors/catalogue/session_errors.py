"""Catalogue: pandas sessions, violated assumptions of this library, and signals."""

from dprelease.errors.catalogue import Template

CALL_ERRORS: dict[str, Template] = {
    "DP-SESSION-012": Template(
        cause="There is no argument '{name}' here{nearest}.",
        fix="{advice}remove it, or use one of: {known}.",
    ),
    "DP-SESSION-013": Template(
        cause="histogram() takes the edges of its bins as numbers in ascending order, not {kind}.",
        fix="write for example bins=[0, 18, 65, 116]; bin edges that are computed from the data "
        "would reveal something about it. Count dates by a column such as derive(month="
        '{{"expression": "month(day)", "type": "integer", "lower": 1, "upper": 12}}).',
    ),
    "DP-SESSION-014": Template(
        cause="agg() takes columns with their aggregates, not {kind}.",
        fix='write for example agg({{"income": ["mean", "median"]}}, epsilon=1) or '
        'agg(pay=("income", "mean"), epsilon=1).',
    ),
    "DP-SESSION-016": Template(
        cause="`{name}` takes {wanted}, not {kind}.",
        fix="pass {wanted}.",
    ),
    "DP-SESSION-021": Template(
        cause="A session is about one table of people, but `schema` has {number} of them.",
        fix="pass the schema of one table about people, and those of public tables, if there are "
        "any. To read two tables about the same people together, use dprelease.sql(statement, "
        "schema=[...]) with a JOIN, or declare a release with a `join`; for separate tables, "
        "create a session for each.",
    ),
    "DP-SESSION-022": Template(
        cause="{call}() {problem}.",
        fix="write {known}.",
    ),
    "DP-SESSION-015": Template(
        cause="{what} needs an epsilon.",
        fix="state how much of the session's budget it may spend, for example epsilon=0.1.",
    ),
}
"""Calls for which Python itself would raise a TypeError."""

ATTRIBUTE_ERRORS: dict[str, Template] = {
    "DP-SESSION-023": Template(
        cause="There is no '{name}' here{nearest}.",
        fix="{advice}.",
    ),
}
"""Names for which Python itself would raise an AttributeError."""

TEMPLATES: dict[str, Template] = {
    "DP-SESSION-001": Template(
        cause="This frame has no session.",
        fix="call df.dp.use(session) once.",
    ),
    "DP-SESSION-002": Template(
        cause="This frame does not hold the rows that the session started with, so the session "
        "can't know that each row comes from exactly one of them.",
        fix="filter the first frame with df.dp.where('...'); or, if you know that every row comes "
        "from one row of the first frame, and no two rows from the same one, call "
        "df.dp.use(session, row_wise=True).",
    ),
    "DP-SESSION-003": Template(
        cause="This frame already belongs to another session.",
        fix="use that session: the budget belongs to the people in the table, not to a frame.",
    ),
    "DP-SESSION-004": Template(
        cause="The session of this frame no longer exists.",
        fix="keep the session in a variable for as long as you need it. What it spent stays "
        "spent: to continue, read the data again for a new session, and add up what both spend.",
    ),
    "DP-SESSION-005": Template(
        cause="A session can't be copied, pickled or used in a forked process: {what}.",
        fix="use it only in the process that created it; a copy would spend the same budget twice.",
    ),
    "DP-SESSION-006": Template(
        cause="`{what}` is not a {wanted}.",
        fix="write it as a number or a decimal text, for example {what}={example}.",
    ),
    "DP-SESSION-008": Template(
        cause="'{what}' is not available here.",
        fix="available are: {known}.",
    ),
    "DP-SESSION-009": Template(
        cause="The table '{table}' declares no column '{column}'{nearest}.",
        fix="declared columns are: {known}.",
    ),
    "DP-SESSION-010": Template(
        cause="The column '{column}' is declared, but the rows that the session started with do "
        "not have it, so the session can't know that each of its values comes from one row.",
        fix="include the column in the first frame that the session uses; or compute it with "
        "df.dp.derive(...); or, if you know that each value comes only from its own row, call "
        "df.dp.use(session, row_wise=True).",
    ),
    "DP-SESSION-011": Template(
        cause="{what} needs either an epsilon or a rho; here it has {found}.",
        fix="pass one of them: a session with a budget in epsilon takes an epsilon, a session in "
        "rho takes either.",
    ),
    "DP-SESSION-017": Template(
        cause="The result would have two columns with the name '{name}'.",
        fix='give them different names, as in agg(pay=("income", "mean"), total=("income", '
        '"sum")).',
    ),
    "DP-SESSION-018": Template(
        cause="The result has no labels in the language '{language}', only in: {known}.",
        fix="use one of these languages, or declare labels in this language in the table's schema.",
    ),
    "DP-SESSION-019": Template(
        cause="df.dp.use() takes a session, not {kind}.",
        fix="create one, such as session = dprelease.Session(schema='people.yaml', epsilon=1.0), "
        "and call df.dp.use(session).",
    ),
    "DP-SESSION-020": Template(
        cause="This frame is the noised answer of a query: its rows are not people.",
        fix="compute with it directly, which has no privacy cost. If you combined it with people's "
        "rows in pandas, remove the note by frame.attrs.clear(), and call df.dp.use(session).",
    ),
    "DP-SESSION-007": Template(
        cause="There is no such neighbouring relation.",
        fix="use one of: {known}.",
    ),
}


INTERNAL: dict[str, Template] = {
    "DP-INTERNAL-001": Template(
        cause="An internal check failed: {check}.",
        fix="please report this with the release file; no value of the data is needed.",
    ),
}

REFUSED: dict[str, Template] = {
    "DP-SYSTEM-001": Template(
        cause="The system ran out of a resource that the command needs: {reason}.",
        fix="free memory, disk space, open files (`ulimit -n`) or threads (`ulimit -u`), or "
        "provide a temporary folder; then run again.",
    ),
}

ENDED: dict[str, Template] = {
    "DP-SIGNAL-001": Template(
        cause="The command was ended by {signal}.",
        fix="run it again when it can finish; whatever the state below reports stays done.",
    ),
}
