"""Every mistake of this table, and the whole message it gets: read it as somebody who made it.

A message names its place (file, line, key), its cause and what mends it. The last line of each,
which says that nothing was read or spent, is left out of the tables and checked beside them.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

import dprelease
from dprelease import cli
from dprelease.errors import DpReleaseError, Findings, UsageError
from dprelease.planning.declaration_findings import load_declaration, several
from dprelease.schema.load import read_declaration
from tests.covering import sampled
from tests.messages import RELEASE, SCHEMA, write, write_with
from tests.mistakes import SEVERAL, STATEMENTS, TIRED

STATE = "\n  State  no row was read, no budget was spent."

FILES = [
    (
        "a typo in a query",
        "release.yaml",
        "where: age",
        "wher: age",
        2,
        """
release.yaml:8  queries.by_sex.wher
DP-DECL-001  There is no key 'wher' here; did you mean 'where'.
  Fix    known keys are: columns, consistent, cube, derive, description, family, footnotes, from, group_by, hierarchy, histogram, join, label, marginals, marginals_at, private_keys, rollup, share, tables, where.
""",
    ),
    (
        "a typo in a column",
        "release.yaml",
        'count: "*"',
        'cuont: "*"',
        2,
        """
release.yaml:12  queries.by_sex.columns.persons.cuont
DP-DECL-001  There is no key 'cuont' here; did you mean 'count'.
  Fix    known keys are: bottom_code, count, count_distinct, decimals, description, epsilon, flag_above, footnotes, k, label, labels, margin, max, mean, mechanism, median, min, mode, moe, non_negative, quantile, ratio, relative_moe, rho, round_to, stddev, sum, suppress_below, top_code, top_k, variance, weight.
""",
    ),
    (
        "a typo in the release",
        "release.yaml",
        "title:",
        "titel:",
        2,
        """
release.yaml:1
DP-DECL-002  The key 'title' is missing.
  Fix    add it; `dprelease schema release` and `dprelease schema table` describe every key.

release.yaml:1  titel
DP-DECL-001  There is no key 'titel' here; did you mean 'title'.
  Fix    known keys are: about, budget, defaults, duckdb, engine, federated, formats, ledger, limits, mechanism, mode, output, queries, records, spark, tables, title, variables, wide.
""",
    ),
    (
        "a typo in a table's column",
        "people.yaml",
        "lower: 1900-01-01",
        "lowr: 1900-01-01",
        2,
        """
people.yaml:13  columns.born.lowr
DP-DECL-001  There is no key 'lowr' here; did you mean 'lower'.
  Fix    known keys are: description, expression, footnotes, format, label, lower, nulls, type, upper.
""",
    ),
    (
        "a typo in the budget",
        "release.yaml",
        "{epsilon: 1}",
        "{epsilom: 1}",
        2,
        """
release.yaml:4  budget.epsilom
DP-DECL-001  There is no key 'epsilom' here; did you mean 'epsilon'.
  Fix    known keys are: delta, epsilon, neighbours, rho, spend, tables.
""",
    ),
    (
        "tables that are one text",
        "release.yaml",
        "tables:\n  - people.yaml",
        "tables: people.yaml",
        2,
        """
release.yaml:2  tables
DP-DECL-003  The value is not valid: it must be a list, such as [a, b].
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "an aggregate in place of its mapping",
        "release.yaml",
        'persons:\n        count: "*"',
        "persons: count",
        2,
        """
release.yaml:11  queries.by_sex.columns.persons
DP-DECL-003  The value is not valid: it must be a mapping of keys to values; known keys are: bottom_code, count, count_distinct, decimals, description, epsilon, flag_above, footnotes, k, label, labels, margin, max, mean, mechanism, median, min, mode, moe, non_negative, quantile, ratio, relative_moe, rho, round_to, stddev, sum, suppress_below, top_code, top_k, variance, weight.
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "a column of a table that is its type",
        "people.yaml",
        "note: {type: text}",
        "note: text",
        2,
        """
