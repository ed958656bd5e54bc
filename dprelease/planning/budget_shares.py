"""Divide a budget among tables, queries and columns, by weights or absolute amounts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType

from dprelease.errors import BudgetError
from dprelease.mechanisms.randomizer import Randomizer
from dprelease.numerics.rounding import plain_text
from dprelease.planning.calibration import Factors, UnscaledNoise, make_accounting_input, solve
from dprelease.privacy.budget import Budget, Variant
from dprelease.query.measurement import Measurement
from dprelease.query.resolve import Query
from dprelease.schema.column_spec import ColumnSpec
from dprelease.schema.release import ReleaseSpec
from dprelease.schema.release_parts.records import RecordColumnSpec
from dprelease.schema.release_parts.shares import ShareSpec

ONE = Fraction(1)


@dataclass(frozen=True)
class Share:
    """A part of the budget; columns are the leaves, by their index in the plan.

    `weight`: relative to its siblings; None stands for the sum of its own parts, so that undeclared
    levels change nothing. `amount`: an absolute epsilon or rho, by `variant`.
    """

    name: str
    weight: Fraction | None = None
    amount: Fraction | None = None
    in_rho: bool = False
    column: int | None = None
    parts: tuple[Share, ...] = ()

    @cached_property
    def size(self) -> Fraction:
        """Return the weight relative to siblings."""
        if self.weight is not None:
            return self.weight
        return sum((part.size for part in self.parts), Fraction(0)) if self.parts else Fraction(1)

    def columns(self) -> Iterator[int]:
        """Yield the indexes of all columns below."""
        if self.column is not None:
            yield self.column
        for part in self.parts:
            yield from part.columns()


def flat(weights: Sequence[Fraction]) -> Share:
    """Return the shares of columns that are siblings."""
    parts = (Share(f"column {i}", weight, column=i) for i, weight in enumerate(weights))
    return Share("the release", parts=tuple(parts))


def shares_of(
    spec: ReleaseSpec,
    queries: Sequence[Query],
    factors: Mapping[tuple[str, str], Fraction] = MappingProxyType({}),
) -> Share:
    """Return the shares that a release file declares, with columns in the plan's order.

    `factors`: by table and measurement, the factor of its declared weight; 1 without one.
    """
    tables: dict[str, dict[str, list[Share]]] = {}
    named = {
        table: name
        for name, spec_of_query in spec.queries.items()
        for table in spec_of_query.tables(name)
    }
    place = 0
    for query in queries:
        spec_of_query = spec.queries[named[query.name]]
        columns = []
        for name, measurements in _by_column(query).items():
            label = f"{query.name}.{name}"
            leaves = [
                Share(
                    measurement.name,
                    measurement.weight * factors.get((query.name, measurement.name), ONE),
                    column=place + i,
                )
                for i, measurement in enumerate(measurements)
            ]
            columns += _column(label, spec_of_query.spec_of(name), leaves)
            place += len(measurements)
        parts_of_query = tables.setdefault(query.table.name, {}).setdefault(named[query.name], [])
        parts_of_query += columns
    declared = spec.budget.tables
    parts = (
        _inner(
            f"table '{name}'",
            declared.get(name, ShareSpec()),
            tuple(
                _inner(f"query '{query}'", spec.queries[query].share, tuple(columns))
                for query, columns in by_query.items()
            ),
        )
        for name, by_query in tables.items()
    )
    return Share("the release", parts=tuple(parts))


def shares_of_records(spec: ReleaseSpec, queries: Sequence[Query]) -> Share:
    """Return the shares that a local release declares, with columns in the plan's order."""
    tables: dict[str, list[Share]] = {}
    place = 0
    for query in queries:
        spec_of_records = spec.records[query.name]
        columns = []
        for measurement in query.measurements:
            name = f"{query.name}.{measurement.name}"
            leaf = Share(name, measurement.weight, column=place)
            columns += _column(name, spec_of_records.columns[measurement.name], [leaf])
            place += 1
        part = _inner(f"records '{query.name}'", spec_of_records.share, tuple(columns))
        tables.setdefault(query.table.name, []).append(part)
    declared = spec.budget.tables
    parts = (
        _inner(f"table '{name}'", declared.get(name, ShareSpec()), tuple(shares))
        for name, shares in tables.items()
    )
    return Share("the release", parts=tuple(parts))


def _inner(name: str, spec: ShareSpec, parts: tuple[Share, ...]) -> Share:
    amount = spec.rho if spec.epsilon is None else spec.epsilon
    return Share(name, spec.weight, amount, spec.rho is not None, None, parts)


