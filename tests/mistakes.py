"""Mistakes of tired stewards in release files and schemas, with the whole message of each.

As in `test_messages`: the last line, which says that nothing was read or spent, is left out.
"""

from __future__ import annotations

from tests.messages import RELEASE

R, S = "release.yaml", "people.yaml"

TIRED: list[tuple[str, str, str, str, int, str]] = [
    *(
        (
            f"ratio of {columns}",
            R,
            "sum: income",
            f"ratio: {columns}",
            2,
            """
release.yaml:14  queries.by_sex.columns.pay.ratio
DP-DECL-003  The value is not valid: it must be two columns, as in [distance, hours].
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
        )
        for columns in ("[income]", "[]")
    ),
    (
        "a database without a table",
        S,
        "source: people.csv",
        "source: {path: people.sqlite}",
        2,
        """
people.yaml:2  source
DP-SCHEMA-011  The source can't be read as declared: it names no table of its DuckDB or SQLite file or server.
  Fix    name it: source: {path: ..., table: ...}.
""",
    ),
    (
        "a table of a text file",
        S,
        "source: people.csv",
        "source: {path: people.csv, table: people}",
        2,
        """
people.yaml:2  source
DP-SCHEMA-011  The source can't be read as declared: it names a `table`, which only databases have.
  Fix    remove `table`, or declare the `format` if it is a file of DuckDB or SQLite.
""",
    ),
    (
        "one edge",
        S,
        "{type: text}",
        "{type: text}\n  band: {cut: age, edges: [18]}",
        2,
        """
people.yaml:16  columns.band.edges
DP-SCHEMA-006  The edges of 'band' are fewer than two.
  Fix    list the edges in ascending order, one more than there are labels; each interval includes its left edge.
""",
    ),
    (
        "comma decimal epsilon",
        R,
        "{epsilon: 1}",
        "{epsilon: 0,5}",
        2,
        """
release.yaml:4  budget.5
DP-YAML-010  '5' stands between braces as a key without a value.
  Fix    a comma starts a new key there: write decimals with a point, as in 0.5, lists in brackets, as in [a, b], and texts with a comma in quotes.
""",
    ),
    (
        "comma decimal epsilon block",
        R,
        "budget: {epsilon: 1}",
        "budget:\n  epsilon: 0,5",
        2,
        """
release.yaml:5  budget.epsilon
DP-DECL-004  The value is not a usable decimal number: '0,5' is not one.
  Fix    write it like 12, 0.5 or 1e-9: a point before the decimals, without a unit, % or thousands separators; nan, inf and hexadecimal numbers are not allowed.
""",
    ),
    (
        "percent",
        R,
        "epsilon: 1",
        "epsilon: 50 %",
        2,
        """
release.yaml:4  budget.epsilon
DP-DECL-004  The value is not a usable decimal number: '50 %' is not one.
  Fix    write it like 12, 0.5 or 1e-9: a point before the decimals, without a unit, % or thousands separators; nan, inf and hexadecimal numbers are not allowed.
""",
    ),
    (
        "epsilon negative",
        R,
        "epsilon: 1",
        "epsilon: -1",
        3,
        """
release.yaml:4  budget.epsilon
DP-BUDGET-001  The epsilon of the budget is -1; it must be between 1e-9 and 100.
  Fix    choose an epsilon in this range; common values are between 0.1 and 10.
""",
    ),
    (
        "epsilon zero",
        R,
        "epsilon: 1",
        "epsilon: 0",
        3,
        """
release.yaml:4  budget.epsilon
DP-BUDGET-001  The epsilon of the budget is 0; it must be between 1e-9 and 100.
  Fix    choose an epsilon in this range; common values are between 0.1 and 10.
""",
    ),
    (
        "delta 1",
        R,
        "epsilon: 1",
        "epsilon: 1, delta: 1",
        3,
        """
release.yaml:4  budget.delta
DP-BUDGET-002  The delta of the budget is 1; it must be 0, or between 1e-300 and 0.01.
  Fix    leave delta out for a pure guarantee, or choose one far below 1 / (number of people).
""",
    ),
    (
        "rho large",
        R,
        "epsilon: 1",
        "rho: 1000",
        3,
        """
release.yaml:4  budget.rho
DP-BUDGET-009  The rho of the budget is 1000; it must be between 1e-12 and 100.
  Fix    choose a rho in this range; common values are between 0.01 and 3.
""",
    ),
    (
        "epsilon empty",
        R,
        "epsilon: 1",
        "epsilon:",
        2,
        """
release.yaml:4
DP-YAML-003  The text is not valid YAML: a key has no value.
  Fix    write it after the colon and a space.
""",
    ),
    (
        "budget missing",
        R,
        "budget: {epsilon: 1}\n",
        "",
        2,
        """
release.yaml:1
DP-DECL-002  The key 'budget' is missing.
  Fix    add it; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "Epsilon case",
        R,
        "epsilon: 1",
        "Epsilon: 1",
        2,
        """
release.yaml:4  budget.Epsilon
DP-DECL-001  There is no key 'Epsilon' here; did you mean 'epsilon'.
  Fix    known keys are: delta, epsilon, neighbours, rho, spend, tables.
""",
    ),
    (
        "colon without space",
        R,
        "{epsilon: 1}",
        "{epsilon:1}",
        2,
        """
release.yaml:4  budget.epsilon:1
DP-YAML-010  'epsilon:1' has no space after its colon.
  Fix    write one, as in key: value.
""",
    ),
    (
        "colon without space block",
        R,
        "title: People",
        "title:People",
        2,
        """
release.yaml:1
DP-YAML-003  The text is not valid YAML: a space is missing after the colon.
  Fix    add one, as in key: value.
""",
    ),
    (
        "count star unquoted",
        R,
        'count: "*"',
        "count: *",
        2,
        """
release.yaml:12
DP-YAML-003  The text is not valid YAML: a value can't start with * unless it is quoted.
  Fix    put the whole value in quotes, as in count: '*'.
""",
    ),
    (
        "count true",
        R,
        'count: "*"',
        "count: true",
        2,
        """
release.yaml:12  queries.by_sex.columns.persons.count
DP-QUERY-001  The table 'people' declares no column 'true'.
  Fix    declared columns are: person, sex, age, income, born, member, note.
""",
    ),
    (
        "a star in a list",
        R,
        'count: "*"',
        "count: ['*']",
        2,
        """
release.yaml:12  queries.by_sex.columns.persons.count
DP-DECL-003  The value is not valid: it must be a text, not a list.
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "a truth value of Python",
        R,
        "sum: income",
        "sum: income\n        non_negative: True",
        2,
        """
release.yaml:15  queries.by_sex.columns.pay.non_negative
DP-DECL-003  The value is not valid: it must be true or false.
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "margin yes",
        R,
        "sum: income",
        "sum: income\n        margin: yes",
        2,
        """
release.yaml:15  queries.by_sex.columns.pay.margin
DP-RELEASE-005  The confidence is not a number between 0.5 and 0.999999.
  Fix    write `margin: true` for 95 %, or another confidence such as 99 % or 0.99.
""",
    ),
    (
        "margin 0,95",
        R,
        "sum: income",
        "sum: income\n        margin: 0,95",
        2,
        """
release.yaml:15  queries.by_sex.columns.pay.margin
DP-RELEASE-005  The confidence is not a number between 0.5 and 0.999999.
  Fix    write `margin: true` for 95 %, or another confidence such as 99 % or 0.99.
""",
    ),
    (
        "SUM upper key",
        R,
        "sum: income",
        "SUM: income",
        2,
        """
release.yaml:14  queries.by_sex.columns.pay.SUM
DP-DECL-001  There is no key 'SUM' here; did you mean 'sum'.
  Fix    known keys are: bottom_code, count, count_distinct, decimals, description, epsilon, flag_above, footnotes, k, label, labels, margin, max, mean, mechanism, median, min, mode, moe, non_negative, quantile, ratio, relative_moe, rho, round_to, stddev, sum, suppress_below, top_code, top_k, variance, weight.
""",
    ),
    (
        "sum list",
        R,
        "sum: income",
        "sum: [income, age]",
        2,
        """
release.yaml:14  queries.by_sex.columns.pay.sum
DP-DECL-003  The value is not valid: it must be a text, not a list.
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "avg",
        R,
        "sum: income",
        "avg: income",
        2,
        """
release.yaml:14  queries.by_sex.columns.pay.avg
DP-DECL-001  There is no key 'avg' here; did you mean 'mean'.
  Fix    known keys are: bottom_code, count, count_distinct, decimals, description, epsilon, flag_above, footnotes, k, label, labels, margin, max, mean, mechanism, median, min, mode, moe, non_negative, quantile, ratio, relative_moe, rho, round_to, stddev, sum, suppress_below, top_code, top_k, variance, weight.
""",
    ),
    (
        "average",
        R,
        "sum: income",
        "average: income",
        2,
        """
release.yaml:14  queries.by_sex.columns.pay.average
DP-DECL-001  There is no key 'average' here; did you mean 'mean'.
  Fix    known keys are: bottom_code, count, count_distinct, decimals, description, epsilon, flag_above, footnotes, k, label, labels, margin, max, mean, mechanism, median, min, mode, moe, non_negative, quantile, ratio, relative_moe, rho, round_to, stddev, sum, suppress_below, top_code, top_k, variance, weight.
""",
    ),
    (
        "percentile",
        R,
        "sum: income",
        "percentile: {of: income, at: 0.9}",
        2,
        """
release.yaml:14  queries.by_sex.columns.pay.percentile
DP-DECL-001  There is no key 'percentile' here; did you mean 'quantile'.
  Fix    known keys are: bottom_code, count, count_distinct, decimals, description, epsilon, flag_above, footnotes, k, label, labels, margin, max, mean, mechanism, median, min, mode, moe, non_negative, quantile, ratio, relative_moe, rho, round_to, stddev, sum, suppress_below, top_code, top_k, variance, weight.
""",
    ),
    (
        "median of text",
        R,
        "sum: income",
        "median: sex",
        2,
        """
release.yaml:14  queries.by_sex.columns.pay.median
DP-QUERY-004  'sex' has the type category, but this aggregate needs a number.
  Fix    name a column of type integer or number.
""",
    ),
    (
        "quantile scalar",
        R,
        "sum: income",
        "quantile: 0.9",
        2,
        """
release.yaml:14  queries.by_sex.columns.pay.quantile
DP-DECL-003  The value is not valid: it must be a mapping of keys to values; known keys are: at, of.
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "group_by text with commas",
        R,
        "[sex]",
        "sex, member",
        2,
        """
release.yaml:9  queries.by_sex.group_by
DP-DECL-003  The value is not valid: it must be a list, such as [a, b].
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "group_by mapping",
        R,
        "[sex]",
        "{sex: true}",
        2,
        """
release.yaml:9  queries.by_sex.group_by
DP-DECL-003  The value is not valid: it must be a list, such as [a, b].
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "group_by wrong case",
        R,
        "[sex]",
        "[Sex]",
        2,
        """
release.yaml:9  queries.by_sex.group_by[0]
DP-QUERY-001  The table 'people' declares no column 'Sex'; did you mean 'sex'.
  Fix    declared columns are: person, sex, age, income, born, member, note.
""",
    ),
    (
        "group_by empty",
        R,
        "[sex]",
        "",
        2,
        """
release.yaml:9  queries.by_sex.group_by
DP-YAML-010  The key 'group_by' has no value.
  Fix    write one, or leave it out.
""",
    ),
    (
        "group_by id",
        R,
        "[sex]",
        "[person]",
        2,
        """
release.yaml:9  queries.by_sex.group_by[0]
DP-QUERY-002  'person' can't be a key: it names the privacy unit.
  Fix    group by a category, a boolean, a cut, or an integer or date with both bounds; `private_keys` finds keys that are not public.
""",
    ),
    (
        "groupby",
        R,
        "group_by",
        "groupby",
        2,
        """
release.yaml:9  queries.by_sex.groupby
DP-DECL-001  There is no key 'groupby' here; did you mean 'group_by'.
  Fix    known keys are: columns, consistent, cube, derive, description, family, footnotes, from, group_by, hierarchy, histogram, join, label, marginals, marginals_at, private_keys, rollup, share, tables, where.
""",
    ),
    (
        "group by",
        R,
        "group_by",
        "group by",
        2,
        """
release.yaml:9  queries.by_sex.group by
DP-DECL-001  There is no key 'group by' here; did you mean 'group_by'.
  Fix    known keys are: columns, consistent, cube, derive, description, family, footnotes, from, group_by, hierarchy, histogram, join, label, marginals, marginals_at, private_keys, rollup, share, tables, where.
""",
    ),
    (
        "where and&&",
        R,
        "age >= 18",
        "age >= 18 && sex = 'F'",
        2,
        """
release.yaml:8  queries.by_sex.where
DP-WHERE-006  '18 && sex' is not allowed in an expression.
  Fix    use comparisons, AND, OR, NOT, IN (...), BETWEEN, IS NULL, LIKE, +, -, *, /, %, CASE and the allowed functions; nothing that fails for some values is allowed.
""",
    ),
    (
        "where =>",
        R,
        "age >= 18",
        "age => 18",
        2,
        """
release.yaml:8  queries.by_sex.where
DP-WHERE-001  The text can't be parsed as one SQL expression, from '=>' on.
  Fix    write one expression over declared columns, such as age >= 18 AND sex = 'F'; put names that are SQL keywords or contain other characters in double quotes, as "when" or "a b".
""",
    ),
    (
        "where paren",
        R,
        "age >= 18",
        "(age >= 18",
        2,
        """
release.yaml:8  queries.by_sex.where
DP-WHERE-001  The text can't be parsed as one SQL expression, from '18' on.
  Fix    write one expression over declared columns, such as age >= 18 AND sex = 'F'; put names that are SQL keywords or contain other characters in double quotes, as "when" or "a b".
""",
    ),
    (
        "where quote unclosed",
        R,
        "age >= 18",
        "sex = 'F",
        2,
        """
release.yaml:8  queries.by_sex.where
DP-WHERE-001  The text can't be parsed as one SQL expression.
  Fix    write one expression over declared columns, such as age >= 18 AND sex = 'F'; put names that are SQL keywords or contain other characters in double quotes, as "when" or "a b".
""",
    ),
    (
        "where null",
        R,
        "age >= 18",
        "age = NULL",
        2,
        """
release.yaml:8  queries.by_sex.where
DP-WHERE-012  'age = NULL' is never true: a comparison with NULL by = or <> is never true.
  Fix    write IS NULL or IS NOT NULL.
""",
    ),
    (
        "where WHERE",
        R,
        "age >= 18",
        "WHERE age >= 18",
        2,
        """
release.yaml:8  queries.by_sex.where
DP-WHERE-001  The text can't be parsed as one SQL expression, from 'WHERE' on.
  Fix    write one expression over declared columns, such as age >= 18 AND sex = 'F'; put names that are SQL keywords or contain other characters in double quotes, as "when" or "a b".
""",
    ),
    (
        "where list",
        R,
        "age >= 18",
        "[age >= 18, sex = 'F']",
        2,
        """
release.yaml:8  queries.by_sex.where
DP-DECL-003  The value is not valid: it must be a text, not a list.
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "where empty",
        R,
        "where: age >= 18",
        "where:",
        2,
        """
release.yaml:8  queries.by_sex.where
DP-YAML-010  The key 'where' has no value.
  Fix    write one, or leave it out.
""",
    ),
    (
        "where date unquoted",
        R,
        "age >= 18",
        "born >= 1990-01-01",
        2,
        """
release.yaml:8  queries.by_sex.where
DP-WHERE-007  A date is compared with a number.
  Fix    compare values of the same type; write texts and dates in single quotes, numbers and true or false without quotes.
""",
    ),
    (
        "where member = 'yes'",
        R,
        "age >= 18",
        "member = 'yes'",
        2,
        """
release.yaml:8  queries.by_sex.where
DP-WHERE-007  A text is compared with a truth value.
  Fix    compare values of the same type; write texts and dates in single quotes, numbers and true or false without quotes.
""",
    ),
    (
        "where age decimal comma",
        R,
        "age >= 18",
        "age >= 18,5",
        2,
        """
release.yaml:8  queries.by_sex.where
DP-WHERE-001  The text can't be parsed as one SQL expression, from ',' on.
  Fix    write one expression over declared columns, such as age >= 18 AND sex = 'F'; put names that are SQL keywords or contain other characters in double quotes, as "when" or "a b".
""",
    ),
    (
        "where typo func",
        R,
        "age >= 18",
        "lenght(note) > 3",
        2,
        """
release.yaml:8  queries.by_sex.where
DP-WHERE-004  The function 'lenght' is not allowed here; did you mean 'length'.
  Fix    use one of these functions, which can't fail or read anything outside the row: lower, upper, trim, length, substr, left, starts_with, abs, floor, ceil, round, year, quarter, month, day, isodow, dayofyear, hour, minute, date_diff, coalesce, greatest, least, nullif, if.
""",
    ),
    (
        "where python eq none",
        R,
        "age >= 18",
        "age is not None",
        2,
        """
release.yaml:8  queries.by_sex.where
DP-WHERE-006  'age IS None' is not allowed in an expression.
  Fix    use comparisons, AND, OR, NOT, IN (...), BETWEEN, IS NULL, LIKE, +, -, *, /, %, CASE and the allowed functions; nothing that fails for some values is allowed.
""",
    ),
    (
        "where exclam",
        R,
        "where: age >= 18",
        "where: !age",
        2,
        """
release.yaml:8
DP-YAML-004  Anchors, aliases, tags and merge keys are not allowed here.
  Fix    write the value out; put a text that starts with *, & or ! in quotes.
""",
    ),
    (
        "where colon",
        R,
        "where: age >= 18",
        "where: note = 'a: b'",
        2,
        """
release.yaml:8
DP-YAML-003  The text is not valid YAML: a value contains a colon followed by a space.
  Fix    put the whole value in quotes.
""",
    ),
    (
        "where starting quote",
        R,
        "where: age >= 18",
        "where: 'F' = sex",
        2,
        """
release.yaml:8
DP-YAML-003  The text is not valid YAML: more text follows after the closing quote of a value.
  Fix    put the whole value in quotes of the other kind.
""",
    ),
    (
        "where starting double quote",
        R,
        "where: age >= 18",
        'where: "age" >= 18',
        2,
        """
release.yaml:8
DP-YAML-003  The text is not valid YAML: more text follows after the closing quote of a value.
  Fix    put the whole value in quotes of the other kind.
""",
    ),
    (
        "from list",
        R,
        "from: people",
        "from: [people]",
        2,
        """
release.yaml:7  queries.by_sex.from
DP-DECL-003  The value is not valid: it must be a text, not a list.
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "from file",
        R,
        "from: people",
        "from: people.yaml",
        2,
        """
release.yaml:7  queries.by_sex.from
DP-RELEASE-001  No table 'people.yaml' is declared; did you mean 'people'.
  Fix    declared tables are: people.
""",
    ),
    (
        "output backslash",
        R,
        "out/people",
        "out\\people",
        2,
        """
release.yaml:15  output
DP-RELEASE-003  The output is not a folder below the release file.
  Fix    use a relative path with / and without '..', such as out/people, or the option --output.
""",
    ),
    (
        "output empty",
        R,
        "output: out/people",
        "output:",
        2,
        """
release.yaml:15  output
DP-YAML-010  The key 'output' has no value.
  Fix    write one, or leave it out.
""",
    ),
    (
        "a key twice",
        R,
        "title: People",
        "title: People\ntitle: Again",
        2,
        """
release.yaml:2  title
DP-YAML-005  The key 'title' appears twice here.
  Fix    remove one of the two.
""",
    ),
    (
        "a column twice",
        R,
        "      pay:",
        "      persons:",
        2,
        """
release.yaml:13  queries.by_sex.columns.persons
DP-YAML-005  The key 'persons' appears twice here.
  Fix    remove one of the two.
""",
    ),
    (
        "bad indent",
        R,
        "    group_by: [sex]",
        "   group_by: [sex]",
        2,
        """
release.yaml:9
DP-YAML-003  The text is not valid YAML: the line is not indented like the lines that it belongs to.
  Fix    indent all keys of a mapping by the same amount.
""",
    ),
    (
        "bad indent deeper",
        R,
        "    group_by: [sex]",
        "      group_by: [sex]",
        2,
        """
release.yaml:9
DP-YAML-003  The text is not valid YAML: the line is indented deeper than the lines that it belongs to.
  Fix    indent all keys of a mapping by the same amount.
""",
    ),
    (
        "bad indent of query",
        R,
        "  by_sex:",
        "by_sex:",
        2,
        """
release.yaml:5  queries
DP-YAML-010  The key 'queries' has no value.
  Fix    write one, or leave it out.

release.yaml:6  by_sex
DP-DECL-001  There is no key 'by_sex' here.
  Fix    known keys are: about, budget, defaults, duckdb, engine, federated, formats, ledger, limits, mechanism, mode, output, queries, records, spark, tables, title, variables, wide.
""",
    ),
    (
        "list columns of dicts",
        R,
        'columns:\n      persons:\n        count: "*"\n      pay:\n        sum: income',
        'columns:\n      - name: persons\n        count: "*"',
        2,
        """
release.yaml:10  queries.by_sex.columns
DP-DECL-003  The value is not valid: it must be a mapping of keys to values.
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "query name with dash",
        R,
        "by_sex:",
        "by-sex:",
        2,
        """
release.yaml:6  queries.by-sex
DP-DECL-005  Some systems can't store this name.
  Fix    use letters, digits and underscores, at most 63 of them, and start with a letter; do not use the name of a Windows device, such as con or aux.
""",
    ),
    (
        "tables csv",
        R,
        "people.yaml",
        "people.csv",
        2,
        """
release.yaml:3  tables[0]
DP-RELEASE-018  This is a data file, by its name (.csv), but a table schema is needed.
  Fix    name a table schema: a file that starts with `table:` and declares `columns`; `dprelease init` sketches one.
""",
    ),
    (
        "tables self",
        R,
        "people.yaml",
        "release.yaml",
        2,
        """
release.yaml
DP-RELEASE-018  This is a release file, but a table schema is needed.
  Fix    name a table schema: a file that starts with `table:` and declares `columns`.
""",
    ),
    (
        "mechanism case",
        R,
        "sum: income",
        "sum: income\n        mechanism: Laplace",
        3,
        """
release.yaml:15  queries.by_sex.columns.pay.mechanism
DP-MECH-004  There is no mechanism 'Laplace'; did you mean 'laplace'.
  Fix    use one of: asymmetric_laplace, discrete_gaussian, discrete_laplace, discrete_offset_symmetric_gaussian, gaussian, generalized_gaussian, laplace, offset_symmetric_gaussian, optimal, staircase, symmetric_alpha_stable, truncated_laplace.
""",
    ),
    (
        "mechanism params",
        R,
        "sum: income",
        "sum: income\n        mechanism: {name: laplace, scale: 3}",
        3,
        """
release.yaml:15  queries.by_sex.columns.pay.mechanism.scale
DP-MECH-002  The mechanism 'laplace' has no parameter 'scale'.
  Fix    remove the parameter, or use one of: none.
""",
    ),
    (
        "mechanism gaussian pure",
        R,
        "sum: income",
        "sum: income\n        mechanism: gaussian",
        3,
        """
release.yaml:15  queries.by_sex.columns.pay.mechanism
DP-BUDGET-003  'pay' uses 'gaussian', which has no pure guarantee, but delta is 0.
  Fix    use a pure mechanism (asymmetric_laplace, discrete_laplace, laplace, staircase, symmetric_alpha_stable), or add a delta to the budget.
""",
    ),
    (
        "auto measure",
        R,
        "sum: income",
        "sum: income\n        mechanism: {name: auto, measure: mean}",
        3,
        """
release.yaml:15  queries.by_sex.columns.pay.mechanism.measure
DP-MECH-005  The mechanism 'auto' does not allow this value of 'measure'; allowed: mae or rmse or p95 or p999.
  Fix    use an allowed value, or leave it out, so that the plan chooses it.
""",
    ),
    (
        "auto allowed",
        R,
        "sum: income",
        "sum: income\n        mechanism: {name: auto, allowed: [laplac]}",
        3,
        """
release.yaml:15  queries.by_sex.columns.pay.mechanism.allowed
DP-MECH-004  There is no mechanism 'laplac'; did you mean 'laplace'.
  Fix    use one of: asymmetric_laplace, discrete_gaussian, discrete_laplace, discrete_offset_symmetric_gaussian, gaussian, generalized_gaussian, laplace, offset_symmetric_gaussian, optimal, staircase, symmetric_alpha_stable, truncated_laplace.
""",
    ),
    (
        "shape range",
        R,
        "sum: income",
        "sum: income\n        mechanism: {name: asymmetric_laplace, k: -1}",
        3,
        """
release.yaml:15  queries.by_sex.columns.pay.mechanism
DP-MECH-005  The mechanism 'asymmetric_laplace' does not allow this value of 'k'; allowed: 0.015625 to 64.0.
  Fix    use an allowed value, or leave it out, so that the plan chooses it.
""",
    ),
    (
        "weight 0",
        R,
        "sum: income",
        "sum: income\n        weight: 0",
        2,
        """
release.yaml:15  queries.by_sex.columns.pay.weight
DP-RELEASE-004  This number must be above zero.
  Fix    write a number above zero; a column with weight 2 has half the noise of one with weight 1.
""",
    ),
    (
        "moe 5%",
        R,
        "sum: income",
        "sum: income\n        moe: 5 %",
        2,
        """
release.yaml:15  queries.by_sex.columns.pay.moe
DP-DECL-004  The value is not a usable decimal number: '5 %' is not one.
  Fix    write it like 12, 0.5 or 1e-9: a point before the decimals, without a unit, % or thousands separators; nan, inf and hexadecimal numbers are not allowed.
""",
    ),
    (
        "moe & epsilon",
        R,
        "sum: income",
        "sum: income\n        moe: 5\n        epsilon: 0.1",
        2,
        """
release.yaml:15  queries.by_sex.columns.pay.moe
DP-RELEASE-008  The same thing is declared twice: epsilon and moe.
  Fix    keep one of them.
""",
    ),
    (
        "col epsilon too much",
        R,
        "sum: income",
        "sum: income\n        epsilon: 10",
        3,
        """
release.yaml:15  queries.by_sex.columns.pay.epsilon
DP-BUDGET-007  The columns with a declared amount or accuracy cost 10 of the 1 that the release has: queries.by_sex.columns.pay.
  Fix    declare less accuracy or a larger budget, or leave more to the other columns.
""",
    ),
    (
        "col rho in eps",
        R,
        "sum: income",
        "sum: income\n        rho: 0.1",
        3,
        """
release.yaml:15  queries.by_sex.columns.pay.rho
DP-BUDGET-005  The budget is declared in epsilon, but by_sex.pay declares a rho.
  Fix    declare the amounts of all parts in the same terms as the budget, or as weights.
""",
    ),
    (
        "mode of number",
        R,
        "sum: income",
        "mode: income",
        2,
        """
release.yaml:14  queries.by_sex.columns.pay.mode
DP-QUERY-006  The possible values of 'income' are not declared, so they can't be counted or selected.
  Fix    use a category, a boolean, a cut, or an integer or date with both bounds; the distinct ids of the privacy unit can be counted, too.
""",
    ),
    (
        "hist unknown",
        R,
        "    columns:\n      persons",
        "    histogram: {column: agee, edges: [0, 10]}\n    columns:\n      persons",
        2,
        """
release.yaml:10  queries.by_sex.histogram.column
DP-SCHEMA-007  'agee_band' cuts 'agee', which is not an integer or number column of this table.
  Fix    cut a declared column of type integer or number.
""",
    ),
    (
        "hist bins",
        R,
        "    columns:\n      persons",
        "    histogram: {column: age, bins: 10}\n    columns:\n      persons",
        2,
        """
release.yaml:10  queries.by_sex.histogram
DP-DECL-002  The key 'edges' is missing.
  Fix    add it; `dprelease schema release` and `dprelease schema table` describe every key.

release.yaml:10  queries.by_sex.histogram.bins
DP-DECL-001  There is no key 'bins' here; did you mean 'edges'.
  Fix    known keys are: closed, column, description, edges, footnotes, label, labels, name.
""",
    ),
    (
        "private_keys yes",
        R,
        "    columns:\n      persons",
        "    private_keys: yes\n    columns:\n      persons",
        2,
        """
release.yaml:10  queries.by_sex.private_keys
DP-DECL-003  The value is not valid: it must be true, false or a mapping of keys to values.
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "private_keys pure",
        R,
        "    columns:\n      persons",
        "    private_keys: true\n    columns:\n      persons",
        3,
        """
release.yaml:10  queries.by_sex.private_keys
DP-BUDGET-011  Keys that are not public can't be selected without a delta above 0.
  Fix    add a delta to the budget, or declare the keys in the table schema.
""",
    ),
    (
        "cube and group_by",
        R,
        "    columns:\n      persons",
        "    cube: [sex, member]\n    columns:\n      persons",
        2,
        """
release.yaml:10  queries.by_sex.cube
DP-RELEASE-008  The same thing is declared twice: group_by and cube.
  Fix    keep one of them.
""",
    ),
    (
        "records central",
        R,
        "output:",
        "records: {a: {from: people, columns: [sex]}}\noutput:",
        2,
        """
release.yaml:15  records
DP-DECL-003  The value is not valid: a release with mode central must have `queries` and no `records`.
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "two documents",
        R,
        "title: People",
        "---\ntitle: People\n---\na: 1",
        2,
        """
release.yaml
DP-YAML-007  The document is not a single mapping of keys to values.
  Fix    start with keys such as `title:` or `table:`, and write one document per file.
""",
    ),
    (
        "an empty file",
        R,
        RELEASE,
        "",
        2,
        """
release.yaml
DP-YAML-007  The document is not a single mapping of keys to values.
  Fix    start with keys such as `title:` or `table:`, and write one document per file.
""",
    ),
    (
        "title colon",
        R,
        "title: People",
        "title: People: all of them",
        2,
        """
release.yaml:1
DP-YAML-003  The text is not valid YAML: a value contains a colon followed by a space.
  Fix    put the whole value in quotes.
""",
    ),
    (
        "spaces that do not break",
        R,
        "    where: age",
        "\xa0\xa0\xa0\xa0where: age",
        2,
        """
release.yaml:8
DP-YAML-003  The text is not valid YAML: the line is indented with a special space character.
  Fix    indent with plain spaces.
""",
    ),
    (
        "curly quotes",
        R,
        '"*"',
        "“*”",
        2,
        """
release.yaml:12  queries.by_sex.columns.persons.count
DP-QUERY-001  The table 'people' declares no column '“*”'.
  Fix    declared columns are: person, sex, age, income, born, member, note.
""",
    ),
    (
        "share %",
        R,
        "    columns:\n      persons",
        "    share: 50 %\n    columns:\n      persons",
        2,
        """
release.yaml:10  queries.by_sex.share
DP-DECL-004  The value is not a usable decimal number: '50 %' is not one.
  Fix    write it like 12, 0.5 or 1e-9: a point before the decimals, without a unit, % or thousands separators; nan, inf and hexadecimal numbers are not allowed.
""",
    ),
    (
        "schema, neg",
        S,
        "lower: 0, upper: 115",
        "lower: - 5, upper: 115",
        2,
        """
people.yaml:7
DP-YAML-003  The text is not valid YAML: a dash followed by a space starts a list item.
  Fix    write a negative number without the space, such as -5.
""",
    ),
    (
        "schema, bound float int",
        S,
        "lower: 0, upper: 115",
        "lower: 0, upper: 115.5",
        2,
        """
people.yaml:7  columns.age.upper
DP-DECL-003  The value is not valid: it must be a whole number.
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "schema, bound comma",
        S,
        "step: 0.5",
        "step: 0,5",
        2,
        """
people.yaml:12  columns.income.step
DP-DECL-004  The value is not a usable decimal number: '0,5' is not one.
  Fix    write it like 12, 0.5 or 1e-9: a point before the decimals, without a unit, % or thousands separators; nan, inf and hexadecimal numbers are not allowed.
""",
    ),
    (
        "schema, thousands",
        S,
        "upper: 5000",
        "upper: 5,000",
        2,
        """
people.yaml:11  columns.income.upper
DP-DECL-004  The value is not a usable decimal number: '5,000' is not one.
  Fix    write it like 12, 0.5 or 1e-9: a point before the decimals, without a unit, % or thousands separators; nan, inf and hexadecimal numbers are not allowed.
""",
    ),
    (
        "schema, unit",
        S,
        "upper: 5000",
        "upper: 5000 EUR",
        2,
        """
people.yaml:11  columns.income.upper
DP-DECL-004  The value is not a usable decimal number: '5000 EUR' is not one.
  Fix    write it like 12, 0.5 or 1e-9: a point before the decimals, without a unit, % or thousands separators; nan, inf and hexadecimal numbers are not allowed.
""",
    ),
    (
        "schema, date fmt",
        S,
        "1900-01-01",
        "01.01.1900",
        2,
        """
people.yaml:13  columns.born.lower
DP-DECL-003  The value is not valid: it must be a date such as 2024-12-31.
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "schema, date bad",
        S,
        "1900-01-01",
        "1900-02-30",
        2,
        """
people.yaml:13  columns.born.lower
DP-DECL-003  The value is not valid: this date does not exist.
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "schema, date format",
        S,
        "upper: 2020-12-31",
        "upper: 2020-12-31, format: dd/mm/yyyy",
        2,
        """
people.yaml:13  columns.born.format
DP-DECL-003  The value is not valid: it must be a format such as %d/%m/%Y, where %Y is the year, %m the month and %d the day.
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "schema, type case",
        S,
        "{type: text}",
        "{type: Text}",
        2,
        """
people.yaml:15  columns.note.type
DP-DECL-003  The value is not valid: there is no type 'Text'; did you mean 'text'; there are category, integer, number, boolean, date, timestamp, text, and a `cut`.
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "schema, type float",
        S,
        "type: number",
        "type: float",
        2,
        """
people.yaml:9  columns.income.type
DP-DECL-003  The value is not valid: there is no type 'float'; did you mean 'number'; there are category, integer, number, boolean, date, timestamp, text, and a `cut`.
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "schema, type missing",
        S,
        "note: {type: text}",
        "note: {}",
        2,
        """
people.yaml:15  columns.note
DP-DECL-003  The value is not valid: a type is needed: category, integer, number, boolean, date, timestamp, text, or a `cut`.
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "schema, values text",
        S,
        "[F, M]",
        "F, M",
        2,
        """
people.yaml:6  columns.sex.M
DP-YAML-010  'M' stands between braces as a key without a value.
  Fix    a comma starts a new key there: write decimals with a point, as in 0.5, lists in brackets, as in [a, b], and texts with a comma in quotes.

people.yaml:6  columns.sex.values
DP-DECL-003  The value is not valid: it must be a list, such as [a, b].
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "schema, values null",
        S,
        "[F, M]",
        "[F, null]",
        2,
        """
people.yaml:6  columns.sex.values[1]
DP-DECL-003  The value is not valid: it must be a text, not an empty value (null).
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "schema, values both",
        S,
        "values: [F, M]",
        "values: [F, M], values_from: x.csv",
        2,
        """
people.yaml:6  columns.sex.values_from
DP-RELEASE-008  The same thing is declared twice: values and values_from.
  Fix    keep one of them.
""",
    ),
    (
        "schema, value typo key",
        S,
        "values: [F, M]",
        "value: [F, M]",
        2,
        """
people.yaml:6  columns.sex.value
DP-DECL-001  There is no key 'value' here; did you mean 'values'.
  Fix    known keys are: description, expression, footnotes, label, nulls, others, type, values, values_from, within.
""",
    ),
    (
        "schema, values_from missing",
        S,
        "values: [F, M]",
        "values_from: x.csv",
        2,
        """
people.yaml:6  columns.sex.values_from
DP-SCHEMA-004  The file of values can't be used: 'x.csv' is not there.
  Fix    use a CSV file in UTF-8 with a header, or a Parquet file, and name its column, as in {file: ..., column: ...}.
""",
    ),
    (
        "schema, min max",
        S,
        "lower: 0, upper: 115",
        "min: 0, max: 115",
        2,
        """
people.yaml:7  columns.age.min
DP-DECL-001  There is no key 'min' here; did you mean 'lower'.
  Fix    known keys are: decimals, description, expression, footnotes, label, labels, lower, nulls, step, type, unit, upper.

people.yaml:7  columns.age.max
DP-DECL-001  There is no key 'max' here; did you mean 'upper'.
  Fix    known keys are: decimals, description, expression, footnotes, label, labels, lower, nulls, step, type, unit, upper.
""",
    ),
    (
        "schema, unit text",
        S,
        "{id: person, max_groups: 2, max_rows_per_group: 2}",
        "person",
        2,
        """
people.yaml:3  privacy_unit
DP-DECL-003  The value is not valid: it must be a mapping of keys to values; known keys are: id, max_groups, max_rows_per_group.
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "schema, unit zero",
        S,
        "max_groups: 2",
        "max_groups: 0",
        2,
        """
people.yaml:3  privacy_unit.max_groups
DP-DECL-003  The value is not valid: it must be at least 1.
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "schema, unit many",
        S,
        "max_groups: 2",
        "max_groups: all",
        2,
        """
people.yaml:3  privacy_unit.max_groups
DP-DECL-004  The value is not a usable decimal number: 'all' is not one.
  Fix    write it like 12, 0.5 or 1e-9: a point before the decimals, without a unit, % or thousands separators; nan, inf and hexadecimal numbers are not allowed.
""",
    ),
    (
        "schema, source delim",
        S,
        "source: people.csv",
        "source: {path: people.csv, delimiter: semicolon}",
        2,
        """
people.yaml:2  source.delimiter
DP-DECL-003  The value is not valid: it must be one ASCII character, such as ;.
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "schema, source enc",
        S,
        "source: people.csv",
        "source: {path: people.csv, encoding: ansi}",
        2,
        """
people.yaml:2  source.encoding
DP-DECL-003  The value is not valid: it must be an encoding such as utf-8, utf-16, latin-1, cp1252 or iso-8859-15.
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "schema, source fmt",
        S,
        "source: people.csv",
        "source: {path: people.csv, date_format: dd/mm/yyyy}",
        2,
        """
people.yaml:2  source.date_format
DP-DECL-003  The value is not valid: it must be a format such as %d/%m/%Y, where %Y is the year, %m the month and %d the day.
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "schema, source fmt pct",
        S,
        "source: people.csv",
        "source: {path: people.csv, date_format: %d/%m/%Y}",
        2,
        """
people.yaml:2
DP-YAML-003  The text is not valid YAML: a value can't start with % unless it is quoted.
  Fix    put the whole value in quotes, as in count: '*'.
""",
    ),
    (
        "schema, source sep",
        S,
        "source: people.csv",
        "source: {path: people.csv, sep: ';'}",
        2,
        """
people.yaml:2  source.sep
DP-DECL-001  There is no key 'sep' here; did you mean 'delimiter'.
  Fix    known keys are: compression, date_format, decimal, delimiter, encoding, format, frame, header, nulls, path, quote, sheet, table, thousands, time_zone, timestamp_format.
""",
    ),
    (
        "schema, source decimal bare",
        S,
        "source: people.csv",
        "source: {path: people.csv, decimal: ,}",
        2,
        """
people.yaml:2  source.decimal
DP-YAML-010  'decimal' stands between braces as a key without a value.
  Fix    a comma starts a new key there: write decimals with a point, as in 0.5, lists in brackets, as in [a, b], and texts with a comma in quotes.
""",
    ),
    (
        "schema, dup col",
        S,
        "  note: {type: text}",
        "  note: {type: text}\n  note: {type: text}",
        2,
        """
people.yaml:16  columns.note
DP-YAML-005  The key 'note' appears twice here.
  Fix    remove one of the two.
""",
    ),
    (
        "schema, public and unit",
        S,
        "table: people",
        "table: people\npublic: true",
        2,
        """
people.yaml:4  privacy_unit
DP-JOIN-002  A public table can't have a privacy unit.
  Fix    remove `privacy_unit`; or remove `public: true` if the table is about people.
""",
    ),
    (
        "schema, public yes",
        S,
        "table: people",
        "table: people\npublic: yes",
        2,
        """
people.yaml:2  public
DP-DECL-003  The value is not valid: it must be true or false.
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "schema, cut labels",
        S,
        "{type: text}",
        "{type: text}\n  band: {cut: age, edges: [0, 18, 65], labels: [a]}",
        2,
        """
people.yaml:16  columns.band.labels
DP-SCHEMA-006  The edges of 'band' make 2 cells, and `labels` has 1.
  Fix    list the edges in ascending order, one more than there are labels; each interval includes its left edge.
""",
    ),
    (
        "schema, cut with type",
        S,
        "{type: text}",
        "{type: text}\n  band: {type: category, cut: age, edges: [0, 18, 65]}",
        2,
        """
people.yaml:16  columns.band.type
DP-DECL-001  There is no key 'type' here.
  Fix    known keys are: closed, cut, description, edges, footnotes, label, labels, nulls, others.
""",
    ),
    (
        "schema, size comma",
        S,
        "table: people",
        "table: people\nsize: 60,000",
        2,
        """
people.yaml:2  size
DP-DECL-004  The value is not a usable decimal number: '60,000' is not one.
  Fix    write it like 12, 0.5 or 1e-9: a point before the decimals, without a unit, % or thousands separators; nan, inf and hexadecimal numbers are not allowed.
""",
    ),
    (
        "schema, source nulls",
        S,
        "source: people.csv",
        "source: {path: people.csv, nulls: NA}",
        2,
        """
people.yaml:2  source.nulls
DP-DECL-003  The value is not valid: it must be a list, such as [a, b].
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
]

SEVERAL: list[tuple[str, list[tuple[str, str, str]], int, str]] = [
    (
        "a wrong value beside a column that is not there and noise that there is not",
        [
            (R, "sum: income", "sum: incom\n        margin: 95\n        mechanism: laplac"),
        ],
        2,
        """
release.yaml:14  queries.by_sex.columns.pay.sum
DP-QUERY-001  The table 'people' declares no column 'incom'; did you mean 'income'.
  Fix    declared columns are: person, sex, age, income, born, member, note.

release.yaml:15  queries.by_sex.columns.pay.margin
DP-RELEASE-005  The confidence is not a number between 0.5 and 0.999999.
  Fix    write `margin: true` for 95 %, or another confidence such as 99 % or 0.99.

release.yaml:16  queries.by_sex.columns.pay.mechanism
DP-MECH-004  There is no mechanism 'laplac'; did you mean 'laplace'.
  Fix    use one of: asymmetric_laplace, discrete_gaussian, discrete_laplace, discrete_offset_symmetric_gaussian, gaussian, generalized_gaussian, laplace, offset_symmetric_gaussian, optimal, staircase, symmetric_alpha_stable, truncated_laplace.
""",
    ),
    (
        "a misspelt mechanism beside a column that can't be counted, in other queries",
        [
            (R, 'count: "*"', "count_distinct: note"),
            (
                R,
                "output:",
                "  more:\n    from: people\n    columns:\n      n: {count: '*', mechanism: laplac}\noutput:",
            ),
        ],
        2,
        """
release.yaml:12  queries.by_sex.columns.persons.count_distinct
DP-QUERY-006  The possible values of 'note' are not declared, so they can't be counted or selected.
  Fix    use a category, a boolean, a cut, or an integer or date with both bounds; the distinct ids of the privacy unit can be counted, too.

release.yaml:18  queries.more.columns.n.mechanism
DP-MECH-004  There is no mechanism 'laplac'; did you mean 'laplace'.
  Fix    use one of: asymmetric_laplace, discrete_gaussian, discrete_laplace, discrete_offset_symmetric_gaussian, gaussian, generalized_gaussian, laplace, offset_symmetric_gaussian, optimal, staircase, symmetric_alpha_stable, truncated_laplace.
""",
    ),
    (
        "a misspelt mechanism on a column that can't be counted",
        [
            (R, 'count: "*"', "count_distinct: note\n        mechanism: laplac"),
        ],
        2,
        """
release.yaml:12  queries.by_sex.columns.persons.count_distinct
DP-QUERY-006  The possible values of 'note' are not declared, so they can't be counted or selected.
  Fix    use a category, a boolean, a cut, or an integer or date with both bounds; the distinct ids of the privacy unit can be counted, too.

release.yaml:13  queries.by_sex.columns.persons.mechanism
DP-MECH-004  There is no mechanism 'laplac'; did you mean 'laplace'.
  Fix    use one of: asymmetric_laplace, discrete_gaussian, discrete_laplace, discrete_offset_symmetric_gaussian, gaussian, generalized_gaussian, laplace, offset_symmetric_gaussian, optimal, staircase, symmetric_alpha_stable, truncated_laplace.
""",
    ),
    (
        "an unknown key beside a wrong value and a budget out of range",
        [
            (R, "epsilon: 1", "epsilon: 1000"),
            (R, "where: age", "wher: age"),
            (R, "sum: income", "sum: income\n        weight: high"),
        ],
        3,
        """
release.yaml:4  budget.epsilon
DP-BUDGET-001  The epsilon of the budget is 1000; it must be between 1e-9 and 100.
  Fix    choose an epsilon in this range; common values are between 0.1 and 10.

release.yaml:8  queries.by_sex.wher
DP-DECL-001  There is no key 'wher' here; did you mean 'where'.
  Fix    known keys are: columns, consistent, cube, derive, description, family, footnotes, from, group_by, hierarchy, histogram, join, label, marginals, marginals_at, private_keys, rollup, share, tables, where.

release.yaml:15  queries.by_sex.columns.pay.weight
DP-DECL-004  The value is not a usable decimal number: 'high' is not one.
  Fix    write it like 12, 0.5 or 1e-9: a point before the decimals, without a unit, % or thousands separators; nan, inf and hexadecimal numbers are not allowed.
""",
    ),
    (
        "findings of both files and of the queries",
        [
            (S, "{type: text}", "{type: text}\n  wage: {type: number, lower: 9, upper: 1}"),
            (R, "[sex]", "[gender]"),
            (R, "title: People\n", ""),
        ],
        2,
        """
release.yaml:1
DP-DECL-002  The key 'title' is missing.
  Fix    add it; `dprelease schema release` and `dprelease schema table` describe every key.

release.yaml:8  queries.by_sex.group_by[0]
DP-QUERY-001  The table 'people' declares no column 'gender'.
  Fix    declared columns are: person, sex, age, income, born, member, note, wage.

people.yaml:16  columns.wage.lower
DP-SCHEMA-001  The lower bound is above the upper bound.
  Fix    swap them.
""",
    ),
    (
        "a broken column is not said to be missing",
        [
            (S, "upper: 115", "upper: many"),
            (R, "sum: income", "sum: age"),
            (R, "[sex]", "[gender]"),
        ],
        2,
        """
people.yaml:7  columns.age.upper
DP-DECL-004  The value is not a usable decimal number: 'many' is not one.
  Fix    write it like 12, 0.5 or 1e-9: a point before the decimals, without a unit, % or thousands separators; nan, inf and hexadecimal numbers are not allowed.

release.yaml:9  queries.by_sex.group_by[0]
DP-QUERY-001  The table 'people' declares no column 'gender'.
  Fix    declared columns are: person, sex, age, income, born, member, note.
""",
    ),
    (
        "noise that can't be beside noise that there is not",
        [
            (R, 'count: "*"', 'count: "*"\n        mechanism: gaussian'),
            (R, "sum: income", "sum: income\n        mechanism: {name: asymmetric_laplace, kk: 2}"),
        ],
        3,
        """
release.yaml:13  queries.by_sex.columns.persons.mechanism
DP-BUDGET-003  'persons' uses 'gaussian', which has no pure guarantee, but delta is 0.
  Fix    use a pure mechanism (asymmetric_laplace, discrete_laplace, laplace, staircase, symmetric_alpha_stable), or add a delta to the budget.

release.yaml:16  queries.by_sex.columns.pay.mechanism.kk
DP-MECH-002  The mechanism 'asymmetric_laplace' has no parameter 'kk'.
  Fix    remove the parameter, or use one of: k, debias.
""",
    ),
    (
        "a table that there is not beside a wrong value",
        [
            (R, "from: people", "from: peeple"),
            (R, "sum: income", "sum: income\n        margin: 95"),
        ],
        2,
        """
release.yaml:7  queries.by_sex.from
DP-RELEASE-001  No table 'peeple' is declared; did you mean 'people'.
  Fix    declared tables are: people.

release.yaml:15  queries.by_sex.columns.pay.margin
DP-RELEASE-005  The confidence is not a number between 0.5 and 0.999999.
  Fix    write `margin: true` for 95 %, or another confidence such as 99 % or 0.99.
""",
    ),
    (
        "keys without values, a key twice and a placeholder",
        [
            (R, "where: age >= 18", "where:"),
            (R, "title: People", "title: People\ntitle: More"),
            (R, "out/people", "out/${YEAR}"),
            (R, "sum: income", "sum: incom"),
        ],
        2,
        """
release.yaml:2  title
DP-YAML-005  The key 'title' appears twice here.
  Fix    remove one of the two.

release.yaml:9  queries.by_sex.where
DP-YAML-010  The key 'where' has no value.
  Fix    write one, or leave it out.

release.yaml:15  queries.by_sex.columns.pay.sum
DP-QUERY-001  The table 'people' declares no column 'incom'; did you mean 'income'.
  Fix    declared columns are: person, sex, age, income, born, member, note.

release.yaml:16  output
DP-YAML-008  Variables are not replaced here: '${YEAR}' would be used literally.
  Fix    write the value out, or declare a variable under `variables` of the release and set it with --set; what differs from run to run, such as the output folder, can also be set by a command option, such as --output. In a release file, $${...} stands for the literal text.
""",
    ),
    (
        "marginals of which one names what is not there",
        [
            (R, "group_by: [sex]", "marginals: [[sex], [member, gender]]"),
        ],
        2,
        """
release.yaml:9  queries.by_sex.marginals[1][1]
DP-QUERY-001  The table 'people' declares no column 'gender'.
  Fix    declared columns are: person, sex, age, income, born, member, note.
""",
    ),
    (
        "a mark of a peek beside a wrong value",
        [
            (S, "upper: 115}", "upper: 115}  # PEEKED"),
            (S, "step: 0.5", "step: half"),
            (R, "sum: income", "sum: incom"),
        ],
        2,
        """
people.yaml:7
DP-PEEK-001  This value was read from the data (marked PEEKED), and nobody has confirmed it.
  Fix    replace it by a value from a public source (a code list, a tariff, the law), or confirm it from such a source; then remove the mark. Bounds and keys from the data void the guarantee.

people.yaml:12  columns.income.step
DP-DECL-004  The value is not a usable decimal number: 'half' is not one.
  Fix    write it like 12, 0.5 or 1e-9: a point before the decimals, without a unit, % or thousands separators; nan, inf and hexadecimal numbers are not allowed.

release.yaml:14  queries.by_sex.columns.pay.sum
DP-QUERY-001  The table 'people' declares no column 'incom'; did you mean 'income'.
  Fix    declared columns are: person, sex, age, income, born, member, note.
""",
    ),
]
"""Findings of all kinds and of both files come together."""

STATEMENTS: list[tuple[str, str, int, str]] = [
    (
        "SELECT cont(*) FROM people",
        "",
        2,
        """
sql
DP-SQL-006  The unknown function CONT is not supported.
  Fix    did you mean COUNT: use COUNT, COUNT(DISTINCT ...), SUM, AVG, VARIANCE, STDDEV, MEDIAN, QUANTILE_CONT, MIN, MAX or MODE.
""",
    ),
    (
        "SELECT sex, SUM(age) / frobnicate(income) FROM people GROUP BY sex",
        "",
        2,
        """
sql
DP-SQL-006  The unknown function FROBNICATE is not supported.
  Fix    use COUNT, COUNT(DISTINCT ...), SUM, AVG, VARIANCE, STDDEV, MEDIAN, QUANTILE_CONT, MIN, MAX or MODE.
""",
    ),
    (
        "SELECT SUM(*) FROM people",
        "",
        2,
        """
sql
DP-SQL-006  SUM(*) is not supported.
  Fix    name a column instead of *, which only COUNT takes.
""",
    ),
    (
        "SELECT sex COUNT(*) FROM people GROUP BY sex",
        "",
        2,
        """
sql
DP-SQL-001  The statement can't be answered: it can't be parsed as SQL, from '(' on.
  Fix    write one SELECT over one declared table, such as SELECT sex, COUNT(*) AS persons FROM people GROUP BY sex; put names that are SQL keywords or contain other characters in double quotes, as "when" or "a b".
""",
    ),
    (
        "SELECT floor(age / 10) AS tens, COUNT(*) FROM people GROUP BY floor(age / 10)",
        "",
        2,
        """
sql
DP-SQL-004  'FLOOR(age / 10)' is not a column in GROUP BY, an aggregate, or arithmetic on them.
  Fix    group by declared columns, and put conditions on rows in WHERE; to use a value that is computed in each row, declare it in the table's schema as a column with an `expression` or a `cut`.
""",
    ),
    (
        "SELECT COUNT(*) FORM people",
        "",
        2,
        """
sql
DP-SQL-001  The statement can't be answered: it can't be parsed as SQL, from 'people' on.
  Fix    write one SELECT over one declared table, such as SELECT sex, COUNT(*) AS persons FROM people GROUP BY sex; put names that are SQL keywords or contain other characters in double quotes, as "when" or "a b".
""",
    ),
    (
        "SELECT gender, COUNT(*) FROM people GROUP BY gender",
        "",
        2,
        """
sql  GROUP BY
DP-QUERY-001  The table 'people' declares no column 'gender'.
  Fix    declared columns are: person, sex, age, income, born, member, note.
""",
    ),
    (
        "SELECT COUNT(*) FROM people WHERE age = NULL",
        "",
        2,
        """
sql  WHERE
DP-WHERE-012  'age = NULL' is never true: a comparison with NULL by = or <> is never true.
  Fix    write IS NULL or IS NOT NULL.
""",
    ),
    (
        "SELECT SUM(incom) FROM people",
        "",
        2,
        """
sql  aggregate
DP-QUERY-001  The table 'people' declares no column 'incom'; did you mean 'income'.
  Fix    declared columns are: person, sex, age, income, born, member, note.
""",
    ),
    (
        "SELECT COUNT(*) FROM peeple",
        "",
        2,
        """
sql
DP-SQL-003  The statement reads from 'peeple', which is not a declared table.
  Fix    read from one declared table: people.
""",
    ),
    (
        "SELECT COUNT(*) AS n FROM people",
        "--epsilon 0,5",
        2,
        """
sql  epsilon
DP-DECL-004  The value is not a usable decimal number: '0,5' is not one.
  Fix    write it like 12, 0.5 or 1e-9: a point before the decimals, without a unit, % or thousands separators; nan, inf and hexadecimal numbers are not allowed.
""",
    ),
    (
        "SELECT COUNT(*) AS n FROM people",
        "--epsilon 1e400",
        3,
        """
sql  epsilon
DP-BUDGET-001  The epsilon of the budget is a number of 401 characters; it must be between 1e-9 and 100.
  Fix    choose an epsilon in this range; common values are between 0.1 and 10.
""",
    ),
    (
        "SELECT COUNT(*) AS n FROM people",
        "--epsilon 500",
        3,
        """
sql  epsilon
DP-BUDGET-001  The epsilon of the budget is 500; it must be between 1e-9 and 100.
  Fix    choose an epsilon in this range; common values are between 0.1 and 10.
""",
    ),
    (
        "SELECT COUNT(*) AS n FROM people",
        "--mechanism laplac",
        3,
        """
sql  mechanism
DP-MECH-004  There is no mechanism 'laplac'; did you mean 'laplace'.
  Fix    use one of: asymmetric_laplace, discrete_gaussian, discrete_laplace, discrete_offset_symmetric_gaussian, gaussian, generalized_gaussian, laplace, offset_symmetric_gaussian, optimal, staircase, symmetric_alpha_stable, truncated_laplace.
""",
    ),
    (
        "SELECT COUNT(*) AS n FROM people",
        "--delta 1",
        3,
        """
sql  delta
DP-BUDGET-002  The delta of the budget is 1; it must be 0, or between 1e-300 and 0.01.
  Fix    leave delta out for a pure guarantee, or choose one far below 1 / (number of people).
""",
    ),
]
"""Of the command sql: a statement, further options, exit code, message."""