people.yaml:15  columns.note
DP-DECL-003  The value is not valid: a type is needed: category, integer, number, boolean, date, timestamp, text, or a `cut`.
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "a query that is a text",
        "release.yaml",
        "queries:",
        "queries: all\nrecords:",
        2,
        """
release.yaml:5  queries
DP-DECL-003  The value is not valid: it must be a mapping of keys to values.
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.

release.yaml:9  records.by_sex.where
DP-DECL-001  There is no key 'where' here; did you mean 'share'.
  Fix    known keys are: columns, description, footnotes, from, label, share.

release.yaml:10  records.by_sex.group_by
DP-DECL-001  There is no key 'group_by' here.
  Fix    known keys are: columns, description, footnotes, from, label, share.

release.yaml:13  records.by_sex.columns.persons.count
DP-DECL-001  There is no key 'count' here.
  Fix    known keys are: decimals, description, epsilon, footnotes, label, mechanism, rho, weight.

release.yaml:15  records.by_sex.columns.pay.sum
DP-DECL-001  There is no key 'sum' here.
  Fix    known keys are: decimals, description, epsilon, footnotes, label, mechanism, rho, weight.
""",
    ),
    (
        "columns that are a list",
        "release.yaml",
        'columns:\n      persons:\n        count: "*"\n      pay:\n        sum: income',
        "columns: [persons, pay]",
        2,
        """
release.yaml:10  queries.by_sex.columns
DP-DECL-003  The value is not valid: it must be a mapping of keys to values.
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "no columns",
        "release.yaml",
        'columns:\n      persons:\n        count: "*"\n      pay:\n        sum: income',
        "columns: {}",
        2,
        """
release.yaml:10  queries.by_sex.columns
DP-DECL-003  The value is not valid: it needs at least 1, but has none.
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "a ratio of one column",
        "release.yaml",
        "sum: income",
        "ratio: income",
        2,
        """
release.yaml:14  queries.by_sex.columns.pay.ratio
DP-DECL-003  The value is not valid: it must be a list, such as [a, b].
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "a ratio of three columns",
        "release.yaml",
        "sum: income",
        "ratio: [income, age, age]",
        2,
        """
release.yaml:14  queries.by_sex.columns.pay.ratio
DP-DECL-003  The value is not valid: it must be two columns, as in [distance, hours].
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "an unknown mode",
        "release.yaml",
        "title: People",
        "title: People\nmode: locale",
        2,
        """
release.yaml:2  mode
DP-DECL-003  The value is not valid: it must be 'central' or 'local'.
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "unknown neighbours",
        "release.yaml",
        "{epsilon: 1}",
        "{epsilon: 1, neighbours: neighbors}",
        2,
        """
release.yaml:4  budget.neighbours
DP-DECL-003  The value is not valid: it must be 'add_remove' or 'replace'.
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "a limit below the least",
        "release.yaml",
        "output:",
        "limits: {max_cells: 0}\noutput:",
        2,
        """
release.yaml:15  limits.max_cells
DP-DECL-003  The value is not valid: it must be at least 1.
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "margin: 95",
        "release.yaml",
        "sum: income",
        "sum: income\n        margin: 95",
        2,
        """
release.yaml:15  queries.by_sex.columns.pay.margin
DP-RELEASE-005  The confidence is not a number between 0.5 and 0.999999.
  Fix    write `margin: true` for 95 %, or another confidence such as 99 % or 0.99.
""",
    ),
    (
        "margin: 95 % of a text",
        "release.yaml",
        "sum: income",
        "sum: income\n        margin: many %",
        2,
        """
release.yaml:15  queries.by_sex.columns.pay.margin
DP-RELEASE-005  The confidence is not a number between 0.5 and 0.999999.
  Fix    write `margin: true` for 95 %, or another confidence such as 99 % or 0.99.
""",
    ),
    (
        "flag_above: 30",
        "release.yaml",
        "sum: income",
        "sum: income\n        flag_above: 30",
        2,
        """
release.yaml:15  queries.by_sex.columns.pay.flag_above
DP-RELEASE-017  `flag_above` would flag only cells whose expected error is at least 3000 % of the value.
  Fix    write the threshold with a percent sign, such as 30 %, or as a fraction, such as 0.3; a threshold above 100 % needs the sign.
""",
    ),
    (
        "nulls: dropp, category",
        "people.yaml",
        "values: [F, M]",
        "values: [F, M], nulls: dropp",
        2,
        """
people.yaml:6  columns.sex.nulls
DP-SCHEMA-005  `nulls` of 'sex' is 'dropp', which is neither 'drop' nor a declared value (F, M); did you mean 'drop'.
  Fix    write `drop` to leave such rows out, or the value that they get instead.
""",
    ),
    (
        "others: X, category",
        "people.yaml",
        "values: [F, M]",
        "values: [F, M], others: X",
        2,
        """
people.yaml:6  columns.sex.others
DP-SCHEMA-005  `others` of 'sex' is 'X', which is neither 'drop' nor a declared value (F, M).
  Fix    write `drop` to leave such rows out, or the value that they get instead.
""",
    ),
    (
        "nulls: dropp, integer",
        "people.yaml",
        "upper: 115",
        "upper: 115, nulls: dropp",
        2,
        """
people.yaml:7  columns.age.nulls
DP-SCHEMA-005  `nulls` of 'age' is 'dropp', which is neither 'drop' nor a number within the bounds, 0 to 115; did you mean 'drop'.
  Fix    write `drop` to leave such rows out, or the value that they get instead.
""",
    ),
    (
        "nulls outside the bounds",
        "people.yaml",
        "step: 0.5",
        "step: 0.5\n    nulls: -1",
        2,
        """
people.yaml:13  columns.income.nulls
DP-SCHEMA-005  `nulls` of 'income' is '-1', which is neither 'drop' nor a number within the bounds, 0 to 5000.
  Fix    write `drop` to leave such rows out, or the value that they get instead.
""",
    ),
    (
        "nulls of no bounds",
        "people.yaml",
        "lower: 0, upper: 115",
        "nulls: 0",
        2,
        """
people.yaml:7  columns.age.nulls
DP-SCHEMA-005  `nulls` of 'age' is '0', which is neither 'drop' nor allowed without `lower` and `upper`.
  Fix    write `drop` to leave such rows out, or the value that they get instead.
""",
    ),
    (
        "nulls: dropp, boolean",
        "people.yaml",
        "{type: boolean}",
        "{type: boolean, nulls: dropp}",
        2,
        """
people.yaml:14  columns.member.nulls
DP-SCHEMA-005  `nulls` of 'member' is 'dropp', which is neither 'drop' nor true or false; did you mean 'drop'.
  Fix    write `drop` to leave such rows out, or the value that they get instead.
""",
    ),
    (
        "nulls: dropp, date",
        "people.yaml",
        "upper: 2020-12-31",
        "upper: 2020-12-31, nulls: dropp",
        2,
        """
people.yaml:13  columns.born.nulls
DP-SCHEMA-005  `nulls` of 'born' is 'dropp', which is neither 'drop' nor a date from 1900-01-01 to 2020-12-31; did you mean 'drop'.
  Fix    write `drop` to leave such rows out, or the value that they get instead.
""",
    ),
    (
        "a shift",
        "release.yaml",
        "age >= 18",
        "age >> 3 = 1",
        2,
        """
release.yaml:8  queries.by_sex.where
DP-WHERE-006  'age >> 3' is not allowed in an expression.
  Fix    use comparisons, AND, OR, NOT, IN (...), BETWEEN, IS NULL, LIKE, +, -, *, /, %, CASE and the allowed functions; nothing that fails for some values is allowed.
""",
    ),
    (
        "a function that is not allowed",
        "release.yaml",
        "age >= 18",
        "random() < 0.5",
        2,
        """
release.yaml:8  queries.by_sex.where
DP-WHERE-004  The function 'random' is not allowed here.
  Fix    use one of these functions, which can't fail or read anything outside the row: lower, upper, trim, length, substr, left, starts_with, abs, floor, ceil, round, year, quarter, month, day, isodow, dayofyear, hour, minute, date_diff, coalesce, greatest, least, nullif, if.
""",
    ),
    (
        "year of a text",
        "release.yaml",
        "age >= 18",
        "year(note) = 2020",
        2,
        """
release.yaml:8  queries.by_sex.where
DP-WHERE-010  'YEAR(note)' needs a date, but 'note' is a text.
  Fix    use a column that is a date, or declare this one as a date, with its `format`.
""",
    ),
    (
        "lower of a number",
        "release.yaml",
        "age >= 18",
        "lower(age) = 'a'",
        2,
        """
release.yaml:8  queries.by_sex.where
DP-WHERE-010  'LOWER(age)' needs a text, but 'age' is a number.
  Fix    use a column that is a text, or declare this one so.
""",
    ),
    (
        "a sum of a text",
        "release.yaml",
        "age >= 18",
        "note + 1 > 3",
        2,
        """
release.yaml:8  queries.by_sex.where
DP-WHERE-010  'note + 1' needs a number, but 'note' is a text.
  Fix    use a column that is a number, or declare this one so.
""",
    ),
    (
        "a text and a number",
        "release.yaml",
        "age >= 18",
        "age = '18'",
        2,
        """
release.yaml:8  queries.by_sex.where
DP-WHERE-007  A number is compared with a text.
  Fix    compare values of the same type; write texts and dates in single quotes, numbers and true or false without quotes.
""",
    ),
    (
        "no date",
        "release.yaml",
        "age >= 18",
        "born > '1.1.2020'",
        2,
        """
release.yaml:8  queries.by_sex.where
DP-WHERE-007  A date is compared with a text that is not a date such as '2020-12-31'.
  Fix    compare values of the same type; write texts and dates in single quotes, numbers and true or false without quotes.
""",
    ),
    (
        "NOT of a number",
        "release.yaml",
        "age >= 18",
        "NOT age",
        2,
        """
release.yaml:8  queries.by_sex.where
DP-WHERE-010  'NOT age' needs a truth value, but 'age' is a number.
  Fix    use a column that is a truth value, or declare this one so.
""",
    ),
    (
        "a value that is not declared",
        "release.yaml",
        "age >= 18",
        "sex = 'Female'",
        2,
        """
release.yaml:8  queries.by_sex.where
DP-WHERE-011  'Female' is no declared value of 'sex', so the comparison is meaningless.
  Fix    compare with a declared value (F, M), or declare this one.
""",
    ),
    (
        "a value in a list",
        "release.yaml",
        "age >= 18",
        "sex IN ('F', 'm')",
        2,
        """
release.yaml:8  queries.by_sex.where
DP-WHERE-011  'm' is no declared value of 'sex', so the comparison is meaningless.
  Fix    compare with a declared value (F, M), or declare this one.
""",
    ),
    (
        "several values in a list",
        "release.yaml",
        "age >= 18",
        "sex IN ('x1', 'F', 'x1', 'x2', 'x3', 'x4', 'x5', 'x6')",
        2,
        """
release.yaml:8  queries.by_sex.where
DP-WHERE-011  'x1', 'x2', 'x3', 'x4', 'x5', ... are no declared values of 'sex', so the comparison is meaningless.
  Fix    compare with a declared value (F, M), or declare these.
""",
    ),
    (
        "a second argument",
        "release.yaml",
        "age >= 18",
        "trim(note, 'x') = 'y'",
        2,
        """
release.yaml:8  queries.by_sex.where
DP-WHERE-006  'TRIM(note, 'x')' is not allowed in an expression.
  Fix    use comparisons, AND, OR, NOT, IN (...), BETWEEN, IS NULL, LIKE, +, -, *, /, %, CASE and the allowed functions; nothing that fails for some values is allowed.
""",
    ),
    (
        "a column in double quotes",
        "release.yaml",
        "age >= 18",
        'sex = "F"',
        2,
        """
release.yaml:8  queries.by_sex.where
DP-WHERE-005  The table 'people' declares no column 'F'.
  Fix    use a declared column; write texts in single quotes.
""",
    ),
    (
        "a tab",
        "release.yaml",
        "    where: age",
        "\twhere: age",
        2,
        """
release.yaml:8
DP-YAML-003  The text is not valid YAML: the line is indented with a tab, but YAML allows only spaces.
  Fix    indent with spaces.
""",
    ),
    (
        "a bracket that stays open",
        "release.yaml",
        "[sex]",
        "[sex",
        2,
        """
release.yaml:9
DP-YAML-003  The text is not valid YAML: the bracket that opens here is not closed.
  Fix    close it with ].
