"""Bounds of the privacy losses of one cell, which a certificate proves for each mechanism."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from flint import arb

from dprelease.numerics.balls import ball
from dprelease.verification.certificate.neighbour_blocks import Block, BlockOptions


class Moments(Protocol):
    """Moments of the losses of a cell whose true value moves by `shift` steps."""

    def ln_moment(self, shift: int, order: Fraction) -> arb:
        """Return ln E exp((order - 1) loss)."""
        ...

    def bound_from_order(self, shift: int, order: Fraction) -> arb:
        """Return a bound of D_a / a for all a >= `order`."""
        ...


BlockLists = Callable[[int, BlockOptions], list[list[Block]]]
"""Returns lists of blocks for a cell that moves by up to a number of steps. Each list has the
blocks of one possible distribution of outputs."""

Known = Callable[[int], Fraction | None]
"""Returns a bound for a cell that moves by up to a number of steps; None if unknown."""


def unknown_bound(_shift: int) -> None:
    """Return None: no bound is known for any shift."""
    return None


@dataclass(frozen=True, slots=True)
class ProvenLosses:
    """Proven bounds of the privacy losses of the noise in one cell.

    Most of them are functions of the number of steps by which the true value moves. `block_lists`
    returns the blocks of outputs, in a list for each possible distribution. `largest` is a bound of
    the losses. `usual` is approximately the loss with the largest probability, which should be a
    point of a grid. `mu_squared` is mu^2 if the curve of N(0, 1) against N(mu, 1) dominates that of
    the cell. `rho` is a bound of D_a / a for all orders a. With `by_squares`, rho is proportional
    to the square of the shift, also if several parts of a change add up in one cell. `variance` is
    the variance of discrete Gaussian noise, for `vectors_with_gaussian_noise`. `moments` are the
    moments of losses that have no largest loss. `exempt` is the probability of outputs for which
    `rho` does not hold. `tight` is whether finer blocks make the bound from
    `block_lists` as sharp as desired.
    """

    block_lists: BlockLists
    theorem: str
    largest: Known = unknown_bound
    usual: Known = unknown_bound
    mu_squared: Known = unknown_bound
    rho: Known = unknown_bound
    by_squares: bool = False
    variance: Fraction | None = None
    moments: Moments | None = None
    tight: bool = True
    exempt: Fraction = Fraction(0)


def binary_blocks(top: Fraction, chance: Fraction = Fraction(0)) -> list[Block]:
    """Return the blocks of a binary output with the losses `top` and -`top`.

    With the probability `chance`, the output reveals everything: its loss is infinite.
    """
    odds, rest = ball(top).exp(), ball(1 - chance)
    high, low = rest * odds / (1 + odds), rest / (1 + odds)
    loss = ball(top)
    blocks = [Block(high, low, loss, loss), Block(low, high, -loss, -loss)]
    return [*blocks, Block(ball(chance), arb(0))] if chance else blocks
