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
from dprelease.planning.calibration import (
    Factors,
    UnscaledNoise,
    make_accounting_input,
    solve_scales,
)
from dprelease.privacy.budget import Budget, Variant
from dprelease.query.measurement import Measurement
from dprelease.query.resolve import Query
from dprelease.schema.amounts import ShareSpec
from dprelease.schema.column_spec import ColumnSpec
from dprelease.schema.release import ReleaseSpec
from dprelease.schema.release_parts.local_and_federated import RecordColumnSpec

UNCHANGED = Fraction(1)


@dataclass(frozen=True)
class Share:
    """A node in the tree that divides the budget; the leaves are columns of the plan, by index.

    `weight` is the declared weight relative to the siblings of the node. None stands for the sum of
    the weights of its parts, so that undeclared levels change nothing. `amount` is an absolute
    epsilon, or rho if `in_rho`.
    """

    name: str
    weight: Fraction | None = None
    amount: Fraction | None = None
    in_rho: bool = False
    column: int | None = None
    parts: tuple[Share, ...] = ()

    @cached_property
    def relative_weight(self) -> Fraction:
        """Return the weight of the part relative to its siblings."""
        if self.weight is not None:
            return self.weight
        if self.parts:
            return sum((part.relative_weight for part in self.parts), Fraction(0))
        return Fraction(1)

    def columns(self) -> Iterator[int]:
        """Yield the indexes of all columns in this part of the budget."""
        if self.column is not None:
            yield self.column
        for part in self.parts:
            yield from part.columns()


def undivided_share(weights: Sequence[Fraction]) -> Share:
    """Return a share without tables and queries: all columns divide the budget by their weights."""
    parts = (Share(f"column {i}", weight, column=i) for i, weight in enumerate(weights))
    return Share("the release", parts=tuple(parts))


def shares_of(
    spec: ReleaseSpec,
    queries: Sequence[Query],
    factors: Mapping[tuple[str, str], Fraction] = MappingProxyType({}),
) -> Share:
    """Return the shares that a release file declares, with columns in the plan's order.

    `factors` has, by table and measurement, the factor of a declared weight. A missing factor is 1.
    """
    tables: dict[str, dict[str, list[Share]]] = {}
    query_names = {
        table: name
        for name, spec_of_query in spec.queries.items()
        for table in spec_of_query.tables(name)
    }
    position = 0
    for query in queries:
        spec_of_query = spec.queries[query_names[query.name]]
        columns = []
        for name, measurements in _measurements_by_column(query).items():
            label = f"{query.name}.{name}"
            leaves = [
                Share(
                    measurement.name,
                    measurement.weight * factors.get((query.name, measurement.name), UNCHANGED),
                    column=position + i,
                )
                for i, measurement in enumerate(measurements)
            ]
            columns += _column_shares(label, spec_of_query.spec_of(name), leaves)
            position += len(measurements)
        parts_of_query = tables.setdefault(query.table.name, {}).setdefault(
            query_names[query.name], []
        )
        parts_of_query += columns
    declared = spec.budget.tables
    parts = (
        _share_of_parts(
            f"table '{name}'",
            declared.get(name, ShareSpec()),
            tuple(
                _share_of_parts(f"query '{query}'", spec.queries[query].share, tuple(columns))
                for query, columns in by_query.items()
            ),
        )
        for name, by_query in tables.items()
    )
    return Share("the release", parts=tuple(parts))


def query_shares_texts(spec: ReleaseSpec, queries: Sequence[Query]) -> list[str]:
    """Return a text on the share of each query, if a query declares one and there are others.

    Queries with an amount take no part: they have their amount before shares are compared.
    """
    texts, declared = [], 0
    for table in shares_of(spec, queries).parts:
        for part in table.parts:
            if part.amount is None:
                declared += part.weight is not None
                default = "" if part.weight is not None else " (the weights of its measurements)"
                texts.append(f"{part.name} {plain_text(part.relative_weight)}{default}")
    return texts if declared and len(texts) > 1 else []


def shares_of_records(spec: ReleaseSpec, queries: Sequence[Query]) -> Share:
    """Return the shares that a local release declares, with columns in the plan's order."""
    tables: dict[str, list[Share]] = {}
    position = 0
    for query in queries:
        spec_of_records = spec.records[query.name]
        columns = []
        for measurement in query.measurements:
            name = f"{query.name}.{measurement.name}"
            leaf = Share(name, measurement.weight, column=position)
            columns += _column_shares(name, spec_of_records.columns[measurement.name], [leaf])
            position += 1
        part = _share_of_parts(f"records '{query.name}'", spec_of_records.share, tuple(columns))
        tables.setdefault(query.table.name, []).append(part)
    declared = spec.budget.tables
    parts = (
        _share_of_parts(f"table '{name}'", declared.get(name, ShareSpec()), tuple(shares))
        for name, shares in tables.items()
    )
    return Share("the release", parts=tuple(parts))


def _share_of_parts(name: str, spec: ShareSpec, parts: tuple[Share, ...]) -> Share:
    """Return the declared share of the budget, to be divided among these parts."""
    amount = spec.rho if spec.epsilon is None else spec.epsilon
    return Share(name, spec.weight, amount, spec.rho is not None, None, parts)


