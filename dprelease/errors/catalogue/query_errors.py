"""Catalogue: queries, predicates, joins, custom areas, single records, consistent tables."""

from dprelease.errors.catalogue import Template

TEMPLATES: dict[str, Template] = {
    "DP-QUERY-001": Template(
        cause="The table '{table}' declares no column '{column}'{nearest}.",
        fix="declared columns are: {known}.",
    ),
    "DP-QUERY-002": Template(
        cause="'{column}' can't be a key: {reason}.",
        fix="{how}.",
    ),
    "DP-QUERY-003": Template(
        cause="This aggregate of '{column}' has no finite sensitivity: the column has no bounds.",
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
        cause="The values of '{column}' can't be counted or selected, because they are not "
        "declared, or because it is the id of the privacy unit.",
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
        fix="leave it out: aggregate rows of a declared table, as in SELECT sex, COUNT(*) AS n "
        "FROM people WHERE age >= 18 GROUP BY sex; around such a SELECT, use any SQL that reads "
        "its result.",
    ),
    "DP-SQL-003": Template(
        cause="The statement reads from {name}.",
        fix="read from a declared table: {known}.",
    ),
    "DP-SQL-004": Template(
        cause="'{what}' is not a column in GROUP BY, an aggregate, or computed from them.",
        fix="add it to GROUP BY, or aggregate it, as in SUM(x); put conditions on rows in WHERE; a "
        "value that is computed in each row may also be declared in the table's schema, as a "
        "column with an `expression` or a `cut`.",
    ),
    "DP-SQL-005": Template(
        cause="{what} has no aggregate, and rows about people are never released.",
        fix="select COUNT(*), COUNT(DISTINCT id), SUM(column) or AVG(column), with GROUP BY for "
        "groups; a window function reads such aggregates, as in SUM(COUNT(*)) OVER ().",
    ),
    "DP-SQL-006": Template(
        cause="{name} is not supported.",
        fix="{nearest}.",
    ),
    "DP-SQL-007": Template(
        cause="The part of the statement over the noised results can't be computed{problem}.",
        fix="check the types and the constants in it: counts and sums are numbers, and keys have "
        "the types of their columns.",
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
        fix="{advice}.",
    ),
    "DP-WHERE-005": Template(
        cause="The table '{table}' declares no column '{column}'{nearest}.",
        fix="use a declared column; write texts in single quotes.",
    ),
    "DP-WHERE-006": Template(
        cause="'{what}' is not allowed in an expression{reason}.",
        fix="{advice}.",
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
        fix="{how}.",
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
    "DP-DERIVE-002": Template(
        cause="'{column}' is computed from itself: {path}.",
        fix="compute it from stored columns; a column can't depend on itself.",
    ),
    "DP-DERIVE-003": Template(
        cause="'{column}' can't be computed: {problem}.",
        fix="write an expression over columns of the same row whose result can be read as the "
        "declared type.",
    ),
    "DP-DERIVE-004": Template(
        cause="The name '{column}' is already used: {where} has such a column, perhaps in other "
        "case.",
        fix="choose another name: in `derive`, by `name` of the histogram, or in the joined "
        "table's schema; or leave the column of the joined table out: `join: {{..., without: "
        "['{column}']}}`.",
    ),
    "DP-JOIN-003": Template(
        cause="'{table}' can't be joined: {reason}.",
        fix="join a public table `on` its key, or another table about the same people with "
        "`on_unit: true`.",
    ),
    "DP-JOIN-004": Template(
        cause="'{left}' and '{right}' can't be compared: {problem}.",
        fix="join integers with integers, texts with texts, dates with dates; declare the true "
        "type of both columns.",
    ),
    "DP-JOIN-005": Template(
        cause="The table '{table}' is public, so nothing in it needs protection.",
        fix="publish it as it is, or join it to a table about people.",
    ),
    "DP-AREA-001": Template(
        cause="The areas can't be read: {reason}.",
        fix="use a CSV file, or a frame, with a column `leaf` (or named as the last level of the "
        "hierarchy), a column `area` and optionally `share`: one row for each leaf of an area.",
    ),
    "DP-AREA-002": Template(
        cause="'{leaf}' is not a value of '{column}', the last level of the hierarchy{nearest}.",
        fix="use the values in the release's key file.",
    ),
    "DP-AREA-003": Template(
        cause="The leaf '{leaf}' can't be assigned to '{area}': {reason}.",
        fix="assign each leaf to one area; or state in `share` which fraction of it belongs to "
        "each area: numbers above 0 that sum to at most 1 for each leaf.",
    ),
    "DP-AREA-004": Template(
        cause="Custom areas can't be computed from the release: {reason}.",
        fix="name a release with `hierarchy` and `consistent` that publishes the last level.",
    ),
    "DP-COMPARE-001": Template(
        cause="No table can be compared: {problem}. Tables of both releases: {names}.",
        fix="name one of these tables; tables of both releases need the same name.",
    ),
    "DP-COMPARE-002": Template(
        cause="The two tables can't be compared: {reason}.",
        fix="compare tables with the same keys, contribution limits and columns; select cells of "
        "one release by different values of a key.",
    ),
    "DP-COMPARE-003": Template(
        cause="The shares can't be computed: {reason}.",
        fix="name a count, or a sum of values that are not negative, which no later step changed.",
    ),
    "DP-COMPARE-004": Template(
        cause="The correspondence table of '{key}' can't be used: {reason}.",
        fix="use a CSV file, or a frame, with a row for each old code and the new code that it "
        "became, in the columns `old` and `new`; codes that stayed the same need no row. If the "
        "columns of a file have other names, write them behind it: `--codes KEY=FILE,OLD,NEW`.",
    ),
    "DP-LOCAL-001": Template(
        cause="A local release protects the values of a record, not whether it exists.",
        fix="write `neighbours: replace` in the budget: the number of records is published.",
    ),
    "DP-LOCAL-002": Template(
        cause="The privacy units of '{table}' are identified by '{id}', and each may have several "
        "records.",
        fix="use a table with one record for each privacy unit and remove `privacy_unit`, or "
        "publish aggregates instead.",
    ),
    "DP-LOCAL-003": Template(
        cause="Records without a declared value of '{column}' can't be dropped: that would reveal "
        "which records have none.",
        fix="declare {keys} for the column: the value that such records get before noise is added.",
    ),
    "DP-LOCAL-004": Template(
        cause="Noise can't be added to single records of '{column}': {reason}.",
        fix="declare public values or both bounds for it, or remove it.",
    ),
    "DP-LOCAL-005": Template(
        cause="'{column}' has {kind}, which '{mechanism}' does not support.",
        fix="use {known}, or remove the mechanism.",
    ),
    "DP-LOCAL-006": Template(
        cause="'{column}' has {found} possible values; randomized response needs 2 to {limit}.",
        fix="declare other bounds or values, or remove the column.",
    ),
    "DP-LOCAL-008": Template(
        cause="Nothing can be estimated: {problem}.",
        fix="{way}.",
    ),
    "DP-LOCAL-007": Template(
        cause="A local release has no chart.",
        fix="remove --plot.",
    ),
    "DP-AUDIT-001": Template(
        cause="There is no query '{name}' in this release{nearest}.",
        fix="name a query, or one of its tables: {known}.",
    ),
}


CONSISTENT_TABLES: dict[str, Template] = {
    "DP-CONSIST-001": Template(
        cause="'{column}' can't be a level of the hierarchy: {reason}.",
        fix="name categories from the largest areas to the smallest; in the table's schema each "
        "must be declared `within` the one before.",
    ),
    "DP-CONSIST-002": Template(
        cause="'{column}' can't be a key of consistent tables: {reason}.",
        fix="use only one of the two keys, or make nested areas levels of `hierarchy`: the keys "
        "of consistent tables must be independent of each other.",
    ),
    "DP-CONSIST-003": Template(
        cause="`invariants` are true values, published outside the guarantee, and the release "
        "file does not acknowledge this.",
        fix="remove them, or add `acknowledge: {words}`.",
    ),
    "DP-CONSIST-006": Template(
        cause="With `invariants`, a guarantee with `neighbours: {neighbours}` promises nothing: "
        "the exact totals reveal whether a person is in the data.",
        fix="declare `neighbours: replace` in `budget`: the release then does not reveal which "
        "record a person has, among all records with the same values in the invariants.",
    ),
    "DP-CONSIST-007": Template(
        cause="A session can't publish `invariants`: exact values outside the guarantee must be "
        "recorded in a manifest.",
        fix="declare them in a release file, or remove them.",
    ),
    "DP-CONSIST-011": Template(
        cause="'{column}' can't be part of consistent tables: {reason}.",
        fix="use counts and sums under `consistent`, and publish the rest in a separate query.",
    ),
    "DP-CONSIST-012": Template(
        cause="The noise '{mechanism}' of '{column}' in '{table}' has no certified variance, "
        "which least squares need as weights.",
        fix="use discrete_gaussian, or another mechanism with light tails.",
    ),
    "DP-CONSIST-013": Template(
        cause="`{key}` can't be used for these tables: {reason}.",
        fix="correct it, or remove it.",
    ),
    "DP-CONSIST-014": Template(
        cause="The keys have {cells} combinations, too many for least squares in 64 bits.",
        fix="use fewer attributes in one family of tables.",
    ),
    "DP-CONSIST-015": Template(
        cause="The measured tables do not determine '{column}' in the table {table} of level "
        "'{level}'.",
        fix="measure the table at this level or a lower one, or stop publishing at a higher level.",
    ),
    "DP-CONSIST-004": Template(
        cause="The tables are sums of {cells} finest cells; the limit is {limit}.",
        fix="use fewer attributes in one family of tables.",
    ),
    "DP-CONSIST-030": Template(
        cause="'{query}' can't belong to the family '{family}': {reason}.",
        fix="let the queries of a family differ only in their keys (group_by, marginals, cube or "
        "rollup), or remove `family`.",
    ),
    "DP-CONSIST-020": Template(
        cause="The margin of '{column}' can't be as narrow as its target: with this budget it is "
        "at best {margin}.",
        fix="declare a wider margin or fewer targets, or {factor} times the rho, about {root} "
        "times the epsilon.",
    ),
    "DP-CONSIST-021": Template(
        cause="`targets` can't be used with a pure budget: its cost is not inversely proportional "
        "to variances.",
        fix="add a delta or a rho to the budget, or use weights instead.",
    ),
    "DP-CONSIST-022": Template(
        cause="`spend: least` can't tell how much budget is enough: {reason}.",
        fix="declare a `moe` under `targets` of consistent tables, and no epsilon or rho for "
        "single columns; or remove `spend`, so that the whole budget is spent.",
    ),
    "DP-CONSIST-023": Template(
        cause="The targets need about {needed}, but only {amount} may be spent: with that, the "
        "margin of '{column}' is at best {margin}.",
        fix="declare a wider margin or fewer targets, or a larger budget.",
    ),
}