""",
    ),
    (
        "a variable in brackets",
        "release.yaml",
        "[sex]",
        "[${KEY}]",
        2,
        """
release.yaml:9
DP-YAML-003  The text is not valid YAML: a text with ${...} in brackets or braces is not quoted.
  Fix    put it in quotes.
""",
    ),
    (
        "a placeholder",
        "release.yaml",
        "out/people",
        "out/${YEAR}",
        2,
        """
release.yaml:15  output
DP-YAML-008  Variables are not replaced here: '${YEAR}' would be used literally.
  Fix    write the value out, or declare a variable under `variables` of the release and set it with --set; what differs from run to run, such as the output folder, can also be set by a command option, such as --output. In a release file, $${...} stands for the literal text.
""",
    ),
    (
        "a misspelt mechanism beside a column that is not there",
        "release.yaml",
        "sum: income",
        "sum: incom\n      more:\n        sum: age\n        mechanism: laplac",
        2,
        """
release.yaml:14  queries.by_sex.columns.pay.sum
DP-QUERY-001  The table 'people' declares no column 'incom'; did you mean 'income'.
  Fix    declared columns are: person, sex, age, income, born, member, note.

release.yaml:17  queries.by_sex.columns.more.mechanism
DP-MECH-004  There is no mechanism 'laplac'; did you mean 'laplace'.
  Fix    use one of: asymmetric_laplace, discrete_gaussian, discrete_laplace, discrete_offset_symmetric_gaussian, gaussian, generalized_gaussian, laplace, offset_symmetric_gaussian, optimal, staircase, symmetric_alpha_stable, truncated_laplace.
