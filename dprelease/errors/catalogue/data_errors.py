"""Catalogue: sources, and engines that read them. No text has a field for a value of the data."""

from dprelease.errors.catalogue import Template

CONVERT = "declare the stored type, or convert the source"
"""The fix for a stored type that can't be read as declared."""

DECODE = (
    "bytes are no text before they are decoded by their encoding: store it as text, in pandas by "
    "df['{column}'].str.decode('latin-1') or read_sas(..., encoding='latin-1'), in polars by "
    "pl.col('{column}').cast(pl.String) for UTF-8"
)
"""The fix for a column of bytes; a template."""

AS_TEXT = "store it as text, in pandas by read_csv(..., dtype={{'{column}': str}})"
SPELLED = (
    "texts differ by their spelling, and a number column stores 01 and 1.0 both as 1: "
    f"{AS_TEXT}, or declare the stored type"
)
DAYS = (
    "in the format '{layout}' a text may look like a number, and a number column stores 10.2020 as "
    f"10.202: {AS_TEXT}"
)
NUMBERED = (
    "in the format '{layout}' a number is not a date: convert the source, in pandas by "
    "pd.to_datetime, or declare the format of its numbers, such as %Y%m%d, or the stored type"
)
EQUAL_NUMBERS = (
    "the declared values '{first}' and '{second}' are the same number, and differ only as texts: "
    f"{AS_TEXT}, or declare one of them"
)
"""A fix like `CONVERT`, for columns that must be read as text; a template."""

ALIKE_STORED = (
    "store {spelled} in a column without a collation, with the same spelling in all tables that "
    "have this {use}, and declare that column"
)
ALIKE_SELECTED = (
    "select {spelled} instead, with the same spelling in all tables that have this {use}"
)
UNDECLARED_EQUALITY = (
    "declare in the class of the source type, {type}, how it compares texts (`comparisons`), or "
    "store the table as Parquet or CSV"
)
"""Fixes for a source that compares different texts as equal; templates."""
MIXED_OBJECTS = (
    "each Python object has its own type, and numbers may have lost zeros or digits: "
    f"{AS_TEXT}; if no reader has converted the column, make it text by "
    "astype({{'{column}': 'str'}}), or Int64 for whole numbers"
)
"""A fix like `CONVERT`, for a pandas column of Python objects; a template."""

FRAME_ARGUMENTS: dict[str, Template] = {
    "DP-DATA-017": Template(
        cause="The object for the table '{table}' is a {kind}, not a frame.",
        fix="pass a frame of pandas or polars (also a lazy one), a table, dataset or stream of "
        "Arrow, a DuckDB relation or an Ibis table; convert a Series with .to_frame().",
    ),
    "DP-DATA-021": Template(
        cause="The {kind} for the table '{table}' was read before, and its rows can be read only "
        "once.",
        fix="read all its rows into memory first, with pyarrow.table(...), and pass this table; "
        "or create a new one for each use.",
    ),
    "DP-DATA-020": Template(
        cause="`frames` is a {kind}, not a mapping of names to frames.",
        fix='name the table of each frame, as in frames={{"people": df}}; known names are: '
        "{known}.",
    ),
}
"""Errors for arguments in Python that are not frames."""

