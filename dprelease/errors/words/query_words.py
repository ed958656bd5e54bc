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
        fix="declare `lower` and `upper` in the table's schema; values outside the bounds are "
        "then replaced by the nearest bound.",
    ),
    "DP-QUERY-004": Template(
        cause="'{column}' has the type {kind}, but this aggregate needs a number.",
        fix="name a column of type integer or number. Sums and means can also be computed of "
        "booleans, and quantiles, minima and maxima of dates and timestamps with bounds.",
    ),
    "DP-QUERY-005": Template(
        cause="The result would always be zero: every value of '{column}' counts as zero.",
        fix="remove the column, or declare bounds that are not both zero.",
    ),
    "DP-QUERY-006": Template(
        cause="The possible values of '{column}' are not declared, so they can't be counted or "
        "selected.",
        fix="use a category, a boolean, a cut, or an integer or date with both bounds; the "
        "distinct ids of the privacy unit can be counted, too.",
    ),
    "DP-QUERY-007": Template(
        cause="The query has {cells} cells; the limit is {limit}.",
        fix="group by fewer or coarser keys, or raise limits.max_cells.",
    ),
    "DP-QUERY-008": Template(
        cause="The key '{column}' appears twice in one list of keys.",
        fix="remove one of the two.",
    ),
    "DP-QUERY-009": Template(
        cause="The release has {columns} columns; the limit is {limit}.",
        fix="declare fewer columns, or raise limits.max_columns.",
    ),
    "DP-QUERY-010": Template(
        cause="The `{key}` of '{column}' is not a multiple of the column's step, {step}.",
        fix="use a multiple of the step, such as 5 for counts.",
    ),
    "DP-QUERY-015": Template(
        cause="`suppress_below` of '{column}' is declared in people, and no column of the query "
        "counts people.",
        fix="add a column that counts them, such as `persons` with `{count}`.",
    ),
    "DP-QUERY-018": Template(
        cause="The `max_sum` of '{column}' limits the sum of a privacy unit, but each row is a "
        "privacy unit here, and the bounds of the summed column already limit its value.",
        fix="declare narrower bounds of the column, or name the `id` of the privacy unit.",
    ),
    "DP-QUERY-019": Template(
        cause="The option `{option}` is for numbers, but the values of '{column}' are dates or "
        "timestamps.",
        fix="remove the option.",
    ),
    "DP-QUERY-020": Template(
        cause="The share '{column}' can't be computed: {reason}.",
        fix="declare it in a table with public keys, `of` rows (`*`) or of a column whose lower "
        "bound is at least 0, and `within` some of the table's keys, or none for the total of all.",
    ),
    "DP-QUERY-021": Template(
        cause="The ratio of quantiles '{column}' can't be computed: {reason}.",
        fix="name a column of numbers whose lower bound is at least 0, and declare no `margin` "
        "below 95 %.",
    ),
    "DP-QUERY-022": Template(
        cause="The summaries of '{query}' can't be computed: {problem}.",
        fix="use counts and sums of a single table with public keys, and declare standard "
        "populations and public populations for exactly the values of its keys.",
    ),
    "DP-QUERY-011": Template(
        cause="The mechanism of '{column}' does not fit: noise is for counts and sums, selection "
        "for quantiles and most frequent values.",
        fix="remove `mechanism`, or use {known}.",
    ),
    "DP-QUERY-012": Template(
        cause="The column requests the {asked} most frequent values of '{column}', which declares "
        "only {values}.",
        fix="request fewer values.",
    ),
    "DP-QUERY-013": Template(
        cause="The tables of '{query}' can't be published by '{step}': {problem}.",
        fix="use counts and sums over public keys, or publish each table separately.",
    ),
    "DP-QUERY-014": Template(
        cause="The total of '{column}' may be too large: with a step of {step}, an exact total is "
        "limited to {most} privacy units, and '{table}' may have {units}.",
        fix="declare a `step` of {coarser} (in a total of that size the noise hides smaller "
        "differences), bounds closer to 0, or the table's `size`, if a smaller number of privacy "
        "units is public.",
    ),
    "DP-QUERY-023": Template(
        cause="'{column}' can't be a weight here: {reason}.",
        fix="declare a lower bound of 0 or more, and steps with few decimal places.",
    ),
    "DP-QUERY-024": Template(
        cause="'{column}' appears twice in one statistic of several columns.",
        fix="name different columns; the variance of a column is `variance`.",
    ),
    "DP-SQL-001": Template(
        cause="The statement can't be answered: {problem}.",
        fix="write one SELECT over declared tables, such as SELECT sex, COUNT(*) AS persons "
        "FROM people GROUP BY sex; put names that are SQL keywords or contain other characters in "
        'double quotes, as "when" or "a b".',
    ),
    "DP-SQL-002": Template(
        cause="The statement uses {what}, which is not supported.",
        fix="aggregate rows of one declared table, as in SELECT sex, COUNT(*) AS n FROM people "
        "WHERE age >= 18 GROUP BY sex; around such a SELECT, use any SQL that reads its result.",
    ),
    "DP-SQL-003": Template(
        cause="The statement reads from {name}, which is not a declared table.",
        fix="read from one declared table: {known}.",
    ),
    "DP-SQL-004": Template(
        cause="'{what}' is not a column in GROUP BY, an aggregate, or computed from them.",
        fix="group by declared columns, and put conditions on rows in WHERE; to use a value that "
        "is computed in each row, declare it in the table's schema as a column with an "
        "`expression` or a `cut`.",
    ),
    "DP-SQL-005": Template(
        cause="{what} has no aggregate, and rows about people are never released.",
        fix="select COUNT(*), COUNT(DISTINCT id), SUM(column) or AVG(column), with GROUP BY for "
        "groups.",
    ),
    "DP-SQL-006": Template(
        cause="{name} is not supported.",
        fix="{nearest}.",
    ),
    "DP-SQL-007": Template(
        cause="The part of the statement over the noised results can't be computed{problem}.",
        fix="compare and add only values of the same type: counts and sums are numbers, and keys "
        "have the types of their columns.",
    ),
    "DP-SQL-008": Template(
        cause="The parameters of the statement can't be inserted: {problem} (known: {known}).",
        fix="give each $name a value by name, as in params=dict(min=18), or each ? a value in "
        "their order, as in params=[18].",
    ),
    "DP-WHERE-001": Template(
        cause="The text can't be parsed as one SQL expression{near}.",
        fix="write one expression over declared columns, such as age >= 18 AND sex = 'F'; put "
        'names that are SQL keywords or contain other characters in double quotes, as "when" or '
        '"a b".',
    ),
    "DP-WHERE-002": Template(
        cause="The expression contains a subquery.",
        fix="use only columns of the same row; to use columns of another declared table, join it.",
    ),
    "DP-WHERE-003": Template(
        cause="The expression contains an aggregate or a window function.",
        fix="use only values of the same row and constants.",
    ),
    "DP-WHERE-004": Template(
        cause="The function '{function}' is not allowed here{nearest}.",
        fix="use one of these functions, which can't fail or read anything outside the row: "
        "{known}; if it is the name of a column with spaces or brackets, put the whole name in "
        'double quotes, as in "Satisfaction (1-5)" >= 4.',
    ),
    "DP-WHERE-005": Template(
        cause="The table '{table}' declares no column '{column}'{nearest}.",
        fix="use a declared column; write texts in single quotes.",
    ),
    "DP-WHERE-006": Template(
        cause="'{what}' is not allowed in an expression.",
        fix="use comparisons, AND, OR, NOT, IN (...), BETWEEN, IS NULL, LIKE, +, -, *, /, %, CASE "
        "and the allowed functions; nothing that fails for some values is allowed.",
    ),
    "DP-QUERY-016": Template(
        cause="The contribution limit {limit} can't be used here: {reason}.",
        fix="change this, or declare the limit as a number in the table schema.",
    ),
    "DP-WHERE-007": Template(
        cause="{left} is compared with {right}.",
        fix="compare values of the same type; write texts and dates in single quotes, numbers and "
        "true or false without quotes.",
    ),
    "DP-WHERE-008": Template(
        cause="The expression is not a condition: its value is {kind}.",
        fix="write a condition such as age >= 18.",
    ),
    "DP-WHERE-010": Template(
        cause="'{what}' needs {wanted}, but '{part}' is {found}.",
        fix="use a column that is {wanted}, or declare this one {how}.",
    ),
    "DP-WHERE-011": Template(
        cause="{values} {number} of '{column}', so the comparison is meaningless.",
        fix="compare with a declared value ({known}), or declare {others}.",
    ),
    "DP-WHERE-012": Template(
        cause="'{what}' is never true: a comparison with NULL by = or <> is never true.",
        fix="write IS NULL or IS NOT NULL.",
    ),
    "DP-WHERE-013": Template(
        cause="'{what}' compares numbers with the values of '{column}', which are texts.",
        fix="write {instead}.",
    ),
    "DP-WHERE-009": Template(
        cause="The expression is longer than {limit} characters or nested too deeply.",
        fix="shorten it; put long lists of values in the declared values of a category.",
    ),
}