""",
    ),
    (
        "several at once",
        "release.yaml",
        "sum: income\noutput",
        "sum: incom\n        mechanism: laplac\n        margin: 95\noutput",
        2,
        """
release.yaml:14  queries.by_sex.columns.pay.sum
DP-QUERY-001  The table 'people' declares no column 'incom'; did you mean 'income'.
  Fix    declared columns are: person, sex, age, income, born, member, note.

release.yaml:15  queries.by_sex.columns.pay.mechanism
DP-MECH-004  There is no mechanism 'laplac'; did you mean 'laplace'.
  Fix    use one of: asymmetric_laplace, discrete_gaussian, discrete_laplace, discrete_offset_symmetric_gaussian, gaussian, generalized_gaussian, laplace, offset_symmetric_gaussian, optimal, staircase, symmetric_alpha_stable, truncated_laplace.

release.yaml:16  queries.by_sex.columns.pay.margin
DP-RELEASE-005  The confidence is not a number between 0.5 and 0.999999.
  Fix    write `margin: true` for 95 %, or another confidence such as 99 % or 0.99.
""",
    ),
    (
        "a misspelt mechanism",
        "release.yaml",
        "sum: income",
        "sum: income\n        mechanism: laplac",
        3,
        """
release.yaml:15  queries.by_sex.columns.pay.mechanism
DP-MECH-004  There is no mechanism 'laplac'; did you mean 'laplace'.
  Fix    use one of: asymmetric_laplace, discrete_gaussian, discrete_laplace, discrete_offset_symmetric_gaussian, gaussian, generalized_gaussian, laplace, offset_symmetric_gaussian, optimal, staircase, symmetric_alpha_stable, truncated_laplace.
""",
    ),
    (
        "bounds exchanged",
        "people.yaml",
        "lower: 0\n    upper: 5000",
        "upper: 0\n    lower: 5000",
        2,
        """
people.yaml:11  columns.income.lower
DP-SCHEMA-001  The lower bound is above the upper bound.
  Fix    swap them.
""",
    ),
    (
        "one bound",
        "people.yaml",
        "lower: 0\n    upper: 5000",
        "lower: 0",
        2,
        """
people.yaml:8  columns.income
DP-SCHEMA-012  The column 'income' has only one of its two bounds.
  Fix    declare both `lower` and `upper`, or neither if the column is only used in `where`.
""",
    ),
    (
        "no step",
        "people.yaml",
        "step: 0.5",
        "step: 0",
        2,
        """
people.yaml:12  columns.income.step
DP-SCHEMA-010  The step of 'income' is not above zero, has more than 17 digits or 38 decimals, or one of the bounds is more than 2^62 steps away from zero.
  Fix    declare another step, or express the column in another unit of measurement, such as millions.
""",
    ),
    (
        "values twice",
        "people.yaml",
        "[F, M]",
        "[F, M, F]",
        2,
        """
people.yaml:6  columns.sex.values
DP-SCHEMA-003  The list of values of 'sex' has 'F' twice.
  Fix    list every value once.
""",
    ),
    (
        "names that are alike",
        "people.yaml",
        "note:",
        "Note: {type: text}\n  note:",
        2,
        """
people.yaml:16  columns.note
DP-DECL-006  The names 'Note' and 'note' are the same, or differ only by case or Unicode form.
  Fix    rename one of them; files and engines would mix them up.
""",
    ),
    (
        "an id that is no column",
        "people.yaml",
        "id: person",
        "id: persno",
        2,
        """
people.yaml:3  privacy_unit.id
DP-SCHEMA-008  The id 'persno' of the privacy unit is not a stored column of type integer or text.
  Fix    declare the id column with one of these types; a float can't identify a person exactly.
""",
    ),
    (
        "a table that is not there",
        "release.yaml",
        "people.yaml",
        "poeple.yaml",
        2,
        """
release.yaml:3  tables[0]
DP-YAML-001  The file can't be read: 'poeple.yaml' is not there.
  Fix    check the file and its path; a path in a file is relative to that file.
""",
    ),
    (
        "a folder for a table",
        "release.yaml",
        "- people.yaml",
        "- .",
        2,
        """
release.yaml:3  tables[0]
DP-YAML-001  The file can't be read: '.' is a folder.
  Fix    check the file and its path; a path in a file is relative to that file.
