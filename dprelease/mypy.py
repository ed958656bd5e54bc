"""A plugin of mypy: `df.dp` has the type of the accessor.

    [tool.mypy]
    plugins = ["dprelease.mypy"]

pandas makes accessors at run time, so that type checkers take `df.dp` for a column. Others than
mypy have no way to be told: `dprelease.dp(df)` is the same with a type, for every one of them.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.nodes import TypeInfo
from mypy.plugin import AttributeContext, Plugin
from mypy.types import Instance, Type

DP = "pandas.core.frame.DataFrame.dp"
ACCESSOR = "dprelease.accessor.frame"


class DpPlugin(Plugin):
    """Tells mypy what an attribute `dp` of a frame is."""

    def get_attribute_hook(self, fullname: str) -> Callable[[AttributeContext], Type] | None:
        """Return what types an attribute; None for all but one."""
        return _accessor if fullname == DP else None


def _accessor(context: AttributeContext) -> Type:
    """Return the type of the accessor, where a program imports the package that makes it."""
    module = context.api.modules.get(ACCESSOR)  # type: ignore[attr-defined]
    symbol = None if module is None else module.names.get("DpAccessor")
    if symbol is None or not isinstance(symbol.node, TypeInfo):
        return context.default_attr_type
    return Instance(symbol.node, [])


def plugin(version: str) -> type[Plugin]:  # noqa: ARG001 - mypy gives it
    """Return the plugin, for any version of mypy."""
    return DpPlugin
