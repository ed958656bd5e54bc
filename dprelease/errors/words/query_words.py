"""Catalogue: queries and predicates."""

from __future__ import annotations

from dprelease.errors.template import Template

TEMPLATES: dict[str, Template] = {
    "DP-QUERY-001": Template(
        cause="The table '{table}' declares no column '{column}'{nearest}.",
        fix="declared columns are: {known}.",
    ),
    "DP-QUERY-002": Template(
        cause="'{column}' can't be a key: {reason}.",
        fix="group by a category, a boolean, a cut, or an integer or date with both bounds; "
        "`private_keys` finds keys that are not public.",
    ),
    "DP-QUERY-003": Template(
        cause="The sum of '{column}' has no finite sensitivity: the column has no bounds.",
        fix="declare `lower` and `upper` in the table's schema; larger values are then counted as "
        "the bound.",
    ),
    "DP-QUERY-004": Template(
        cause="'{column}' is no number, as this aggregate needs: it is of type {kind}.",
        fix="ask it of an integer or a number column.",
    ),
    "DP-QUERY-005": Template(
        cause="The answer can never change: every value of '{column}' counts as zero.",
        fix="leave the column out, or declare bounds that are not both zero.",
    ),
    "DP-QUERY-006": Template(
        cause="The values of '{column}' are not declared: they can be neither counted nor chosen "
        "among.",
        fix="ask it of a category, a boolean, a cut, or an integer or date with both bounds; the "
        "distinct ids of the privacy unit can be counted, too.",
    ),
    "DP-QUERY-007": Template(
        cause="The query has {cells} cells; the limit is {limit}.",
        fix="group by fewer or coarser keys, or raise limits.max_cells.",
    ),
    "DP-QUERY-008": Template(
        cause="The key '{column}' stands twice in one list of keys.",
        fix="name it once.",
    ),
    "DP-QUERY-009": Template(
        cause="The release has {columns} columns; the limit is {limit}.",
        fix="ask for fewer columns, or raise limits.max_columns.",
    ),
    "DP-QUERY-010": Template(
        cause="'{column}' can't be published so: {key} is no multiple of its step, {step}.",
        fix="give a multiple of the step, such as 5 for counts.",
    ),
    "DP-QUERY-011": Template(
        cause="The mechanism of '{column}' does not fit: noise is added to counts and sums, and "
        "quantiles and most frequent values are chosen.",
        fix="leave `mechanism` out, or name {known}.",
    ),
    "DP-QUERY-012": Template(
        cause="{asked} values of '{column}' are asked for; {values} are declared.",
        fix="ask for fewer.",
    ),
    "DP-QUERY-013": Template(
        cause="The tables of '{query}' can't be published by '{step}': {problem}.",
        fix="ask for counts and sums over public keys, or publish each table for itself.",
    ),
    "DP-QUERY-014": Template(
        cause="'{column}' may have too large a total: in steps of {step}, values of at most {most} "
        "units can be added up exactly, and '{table}' may have {units}.",
        fix="declare a `step` of {coarser} (noise hides all that is finer in such a sum), bounds "
        "closer to 0, or the table's `size`, if a smaller number of units is public.",
    ),
    "DP-SQL-001": Template(
        cause="The text can't be answered: {problem}.",
        fix="write one SELECT over one declared table, such as "
        "SELECT sex, COUNT(*) AS persons FROM people GROUP BY sex, and names that are words of "
        'SQL, or no plain names, as "when" or "a b".',
    ),
    "DP-SQL-002": Template(
        cause="The statement uses what has no bounded meaning here: {what}.",
        fix="use SELECT, FROM one table, WHERE, GROUP BY, HAVING, ORDER BY and LIMIT; several "
        "statements may be several queries of one release.",
    ),
    "DP-SQL-003": Template(
        cause="The statement reads from {name}, which is no declared table.",
        fix="read from one declared table; declared are: {known}.",
    ),
    "DP-SQL-004": Template(
        cause="'{what}' is no declared column in GROUP BY, no aggregate, and no arithmetic on "
        "them.",
        fix="group by declared columns; what is computed in each row is one, too, if the table's "
        "schema declares it by an `expression` or a `cut`; conditions on rows belong into WHERE.",
    ),
    "DP-SQL-005": Template(
        cause="The statement asks for no aggregate: rows themselves are never released.",
        fix="ask for COUNT(*), COUNT(DISTINCT id), SUM(column) or AVG(column).",
    ),
    "DP-SQL-006": Template(
        cause="{name} has no bounded meaning here.",
        fix="{nearest}.",
    ),
    "DP-SQL-007": Template(
        cause="What is computed from the noised values can't be computed.",
        fix="compare and add values of one kind; sums and counts are numbers, keys are texts.",
    ),
    "DP-WHERE-001": Template(
        cause="The text can't be parsed as one SQL expression{near}.",
        fix="write one expression over declared columns, such as age >= 18 AND sex = 'F', and "
        'names that are words of SQL, or no plain names, as "when" or "a b".',
    ),
    "DP-WHERE-002": Template(
        cause="The expression holds a subquery.",
        fix="use declared columns only; join a declared table if you need its columns.",
    ),
    "DP-WHERE-003": Template(
        cause="The expression holds an aggregate or a window function.",
        fix="an expression looks at one row alone; compare with a constant.",
    ),
    "DP-WHERE-004": Template(
        cause="The function '{function}' is not allowed here{nearest}.",
        fix="allowed functions, which can't fail or reach outside the row: {known}.",
    ),
    "DP-WHERE-005": Template(
        cause="The table '{table}' declares no column '{column}'{nearest}.",
        fix="use a declared column; quote texts with single quotes.",
    ),
    "DP-WHERE-006": Template(
        cause="'{what}' is not allowed in an expression over one row.",
        fix=(
            "use comparisons, AND, OR, NOT, IN (...), BETWEEN, IS NULL, LIKE, +, -, *, /, %, CASE "
            "and the allowed functions; nothing whose failure could depend on a value."
        ),
    ),
    "DP-WHERE-007": Template(
        cause="{left} is compared with {right}.",
        fix="compare values of one kind; write texts and dates in single quotes, numbers and true "
        "or false without.",
    ),
    "DP-WHERE-008": Template(
        cause="The predicate is not a condition: its value is {kind}.",
        fix="write a condition such as age >= 18.",
    ),
    "DP-WHERE-010": Template(
        cause="'{what}' needs {wanted}, and '{part}' is {found}.",
        fix="name a column that is {wanted}, or declare this one {how}.",
    ),
    "DP-WHERE-011": Template(
        cause="{values} {number} of '{column}', so the condition says nothing.",
        fix="compare with a declared value ({known}), or declare {others}.",
    ),
    "DP-WHERE-012": Template(
        cause="'{what}' is never true: nothing is equal to NULL, or differs from it.",
        fix="write IS NULL or IS NOT NULL.",
    ),
    "DP-WHERE-009": Template(
        cause="The expression is longer than {limit} characters or nested too deeply.",
        fix="shorten it; long lists of values belong into a category's declared values.",
    ),
}
