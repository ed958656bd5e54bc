"""Write the label of a release: its guarantee, whom it protects, its cost, and its limits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from dprelease.documents.file_records import LedgerRecord, RenewalRecord
from dprelease.privacy.unit import Neighbours
from dprelease.report.facts import Facts, ProtectedUnit, fraction_of_text
from dprelease.report.numbers.number_texts import limit_text
from dprelease.report.pictures import BeliefRow, belief_rows
from dprelease.report.section_context import Context
from dprelease.report.words import SPACE, Names, Words, round_up_to_three_digits

MOST_UNITS = 12
"""Maximum number of listed privacy units; a release has one unit for each table about people."""


@dataclass(frozen=True)
class Label:
    """The content of the label, ready for the page."""

    unit: Markup
    units: list[Markup]
    promised: Markup
    exact: Markup
    cuts: list[Markup]
    epsilon: str
    epsilon_words: Markup
    delta: str
    delta_words: Markup
    rho: str
    rho_delta: str
    guess: Markup
    costs: list[Markup]
    outside: list[Markup]
    beliefs: list[BeliefRow]


def label_of(facts: Facts, words: Words, names: Names) -> Label:
    """Return the label of a release."""
    source, context = facts.label, Context(facts, words, names, MOST_UNITS)
    guarantee, reading = source.guarantee, source.reading
    epsilon, delta = float(guarantee.epsilon), fraction_of_text(guarantee.delta)
    replace = guarantee.neighbours == Neighbours.REPLACE.value
    limit, one_in = words.exactly(delta), ""
    if delta:
        one_in = words.number(float(f"{float(1 / delta):.3g}"))
    # From 710 on, the result would be larger than any float.
    factor = math.exp(min(epsilon, 700.0))
    return Label(
        unit=context.protected_unit,
        units=list(_unit_sentences(source.units, context)),
        promised=words.say("label.replace" if replace else "label.add_remove"),
        exact=Markup("")
        if guarantee.holds is None
        else words.say("label.exact", holds=guarantee.holds),
        cuts=list(_contribution_limit_sentences(context)),
        epsilon=words.number(round_up_to_three_digits(epsilon)),
        epsilon_words=words.say(
            "label.epsilon.words", factor=words.number(round_up_to_three_digits(factor))
        ),
        delta=limit,
        delta_words=words.say("label.delta.words", delta=limit, one_in=one_in)
        if delta
        else words.say("label.delta.none"),
        rho=""
        if guarantee.rho is None
        else words.number(round_up_to_three_digits(float(guarantee.rho))),
        rho_delta=""
        if guarantee.rho_delta is None
        else words.number(round_up_to_three_digits(float(guarantee.rho_delta))),
        guess=words.say(
            "label.gain.guess.replace" if replace else "label.gain.guess",
            unit=context.protected_unit,
            right=words.percent(1.0 - reading.least_total_error / 2.0, up=True),
            space=SPACE,
        ),
        costs=list(_cost_sentences(facts, source.ledger, words, names)),
        outside=[names.name(text, 600) for text in facts.record.unprotected_quantities],
        beliefs=belief_rows(words, reading),
    )


def _unit_sentences(units: Sequence[ProtectedUnit], context: Context) -> Iterator[Markup]:
    """Yield a sentence on each privacy unit."""
    words, names = context.words, context.names
    sentences = dict.fromkeys(
        words.say("label.unit.row", table=names.name(unit.table))
        if unit.id is None
        else words.say("label.unit.id", id=context.unit_name(unit.id))
        for unit in units
    )
    yield from list(sentences)[:MOST_UNITS]
    if len(sentences) > MOST_UNITS:
        yield words.say("page.more", number=words.number(len(sentences) - MOST_UNITS))


def _contribution_limit_sentences(context: Context) -> Iterator[Markup]:
    """Yield the contribution limits that may leave out rows, each with its tables."""
    words = context.words
    tables: dict[tuple[str, Markup], list[str]] = {}
    for query in context.facts.queries.values():
        limit = limit_text(context, query)
        if limit is not None:
            tables.setdefault((query.unit.id or "", limit), []).append(query.name)
    for (identity, limit), names in list(tables.items())[:MOST_UNITS]:
        titles, unit = context.titles_of(names), context.unit_name(identity)
        yield words.say("label.cut.tables", id=unit, limit=limit, tables=titles)
    if len(tables) > MOST_UNITS:
        yield words.say("page.more", number=words.number(len(tables) - MOST_UNITS))
    if not tables:
        yield words.say("label.cut.all")


def _cost_sentences(
    facts: Facts, ledger: LedgerRecord | None, words: Words, names: Names
) -> Iterator[Markup]:
    """Yield sentences on what the release was charged to a ledger."""
    if ledger is None:
        yield words.say("label.cost.none")
        return
    entry = words.number(ledger.entry)
    yield words.say("label.cost.ledger", entry=entry, file=names.name(ledger.file))
    for renewal in ledger.renewals:
        part = _share_of_period_budget(renewal, facts)
        fields = {
            "table": names.name(renewal.table),
            "every": names.name(renewal.every),
            "begin": renewal.from_,
            "end": renewal.until,
        }
        if part <= 1.0:
            yield words.say("label.cost.part", part=words.percent(part), **fields)
        else:
            yield words.say("label.cost.whole", **fields)
        yield names.name(renewal.words, 800)


def _share_of_period_budget(renewal: RenewalRecord, facts: Facts) -> float:
    """Return the share of a table's budget for one period that the release uses."""
    from dprelease.ledger.account import Account, cost_of_events

    of_period = {name: getattr(renewal, name) for name in ("every", "begins", "periods")}
    held = {"table": renewal.table, "neighbours": "", "unit": "", **renewal.budget.to_json()}
    account = Account.from_json({**held, "renews": of_period})
    events = [
        measured.event
        for (query, _), measured in facts.measurement_records.items()
        if any(table.identity == renewal.table for table in facts.queries[query].charged_tables)
    ]
    return cost_of_events(account, events) / float(account.amount)
