"""Catalogue: sources. No template has a field for a value of the data."""

from __future__ import annotations

from dprelease.errors.template import Template

CONVERT = "declare the type that it has, or convert the source"
"""What helps where a stored type can't be read as declared."""

AS_TEXT = "store it as text, in pandas by read_csv(..., dtype={{'{column}': str}})"
SPELLED = (
    "a text is told by its spelling, and of 01 and 1.0 only the number 1 is stored: "
    f"{AS_TEXT}, or declare the type that it has"
)
DAYS = (
    "in the format '{layout}' a text may look like a number, and of 10.2020 the number is 10.202: "
    f"{AS_TEXT}"
)
NUMBERED = (
    "in the format '{layout}' no number is a day: convert the source, in pandas by pd.to_datetime, "
    "or declare the format that its numbers have, as %Y%m%d, or the type that it has"
)
TWINS = (
    "the declared values '{first}' and '{second}' say the same, and only texts tell them apart: "
    f"{AS_TEXT}, or declare one of them"
)
"""As `CONVERT`, where texts alone will do; templates."""

ALIKE_STORED = (
    "store {spelled} in a column without a collation, spelled alike in all tables that have this "
    "{use}, and declare that column"
)
ALIKE_SELECTED = "select {spelled} in its place, spelled alike in all tables that have this {use}"
"""What helps where a source holds different texts equal; templates."""
OF_ANY_TYPE = (
    "each Python object has a type of its own, and numbers may have lost zeros or digits: "
    f"{AS_TEXT}; what no reader has made a number of becomes text by "
    "astype({{'{column}': 'str'}}), and whole numbers become Int64"
)
"""As `CONVERT`, of a pandas column of Python objects; a template."""

GIVEN: dict[str, Template] = {
    "DP-DATA-017": Template(
        cause="What was given for the table '{table}' is a {kind}, not a pandas or Arrow frame.",
        fix="give a pandas DataFrame, a pyarrow Table or a DuckDB relation; a polars frame by "
        ".to_arrow(), a lazy one by .collect().to_arrow(), a column by .to_frame().",
    ),
    "DP-DATA-020": Template(
        cause="`frames` is a {kind}, and no mapping of names to frames.",
        fix='name the table of each frame, as in frames={{"people": df}}; known are: {known}.',
    ),
}
"""What a Python caller gave in place of frames."""

TEMPLATES: dict[str, Template] = {
    "DP-DATA-001": Template(
        cause="The source of the table '{table}'{named} is not there, is no file, or can't be "
        "opened as {format}.",
        fix="check `source`; paths are relative to the schema file.",
    ),
    "DP-DATA-019": Template(
        cause="The table '{table}' was opened by a process that this one was forked from.",
        fix="ask there; or begin in this process, and open the table anew.",
    ),
    "DP-DATA-018": Template(
        cause="There is no file '{path}'.",
        fix="give the path of a Parquet, CSV, JSON lines, DuckDB, SQLite or Excel file, or a "
        "pattern of such in quotes, from the folder where you are.",
    ),
    "DP-DATA-002": Template(
        cause="The source of '{table}' has no column '{column}'.",
        fix="correct the name, letter by letter and case by case, or the declared source: of a CSV "
        "file also its `delimiter` and header, of a frame the index, which reset_index() makes a "
        "column; keys in the names of folders, as in year=2024/, are not read: store them in the "
        "files.",
    ),
    "DP-DATA-003": Template(
        cause="The source of '{table}' has several columns named '{column}', or so but for their "
        "case.",
        fix="rename one of them in the source; engines would mix them up.",
    ),
    "DP-DATA-004": Template(
        cause="The column '{column}' is stored as {physical}, which can't be read as {declared}.",
        fix="{way}.",
    ),
    "DP-DATA-005": Template(
        cause="The id '{column}' is stored as a floating-point number.",
        fix=(
            "store it as an integer or text: above 2^53, or next to a missing id, two people would "
            "become one."
        ),
    ),
    "DP-DATA-006": Template(
        cause="The engine failed while it read the table '{table}'.",
        fix=(
            "check that the source is whole, and that memory (`memory_limit`), disk and open files "
            "suffice; then run again."
        ),
    ),
    "DP-DATA-007": Template(
        cause="The source of '{table}' changed while it was read.",
        fix="run again when nobody writes to it.",
    ),
    "DP-DATA-008": Template(
        cause="The table '{table}' declares no source, or a frame that was not given.",
        fix="declare `source`, or use the table from pandas.",
    ),
    "DP-DATA-016": Template(
        cause="In `frames`, '{name}' {problem}.",
        fix="give one frame a table, by the name of the table or of its declared "
        "frame; known are: {known}.",
    ),
    "DP-DATA-009": Template(
        cause="The header of the CSV source of '{table}'{named} can't be read.",
        fix=(
            "give a file with one header line, each of whose names is another and whose last is "
            "not empty (as after a delimiter at its end), and in `source` its encoding, "
            "compression, delimiter and quote; without them it is taken for plain UTF-8 with "
            "commas."
        ),
    ),
    "DP-DATA-010": Template(
        cause="'{path}' does not tell the names of its columns.",
        fix="give a Parquet file, a CSV file whose first line holds the names, JSON lines "
        "(.jsonl), a workbook (.xlsx) whose first row does, or a file of DuckDB (.duckdb) or "
        "SQLite (.sqlite); of several sheets or tables, and of a server, name one by --table.",
    ),
    "DP-DATA-023": Template(
        cause="'{path}' describes no table: {reason}.",
        fix="give metadata of CSVW-EO, CSVW or SmartNoise SQL, or a JSON or YAML file that lists "
        "`columns` with their types and bounds.",
    ),
    "DP-DATA-024": Template(
        cause="The source of the table '{table}'{named} can't be read as {format}: {reason}.",
        fix="{way}.",
    ),
    "DP-DATA-025": Template(
        cause="The table '{table}' is on a PostgreSQL server, and the package {package} is not "
        "installed.",
        fix="install the extra: pip install 'dprelease[{extra}]'.",
    ),
    "DP-DATA-011": Template(
        cause="The file has no column '{column}' to name the privacy unit.",
        fix="columns are: {known}.",
    ),
    "DP-DATA-022": Template(
        cause="The CSV source of '{table}'{named} has more than {most} columns.",
        fix="keep the columns that are declared, or store it as Parquet.",
    ),
    "DP-DATA-026": Template(
        cause="The source compares the {use} '{column}' by {comparison}: {equal} there, and "
        "differ here.",
        fix="{way}.",
    ),
    "DP-DATA-013": Template(
        cause="The values of the file can't be read.",
        fix="check that the file is whole, or leave out --peek: names and types need no values.",
    ),
    "DP-DATA-014": Template(
        cause="The source of the table '{table}' is a view, or computes a declared column.",
        fix=(
            "name a table that stores its values: what is computed may answer for one row by what "
            "stands in others, or otherwise each time it is asked."
        ),
    ),
    "DP-DATA-015": Template(
        cause="The column '{column}' may have whole numbers beyond {most} and is stored as "
        "{bits}-bit floats.",
        fix=(
            "declare bounds within {most}, or store it as an integer (in pandas Int64) or as text: "
            "several whole numbers of that size are one and the same float."
        ),
    ),
}
