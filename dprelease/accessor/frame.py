"""`df.dp`: questions to a registered frame, each charged first and answered once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from dprelease.accessor.chosen import Chosen
from dprelease.accessor.rows import Questions
from dprelease.accessor.session import Session, session_of
from dprelease.errors import DataError, SessionError
from dprelease.exact.reading.frames import kind_of_object
from dprelease.exact.reading.sources import stored_columns

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import pyarrow as pa

TOKEN = "dprelease"
"""Key in `DataFrame.attrs`; the value is an opaque id, never a session: pandas copies attrs."""

NUMBERS = "biufmMO"
"""NumPy's kinds of values that are what their bytes are: an object is what is at its address."""


class DpAccessor(Questions):
    """`df.dp`: register a frame once with `use`, then ask."""

    __slots__ = ("_frame",)

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def use(self, session: Session, *, row_wise: bool = False) -> None:
        """Register this frame as the rows of the session's table.

        The first frame of a session is its rows. Any other one has to hold the same rows: the same
        index, and no declared column that differs from the first frame's, or that it lacks. Such a
        frame asks about the first one's rows, whatever became of it in between.

        Parameters
        ----------
        session : Session
            The table and its budget. Keep it in a variable for as long as questions are asked.
        row_wise : bool, default False
            The caller vouches that every row of another frame comes from one row of the first one
            alone, and no two from the same; its rows then stand beside the first ones, under the
            same budget.

        Raises
        ------
        SessionError
            DP-SESSION-002 for other rows without `row_wise`, DP-SESSION-010 for a declared column
            that the session has not seen, DP-SESSION-003 if the frame belongs to another session,
            DP-SESSION-019 for anything but a session.
        """
        if not isinstance(session, Session):
            raise SessionError("DP-SESSION-019", kind=kind_of_object(session))
        token = self._frame.attrs.get(TOKEN)
        if token is not None and session_of(token) is not session:
            raise SessionError("DP-SESSION-003")
        if token is None or row_wise:
            made = session.register(self._frame, vouched=row_wise)
            if made is not None:
                self._frame.attrs[TOKEN] = made
                return
        # Nothing that came after a registration is ever read: what is known is what is asked.
        known = token or session.first
        self._same_rows(session, known)
        self._frame.attrs[TOKEN] = known

    def _chosen(self) -> Chosen:
        token = self._frame.attrs.get(TOKEN)
        if token is None:
            raise SessionError("DP-SESSION-001")
        session = session_of(token)
        self._same_rows(session, token)
        return Chosen(session, token)

    def _same_rows(self, session: Session, token: str) -> None:
        """Return if the frame holds the registered rows, whatever it leaves out of columns.

        Only then is the answer one about the registered people: a filter, a join, a sort, a changed
        column or a declared one that came later may have looked at several rows at once.
        """
        known, frame = session.snapshot(token), self._frame
        if not _same_index(frame.index, known.index):
            raise SessionError("DP-SESSION-002")
        names, registered = _names(frame), _names(known)
        for name in stored_columns(session.declared):
            if max(names.count(name), registered.count(name)) > 1:
                raise DataError("DP-DATA-003", table=session.table.name, column=name)
            if name in names and name not in registered:
                raise SessionError("DP-SESSION-010", column=name)
            if name in names and not _same_column(frame[name], known[name]):
                raise SessionError("DP-SESSION-002")


def _names(frame: pd.DataFrame) -> list[str]:
    """Return the names of columns that are texts, as declared ones are."""
    return [name for name in frame.columns if isinstance(name, str)]


class _Values(Protocol):
    """A series or an index."""

    @property
    def dtype(self) -> object:
        """Return the type of its values."""

    @property
    def array(self) -> pd.api.extensions.ExtensionArray:
        """Return its values."""

    def equals(self, other: Any, /) -> bool:
        """Return whether another one has the same values."""


def _same_index(one: pd.Index, other: pd.Index) -> bool:
    """Return whether two indexes have the same values, a NaN as another one."""
    return _equal(one, other) or _same_floats(one, other)


def _same_column(one: pd.Series, other: pd.Series) -> bool:
    """Return whether two series have one type and the same values, whatever their indexes.

    A NaN is the same as another one.
    """
    if one.dtype != other.dtype:
        return False
    if _same_bytes(one.array, other.array):
        return True
    one, other = (each.reset_index(drop=True) for each in (one, other))
    return _equal(one, other) or _same_floats(one, other)


def _equal(one: _Values, other: _Values) -> bool:
    """Return what pandas says; what can't be compared, as a signalling NaN, is not equal.

    Raises MemoryError, which says nothing of the values.
    """
    try:
        return one.equals(other)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - classes of the caller's own may fail at anything
        return False


def _same_bytes(one: Any, other: Any) -> bool:
    """Return whether numbers stand in equal bytes; False says nothing.

    That takes a third of the time of comparing numbers, which makes as many truth values, and
    several times as many where some may be missing.
    """
    import numpy as np
    import pandas as pd

    nullable = (pd.arrays.IntegerArray, pd.arrays.FloatingArray, pd.arrays.BooleanArray)
    if type(one) is not type(other):
        return False
    if type(one) in nullable:  # and none that somebody derived from them
        missing = [np.asarray(each.isna()) for each in (one, other)]
        return _equal_bytes(*missing) and _equal_bytes(*(_filled(each) for each in (one, other)))
    if type(one) is pd.arrays.NumpyExtensionArray:
        return _equal_bytes(np.asarray(one), np.asarray(other))
    return False


def _filled(array: Any) -> np.ndarray[Any, Any]:
    """Return a nullable array's numbers, zero where one is missing."""
    kind = array.dtype.numpy_dtype
    filled: np.ndarray[Any, Any] = array.to_numpy(kind, na_value=kind.type(0))
    return filled


def _equal_bytes(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    import pyarrow as pa

    if one.dtype.kind not in NUMBERS or not (one.flags.c_contiguous and other.flags.c_contiguous):
        return False
    mine, others = (
        pa.foreign_buffer(each.__array_interface__["data"][0], each.nbytes, each)
        for each in (one, other)
    )
    equal: bool = mine.equals(others)
    return equal


def _same_floats(one: _Values, other: _Values) -> bool:
    """Return what pandas does not of floats of Arrow's, whose NaN equals nothing, nor itself."""
    import numpy as np
    import pandas as pd
    import pyarrow as pa

    kind: Any = one.dtype
    if one.dtype != other.dtype or not isinstance(kind, pd.ArrowDtype):
        return False
    if not pa.types.is_floating(kind.pyarrow_dtype):
        return False
    mine, others = (_held(column) for column in (one, other))
    missing = np.array_equal(mine.is_null().to_numpy(), others.is_null().to_numpy())
    return missing and np.array_equal(mine.to_numpy(), others.to_numpy(), equal_nan=True)


def _held(column: _Values) -> pa.ChunkedArray:
    array: Any = column.array
    held: pa.ChunkedArray = array.__arrow_array__()
    return held


def dp(frame: pd.DataFrame) -> DpAccessor:
    """Return `frame.dp`, for type checkers and editors, which can't know of an accessor.

    Parameters
    ----------
    frame : pandas.DataFrame
        As it is asked as `frame.dp`.

    Returns
    -------
    DpAccessor
        The same as `frame.dp`, with its type.
    """
    return DpAccessor(frame)