def _measurements_by_column(query: Query) -> dict[str, list[Measurement]]:
    """Return the noised measurements of a query, by the declared column that needs them."""
    by_column: dict[str, list[Measurement]] = {}
    for measurement in query.measurements:
        if not measurement.exact:  # no budget covers it
            by_column.setdefault(measurement.charged_column, []).append(measurement)
    return by_column


def _column_shares(
    name: str, spec: ColumnSpec | RecordColumnSpec, leaves: list[Share]
) -> list[Share]:
    """Return the shares of a column's measurements, which divide its own amount if it has one."""
    amount = spec.rho if spec.epsilon is None else spec.epsilon
    if amount is None:
        return leaves
    if len(leaves) == 1:
        return [replace(leaves[0], name=name, amount=amount, in_rho=spec.rho is not None)]
    return [Share(name, None, amount, spec.rho is not None, None, tuple(leaves))]


def spend_budget(
    share: Share,
    noises: Sequence[UnscaledNoise],
    budget: Budget,
    *,
    unlimited: bool = False,
    known: Factors | None = None,
    rough: bool = False,
) -> list[Randomizer]:
    """Return the mechanisms of all columns, in order, which together spend the budget.

    Columns with a declared accuracy or an absolute amount get their mechanisms first. For all other
    columns, one common factor is solved so that all columns together cost the budget. `unlimited`
    means that the budget declares no amount, so that every column must declare an accuracy or an
    amount. `known` and `rough` are those of `solve_scales`.

    Raises BudgetError: DP-BUDGET-004 to 008; DP-MECH-001 to 005 for a shape without a mechanism.
    """
    by_column: dict[int, Randomizer] = {}
    _settle_share(
        share, noises, budget, by_column, unlimited, {} if known is None else known, rough
    )
    return [by_column[i] for i in range(len(noises))]


def _settle_share(
    share: Share,
    noises: Sequence[UnscaledNoise],
    budget: Budget,
    by_column: dict[int, Randomizer],
    unlimited: bool,
    known: Factors,
    rough: bool,
) -> None:
    """Set the mechanism of each column of a share in `by_column`."""
    for part in _parts_with_own_amount(share, noises):
        place = noises[next(part.columns())].place
        # A declared margin determines the noise, so its cost does not depend on the budget.
        if part.column is not None and noises[part.column].width is not None:
            by_column[part.column] = noises[part.column].with_declared_accuracy()
            continue
        if part.amount is not None:
            if part.in_rho is not (budget.variant is Variant.ZERO_CONCENTRATED):
                kind = "epsilon" if part.in_rho else "rho"
                other = "rho" if part.in_rho else "epsilon"
                raise BudgetError(
                    "DP-BUDGET-005",
                    place=place,
                    kind=kind,
                    name=part.name,
                    found=f"a {other}",
                )
            # The search is not rough here, because the amount of the part is a limit.
            inner = budget.with_amount(part.amount)
            _settle_share(replace(part, amount=None), noises, inner, by_column, False, known, False)
    rest = list(_weights_of_rest(share, noises, share.relative_weight))
    settled = [i for i in share.columns() if i in by_column]
    if rest and unlimited:
        # Without an amount there is no budget to divide among the other columns.
        place = noises[rest[0][0]].place
        raise BudgetError("DP-BUDGET-006", place=place, column=place.key.rpartition(".")[2])
    fixed = [make_accounting_input(by_column[i], noises[i].sensitivity) for i in settled]
    if settled and not unlimited:
        fixed_cost = budget.cost_of(fixed)
        # A cost equal to the amount leaves nothing for the other columns.
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
        mechanisms = solve_scales(weighted, budget, fixed, known=known, rough=rough)
        by_column.update({i: mechanism for (i, _), mechanism in zip(rest, mechanisms, strict=True)})


def _parts_with_own_amount(share: Share, noises: Sequence[UnscaledNoise]) -> Iterator[Share]:
    """Yield the outermost parts, from `share` down, with an own amount or a declared accuracy."""
    if share.column is not None:
        if share.amount is not None or noises[share.column].width is not None:
            yield share
        return
    for part in share.parts:
        if part.amount is not None:
            yield part
        else:
            yield from _parts_with_own_amount(part, noises)


def _weights_of_rest(
    share: Share, noises: Sequence[UnscaledNoise], size: Fraction
) -> Iterator[tuple[int, Fraction]]:
    """Yield (index, weight) of the columns without an own amount, which share the rest."""
    if share.column is not None:
        if share.amount is None and noises[share.column].width is None:
            yield share.column, size
        return
    open_parts = [part for part in share.parts if part.amount is None]
    if len(open_parts) == 1:  # all of it: fractions for thousands of queries are slow
        yield from _weights_of_rest(open_parts[0], noises, size)
        return
    total = sum((part.relative_weight for part in open_parts), Fraction(0))
    for part in open_parts:
        yield from _weights_of_rest(part, noises, size * part.relative_weight / total)