TEMPLATES: dict[str, Template] = {
    "DP-DATA-001": Template(
        cause="The source of the table '{table}'{named} does not exist, is not a file, or can't "
        "be opened as {format}.",
        fix="check `source`; its path is relative to the schema file.",
    ),
    "DP-DATA-019": Template(
        cause="The table '{table}' was opened in the parent process, before this process was "
        "forked.",
        fix="query it in the parent process; or open the table again in this process and start "
        "anew.",
    ),
    "DP-DATA-018": Template(
        cause="There is no file '{path}'.",
        fix="write the path of a CSV, fixed-width, JSON lines, Parquet, Excel, OpenDocument, SPSS, "
        "Stata, SAS, DuckDB or SQLite file, or of a table's folder, relative to the current "
        "folder, or a pattern for files, in quotes.",
    ),
    "DP-DATA-002": Template(
        cause="The source of '{table}' has no column '{column}'.",
        fix="correct the name (case matters), or the declared source: for a CSV file check also "
        "its `delimiter` and header; for a workbook with titles above the column names, declare "
        "`header`, the number of the row with the names; for a frame, turn the index into a "
        "column with reset_index(); keys in folder names, such as year=2024/, are not read, so "
        "store them in the files. If it is an area `within` which others lie, `unallocated` of "
        "these reads it: without such a column, compute it with `expression`, for instance from "
        "the first characters of the code, or declare `others` and `fill` in its place.",
    ),
    "DP-DATA-003": Template(
        cause="The source of '{table}' has several columns named '{column}', or names that differ "
        "only by case.",
        fix="rename one of them in the source, because engines would mix them up; for a CSV file, "
        "you can declare `header` and other `names` instead.",
    ),
    "DP-DATA-027": Template(
        cause="The {kind} for the table '{table}' can't be run.",
        fix="run it without dprelease to see the reason, which may quote values; for instance, a "
        "column may be missing, or its connection closed.",
    ),
    "DP-DATA-004": Template(
        cause="The column '{column}' is stored as {physical}, which can't be read as {declared}.",
        fix="{way}.",
    ),
    "DP-DATA-005": Template(
        cause="The id '{column}' is stored as a floating-point number.",
        fix="store it as an integer or text: as floats, two people could get the same id if ids "
        "are above 2^53 or if some are missing.",
    ),
    "DP-DATA-006": Template(
        cause="The engine failed while reading the table '{table}'.",
        fix="check that the source is complete, and that there is enough memory (`memory_limit`), "
        "disk space and open files; then run again. Run a lazy frame or a relation without "
        "dprelease, to see whether it fails.",
    ),
    "DP-DATA-007": Template(
        cause="The source of '{table}' changed while it was read.",
        fix="run again when no other program writes to it.",
    ),
    "DP-DATA-008": Template(
        cause="The table '{table}' declares no source, or its frame was not passed.",
        fix="declare `source`, or use the table from pandas.",
    ),
    "DP-DATA-016": Template(
        cause="In `frames`, '{name}' {problem}.",
        fix="pass one frame per table, by the name of the table or of its declared frame: {known}.",
    ),
    "DP-DATA-009": Template(
        cause="The header of the CSV source of '{table}'{named} can't be read{reason}.",
        fix="use a file with a header whose names all differ, or declare `names`; if the header is "
        "not in the first line, declare `header`, `skip` or `comment` in `source`; and declare its "
        "encoding, compression, delimiter and quote: without these, the file is read as plain "
        "UTF-8 with commas.",
    ),
    "DP-DATA-010": Template(
        cause="'{path}' has no column names.",
        fix="use a CSV file or a workbook (.xlsx, .ods) whose first row has the names, or name "
        "another row with --header; or a file of another type that `dprelease init --help` lists. "
        "If there are several sheets or tables, or the source is a server, name one with --table.",
    ),
    "DP-DATA-023": Template(
        cause="'{path}' does not describe a table: {reason}.",
        fix="use metadata in CSVW-EO, CSVW, Frictionless or SmartNoise SQL, or a JSON or YAML file "
        "that lists `columns` with their types and bounds; --table names one of several tables.",
    ),
    "DP-DATA-024": Template(
        cause="The source of the table '{table}'{named} can't be read as {format}: {reason}.",
        fix="{way}.",
    ),
    "DP-DATA-025": Template(
        cause="The source of the table '{table}' is read by the package {package}, which is not "
        "installed.",
        fix="install the extra: pip install 'dprelease[{extra}]'.",
    ),
    "DP-DATA-011": Template(
        cause="The file has no column '{column}' to identify the privacy unit.",
        fix="use one of its columns: {known}.",
    ),
    "DP-DATA-022": Template(
        cause="The CSV source of '{table}'{named} has more than {most} columns.",
        fix="keep only the declared columns, or store it as Parquet.",
    ),
    "DP-DATA-028": Template(
        cause="The times of '{column}' have the time zone {zone}, and the table's schema declares "
        "none, so that their hours and days would be those of UTC.",
        fix="declare `time_zone` in the `source` of the schema, as in {{frame: {table}, time_zone: "
        "{known}}}, for the hours and days of this zone; or convert the column to UTC, as by "
        ".dt.tz_convert('UTC') in pandas.",
    ),
    "DP-DATA-026": Template(
        cause="The source compares the {use} '{column}' by {comparison}: {equal} in the source, "
        "but differ in dprelease.",
        fix="{way}.",
    ),
    "DP-DATA-013": Template(
        cause="The values of the file can't be read.",
        fix="check that the file is complete, or leave out --peek: names and types can be read "
        "without values.",
    ),
    "DP-DATA-014": Template(
        cause="The source of the table '{table}' is a view, or computes a declared column.",
        fix="name a table that stores its values: a computed value for one row may depend on "
        "other rows, or change each time it is read.",
    ),
    "DP-DATA-015": Template(
        cause="The column '{column}' may have integers above {most} and is stored as {bits}-bit "
        "floats.",
        fix="declare bounds within {most}, or store it as an integer (in pandas Int64) or as "
        "text: integers of that size are not all different as floats.",
    ),
    "DP-SPARK-001": Template(
        cause="Spark can't read the source of the table '{table}': it is {format}.",
        fix="store it as Parquet, CSV or JSON lines, each column with one type in all of its "
        "files, or use the engine duckdb.",
    ),
    "DP-SPARK-002": Template(
        cause="Spark does not support columns stored as {physical}, or may read their values "
        "differently from other engines: '{column}'.",
        fix="convert the column in the source, or use the engine duckdb.",
    ),
    "DP-SPARK-003": Template(
        cause="No Spark session can be started: {problem}.",
        fix="{remedy}.",
    ),
    "DP-SPARK-004": Template(
        cause="The Spark executors can't run the release: {problem}.",
        fix="{remedy}.",
    ),
    "DP-SPARK-005": Template(
        cause="Spark can't compute this release: {problem}.",
        fix="use the engine duckdb.",
    ),
    "DP-SPARK-006": Template(
        cause="Only Spark can read the source of the table '{table}': it is {format}.",
        fix="set `engine: spark`, or use local files, or a URI with s3://, gs://, az:// or "
        "https://, as the source.",
    ),
    "DP-DATA-012": Template(
        cause="Several rows of the public table '{table}' have the same key {columns}.",
        fix="keep one row for each key: otherwise a matching row would count several times.",
    ),
    "DP-ENGINE-003": Template(
        cause="No private folder can be made in the temporary directory '{name}'.",
        fix="name a folder that exists, has room, and that you may write to.",
    ),
    "DP-ENGINE-004": Template(
        cause="The engine does not start with the declared settings.",
        fix="raise `memory_limit` or lower `threads`.",
    ),
    "DP-ENGINE-005": Template(
        cause="The {format} files of '{table}' need more memory than the engine may use.",
        fix="raise `memory_limit`, or lower `threads`: each CSV file that is read at the same "
        "time needs its size in memory, up to 256 MiB, and JSON lines need 34 MiB per thread; "
        "Parquet needs less.",
    ),
}