def _by_column(query: Query) -> dict[str, list[Measurement]]:
    """Return the measurements of a query by the column that they are charged for, both in order."""
    by_column: dict[str, list[Measurement]] = {}
    for measurement in query.measurements:
        if not measurement.exact:  # no budget covers it
            by_column.setdefault(measurement.asked_by, []).append(measurement)
    return by_column


def _column(name: str, spec: ColumnSpec | RecordColumnSpec, leaves: list[Share]) -> list[Share]:
    """Return the shares of a column's measurements; its own amount is divided among them."""
    amount = spec.rho if spec.epsilon is None else spec.epsilon
    if amount is None:
        return leaves
    if len(leaves) == 1:
        return [replace(leaves[0], name=name, amount=amount, in_rho=spec.rho is not None)]
    return [Share(name, None, amount, spec.rho is not None, None, tuple(leaves))]


def spend(
    share: Share,
    noises: Sequence[UnscaledNoise],
    budget: Budget,
    *,
    unlimited: bool = False,
    known: Factors | None = None,
    rough: bool = False,
) -> list[Randomizer]:
    """Return the mechanisms of all columns, in order, which together spend the budget.

    Columns with an accuracy or an absolute amount are settled first; one factor for all others is
    solved so that everything together costs the budget. `unlimited`: no amount is declared, so
    every column must settle itself. `known`, `rough`: as in `solve`.

    Raises
    ------
    BudgetError
        DP-BUDGET-004 to 008; DP-MECH-001 to 005 for a shape without a mechanism.
    """
    by_column: dict[int, Randomizer] = {}
    _settle(share, noises, budget, by_column, unlimited, {} if known is None else known, rough)
    return [by_column[i] for i in range(len(noises))]


def _settle(
    share: Share,
    noises: Sequence[UnscaledNoise],
    budget: Budget,
    by_column: dict[int, Randomizer],
    unlimited: bool,
    known: Factors,
    rough: bool,
) -> None:
    for part in _own_amounts(share, noises):
        place = noises[next(part.columns())].place
        if part.column is not None and noises[part.column].width is not None:
            by_column[part.column] = noises[part.column].accurate()
            continue
        if part.amount is not None:
            if part.in_rho is not (budget.variant is Variant.ZERO_CONCENTRATED):
                kind = "epsilon" if part.in_rho else "rho"
                other = "rho" if part.in_rho else "epsilon"
                raise BudgetError(
                    "DP-BUDGET-005", place=place, kind=kind, name=part.name, found=f"a {other}"
                )
            # Not approximately: a part with its own amount is checked against it below.
            inner = budget.but(part.amount)
            _settle(replace(part, amount=None), noises, inner, by_column, False, known, False)
    rest = list(_weights(share, noises, share.size))
    settled = [i for i in share.columns() if i in by_column]
    if rest and unlimited:
        place = noises[rest[0][0]].place
        raise BudgetError("DP-BUDGET-006", place=place, column=place.key.rpartition(".")[2])
    fixed = [make_accounting_input(by_column[i], noises[i].sensitivity) for i in settled]
    if settled and not unlimited:
        fixed_cost = budget.price(fixed)
        if fixed_cost > budget.amount or (rest and fixed_cost >= budget.amount):
            refusal = BudgetError(
                "DP-BUDGET-007",
                place=noises[settled[0]].place,
                price=f"{fixed_cost:.6g}",
                amount=plain_text(budget.amount),
                name=share.name,
                columns=", ".join(noises[i].place.key for i in settled[:5]),
            )
            refusal.price = float(fixed_cost)
            raise refusal
    if rest:
        weighted = [replace(noises[i], weight=weight) for i, weight in rest]
        mechanisms = solve(weighted, budget, fixed, known=known, rough=rough)
        by_column.update({i: mechanism for (i, _), mechanism in zip(rest, mechanisms, strict=True)})


def _own_amounts(share: Share, noises: Sequence[UnscaledNoise]) -> Iterator[Share]:
    """Yield the outermost parts, `share` or below, that settle themselves."""
    if share.column is not None:
        if share.amount is not None or noises[share.column].width is not None:
            yield share
        return
    for part in share.parts:
        if part.amount is not None:
            yield part
        else:
            yield from _own_amounts(part, noises)


def _weights(
    share: Share, noises: Sequence[UnscaledNoise], size: Fraction
) -> Iterator[tuple[int, Fraction]]:
    """Yield (index, weight) of the columns that share the rest."""
    if share.column is not None:
        if share.amount is None and noises[share.column].width is None:
            yield share.column, size
        return
    open_parts = [part for part in share.parts if part.amount is None]
    if len(open_parts) == 1:  # all of it: fractions for thousands of queries are slow
        yield from _weights(open_parts[0], noises, size)
        return
    total = sum((part.size for part in open_parts), Fraction(0))
    for part in open_parts:
        yield from _weights(part, noises, size * part.size / total)
