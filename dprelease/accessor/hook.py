"""Registers `df.dp` at the moment when pandas is imported, without importing pandas itself.

The command line never needs pandas; importing it here would cost every `dprelease --help` about
half a second.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from importlib.abc import Loader

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


# Neither class is an `importlib.abc` one: those load tempfile, zipfile and their kin.
class _PandasFinder:
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "pandas":
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = cast("Loader", _RegisteringLoader(spec.loader))
        return spec


class _RegisteringLoader:
    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, _PandasFinder)]
        _register()
