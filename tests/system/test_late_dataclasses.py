"""Data classes with late methods mean what those of the standard library mean."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import itertools
import pickle
import sys
from collections.abc import Callable
from typing import Any

import pytest

from dprelease.system import late_dataclasses
from tests.processes import run

Decorator = Callable[..., Any]
BOTH: tuple[Decorator, ...] = (late_dataclasses.dataclass, dataclasses.dataclass)
FLAGS = [
    dict(zip(("frozen", "slots", "eq", "repr"), said, strict=True))
    for said in itertools.product((False, True), repeat=4)
]


def _plain(decorator: Decorator, **flags: bool) -> Any:
    @decorator(**flags)
    class Made:
        """Fields of every kind."""

        a: int
        b: str = "b"
        c: list[int] = dataclasses.field(default_factory=list)
        d: float = dataclasses.field(default=0.5, compare=False, repr=False)
        e: int = dataclasses.field(default=3, kw_only=True)
        f: int = dataclasses.field(default=7, init=False)
        g: list[int] = dataclasses.field(default_factory=list, init=False)
        h: int = dataclasses.field(default=1, hash=False)

    return Made


def _empty(decorator: Decorator, **flags: bool) -> Any:
    @decorator(**flags)
    class Made:
        """No field."""

    return Made


def _single(decorator: Decorator, **flags: bool) -> Any:
    @decorator(**flags)
    class Made:
        """One field, and what a class may define itself."""

        a: object

        def __post_init__(self) -> None:
            object.__setattr__(self, "a", [self.a])

        def __repr__(self) -> str:
            return "mine"

        def __eq__(self, other: object) -> bool:
            return other == 1

    return Made


def _derived(decorator: Decorator, **flags: bool) -> Any:
    class Base:
        """Decorated, too."""

        a: int
        b: int = 2

    base: Any = decorator(**flags)(Base)

    @decorator(**flags)
    class Made(base):
        """Comes from another data class, one of whose defaults it changes."""

        b: int = 3
        c: int = 4

    return Made


def _hashed(decorator: Decorator, **flags: bool) -> Any:
    @decorator(**flags)
    class Made:
        """Its own hash, and no comparison."""

        a: int

        def __hash__(self) -> int:
            return 5

    return Made


CLASSES = [_plain, _empty, _single, _derived, _hashed]
ARGUMENTS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((1,), {}),
    ((1, "x"), {}),
    ((1, "x", [2]), {"e": 4}),
    ((1,), {"a": 2}),
    ((1,), {"d": 9.0, "h": 2}),
    ((1,), {"f": 2}),
    ((float("nan"),), {}),
    ((1, 2, 3, 4, 5, 6, 7), {}),
]


def _outcome(work: Callable[[], object]) -> object:
    try:
        return work()
    except (TypeError, AttributeError) as problem:
        return type(problem), str(problem)


def _is_told(made: Any, flags: dict[str, bool]) -> list[object]:
    """Return all that can be seen of a class and its objects, but for where objects lie."""
    told: list[object] = [str(inspect.signature(made)), made.__match_args__, made.__doc__]
    told.append([(f.name, f.type, f.init, f.repr, f.compare) for f in dataclasses.fields(made)])
    told += [made.__init__.__qualname__, made.__init__.__annotations__, hasattr(made, "__slots__")]
    told.append(made.__hash__ is None)
    objects = []
    for given, named in ARGUMENTS:
        one = _outcome(lambda given=given, named=named: made(*given, **named))  # type: ignore[misc]
        if isinstance(one, made):
            objects.append(one)
            told.append(dataclasses.asdict(one))
            told.append(_outcome(lambda one=one: dataclasses.asdict(copy.copy(one))))  # type: ignore[misc]
            told.append(_outcome(lambda one=one: dataclasses.asdict(copy.deepcopy(one))))  # type: ignore[misc]
            told.append(_outcome(lambda one=one: dataclasses.replace(one, a=3).a))  # type: ignore[misc]
            # Of a frozen class with slots the standard library says that super() has no such object.
            sealed = flags["frozen"] and flags["slots"]
            for name in list(made.__match_args__)[:1] + ["other"] * (not sealed):
                told.append(_outcome(lambda one=one, name=name: setattr(one, name, 8)))  # type: ignore[misc]
                told.append(_outcome(lambda one=one, name=name: delattr(one, name)))  # type: ignore[misc]
            if flags["repr"] or "__repr__" in vars(made):
                told.append(_outcome(lambda one=one: repr(one)))  # type: ignore[misc]
        else:
            told.append(one)
    for one, other in itertools.product(objects, repeat=2):
        told.append(_outcome(lambda one=one, other=other: one == other))  # type: ignore[misc]
        same = _outcome(lambda one=one, other=other: hash(one) == hash(other))  # type: ignore[misc]
        told.append(
            same if isinstance(same, tuple) or made.__eq__ is not object.__eq__ else "its own"
        )
    told.append(_outcome(lambda: objects[0] == 1))
    return told


@pytest.mark.parametrize("flags", FLAGS, ids=str)
@pytest.mark.parametrize("kind", CLASSES)
def test_it_means_what_the_standard_library_means(
    kind: Callable[..., Any], flags: dict[str, bool]
) -> None:
    late, known = (_is_told(kind(decorator, **flags), flags) for decorator in BOTH)
    assert late == known


@late_dataclasses.dataclass(frozen=True, slots=True)
class Sealed:
    """Can be found by its name, as whatever is sent to another process."""

    a: int
    b: tuple[int, ...] = ()


def test_what_is_sent_arrives() -> None:
    given = Sealed(1, (2, 3))
    arrived = pickle.loads(pickle.dumps(given))
    assert arrived == given
    assert hash(arrived) == hash(given)
    assert arrived is not given


@pytest.mark.parametrize("decorator", BOTH)
def test_an_object_that_holds_itself_is_shown(decorator: Decorator) -> None:
    @decorator
    class Made:
        """Without options."""

        a: object

    made = Made(None)
    made.a = made
    assert repr(made).endswith("Made(a=...)")


@pytest.mark.parametrize("decorator", BOTH)
def test_a_class_that_comes_from_a_frozen_one_has_attributes_of_its_own(
    decorator: Decorator,
) -> None:
    @decorator(frozen=True)
    class Frozen:
        """Its field stays."""

        a: int

    class Loose(Frozen):  # type: ignore[misc, valid-type]
        pass

    loose = Loose(1)
    loose.b = 2
    del loose.b
    for change in (lambda: setattr(loose, "a", 3), lambda: delattr(loose, "a")):
        with pytest.raises(dataclasses.FrozenInstanceError, match="'a'"):
            change()
    assert loose.a == 1
    assert not hasattr(loose, "b")


@pytest.mark.parametrize("decorator", BOTH)
def test_what_can_be_no_field_is_refused_with_the_class(decorator: Decorator) -> None:
    with pytest.raises(TypeError, match="'b' follows default argument"):

        @decorator
        class Gap:
            """A parameter without a default behind one with it."""

            a: int = 1
            b: int  # type: ignore[misc]

    with pytest.raises(ValueError, match="mutable default"):

        @decorator
        class Shared:
            """A default that all objects would share."""

            a: list[int] = []  # noqa: RUF012


def test_what_comes_from_one_is_decorated_by_the_same() -> None:
    with pytest.raises(TypeError, match="cannot inherit frozen"):

        @dataclasses.dataclass(frozen=True)
        class Made(Sealed):
            """Decorated by the standard library, which sees no frozen class above."""


def test_nothing_is_compiled_before_the_first_object() -> None:
    @late_dataclasses.dataclass(frozen=True)
    class Made:
        """Nobody has made an object."""

        a: int

    before = vars(Made)["__init__"]
    assert not inspect.isfunction(before)
    Made(1)
    compiled = vars(Made)["__init__"]
    assert inspect.isfunction(compiled)
    Made(2)
    assert vars(Made)["__init__"] is compiled
    assert before.__get__(None, Made) is compiled, "another thread had looked it up before"


def test_the_package_has_no_other_data_classes() -> None:
    code = (
        "import dataclasses, sys, dprelease.cli, dprelease.release.runs.pipeline\n"
        "print(sorted({cls.__qualname__ for name, module in list(sys.modules.items())"
        " if name.startswith('dprelease') for cls in vars(module).values()"
        " if isinstance(cls, type) and cls.__module__.startswith('dprelease')"
        " and '__dataclass_params__' in vars(cls) and cls.__dataclass_params__.init}))"
    )
    done = run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
