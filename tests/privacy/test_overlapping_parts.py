"""The cost of the rows of a person if several parts may fall into one cell and add up."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import pytest

from dprelease.mechanisms import registry
from dprelease.mechanisms.base import Mechanism
from dprelease.planning.calibration import make_accounting_input
from dprelease.privacy.accounting import epsilon_at, pure_epsilon
from dprelease.privacy.guarantee import Event
from dprelease.privacy.priced_vector import PricedVector
from dprelease.privacy.renyi import renyi_of, rho_of, zcdp_epsilon
from dprelease.privacy.unit import Move, Sensitivity
from tests.covering import thinned

LAWS = [
    ("discrete_gaussian", 6.0), ("discrete_gaussian", 2.5), ("discrete_gaussian", 40.0),
    ("gaussian", 6.0), ("gaussian", 2.5),
    ("discrete_laplace", 5.0), ("laplace", 4.0), ("staircase", 12.0), ("asymmetric_laplace", 9.0),
]  # fmt: skip
SENSITIVITIES = [
    Sensitivity(3, (Move(2, 1),)),
    Sensitivity(4, (Move(1, 1),)),
    Sensitivity(2, (Move(3, 2), Move(5, 1))),
    Sensitivity(2, (Move(2, 2),)),
]
DELTAS = [Fraction(1, 10**6), Fraction(1, 100)]


def partitions(number: int, largest: int) -> Iterator[list[int]]:
    """Yield every way in which so many parts meet, up to `largest` in a cell."""
    if not number:
        yield []
    for first in range(1, min(number, largest) + 1):
        for rest in partitions(number - first, first):
            yield [first, *rest]


def changes(fine: Sensitivity, most: int) -> Iterator[list[int]]:
    """Yield shifts of cells: all parts make one move, and meet wherever they may."""
    for move in fine.moves:
        for met in partitions(fine.slots, most):
            if move.cells == 1:
                yield [move.shift * count for count in met]
                continue
            for others in partitions(fine.slots, most):
                yield [move.shift * count for count in (*met, *others)]


def of(name: str, scale: float, sensitivity: Sensitivity) -> Mechanism:
    kind = registry.get(name)
    assert issubclass(kind, Mechanism)
    return kind.design(scale, sensitivity, None, **kind.example_shapes[0])


@pytest.mark.share(0.2)
@pytest.mark.parametrize(
    ("named", "fine", "most"), thinned(LAWS, SENSITIVITIES, [1, 2, 3, 9]), ids=str
)
def test_no_overlap_costs_more_than_the_claim(
    named: tuple[str, float], fine: Sensitivity, most: int
) -> None:
    """The claim is held against the price of every pattern of shifts that can be."""
    claim = fine.of_sums(1000, most)
    law = of(*named, claim)
    claimed = make_accounting_input(law, claim)
    pure, rho = pure_epsilon([claimed]), rho_of([claimed])
    reached = 0.0
    for shifts in changes(fine, most):
        cells = [make_accounting_input(law, Sensitivity(1, (Move(shift, 1),))) for shift in shifts]
        assert sum(shifts) <= claim.l1
        assert sum(shift**2 for shift in shifts) <= claim.l2_squared
        assert max(shifts) <= claim.largest_shift
        reached = max(reached, sum(shift**2 for shift in shifts) / claim.l2_squared)
        own = pure_epsilon(cells)
        assert pure is None if own is None else pure is not None and own <= pure * (1 + 1e-12)
        # Both sides are bounds; that of a single pattern is nearly its price.
        assert rho_of(cells) * (1 - 1e-3) <= rho
        for order in (1.5, 8.0):
            assert renyi_of(cells, order) * (1 - 1e-6) <= renyi_of([claimed], order)
        for delta in DELTAS:
            price = epsilon_at(cells, delta)
            assert price < math.inf
            assert price * (1 - 2e-3) <= epsilon_at([claimed], delta)
    if most >= fine.slots or most == 1:
        assert reached == 1.0


@pytest.mark.parametrize("cells", [1, 1000])
def test_all_parts_in_one_cell(cells: int) -> None:
    fine = Sensitivity(3, (Move(2, 2), Move(3, 1)))
    coarse = fine.of_sums(cells, 8)
    assert coarse.largest_shift == 9
    assert coarse.meeting == (1 if cells == 1 else 3)
    assert coarse.l2_squared == (81 if cells == 1 else 9 * max(2 * 2**2, 3**2))


def test_noise_without_a_bound_costs_infinity() -> None:
    """A law of thin tails whose vectors don't follow from a norm; and none is made by hand."""
    coarse = Sensitivity(2, (Move(1, 1),)).of_sums(10, 2)
    law = of("offset_symmetric_gaussian", 9.0, coarse)
    assert epsilon_at([make_accounting_input(law, coarse)], DELTAS[0]) == math.inf
    assert rho_of([make_accounting_input(law, coarse)]) == math.inf
    with pytest.raises(ValueError, match="different cells"):
        PricedVector(law, law.losses, coarse)


def test_composition_with_noise_without_renyi_curve() -> None:
    """Losses that have no Rényi divergence are composed by themselves."""
    coarse, one = Sensitivity(2, (Move(1, 1),)).of_sums(10, 2), Sensitivity(1, (Move(1, 1),))
    vectors = [make_accounting_input(of("discrete_gaussian", 9.0, coarse), coarse)]
    delta = DELTAS[0]
    alone = epsilon_at(vectors, delta)
    law = registry.get("truncated_laplace").design(30.0, one, None, delta="1e-8")
    cut = make_accounting_input(law, one)
    assert rho_of([cut]) == math.inf
    together = epsilon_at([*vectors, cut], delta)
    assert alone < together < math.inf
    assert together >= epsilon_at(vectors, delta / 2)


@pytest.mark.parametrize("scale", [20.0, 2000.0])
def test_renyi_part_keeps_other_costs_sharp(scale: float) -> None:
    """Eight Laplace answers, and one vector that is priced by divergences, dear or cheap."""
    coarse, eight = Sensitivity(2, (Move(1, 1),)).of_sums(10, 2), Sensitivity(8, (Move(1, 1),))
    laplace = make_accounting_input(of("discrete_laplace", 4.0, eight), eight)
    curve = make_accounting_input(of("discrete_gaussian", scale, coarse), coarse)
    delta = DELTAS[0]
    rest, price = epsilon_at([laplace], delta), epsilon_at([laplace, curve], delta)
    assert rest <= price <= zcdp_epsilon(rho_of([laplace, curve]), float(delta))
    # Never below what the same noise costs where no parts meet, each in a cell of its own.
    fine = Sensitivity(2, (Move(1, 1),))
    apart = make_accounting_input(of("discrete_gaussian", scale, fine), fine)
    assert epsilon_at([laplace, apart], delta) * (1 - 2e-3) <= price
    if scale > 1000:
        assert price < rest * 1.02 < zcdp_epsilon(rho_of([laplace, curve]), float(delta))


@pytest.mark.parametrize("fine", SENSITIVITIES, ids=str)
def test_events_survive_json_with_their_cost(fine: Sensitivity) -> None:
    coarse = fine.of_sums(50, 2)
    law = of("discrete_gaussian", 6.0, coarse)
    event = Event("q", "c", law.name, law.parameters, coarse)
    record = event.to_json()
    assert Event.from_json(record) == event
    # Whoever does not know of meeting prices parts that touch different cells.
    del record["sensitivity"]["meeting"]
    known = make_accounting_input(law, Event.from_json(record).sensitivity)
    assert rho_of([known]) >= rho_of([make_accounting_input(law, coarse)]) * (1 - 1e-12)
