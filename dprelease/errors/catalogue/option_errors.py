"""Catalogue: variables, texts, joins, engines, formats and paths, and what else a release file
or a command names.
"""

from dprelease.errors.catalogue import Template

TEMPLATES: dict[str, Template] = {
    "DP-VAR-001": Template(
        cause="The release declares no variable '{name}'{nearest}.",
        fix="declare it under `variables`, or remove it from --set; declared are: {known}.",
    ),
    "DP-VAR-002": Template(
        cause="The variable '{name}' has no value.",
        fix="set it: with --set {name}=... on the command line, or variables= in Python.",
    ),
    "DP-VAR-003": Template(
        cause="The variable '{name}' is declared, but not used.",
        fix="write ${{{name}}} where its value belongs, or remove the declaration.",
    ),
    "DP-VAR-004": Template(
        cause="The variable '{name}' is set to '{found}': {problem}.",
        fix="set it to a value of its declared type.",
    ),
    "DP-VAR-005": Template(
        cause="There is no variable '{name}'{nearest}.",
        fix="declare it under `variables` of the release; write $${{{name}}} for the literal text.",
    ),
    "DP-VAR-006": Template(
        cause="Variables can't be used here: {problem}.",
        fix="use variables only in output, ledger, tables, where, expressions and texts for "
        "readers of releases (title, about, labels, descriptions, footnotes, notes), and in "
        "source, values_from and expressions of tables; write $${{{name}}} for the literal text.",
    ),
    "DP-VAR-007": Template(
        cause="The variable '{name}' is set to '{found}', which can't be part of a file name.",
        fix="use only letters, digits, spaces and . _ - in variables that are part of a path.",
    ),
    "DP-VAR-008": Template(
        cause="'{found}' does not set a variable: {problem}.",
        fix="write --set name=value, once for each variable.",
    ),
    "DP-VAR-009": Template(
        cause="The file '{name}' of `defaults` is not in the same folder as the release file.",
        fix="name a file in that folder, such as defaults.yaml; the paths in it then mean the "
        "same in both files.",
    ),
    "DP-VAR-010": Template(
        cause="'{name}' can't be shared by several releases{nearest}.",
        fix="move it to the release files; these keys can be shared: {known}.",
    ),
    "DP-LABEL-001": Template(
        cause="This text can't be displayed everywhere: {problem}.",
        fix="write one line of visible text: at most 200 characters for labels, at most 1000 for "
        "descriptions, notes and footnotes; in YAML, `>` joins several lines into one.",
    ),
    "DP-LABEL-002": Template(
        cause="{problem}; languages are: {known}.",
        fix="write the text in exactly the languages that `about: {{languages: [...]}}` of the "
        "release lists, or once, without a language, for all of them.",
    ),
    "DP-LABEL-003": Template(
        cause="There is no '{value}' to label: {known}.",
        fix="label only declared values and published tables, with the same spelling.",
    ),
    "DP-LABEL-004": Template(
        cause="'{found}' {problem}.",
        fix="write each language once, by its tag, such as en, fr, pt-BR or zh-Hant.",
    ),
    "DP-DERIVE-001": Template(
        cause="'{column}' is declared under `derive`, but is not computed.",
        fix="add an `expression` and a `type`, or a `cut`; stored columns belong in the table's "
        "schema.",
    ),
    "DP-JOIN-001": Template(
        cause="The join is incomplete: {problem}.",
        fix="write {{table: ..., on: {{own column: public column}}}} for a public table, or "
        "{{table: ..., on_unit: true}} for another table about the same people.",
    ),
    "DP-JOIN-002": Template(
        cause="A public table can't have a privacy unit.",
        fix="remove `privacy_unit`; or remove `public: true` if the table is about people.",
    ),
    "DP-ENGINE-001": Template(
        cause="The memory limit is not a number of at least 1 followed by a unit.",
        fix="write for example `memory_limit: 2GB`; units are MB, GB, TB, MiB, GiB and TiB.",
    ),
    "DP-ENGINE-002": Template(
        cause="The temporary directory is not a plain path.",
        fix="write an absolute path, or one below the release file's folder, without '..', '~' or "
        "':'.",
    ),
    "DP-EXPORT-001": Template(
        cause="There is no format '{name}'{nearest}.",
        fix="use one of: {known}.",
    ),
    "DP-EXPORT-002": Template(
        cause="This release can't be published in the format {format}: {problem}.",
        fix="remove it from `formats`, or correct the cause; `dprelease export` can write further "
        "formats after the run, from the release alone.",
    ),
    "DP-EXPORT-003": Template(
        cause="The format {format} needs a package that is not installed: {packages}.",
        fix="install the extra: pip install 'dprelease[{extra}]'.",
    ),
    "DP-EXPORT-004": Template(
        cause="{what} are not available in {format}.",
        fix="remove it; available are: {known}.",
    ),
    "DP-EXPORT-005": Template(
        cause="No table can be published wide by '{key}': {problem}.",
        fix="name a key with declared values in a table that has another key as well.",
    ),
    "DP-EXPORT-008": Template(
        cause="The format {format} failed in a test on empty tables: {problem}.",
        fix="correct what the message names, such as a label; or remove the format from "
        "`formats`, and write the release in it after the run with `dprelease export`. If the "
        "declaration is correct, please report this with the release file.",
    ),
    "DP-REHEARSE-001": Template(
        cause="A release of {kind} can't be rehearsed.",
        fix="read its errors in `dprelease plan`: they follow from the declaration alone; a copy "
        "of the release with fewer parties can be rehearsed.",
    ),
    "DP-REHEARSE-002": Template(
        cause="'{found}' is not a valid number of rows for a table of this release.",
        fix="write a whole number from 1 to 1e9, as in --rows 100000 or --rows people=100000; the "
        "tables are {known}.",
    ),
    "DP-REHEARSE-003": Template(
        cause="'{file}' can't replace the table '{table}': {problem}.",
        fix="name a public Parquet, CSV or JSON lines file with the declared columns, as in --on "
        "public.csv=people; without a file, the rehearsal invents people.",
    ),
    "DP-ATTACK-002": Template(
        cause="The rows that the rehearsal used for the table '{table}' can't be read from "
        "'{file}': {problem}.",
        fix="name the same public file that the rehearsal was made with, as in --on "
        "public.csv={table}; a rehearsal with invented people needs none.",
    ),
    "DP-ATTACK-003": Template(
        cause="There are too many combinations of attributes to solve for: {found}; the limit is "
        "{limit:,}.",
        fix="rehearse a release with fewer tables about these people, or with fewer keys.",
    ),
    "DP-ATTACK-005": Template(
        cause="The attack can't solve the tables area by area by '{column}'.",
        fix="name with --area a key that most of the tables have: {known}.",
    ),
    "DP-ATTACK-006": Template(
        cause="The rehearsal has no counts of people that the attack can use: {reasons}.",
        fix='rehearse a release with a count of all rows (`{{count: "*"}}`) by public keys, '
        "without a condition; --table names the table of people.",
    ),
    "DP-AUDIT-003": Template(
        cause="'{name}' is not a result of an audit: {problem}.",
        fix="name the unchanged file audit.json that `dprelease audit --output` wrote.",
    ),
    "DP-AUDIT-004": Template(
        cause="'{name}' is the audit of another declaration: {problem}.",
        fix="audit the release as it is declared now, with the same variables: `dprelease audit`.",
    ),
    "DP-AUDIT-005": Template(
        cause="The audit in '{name}' {problem}.",
        fix="audit the whole release; a release can name an audit only if all of its checks "
        "passed.",
    ),
    "DP-PATH-001": Template(
        cause="'{uri}' is a URI with the scheme {scheme}, but a local path is needed.",
        fix="{way}.",
    ),
    "DP-PATH-002": Template(
        cause="'{path}' starts with ~, which a shell replaces by a home folder but dprelease does "
        "not.",
        fix="write the whole path, as in /home/me/data; or, in a shell, use ~ without quotes.",
    ),
    "DP-PATH-003": Template(
        cause="The name '{path}' is not valid UTF-8.",
        fix="rename the file or folder.",
    ),
    "DP-PATH-005": Template(
        cause="No file can have the path '{path}': {problem}.",
        fix="use another path.",
    ),
    "DP-PATH-004": Template(
        cause="A source can't be replaced: {problem}.",
        fix="name a table and the path of a source of its declared type; the tables are: {known}.",
    ),
}
