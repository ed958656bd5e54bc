"""Whether two columns hold the same values, missing ones among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


class Values(Protocol):
    """A series or an index."""

    @property
    def dtype(self) -> object:
        """Return the type of its values."""

    @property
    def array(self) -> pd.api.extensions.ExtensionArray:
        """Return its values."""

    def equals(self, other: Any, /) -> bool:
        """Return whether another one has the same values."""


def same_values(one: Values, other: Values) -> bool:
    """Return whether values and missing ones are the same, a NaN as another one."""
    return one.equals(other) or _same_floats(one, other)


def _same_floats(one: Values, other: Values) -> bool:
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


def _held(column: Values) -> pa.ChunkedArray:
    array: Any = column.array
    held: pa.ChunkedArray = array.__arrow_array__()
    return held
