"""Data classes that cost a process little to load: `__init__` is compiled for the first object.

`dataclasses.dataclass` compiles six methods of a frozen class, half a millisecond; a process loads
hundreds of classes, and makes objects of some. The decorator here means the same, and
`dataclasses.fields`, `replace`, `asdict`, `match` and type checkers see no difference. Objects are
compared, hashed and shown by functions that are not written anew for each class.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError
from operator import attrgetter
from reprlib import recursive_repr
from types import FunctionType
from typing import Any, TypeVar, dataclass_transform, overload

Class = TypeVar("Class", bound=type)


@overload
def dataclass(given: Class, /) -> Class: ...


@overload
def dataclass(
    *, frozen: bool = False, slots: bool = False, eq: bool = True, repr: bool = True
) -> Callable[[Class], Class]: ...


@dataclass_transform(field_specifiers=(dataclasses.field,))
def dataclass(
    given: Any = None,
    /,
    *,
    frozen: bool = False,
    slots: bool = False,
    eq: bool = True,
    repr: bool = True,  # noqa: A002  the name that everybody knows
) -> Any:
    """Return a class as a data class, with the methods that it does not define itself.

    `frozen`, `slots`, `eq`, `repr`: as in `dataclasses.dataclass`, whose other options, and
    `InitVar`, are left out. A class that comes from a frozen one is decorated by this, too.

    Raises
    ------
    TypeError, ValueError
        For fields that `dataclasses.dataclass` refuses.
    """

    def decorated(cls: Any) -> Any:
        own = dict(vars(cls))
        cls = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
        fields = dataclasses.fields(cls)
        _refuse_gaps(fields)
        made: dict[str, object] = {"__init__": _Init(cls, frozen=frozen, slots=slots)}
        if repr:
            made["__repr__"] = _shown(fields)
        if eq:
            made["__eq__"] = _compared(fields)
        for name, method in made.items():
            if name not in own:
                setattr(cls, name, method)
        # Python itself puts None where a class says no more than how its objects are compared.
        if eq and ("__hash__" not in own or (own["__hash__"] is None and "__eq__" in own)):
            cls.__hash__ = _hashed(fields) if frozen else None
        if frozen:
            _freeze(cls)
            if slots and "__getstate__" not in own:  # else a copy would be changed to be filled
                cls.__getstate__, cls.__setstate__ = _state, _set_state
        return cls

    return decorated if given is None else decorated(given)


def _refuse_gaps(fields: Sequence[Field[Any]]) -> None:
    """Raise TypeError for a parameter without a default behind one that has it."""
    seen = False
    for field in fields:
        if field.init and not field.kw_only:
            missing = field.default is MISSING and field.default_factory is MISSING
            if missing and seen:
                raise TypeError(f"non-default argument {field.name!r} follows default argument")
            seen = seen or not missing


class _Init:
    """What stands in a class for its `__init__`, until somebody looks that up."""

    __slots__ = ("_cls", "_frozen", "_slots")

    def __init__(self, cls: type, *, frozen: bool, slots: bool) -> None:
        self._cls, self._frozen, self._slots = cls, frozen, slots

    def __get__(self, instance: object, owner: type) -> Any:
        method: Any = vars(self._cls)["__init__"]
        if method is self:
            method = _compiled(self._cls, frozen=self._frozen, slots=self._slots)
            self._cls.__init__ = method
        return method if instance is None else method.__get__(instance, owner)


class _NotSaid:
    """In place of an argument: it was left out, and a new object is made for it."""

    def __repr__(self) -> str:
        return "<factory>"


def _compiled(cls: Any, *, frozen: bool, slots: bool) -> FunctionType:
    """Return the `__init__` of a class."""
    known: dict[str, object] = {"_put": object.__setattr__, "_not_said": _NotSaid()}
    parameters, lines = ["self"], []
    fields = dataclasses.fields(cls)
    for field in sorted(fields, key=lambda field: bool(field.kw_only)):
        name, made = field.name, field.default_factory is not MISSING
        default = f"_default_{name}"
        if made or field.default is not MISSING:
            known[default] = field.default_factory if made else field.default
        if field.init:
            if field.kw_only and "*" not in parameters:
                parameters.append("*")
            left_out = "_not_said" if made else default
            parameters.append(f"{name}={left_out}" if default in known else name)
            value = f"{default}() if {name} is _not_said else {name}" if made else name
        elif made or (slots and default in known):
            value = f"{default}()" if made else default
        else:
            continue  # the class has its value, or somebody gives it one later
        lines.append(f"_put(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    text = (
        f"def outer({', '.join(known)}):\n"
        f" def __init__({', '.join(parameters)}):\n"
        f"  {'; '.join(lines or ['pass'])}\n"
        " return __init__"
    )
    found: dict[str, Any] = {}
    exec(text, vars(sys.modules[cls.__module__]), found)
    method: FunctionType = found["outer"](**known)
    method.__qualname__ = f"{cls.__qualname__}.__init__"
    method.__annotations__ = {field.name: field.type for field in fields if field.init}
    method.__annotations__["return"] = None
    return method


def _shown(fields: Sequence[Field[Any]]) -> Callable[[object], str]:
    names = [field.name for field in fields if field.repr]

    @recursive_repr()
    def shown(self: object) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({values})"

    return shown


def _compared(fields: Sequence[Field[Any]]) -> Callable[[object, object], bool]:
    values = _values([field.name for field in fields if field.compare])

    def equal(self: object, other: object) -> bool:
        return values(self) == values(other) if type(other) is type(self) else NotImplemented

    return equal


def _hashed(fields: Sequence[Field[Any]]) -> Callable[[object], int]:
    values = _values([f.name for f in fields if (f.compare if f.hash is None else f.hash)])

    def number(self: object) -> int:
        return hash(values(self))

    return number


def _values(names: Sequence[str]) -> Callable[[object], tuple[object, ...]]:
    """Return what tells the values of an object's fields."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda given: tuple(getattr(given, name) for name in names)


def _freeze(cls: Any) -> None:
    """Let no field be changed; other attributes only by classes that come from this one."""
    names = frozenset(field.name for field in dataclasses.fields(cls))

    def keep(self: object, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def hold(self: object, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    cls.__setattr__, cls.__delattr__ = keep, hold


def _state(self: Any) -> list[object]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: Sequence[object]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