""",
    ),
    (
        "an unknown table",
        "release.yaml",
        "from: people",
        "from: peeple",
        2,
        """
release.yaml:7  queries.by_sex.from
DP-RELEASE-001  No table 'peeple' is declared; did you mean 'people'.
  Fix    declared tables are: people.
""",
    ),
    (
        "an output elsewhere",
        "release.yaml",
        "out/people",
        "../out",
        2,
        """
release.yaml:15  output
DP-RELEASE-003  The output is not a folder below the release file.
  Fix    use a relative path with / and without '..', such as out/people, or the option --output.
""",
    ),
    (
        "a number in words",
        "release.yaml",
        "epsilon: 1",
        "epsilon: one",
        2,
        """
release.yaml:4  budget.epsilon
DP-DECL-004  The value is not a usable decimal number: 'one' is not one.
  Fix    write it like 12, 0.5 or 1e-9: a point before the decimals, without a unit, % or thousands separators; nan, inf and hexadecimal numbers are not allowed.
""",
    ),
    (
        "not a number",
        "release.yaml",
        "epsilon: 1",
        "epsilon: nan",
        2,
        """
release.yaml:4  budget.epsilon
DP-DECL-004  The value is not a usable decimal number: 'nan' is not one.
  Fix    write it like 12, 0.5 or 1e-9: a point before the decimals, without a unit, % or thousands separators; nan, inf and hexadecimal numbers are not allowed.
""",
    ),
    (
        "an epsilon too large",
        "release.yaml",
        "epsilon: 1",
        "epsilon: 1000",
        3,
        """
release.yaml:4  budget.epsilon
DP-BUDGET-001  The epsilon of the budget is 1000; it must be between 1e-9 and 100.
  Fix    choose an epsilon in this range; common values are between 0.1 and 10.
""",
    ),
    (
        "two aggregates",
        "release.yaml",
        "sum: income",
        "sum: income\n        mean: income",
        2,
        """
release.yaml:15  queries.by_sex.columns.pay.mean
DP-RELEASE-002  A column needs exactly one aggregate, such as count, sum, mean or median.
  Fix    write for example `persons: {count: "*"}`.
""",
    ),
    (
        "no aggregate",
        "release.yaml",
        "sum: income",
        "margin: true",
        2,
        """
release.yaml:13  queries.by_sex.columns.pay
DP-RELEASE-002  A column needs exactly one aggregate, such as count, sum, mean or median.
  Fix    write for example `persons: {count: "*"}`.
""",
    ),
    (
        "a name of a key",
        "release.yaml",
        "      pay:",
        "      sex:",
        2,
        """
release.yaml:13  queries.by_sex.columns.sex
DP-RELEASE-007  The column name 'sex' is already the name of a key, of a margin, or of the count that selects private keys.
  Fix    choose another name for the column; for the bins of a histogram, set its `name`.
""",
    ),
    (
        "a key without values",
        "release.yaml",
        "[sex]",
        "[note]",
        2,
        """
release.yaml:9  queries.by_sex.group_by[0]
DP-QUERY-002  'note' can't be a key: a column of type text has no public values.
  Fix    group by a category, a boolean, a cut, or an integer or date with both bounds; `private_keys` finds keys that are not public.
""",
    ),
    (
        "a list over several lines without a comma",
        "release.yaml",
        "group_by: [sex]",
        "group_by: [\n      sex\n      age\n    ]",
        2,
        """
release.yaml:10  queries.by_sex.group_by[0]
DP-QUERY-001  The table 'people' declares no column 'sex age'; a comma is missing after 'sex'.
  Fix    declared columns are: person, sex, age, income, born, member, note.
""",
    ),
    (
        "a key twice",
        "release.yaml",
        "[sex]",
        "[sex, sex]",
        2,
        """
release.yaml:9  queries.by_sex.group_by[1]
DP-QUERY-008  The key 'sex' appears twice in one list of keys.
  Fix    remove one of the two.
""",
    ),
    (
        "an unknown key",
        "release.yaml",
        "[sex]",
        "[gender]",
        2,
        """
release.yaml:9  queries.by_sex.group_by[0]
DP-QUERY-001  The table 'people' declares no column 'gender'.
  Fix    declared columns are: person, sex, age, income, born, member, note.
""",
    ),
    (
        "a source without a format",
        "people.yaml",
        "people.csv",
        "people.ods",
        2,
        """
people.yaml:2  source
DP-SCHEMA-011  The source can't be read as declared: the extension of its path is not that of a known format.
  Fix    name it: source: {path: ..., format: parquet | csv | json_lines | duckdb | sqlite | excel | postgres}; a folder of Parquet files ends in /.
""",
    ),
    (
        "edges that are no list",
        "people.yaml",
        "note: {type: text}",
        "note: {cut: age, edges: 3}",
        2,
        """
