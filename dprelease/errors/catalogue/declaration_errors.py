"""Catalogue: YAML documents, table schemas and release files."""

from dprelease.errors.catalogue import Template

TEMPLATES: dict[str, Template] = {
    "DP-YAML-001": Template(
        cause="The file can't be read: {reason}.",
        fix="check the file and its path; a path in a file is relative to that file.",
    ),
    "DP-YAML-002": Template(
        cause="The file is larger than {limit}.",
        fix="check that this is a release file or a table schema; move long lists of keys to a "
        "CSV file and name it with `values_from`.",
    ),
    "DP-YAML-003": Template(
        cause="The text is not valid YAML: {problem}.",
        fix="{advice}.",
    ),
    "DP-YAML-004": Template(
        cause="Anchors, aliases, tags and merge keys are not allowed here.",
        fix="write the value out; put a text that starts with *, & or ! in quotes.",
    ),
    "DP-YAML-005": Template(
        cause="The key '{name}' appears twice here.",
        fix="remove one of the two.",
    ),
    "DP-YAML-006": Template(
        cause="The document is nested deeper than {limit} levels or has more than {nodes} values.",
        fix="reduce the levels or the number of values; long lists of keys can go to a CSV file, "
        "named with `values_from`.",
    ),
    "DP-YAML-007": Template(
        cause="The document is not a single mapping of keys to values.",
        fix="start with keys such as `title:` or `table:`, and write one document per file.",
    ),
    "DP-YAML-008": Template(
        cause="Variables are not replaced here: '{found}' would be used literally.",
        fix="write the value out, or declare a variable under `variables` of the release and set "
        "it with --set; what differs from run to run, such as the output folder, can also be set "
        "by a command option, such as --output. In a release file, $${{...}} stands for the "
        "literal text.",
    ),
    "DP-YAML-010": Template(
        cause="{problem}.",
        fix="{advice}.",
    ),
    "DP-YAML-009": Template(
        cause="A key has more than {limit} characters.",
        fix="shorten it; every name and every text of a declaration has at most that many "
        "characters.",
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
        fix="correct the value; `dprelease schema release` and `dprelease schema table` describe "
        "every key.",
    ),
    "DP-DECL-004": Template(
        cause="The value is not a usable decimal number: {problem}.",
        fix="write it like 12, 0.5 or 1e-9: a point before the decimals, without a unit, % or "
        "thousands separators; nan, inf and hexadecimal numbers are not allowed.",
    ),
    "DP-DECL-005": Template(
        cause="Some systems can't store this name.",
        fix="use letters, digits and underscores, at most 63 of them, and start with a letter; do "
        "not use the name of a Windows device, such as con or aux.",
    ),
    "DP-DECL-006": Template(
        cause="The names '{one}' and '{other}' are the same, or differ only by case or Unicode "
        "form.",
        fix="rename one of them; files and engines would mix them up.",
    ),
    "DP-DECL-007": Template(
        cause="This file has {more} more errors.",
        fix="fix the errors that are listed, and check again; the others are listed then.",
    ),
    "DP-SCHEMA-001": Template(
        cause="The lower bound is above the upper bound.",
        fix="swap them.",
    ),
    "DP-SCHEMA-002": Template(
        cause="The column '{column}' declares no values, neither in `values` nor in `values_from`.",
        fix="list its values, which are public keys; they must not come from the data.",
    ),
    "DP-SCHEMA-003": Template(
        cause="The list of values of '{column}' {problem}.",
        fix="list every value once.",
    ),
    "DP-SCHEMA-004": Template(
        cause="The file of values can't be used: {reason}.",
        fix="use a Parquet file, or a CSV file with a header in its first line; name its column, "
        "as in {{file: ..., column: ...}}, or both columns of a correspondence table in `codes`, "
        "as in {{file: ..., old: ..., new: ...}}; for other files than UTF-8 with commas, declare "
        "`encoding` and `delimiter`, too.",
    ),
    "DP-SCHEMA-005": Template(
        cause="`{key}` of '{column}' is '{found}', which is neither 'drop' nor {allowed}{nearest}.",
        fix="write `drop` to leave such rows out, or an allowed value, which they get instead; in "
        "a category, add this value to `values` first.",
    ),
    "DP-SCHEMA-006": Template(
        cause="The edges of '{column}' {problem}.",
        fix="list the edges in ascending order, one more than there are labels; each interval "
        "includes its left edge.",
    ),
    "DP-SCHEMA-007": Template(
        cause="'{column}' cuts '{source}', which is not an integer or number column of this table.",
        fix="cut a declared column of type integer or number.",
    ),
    "DP-SCHEMA-008": Template(
        cause="The id '{column}' of the privacy unit is not a stored column of type integer or "
        "text.",
        fix="declare the id column with one of these types; a float can't identify a person "
        "exactly.",
    ),
    "DP-SCHEMA-009": Template(
        cause="The schema declares contribution limits, but each row is a privacy unit.",
        fix="name the `id` column of the privacy unit, or remove the limits.",
    ),
    "DP-SCHEMA-010": Template(
        cause="The step of '{column}' is not above zero, has more than 17 digits or 38 decimals, "
        "or one of the bounds is more than 2^62 steps away from zero.",
        fix="declare another step, or express the column in another unit of measurement, such as "
        "millions.",
    ),
    "DP-SCHEMA-011": Template(
        cause="The source can't be read as declared: {reason}.",
        fix="{way}.",
    ),
    "DP-SCHEMA-012": Template(
        cause="The column '{column}' has only one of its two bounds.",
        fix="declare both `lower` and `upper`, or neither if the column is only used in `where`.",
    ),
    "DP-SCHEMA-013": Template(
        cause="The privacy unit has an id, but no {missing}.",
        fix="declare in how many groups of a query a privacy unit may count, and with how many "
        "rows in each, or `max_rows`, its rows in all groups together; its further rows are left "
        "out. 1 and 1 are enough only if every privacy unit has one row.",
    ),
    "DP-SCHEMA-014": Template(
        cause="`{key}` can't be used with this source: {reason}.",
        fix="remove it; the reference of table schemas says which keys each format has. A workbook "
        "has `header` for titles above the names, and `until` and `footer` for totals and notes.",
    ),
    "DP-SCHEMA-015": Template(
        cause="The table declares {found} columns; the limit is {most}.",
        fix="declare only the columns that are used; the source may have more.",
    ),
    "DP-SCHEMA-016": Template(
        cause="'{column}' can't be nested within '{above}': {reason}.",
        fix="name another category of this table, and assign each value to one of its values: by "
        "a second column of the file, which has the name of that category, or by `values` as "
        "lists, such as {{BE: [Bern, Thun], ZH: [Uster]}}.",
    ),
    "DP-SCHEMA-017": Template(
        cause="The value '{value}' of '{column}' is assigned to both '{one}' and '{other}'{where}.",
        fix="assign it to one area; if parts of two areas have the same name, use codes that "
        "include the area.",
    ),
    "DP-SCHEMA-018": Template(
        cause="The value '{value}' of '{column}' is assigned {assigned}.",
        fix="assign every value to one of the declared areas, including the value that replaces "
        "missing ones.",
    ),
    "DP-SCHEMA-019": Template(
        cause="No value of '{column}' is assigned to '{area}', a value of '{above}'.",
        fix="assign at least one value to every area; no row could ever count in an area without "
        "values.",
    ),
    "DP-SCHEMA-020": Template(
        cause="The address of the server contains a password, and schemas are published.",
        fix="remove the password from the address, change it on the server, and put the new one "
        "in the file that PGPASSFILE names; or name a service, postgresql:///?service=census, of "
        "the file that PGSERVICEFILE names.",
    ),
    "DP-SCHEMA-021": Template(
        cause="The address of the server has parameters that a schema may not contain.",
        fix="use only {known} after the `?`; put everything else in a service file or in libpq's "
        "environment variables.",
    ),
    "DP-SCHEMA-022": Template(
        cause="The step of '{column}' is larger than the distance between its bounds: all values "
        "would be rounded to one or two values.",
        fix="declare a step that is much smaller than this distance, or correct the bounds.",
    ),
    "DP-MISSING-001": Template(
        cause="'{text}' is a missing value of '{column}', and '{value}' is one of its values.",
        fix="remove it from one of the two lists: a code that is counted is no missing value.",
    ),
    "DP-MISSING-002": Template(
        cause="The missing value '{text}' of '{column}' is not {wanted}, so no value equals it.",
        fix="write the code in that form; a text without digits, such as k.A., is also allowed.",
    ),
    "DP-MISSING-003": Template(
        cause="`fill` of '{column}' is {text}, which `missing` declares as a missing value.",
        fix="write `drop`, or a value that does not stand for a missing one.",
    ),
    "DP-MISSING-004": Template(
        cause="The key `nulls` of '{column}' is called `fill` now.",
        fix="rename it; the next version no longer reads `nulls` here. Under `source`, `nulls` "
        "keeps its name: the texts of a file that mean a missing value.",
    ),
    "DP-MISSING-005": Template(
        cause="The upper bound of '{column}' is {upper}, and no missing values are declared; "
        "{upper} often means no answer.",
        fix="if it does, write `missing: [{upper}]`, and as `upper` the largest real value; if it "
        "is a real value, write `missing: []`.",
    ),
    "DP-YEAR-001": Template(
        cause="The format {layout} of '{column}' has years of two digits, and no `pivot` says "
        "which century they mean.",
        fix="write the latest year that they can mean, such as `pivot: {year}`: then {short} is "
        "{year}, and {next} is {before}.",
    ),
    "DP-YEAR-002": Template(
        cause="`pivot` is declared for {layout}, a format without years of two digits.",
        fix="remove it, or write %y in the format for a year of two digits.",
    ),
    "DP-CHAR-001": Template(
        cause="{what} of '{column}' {verb} characters that can't be seen, or that look like "
        "others: {found}.",
        fix="if the data has the same characters, this is right; otherwise type the text again, "
        "because it would match no value.",
    ),
    "DP-RELEASE-001": Template(
        cause="No table '{name}' is declared{nearest}.",
        fix="declared tables are: {known}.",
    ),
    "DP-RELEASE-002": Template(
        cause="A column needs exactly one aggregate, such as count, sum, mean or median.",
        fix='write for example `persons: {{count: "*"}}`.',
    ),
    "DP-RELEASE-003": Template(
        cause="The output is not a folder below the release file.",
        fix="use a relative path with / and without '..', such as out/people, or the option "
        "--output.",
    ),
    "DP-RELEASE-004": Template(
        cause="This number must be above zero.",
        fix="write a number above zero; if it is the weight of a column, 2 gives half the noise "
        "of 1.",
    ),
    "DP-RELEASE-005": Template(
        cause="The confidence is not a number between 0.5 and 0.999999.",
        fix="write `margin: true` for 95 %, or another confidence such as 99 % or 0.99.",
    ),
    "DP-RELEASE-006": Template(
        cause="Two tables have the name '{name}'.",
        fix="rename one of them; queries refer to a table by its name.",
    ),
    "DP-RELEASE-007": Template(
        cause="The column name '{name}' is already the name of a key, of a margin, or of the "
        "count that selects private keys.",
        fix="choose another name for the column; for the bins of a histogram, set its `name`.",
    ),
    "DP-RELEASE-008": Template(
        cause="The same thing is declared twice: {found}.",
        fix="keep one of them.",
    ),
    "DP-RELEASE-012": Template(
        cause="An accuracy is declared for a column whose error depends on the data.",
        fix="declare an accuracy only for counts and sums; give other columns an epsilon, a rho "
        "or a weight, and read their expected error in the plan.",
    ),
    "DP-RELEASE-013": Template(
        cause="A margin of error is declared for a value that is selected among candidates.",
        fix="remove the margin; a quantile is published with an interval instead, in `_lower` and "
        "`_upper`, whose confidence is declared as in `interval: 99 %`.",
    ),
    "DP-RELEASE-014": Template(
        cause="The quantile is not a fraction from 0 to 1 with a denominator of at most 10,000.",
        fix="write for example `quantile: {{of: income, at: 0.9}}`.",
    ),
    "DP-RELEASE-015": Template(
        cause="`k` is declared without `top_k`, or `top_k` without `k`.",
        fix="write for example `jobs: {{top_k: occupation, k: 3}}`.",
    ),
    "DP-RELEASE-016": Template(
        cause="This column can't have the post-processing that it declares.",
        fix="use `labels` only with `bottom_code` or `top_code`, the lower label first; a column "
        "that publishes categories can have none of these keys.",
    ),
    "DP-RELEASE-017": Template(
        cause="This share is {percent} % of the value, because it has no percent sign.",
        fix="write the share with a percent sign, such as 30 %, or as a fraction, such as 0.3; a "
        "share above 100 % needs the sign.",
    ),
    "DP-RELEASE-018": Template(
        cause="This is {found}, but {wanted} is needed.",
        fix="name {wanted}: {hint}.",
    ),
    "DP-RELEASE-019": Template(
        cause="The manifest of this release would be larger than {limit}, so nobody could verify "
        "it.",
        fix="publish several smaller releases, or declare shorter lists of keys: the manifest "
        "contains every text of the declaration.",
    ),
    "DP-RELEASE-020": Template(
        cause="The file of values '{name}' changed after it was read.",
        fix="run again when no other program writes to it.",
    ),
    "DP-RELEASE-021": Template(
        cause="`flag_above` has been replaced: every value has a quality in the column "
        "`<name>_quality`.",
        fix="remove `flag_above`. At the top of the release, `quality: {{limits: [5 %, 15 %, "
        "30 %]}}` sets the limits; `suppress_above: 30 %` at the column leaves such cells empty.",
    ),
    "DP-RELEASE-022": Template(
        cause="`suppress_below` with a number compares the value itself, which here is a {word}, "
        "and not the number of people.",
        fix="write `suppress_below: {{people: 10}}` to leave cells with fewer people empty.",
    ),
    "DP-RELEASE-011": Template(
        cause="The release uses a ledger, but the table '{name}' has no owner.",
        fix="add `owner: ...` to its schema: an id that the data owner chooses once and never "
        "changes.",
    ),
    "DP-RELEASE-010": Template(
        cause="The budget has a share for '{name}', which is not a table of this release{nearest}.",
        fix="declared tables are: {known}.",
    ),
    "DP-RELEASE-009": Template(
        cause="The relative margin of error does not state a percentage and a size.",
        fix="write for example `relative_moe: 5 % at 1000`.",
    ),
    "DP-PEEK-001": Template(
        cause="This value was read from the data (marked PEEKED), and nobody has confirmed it.",
        fix="replace it by a value from a public source (a code list, a tariff, the law), or "
        "confirm it from such a source; then remove the mark. Bounds and keys from the data void "
        "the guarantee.",
    ),
    "DP-PEEK-002": Template(
        cause="`dprelease init` proposed this value (marked CONFIRM), and nobody has confirmed it.",
        fix="confirm it from a public source (a code list, a tariff, the law), or replace it; "
        "then remove the mark. Bounds and keys from the data void the guarantee.",
    ),
}
