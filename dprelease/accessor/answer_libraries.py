"""Answers as frames of the library whose frame was queried: pandas, polars or Arrow."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from dprelease.accessor.frame_notes import ATTRIBUTE, note_of, set_note
from dprelease.exact.reading.frames import is_instance_of
from dprelease.schema.model import unused_name

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Library = Literal["pandas", "polars", "pyarrow"]


def library_of(frame: object) -> Library:
    """Return the library whose frames answers are: that of the frame, pandas for all others."""
    # By name: a library that is not imported can't have made the frame.
    module = type(frame).__module__.partition(".")[0]
    if module == "polars":
        return "polars"
    return "pyarrow" if module == "pyarrow" else "pandas"


def is_changeable(frame: object) -> bool:
    """Return whether the rows of a frame can change in place."""
    return any(is_instance_of(frame, library, "DataFrame") for library in ("pandas", "polars"))


def in_library(answer: Any, library: Library) -> Any:
    """Return an answer as a frame of a library; anything but frames and series of pandas as it is.

    Frames of polars and of Arrow have no index: keys become columns. Columns below other columns
    get names such as `income_mean`, and intervals become texts such as `[0, 18)`.
    """
    if library == "pandas":
        return answer
    if is_instance_of(answer, "pandas", "Series"):
        answer = _with_note(answer.to_frame(), answer)
    if not is_instance_of(answer, "pandas", "DataFrame"):
        convert = getattr(answer, "in_library", None)
        return answer if convert is None else convert(library)
    table, details = _flat_table(answer), note_of(answer, ATTRIBUTE)
    if library == "pyarrow":
        return table.replace_schema_metadata({ATTRIBUTE: json.dumps(details)})
    import polars as pl

    frame = pl.DataFrame(pl.from_arrow(table))
    set_note(frame, ATTRIBUTE, details)
    return frame


def _with_note(frame: Any, answer: Any) -> Any:
    """Return a frame with the attributes of an answer."""
    frame.attrs = answer.attrs
    return frame


def flat_frame(answer: pd.DataFrame) -> pd.DataFrame:
    """Return an answer whose index levels are columns, all with texts as different names."""
    import pandas as pd

    levels = [answer.index.get_level_values(i) for i in range(answer.index.nlevels)]
    kept = [level for level in levels if not isinstance(level, pd.RangeIndex)]
    names = ["statistic" if level.name is None else level.name for level in kept]
    columns = [*kept, *(answer.iloc[:, place] for place in range(answer.shape[1]))]
    taken: list[str] = []
    for label in [*names, *answer.columns]:
        taken.append(unused_name(_text_of(label), taken))
    cells: dict[str, Any] = {}
    for name, part in zip(taken, columns, strict=True):
        column: Any = part
        is_interval = isinstance(column.dtype, pd.IntervalDtype)
        # Arrays, because pandas would align series by their index. Arrow has intervals only as an
        # extension type of pandas, which polars shows as a struct.
        cells[name] = (column.astype(str) if is_interval else column).array
    return pd.DataFrame(cells)


def _text_of(label: object) -> str:
    """Return the name of a column; the parts of a label with several levels are joined."""
    if isinstance(label, Iterable) and not isinstance(label, str):
        return "_".join(str(part) for part in label if part != "")
    return str(label)


def _flat_table(answer: pd.DataFrame) -> pa.Table:
    """Return an answer as an Arrow table; missing numbers are null, and empty columns are texts."""
    import pyarrow as pa

    table = pa.Table.from_pandas(flat_frame(answer), preserve_index=False)
    # Arrow gives a column without any value the type null, which would differ between answers.
    kinds = [pa.string() if pa.types.is_null(kind) else kind for kind in table.schema.types]
    fields = zip(table.schema.names, kinds, strict=True)
    return table.cast(pa.schema(list(fields)))