people.yaml:15  columns.note.edges
DP-DECL-003  The value is not valid: it must be a list, such as [a, b].
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "edges that go down",
        "people.yaml",
        "note: {type: text}",
        "note: {cut: age, edges: [3, 2]}",
        2,
        """
people.yaml:15  columns.note.edges
DP-SCHEMA-006  The edges of 'note' are not ascending.
  Fix    list the edges in ascending order, one more than there are labels; each interval includes its left edge.
""",
    ),
    (
        "a cut of a text",
        "people.yaml",
        "{type: text}",
        "{type: text}\n  band: {cut: note, edges: [1, 2]}",
        2,
        """
people.yaml:16  columns.band.cut
DP-SCHEMA-007  'band' cuts 'note', which is not an integer or number column of this table.
  Fix    cut a declared column of type integer or number.
""",
    ),
    (
        "a value of a category that is a list",
        "people.yaml",
        "[F, M]",
        "[F, [M]]",
        2,
        """
people.yaml:6  columns.sex.values[1]
DP-DECL-003  The value is not valid: it must be a text, not a list.
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
    (
        "a type that is not there",
        "people.yaml",
        "{type: text}",
        "{type: string}",
        2,
        """
people.yaml:15  columns.note.type
DP-DECL-003  The value is not valid: there is no type 'string'; did you mean 'text'; there are category, integer, number, boolean, date, timestamp, text, and a `cut`.
  Fix    correct the value; `dprelease schema release` and `dprelease schema table` describe every key.
""",
    ),
]
COMMANDS = [
    (
        "verify nope",
        "verify nope",
        2,
        """
DP-OUTPUT-011  There is no folder 'nope'; nothing was verified.
  Fix    name the folder of a release; the path is relative to the current folder.
""",
    ),
    (
        "verify empty --ledger nope.sqlite",
        "verify empty --ledger nope.sqlite",
        2,
        """
DP-LEDGER-013  There is no ledger 'nope.sqlite'; nothing was verified.
  Fix    name the ledger that the release was charged to; the path is relative to the current folder.
""",
    ),
    (
        "verify empty",
        "verify empty",
        4,
        """
manifest.json
DP-VERIFY-001  There is no readable manifest.json here.
  Fix    name the folder of a release.
""",
    ),
    (
        "check people.yaml",
        "check people.yaml",
        2,
        """
people.yaml
DP-RELEASE-018  This is a table schema, but a release file is needed.
  Fix    name a release file: a file that lists this one under `tables` and declares `budget` and `queries`.
""",
    ),
    (
        "check people.csv",
        "check people.csv",
        2,
        """
people.csv
DP-RELEASE-018  This is a data file, by its name (.csv), but a release file is needed.
  Fix    name a release file: a file that lists table schemas under `tables` and declares `budget` and `queries`.
""",
    ),
    (
        "plan empty",
        "plan empty",
        2,
        """
empty
DP-YAML-001  The file can't be read: it is a folder.
  Fix    check the file and its path; a path in a file is relative to that file.
""",
    ),
    (
        "check nope.yaml",
        "check nope.yaml",
        2,
        """
nope.yaml
DP-YAML-001  The file can't be read: no such file or directory.
  Fix    check the file and its path; a path in a file is relative to that file.
""",
    ),
    (
        "check utf16.yaml",
        "check utf16.yaml",
        2,
        """
utf16.yaml
DP-YAML-001  The file can't be read: it is UTF-16: save it as UTF-8.
  Fix    check the file and its path; a path in a file is relative to that file.
""",
    ),
    (
        "check latin.yaml",
        "check latin.yaml",
        2,
        """
latin.yaml
DP-YAML-001  The file can't be read: it is not UTF-8: save it as UTF-8.
  Fix    check the file and its path; a path in a file is relative to that file.
""",
    ),
    (
        "check r16.yaml",
        "check r16.yaml",
        2,
        """
r16.yaml:3  tables[0]
DP-YAML-001  The file can't be read: 'utf16.yaml' is UTF-16: save it as UTF-8.
  Fix    check the file and its path; a path in a file is relative to that file.
""",
    ),
    (
        "check rr.yaml",
        "check rr.yaml",
        2,
        """
release.yaml
DP-RELEASE-018  This is a release file, but a table schema is needed.
  Fix    name a table schema: a file that starts with `table:` and declares `columns`.
""",
    ),
    (
        "check rv.yaml",
        "check rv.yaml",
        2,
        """
values.yaml:6  columns.sex.values_from
DP-SCHEMA-004  The file of values can't be used: 'sexes.csv' is UTF-16: save it as UTF-8.
  Fix    use a CSV file in UTF-8 with a header, or a Parquet file, and name its column, as in {file: ..., column: ...}.
""",
    ),
    (
        "plan people.yaml",
        "plan people.yaml",
        2,
        """
people.yaml
DP-RELEASE-018  This is a table schema, but a release file is needed.
  Fix    name a release file: a file that lists this one under `tables` and declares `budget` and `queries`.
""",
    ),
    (
        "init nope.csv",
        "init nope.csv",
        2,
        """
nope.csv
DP-DATA-018  There is no file 'nope.csv'.
  Fix    write the path of a Parquet, CSV, JSON lines, DuckDB, SQLite or Excel file, relative to the current folder, or a pattern for several such files, in quotes.
""",
    ),
    (
        "init nope.xlsx",
        "init nope.xlsx",
        2,
        """
nope.xlsx
DP-DATA-018  There is no file 'nope.xlsx'.
  Fix    write the path of a Parquet, CSV, JSON lines, DuckDB, SQLite or Excel file, relative to the current folder, or a pattern for several such files, in quotes.
""",
    ),
    (
        "init sheet.xlsx",
        "init sheet.xlsx",
        2,
        """
sheet.xlsx
DP-DATA-010  'sheet.xlsx' has no column names.
  Fix    use a Parquet file, a CSV file whose first line holds the names, JSON lines (.jsonl), a workbook (.xlsx) whose first row holds them, or a file of DuckDB (.duckdb) or SQLite (.sqlite); if there are several sheets or tables, or the source is a server, name one with --table.
""",
    ),
]
CALLS = [
    (
        "where(lambda people: people.age > 2)",
        """
DP-SESSION-016  `predicate` takes a condition in SQL as one text, such as "age >= 18", not function.
  Fix    pass a condition in SQL as one text, such as "age >= 18".
""",
    ),
    (
        "where(frame.age > 2)",
        """
DP-SESSION-016  `predicate` takes a condition in SQL as one text, such as "age >= 18", not Series.
  Fix    pass a condition in SQL as one text, such as "age >= 18".
""",
    ),
    (
        "count()",
        """
DP-SESSION-015  count() needs an epsilon.
  Fix    state how much of the session's budget it may spend, for example epsilon=0.1.
""",
    ),
    (
        'groupby("sex").size()',
        """
DP-SESSION-015  groupby() needs an epsilon.
  Fix    state how much of the session's budget it may spend, for example epsilon=0.1.
""",
    ),
    (
        'sql("SELECT COUNT(*) FROM people")',
        """
DP-SESSION-015  sql() needs an epsilon.
  Fix    state how much of the session's budget it may spend, for example epsilon=0.1.
""",
    ),
    (
        'histogram("age", bins=10, epsilon=1)',
        """
DP-SESSION-013  histogram() takes the edges of its bins in ascending order, not int.
  Fix    write for example bins=[0, 18, 65, 116]; bin edges that are computed from the data would reveal something about it.
""",
    ),
    (
        'groupby("sex").agg("mean", epsilon=1)',
        """
DP-SESSION-014  agg() takes columns with their aggregates, not str.
  Fix    write for example agg({"income": ["mean", "median"]}, epsilon=1) or agg(pay=("income", "mean"), epsilon=1).
""",
    ),
    (
        'groupby("sex").agg(["mean"], epsilon=1)',
        """
DP-SESSION-014  agg() takes columns with their aggregates, not list.
  Fix    write for example agg({"income": ["mean", "median"]}, epsilon=1) or agg(pay=("income", "mean"), epsilon=1).
""",
    ),
    (
        "count(epsilon=1, by=3)",
        """
DP-SESSION-016  `by` takes a column name or a list of column names, not int.
  Fix    pass a column name or a list of column names.
""",
    ),
    (
        'groupby("sex")[[]]',
        """
DP-SESSION-016  `columns` takes a column name or a list of at least one column name, not an empty list.
  Fix    pass a column name or a list of at least one column name.
""",
    ),
    (
        "count(epsilon=pd.Series([1.0]))",
        """
DP-SESSION-016  `epsilon` takes a single number, such as 0.1, not Series.
  Fix    pass a single number, such as 0.1.
""",
    ),
    (
        "groupby(3).size(epsilon=1)",
        """
DP-SESSION-016  `by` takes a column name or a list of column names, not int.
  Fix    pass a column name or a list of column names.
""",
    ),
    (
        "count(epsilon=1, mechanism=3)",
        """
DP-SESSION-016  `mechanism` takes a name, or a mapping of a name and its shape, not int.
  Fix    pass a name, or a mapping of a name and its shape.
""",
    ),
    (
        'count(epsilon=1, confidence="x")',
        """
DP-SESSION-016  `confidence` takes a number from 0.5 to 0.999999, not str.
  Fix    pass a number from 0.5 to 0.999999.
""",
    ),
    (
        "sql(3, epsilon=1)",
        """
DP-SESSION-016  `statement` takes one SELECT, not int.
  Fix    pass one SELECT.
""",
    ),
]


def told(folder: Path, *words: str) -> tuple[int, str]:
    """Return the exit code of a command, and its message without states and folders."""
    done = CliRunner().invoke(cli.app, list(words))
    assert done.stderr.count(STATE) == done.stderr.count("  Fix    ") >= 1, done.stderr
    return done.exit_code, done.stderr.strip().replace(STATE, "").replace(f"{folder}/", "")


@pytest.mark.share(0.5)
@pytest.mark.parametrize(
    ("file", "old", "new", "code", "message"),
    [case[1:] for case in (*FILES, *TIRED)],
    ids=[case[0] for case in (*FILES, *TIRED)],
)
def test_files(tmp_path: Path, file: str, old: str, new: str, code: int, message: str) -> None:
    write(tmp_path, file, old, new)
    assert told(tmp_path, "check", str(tmp_path / "release.yaml")) == (code, message.strip())


@pytest.mark.parametrize(
    ("edits", "code", "message"), [case[1:] for case in SEVERAL], ids=[case[0] for case in SEVERAL]
)
def test_all_findings_are_told_at_once(
    tmp_path: Path, edits: list[tuple[str, str, str]], code: int, message: str
) -> None:
    """By every command, and from Python."""
    write_with(tmp_path, edits)
    release = tmp_path / "release.yaml"
    for command in ("check", "plan", "run"):
        assert told(tmp_path, command, str(release)) == (code, message.strip())
    with pytest.raises(DpReleaseError) as caught:
        dprelease.read_release(release).plan()
    assert str(caught.value).replace(STATE, "") == message.strip()


@pytest.mark.parametrize(("statement", "options", "code", "message"), STATEMENTS)
def test_statements(tmp_path: Path, statement: str, options: str, code: int, message: str) -> None:
    """Places are parts of the statement, or options: nobody wrote a file."""
    write(tmp_path)
    words = [statement, "--schema", str(tmp_path / "people.yaml"), "--epsilon", "1"]
    assert told(tmp_path, "sql", *words, *options.split()) == (code, message.strip())


def test_what_is_clear_is_taken(tmp_path: Path) -> None:
    for new in ("margin: 95 %", "flag_above: 30 %", "flag_above: 0.3", "flag_above: 300 %"):
        write(tmp_path, "release.yaml", "sum: income", f"sum: income\n        {new}")
        read_declaration(tmp_path / "release.yaml")


@pytest.mark.parametrize(
    ("words", "code", "message"), [case[1:] for case in COMMANDS], ids=[c[0] for c in COMMANDS]
)
def test_commands(tmp_path: Path, words: str, code: int, message: str) -> None:
    write(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "utf16.yaml").write_text(RELEASE, encoding="utf-16")
    (tmp_path / "latin.yaml").write_text(RELEASE.replace("People", "Pérou"), encoding="latin-1")
    (tmp_path / "sheet.xlsx").write_bytes(b"PK\x03\x04" + bytes(64))
    for name, table in {"r16": "utf16.yaml", "rr": "release.yaml", "rv": "values.yaml"}.items():
        text = RELEASE.replace("people.yaml", table)
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    values = SCHEMA.replace("values: [F, M]", "values_from: sexes.csv")
    (tmp_path / "values.yaml").write_text(values, encoding="utf-8")
    (tmp_path / "sexes.csv").write_text("sex\nF\n", encoding="utf-16")
    command, name, *options = words.split()
    given = (command, str(tmp_path / name), *options)
    assert told(tmp_path, *given) == (code, message.strip())


@pytest.mark.parametrize(("call", "message"), CALLS, ids=[call for call, _ in CALLS])
def test_calls(tmp_path: Path, call: str, message: str) -> None:
    """What Python itself would refuse is a TypeError, in words of the question."""
    write(tmp_path)
    frame = pd.DataFrame({"person": [1], "sex": ["F"], "age": [3], "income": [2.5]})
    session = dprelease.Session(tmp_path / "people.yaml", epsilon=1)
    frame.dp.use(session)
    with pytest.raises((UsageError, TypeError)) as caught:
        eval(f"frame.dp.{call}", {"frame": frame, "pd": pd})
    assert isinstance(caught.value, UsageError)
    assert isinstance(caught.value, TypeError)
    assert str(caught.value) == f"{message.strip()}{STATE}"
    assert session.spent.epsilon == 0


WRONG: tuple[object, ...] = ("dropp", ["a"], {"a": "b"}, None, "", "-1", "1e400", [], {})


def _changed(value: object) -> Iterator[object]:
    """Yield a document with each of its values replaced by each wrong one, or misspelt."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield {**{k: v for k, v in value.items() if k != key}, f"{key}x": inner}
            for changed in _changed(inner):
                yield {**value, key: changed}
    if isinstance(value, list):
        for i, inner in enumerate(value):
            for changed in _changed(inner):
                yield [*value[:i], changed, *value[i + 1 :]]
    yield from WRONG


@pytest.mark.parametrize("file", ["release.yaml", "people.yaml"])
def test_no_message_speaks_of_python(tmp_path: Path, file: str) -> None:
    """Each value of both files, replaced by values of other kinds: place, cause and mend."""
    write(tmp_path)
    text = {"release.yaml": RELEASE, "people.yaml": SCHEMA}[file]
    # As the reader has it: every scalar is a text.
    document = yaml.load(text, Loader=yaml.BaseLoader)
    found = 0
    for changed in sampled(_changed(copy.deepcopy(document))):
        (tmp_path / file).write_text(yaml.safe_dump(changed, sort_keys=False), encoding="utf-8")
        try:
            read_declaration(tmp_path / "release.yaml")
        except DpReleaseError as error:
            for finding in error.errors if isinstance(error, Findings) else (error,):
                told = str(finding)
                assert not re.search(r"input should|instance|valid (tuple|dict|string)", told), told
                assert not re.search(r": \.$|'this column'|\{\w+\}", told, re.M), told
                assert finding.place.file, told
                found += 1
    assert found > 50


FURTHER = """\
  by_age:
    from: people
    derive: {half: {expression: age / 2, type: integer, lower: 0, upper: 60}}
    histogram: {column: age, edges: [0, 18, 65]}
    columns:
      halves: {sum: half, mechanism: {name: asymmetric_laplace, k: 2}}
      ratio: {ratio: [income, half]}
      persons: {count_distinct: person}
"""


@pytest.mark.share(0.5)
@pytest.mark.parametrize("file", ["release.yaml", "people.yaml"])
def test_one_mistake_is_told_once(tmp_path: Path, file: str) -> None:
    """What leans on a wrong value is not said to be wrong: mending the one would make it untrue."""
    write(tmp_path)
    release = RELEASE.replace("output:", f"{FURTHER}output:")
    (tmp_path / "release.yaml").write_text(release, encoding="utf-8")
    document = yaml.load({"release.yaml": release, "people.yaml": SCHEMA}[file], yaml.BaseLoader)
    found = 0
    for changed in sampled(_changed(copy.deepcopy(document))):
        text = yaml.safe_dump(changed, sort_keys=False)
        (tmp_path / file).write_text(text, encoding="utf-8")
        form: list[str] = []
        try:
            read_declaration(tmp_path / "release.yaml")
        except DpReleaseError as error:
            form = [str(finding) for finding in several(error)]
        if not form:
            continue
        with pytest.raises(DpReleaseError) as caught:
            load_declaration(tmp_path / "release.yaml")
        assert sorted(str(finding) for finding in several(caught.value)) == sorted(form), text
        found += 1
    assert found > 50


@pytest.mark.parametrize("name", ["release", "table", "manifest"])
def test_schemas_are_printed(name: str) -> None:
    """What messages speak of is there wherever the package is installed."""
    done = CliRunner().invoke(cli.app, ["schema", name])
    stored = Path(__file__).parents[1] / "schemas" / "json" / f"{name}.schema.json"
    assert done.exit_code == 0
    assert done.stdout == stored.read_text(encoding="utf-8")
