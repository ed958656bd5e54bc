"""Register `df.dp` when pandas is imported, without importing pandas.

The command line does not need pandas; importing it here would add about half a second to every
`dprelease --help`.
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
    """Register the accessor now if pandas is loaded, otherwise right after it is loaded."""
    if "pandas" in sys.modules:
        _register()
    elif not any(isinstance(finder, _PandasFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _PandasFinder())


def _register() -> None:
    import pandas as pd

    # Skip only our own registration: replacing a foreign `df.dp` must raise pandas' usual warning.
    if getattr(pd.DataFrame, ACCESSOR, None) is not Dp:
        pd.api.extensions.register_dataframe_accessor(ACCESSOR)(Dp)


class Dp:
    """`df.dp`: register a frame once with `use`, then run queries.

    A frame gets a `dprelease.accessor.frame.DpAccessor`. Its module is imported at the first
    access, because importing it takes as long as importing pandas.
    """

    # pandas expects a class here; this one returns instances of another class.
    def __new__(cls, frame: pd.DataFrame) -> DpAccessor:  # type: ignore[misc]
        """Return the accessor of a frame."""
        from dprelease.accessor.frame import DpAccessor

        return DpAccessor(frame)


class _PandasFinder:
    """Finder that imports pandas as Python does, then registers the accessor."""

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
