"""Registers `df.dp` when pandas is imported, without importing pandas itself.

The command line never needs pandas; importing it here would cost every `dprelease --help` about
half a second.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from dprelease.accessor.frame import DpAccessor

ACCESSOR = "dp"


def register_when_pandas_is_there() -> None:
    """Register the accessor now if pandas is loaded, else right after it is loaded."""
    if "pandas" in sys.modules:
        _register()
    elif not any(isinstance(finder, _PandasFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _PandasFinder())


def _register() -> None:
    import pandas as pd

    # Only our own registration is left alone: a foreign `df.dp` draws pandas' usual warning.
    if getattr(pd.DataFrame, ACCESSOR, None) is not Dp:
        pd.api.extensions.register_dataframe_accessor(ACCESSOR)(Dp)


class Dp:
    """`df.dp`: register a frame once with `use`, then ask.

    What a frame gets is a `dprelease.accessor.frame.DpAccessor`, loaded when the first one asks:
    loading it takes as long as loading pandas.
    """

    # pandas wants a class to call, and gets one that stands in for another.
    def __new__(cls, frame: pd.DataFrame) -> DpAccessor:  # type: ignore[misc]
        """Return the accessor of a frame."""
        from dprelease.accessor.frame import DpAccessor

        return DpAccessor(frame)


class _PandasFinder:
    """Finds pandas as Python does, and registers the accessor once its module has run."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname == "pandas" else None
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def run_and_register(module: ModuleType) -> None:
            run(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            _register()

        spec.loader.exec_module = run_and_register  # type: ignore[method-assign]
        return spec
