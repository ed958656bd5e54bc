"""Catalogue: options of release files and commands, and the folders and files that are written."""

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


OUTPUT: dict[str, Template] = {
    "DP-OUTPUT-001": Template(
        cause="The output '{name}' already exists.",
        fix="choose another folder, or use --overwrite to replace the release in it.",
    ),
    "DP-OUTPUT-014": Template(
        cause="The file '{name}' already exists and is not replaced.",
        fix="choose another name, or {remedy}.",
    ),
    "DP-OUTPUT-018": Template(
        cause="This declaration is already published in '{name}'.",
        fix="use the release in it; --if-published skip makes this a success, and --overwrite "
        "publishes and charges it again.",
    ),
    "DP-OUTPUT-019": Template(
        cause="`if_published` is '{found}'.",
        fix="use 'fail' or 'skip'.",
    ),
    "DP-OUTPUT-020": Template(
        cause="In the release, {found}.",
        fix="name one of its tables: {known}.",
    ),
    "DP-OUTPUT-021": Template(
        cause="The package {package} is not installed.",
        fix="install it (pip install {package}), or use `to_pandas` or `to_arrow`.",
    ),
    "DP-OUTPUT-002": Template(
        cause="'{name}' can't be written: {reason}.",
        fix="check that you may write to the folder and that the disk has room; then try again.",
    ),
    "DP-OUTPUT-003": Template(
        cause="The output '{name}' exists, but is not a release: it has no manifest that lists "
        "its files.",
        fix="choose another folder; --overwrite replaces only releases.",
    ),
    "DP-OUTPUT-011": Template(
        cause="There is no folder '{path}'; nothing was verified.",
        fix="name the folder of a release; the path is relative to the current folder.",
    ),
    "DP-OUTPUT-004": Template(
        cause="The chart '{name}' needs matplotlib, which is not installed.",
        fix="install the extra: pip install 'dprelease[plot]'.",
    ),
    "DP-OUTPUT-005": Template(
        cause="The chart '{name}' has an image format that is not supported.",
        fix="end its name with one of {formats}.",
    ),
    "DP-OUTPUT-006": Template(
        cause="Another run is writing to the output '{name}'.",
        fix="wait until it has finished, or choose another folder; do not remove anything.",
    ),
    "DP-OUTPUT-007": Template(
        cause="The result can't be printed: {reason}.",
        fix="send the output of the command to a file or terminal that can take it; whatever the "
        "state below reports stays done.",
    ),
    "DP-OUTPUT-008": Template(
        cause="The release is in '{name}', but the disk did not confirm that it is stored: "
        "{reason}.",
        fix="do not run it again, because that would be charged again; repair the disk, and check "
        "the release with `dprelease verify`.",
    ),
    "DP-OUTPUT-009": Template(
        cause="The output '{name}' contains '{other}', which is not part of the release in it.",
        fix="choose another folder, or move it elsewhere: --overwrite would delete it.",
    ),
    "DP-OUTPUT-012": Template(
        cause="The output '{name}' contains the source of the table '{table}', or is inside it: a "
        "later run would read what this one publishes, or overwrite what it reads.",
        fix="publish into a folder that the path or pattern of the source does not reach, not "
        "even through links.",
    ),
    "DP-OUTPUT-013": Template(
        cause="This process was forked from a run that publishes '{name}', and can't continue "
        "that run.",
        fix="let the parent process finish its run, which is not affected; start a separate run "
        "here.",
    ),
    "DP-OUTPUT-015": Template(
        cause="The release may write up to {needed}, but the disk of '{name}' has only {free} "
        "left.",
        fix="make room there, publish to another disk, or name another temporary folder with "
        "`duckdb: {{temp_directory: ...}}`; or publish less, or declare the `size` of the table, "
        "which can lower this estimate a lot.",
    ),
    "DP-OUTPUT-016": Template(
        cause="The formats of the release can't be written again in the temporary folder to "
        "compare them: {reason}.",
        fix="make room there, or name another folder with TMPDIR, and verify again: these formats "
        "have not been checked yet.",
    ),
    "DP-OUTPUT-017": Template(
        cause="'{file}' {what} the private folder of '{name}' while the run filled it.",
        fix="find out which other program works in that folder, such as one that removes old "
        "files, and exclude folders named `.*.dprelease-*` from it; then run again.",
    ),
    "DP-OUTPUT-022": Template(
        cause="The file '{name}' lies outside the folder of the release file, so it can't be "
        "copied with it.",
        fix="declare the file by a path below that folder, or by an absolute path, which stays "
        "the same.",
    ),
    "DP-OUTPUT-023": Template(
        cause="The contribution limits in '{name}' can't be used for this release: {problem}.",
        fix="restore the declaration or the ledger for which they were chosen; or move this folder "
        "to another place, so that limits are chosen and charged again.",
    ),
    "DP-OUTPUT-024": Template(
        cause="'{name}' would be in the folder '{folder}' of a release, whose manifest lists all "
        "files that may be there.",
        fix="choose a place outside of that folder.",
    ),
    "DP-OUTPUT-010": Template(
        cause="The output '{name}' is a mount point, and can't be replaced in one step.",
        fix="publish into a folder inside it, or mount its parent folder instead.",
    ),
    "DP-EXPORT-006": Template(
        cause="The output '{name}' already exists, and nothing in it is replaced.",
        fix="name a new folder with --output, or remove this one first.",
    ),
    "DP-EXPORT-007": Template(
        cause="The output '{name}' is inside the release, which must stay as it was published.",
        fix="name a folder outside the release with --output.",
    ),
    "DP-EXPORT-009": Template(
        cause="The format {format} failed on the tables of this release: {problem}.",
        fix="remove the format and run again; if the state below says that the budget counts as "
        "spent, the new run is charged in addition. Please report this with the release file; no "
        "value of the data is needed.",
    ),
    "DP-EXPORT-011": Template(
        cause="The database can't be written: {problem}.",
        fix="put this in order, or use another new or existing file of DuckDB (.duckdb) or SQLite "
        "(.sqlite), or postgresql://... without a password; nothing was changed in it.",
    ),
    "DP-EXPORT-012": Template(
        cause="The database already has a table '{name}', which is not replaced.",
        fix="write into another file or schema; --overwrite replaces only tables of releases that "
        "an export has written there.",
    ),
    "DP-EXPORT-013": Template(
        cause="The name '{name}' has more than the {limit} bytes that the database allows.",
        fix="write into a file of DuckDB or SQLite, or publish the release with shorter names.",
    ),
    "DP-EXPORT-014": Template(
        cause="The release can't be copied into the store: {problem}.",
        fix="{way}. The release in the local folder is unchanged, and no budget was spent; if the "
        "copy was begun, it has no manifest, and the same command completes it.",
    ),
    "DP-EXPORT-015": Template(
        cause="The folder in the store holds {found}, and nothing in it is replaced.",
        fix="use another folder{way}.",
    ),
    "DP-REHEARSE-004": Template(
        cause="'{name}' contains something other than a rehearsal, which a rehearsal does not "
        "replace.",
        fix="choose another folder with --output: a release was charged to a budget, and can't be "
        "made again.",
    ),
    "DP-PROFILE-001": Template(
        cause="The profile would be as confidential as the data, and the output is not a terminal.",
        fix="run it in a terminal, or write to a new file with --output; use --i-may-see-it only "
        "if whatever reads the output may see the data.",
    ),
    "DP-PROFILE-002": Template(
        cause="'{name}' would be in '{folder}', which is for published files.",
        fix="choose a place that only people who may see the data can reach.",
    ),
    "DP-PROFILE-003": Template(
        cause="A release {problem}; it has no profile.",
        fix="profile a release of aggregates with the engine duckdb, such as a copy of this one "
        "with another source.",
    ),
    "DP-REPORT-001": Template(
        cause="A report needs {packages}, and at least one of them is not installed.",
        fix="install the extra: pip install 'dprelease[report]'.",
    ),
    "DP-REPORT-003": Template(
        cause="The release has no texts in the language '{language}', only in: {known}.",
        fix="choose one of these, or declare labels in that language under `about` and run again.",
    ),
    "DP-REPORT-004": Template(
        cause="The report '{name}' would be in the folder of the release, whose manifest lists "
        "all files that may be there.",
        fix="write it to another folder.",
    ),
    "DP-AUDIT-002": Template(
        cause="'{name}' already exists, and an audit replaces nothing.",
        fix="choose another folder with --output, or move this one.",
    ),
    "DP-AUDIT-008": Template(
        cause="The audit can't run the release with invented people: {problem}.",
        fix="correct this, and audit again; the runs write to the temporary folder that TMPDIR "
        "names.",
    ),
}
