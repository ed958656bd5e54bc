"""Catalogue: YAML documents, table schemas and release files."""

from __future__ import annotations

from dprelease.errors.template import Template

TEMPLATES: dict[str, Template] = {
    "DP-YAML-001": Template(
        cause="The file can't be read: {reason}.",
        fix="check the path; it is relative to the file that names it.",
    ),
    "DP-YAML-002": Template(
        cause="The file is larger than {limit}.",
        fix="check that it is a declaration; put long key lists into a CSV file and name it with "
        "`values_from`.",
    ),
    "DP-YAML-003": Template(
        cause="The text is not valid YAML: {problem}.",
        fix="{mend}.",
    ),
    "DP-YAML-004": Template(
        cause="Anchors, aliases, tags and merge keys are not allowed here.",
        fix="write the value out; put one that starts with *, & or ! between quotes.",
    ),
    "DP-YAML-005": Template(
        cause="The key '{name}' stands here twice.",
        fix="keep one of them.",
    ),
    "DP-YAML-006": Template(
        cause="The document is nested deeper than {limit} levels or has more than {nodes} values.",
        fix="flatten it; no release needs that.",
    ),
    "DP-YAML-007": Template(
        cause="The document is not one mapping of names to values.",
        fix="start with keys such as `title:` or `table:`, and write one document a file.",
    ),
    "DP-YAML-008": Template(
        cause="Nothing is filled in here: '{found}' would stand for itself.",
        fix="write the value out, or declare it under `variables` of the release and give it with "
        "--set; other options of commands take what differs from run to run, such as --output. "
        "In a release file, $${{...}} stands for the text itself.",
    ),
    "DP-YAML-010": Template(
        cause="{problem}.",
        fix="{mend}.",
    ),
    "DP-YAML-009": Template(
        cause="A key has more than {limit} characters.",
        fix="shorten it; every name and every text of a declaration is at most that long.",
    ),
    "DP-DECL-001": Template(
        cause="There is no key '{name}' here{nearest}.",
        fix="known keys are: {known}.",
    ),
    "DP-DECL-002": Template(
        cause="The key '{name}' is missing.",
        fix="add it; `dprelease schema release` and `dprelease schema table` describe every key.",
    ),
    "DP-DECL-003": Template(
        cause="The value is not valid: {problem}.",
        fix="give a value that the key allows; `dprelease schema release` and `dprelease schema "
        "table` describe every key.",
    ),
    "DP-DECL-004": Template(
        cause="A finite decimal number is needed, and {problem}.",
        fix="write it like 12, 0.5 or 1e-9: a point before decimals, and no unit, no % and nothing "
        "between thousands; nan, inf and hexadecimal are refused.",
    ),
    "DP-DECL-005": Template(
        cause="The name is not one that every system can store.",
        fix="use letters, digits and underscores, starting with a letter, at most 63 of them; "
        "and not the name of a device on Windows, such as con or aux.",
    ),
    "DP-DECL-006": Template(
        cause="The names '{one}' and '{other}' differ only by case or by Unicode form, or not at "
        "all.",
        fix="rename one of them; files and engines would mix them up.",
    ),
    "DP-DECL-007": Template(
        cause="There are {more} more findings in this file.",
        fix="mend those that are told; the others are told then.",
    ),
    "DP-SCHEMA-001": Template(
        cause="The lower bound is above the upper bound.",
        fix="exchange them.",
    ),
    "DP-SCHEMA-002": Template(
        cause="The column '{column}' has no values: neither `values` nor `values_from`.",
        fix="declare its public keys; they must not come from the data.",
    ),
    "DP-SCHEMA-003": Template(
        cause="The list of values of '{column}' {problem}.",
        fix="list every value once.",
    ),
    "DP-SCHEMA-004": Template(
        cause="The file of values can't be used: {reason}.",
        fix="give a CSV file in UTF-8 with a header, or a Parquet file, and its column as "
        "{{file: ..., column: ...}}.",
    ),
    "DP-SCHEMA-005": Template(
        cause="`{key}` of '{column}' is '{found}', which is neither 'drop' nor {allowed}{nearest}.",
        fix="write drop, which leaves such rows out, or a value that stands in for them.",
    ),
    "DP-SCHEMA-006": Template(
        cause="The edges of '{column}' {problem}.",
        fix="give n + 1 ascending edges for n labels; each cell takes its left edge.",
    ),
    "DP-SCHEMA-007": Template(
        cause="'{column}' cuts '{source}', which is not an integer or number column of this table.",
        fix="cut a declared integer or number column.",
    ),
    "DP-SCHEMA-008": Template(
        cause="The privacy unit's id '{column}' is not a stored column of type integer or text.",
        fix="declare the id column; a float can't name a person exactly.",
    ),
    "DP-SCHEMA-009": Template(
        cause="Contribution bounds are given although every row is its own unit.",
        fix="name the `id` column of the unit, or leave the bounds out.",
    ),
    "DP-SCHEMA-010": Template(
        cause="The step of '{column}' is not above zero, has more than 17 digits or 38 decimals, "
        "or a bound is more than 2^62 steps away from zero.",
        fix="declare another step, or give the column in another unit, such as millions.",
    ),
    "DP-SCHEMA-011": Template(
        cause="The source can't be read as it is declared: {reason}.",
        fix="{way}.",
    ),
    "DP-SCHEMA-012": Template(
        cause="The column '{column}' has one bound but not the other.",
        fix="declare `lower` and `upper`, or neither for a column that is only used in `where`.",
    ),
    "DP-SCHEMA-013": Template(
        cause="The privacy unit has an id, but no {missing}.",
        fix=(
            "say in how many groups of a query a unit may count, and with how many rows in each: "
            "rows beyond are left out. 1 and 1 are enough only if every unit has one row."
        ),
    ),
    "DP-SCHEMA-014": Template(
        cause="`{key}` can't stand in this source: {reason}.",
        fix=(
            "leave it out; delimiter, quote and nulls are for CSV, the other keys of texts for CSV "
            "and JSON lines, sheet and header for Excel."
        ),
    ),
    "DP-SCHEMA-015": Template(
        cause="The table declares {found} columns, more than {most}.",
        fix="declare those that are used; a source may have others.",
    ),
    "DP-SCHEMA-016": Template(
        cause="'{column}' can't lie within '{above}': {reason}.",
        fix=(
            "name another category of this table, and say in which of its values each one lies: by "
            "a second column of the file, named as that category, or by `values` as lists, such as "
            "{{BE: [Bern, Thun], ZH: [Uster]}}."
        ),
    ),
    "DP-SCHEMA-017": Template(
        cause="The value '{value}' of '{column}' lies in '{one}' and in '{other}'.",
        fix=(
            "let it lie in one area; where two areas have parts of one name, take codes that name "
            "the area as well."
        ),
    ),
    "DP-SCHEMA-018": Template(
        cause="The value '{value}' of '{column}' lies {told}.",
        fix="let every value lie in one of the declared areas, also what stands in for missing "
        "values.",
    ),
    "DP-SCHEMA-019": Template(
        cause="No value of '{column}' lies in '{area}', a value of '{above}'.",
        fix=(
            "give every area a part: a row lies where its part lies, so nothing could ever count "
            "in this area."
        ),
    ),
    "DP-SCHEMA-020": Template(
        cause="The address of the server holds a password, and schemas are published.",
        fix=(
            "take it out, change it, and keep it in the file that PGPASSFILE names; or name a "
            "service, postgresql:///?service=census, of the file that PGSERVICEFILE names."
        ),
    ),
    "DP-SCHEMA-021": Template(
        cause="The address of the server says what no schema may say of one.",
        fix=(
            "keep behind its `?` nothing but {known}; all else belongs into a service file or into "
            "libpq's environment variables."
        ),
    ),
    "DP-SCHEMA-022": Template(
        cause="The step of '{column}' is larger than what lies between its bounds: all values "
        "would be rounded to one or two.",
        fix="declare a step that goes into it many times, or the bounds that values have.",
    ),
    "DP-RELEASE-001": Template(
        cause="No table '{name}' is declared{nearest}.",
        fix="declared tables are: {known}.",
    ),
    "DP-RELEASE-002": Template(
        cause="A column asks for exactly one aggregate, such as count, sum, mean or median.",
        fix='write for example `persons: {{count: "*"}}`.',
    ),
    "DP-RELEASE-003": Template(
        cause="The output is not a folder below the release file.",
        fix="use a relative path with / and without '..', such as out/people; or the option "
        "--output.",
    ),
    "DP-RELEASE-004": Template(
        cause="A number above zero is needed here.",
        fix="give one; a weight of 2 halves the noise of a weight of 1.",
    ),
    "DP-RELEASE-005": Template(
        cause="The confidence is no number between 0.5 and 0.999999.",
        fix="write `margin: true` for 95 %, or another one such as 99 % or 0.99.",
    ),
    "DP-RELEASE-006": Template(
        cause="Two tables are both called '{name}'.",
        fix="rename one; the name of a table is how queries refer to it.",
    ),
    "DP-RELEASE-007": Template(
        cause="The column name '{name}' is already the name of a key, of a margin, or of "
        "what finds private keys.",
        fix="choose another name for the column; for the bands of a histogram, by its `name`.",
    ),
    "DP-RELEASE-008": Template(
        cause="The same thing is declared in two ways: {found}.",
        fix="keep one of them.",
    ),
    "DP-RELEASE-012": Template(
        cause="An accuracy is declared for an answer whose error depends on the data.",
        fix="declare it for counts and sums; for others give a price or a weight, and read the "
        "expected error from the plan.",
    ),
    "DP-RELEASE-013": Template(
        cause="A margin of error is asked for a value that is chosen among candidates.",
        fix="leave it out; the plan gives the error in ranks, and two quantiles around it give a "
        "range of values.",
    ),
    "DP-RELEASE-014": Template(
        cause="The quantile is not a part from 0 to 1 with a denominator of at most 10,000.",
        fix="write for example `quantile: {{of: income, at: 0.9}}`.",
    ),
    "DP-RELEASE-015": Template(
        cause="`k` stands without `top_k`, or `top_k` without `k`.",
        fix="write for example `jobs: {{top_k: occupation, k: 3}}`.",
    ),
    "DP-RELEASE-016": Template(
        cause="Post-processing is declared that this column can't have.",
        fix="give `labels` only beside `bottom_code` or `top_code`, the lower one first, and none "
        "of them for chosen categories.",
    ),
    "DP-RELEASE-017": Template(
        cause="Cells are to be flagged from an expected error of {percent} % of the value on.",
        fix="write the share with its sign, such as 30 %, or as a part of 1, such as 0.3; above "
        "100 % only with the sign.",
    ),
    "DP-RELEASE-018": Template(
        cause="This is {found}, where {wanted} is needed.",
        fix="name {wanted}: {hint}.",
    ),
    "DP-RELEASE-019": Template(
        cause="The manifest of this release would be larger than {limit}: nobody could verify it.",
        fix="publish it as several releases, or declare shorter lists of keys: a manifest holds "
        "every text that the release is declared with.",
    ),
    "DP-RELEASE-020": Template(
        cause="The file of values '{name}' changed after it was read.",
        fix="run again when nobody writes to it.",
    ),
    "DP-RELEASE-011": Template(
        cause="The release has a ledger, but the table '{name}' has no owner.",
        fix="add `owner: ...` to its schema, an id that its keeper chose once and never changes.",
    ),
    "DP-RELEASE-010": Template(
        cause="The budget has a share for '{name}', which is no table of this release{nearest}.",
        fix="declared tables are: {known}.",
    ),
    "DP-RELEASE-009": Template(
        cause="The relative margin of error is not a share at a size.",
        fix="write for example `relative_moe: 5 % at 1000`.",
    ),
    "DP-PEEK-001": Template(
        cause="This was read from the data (marked PEEKED), and nobody has confirmed it.",
        fix="replace it by what everybody may know (a code list, a tariff, the law), or confirm it "
        "from there; then remove the mark. Bounds and keys from the data void the guarantee.",
    ),
    "DP-PEEK-002": Template(
        cause="`dprelease init` has proposed this (marked CONFIRM), and nobody has confirmed it.",
        fix="find it in what everybody may know (a code list, a tariff, the law), or replace it; "
        "then remove the mark. Bounds and keys from the data void the guarantee.",
    ),
}
