"""Write the report on one party's messages: the guarantee of the sum, and its assumptions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from markupsafe import Markup

from dprelease.documents.party_manifest import FederatedManifest, PartiesManifest
from dprelease.documents.release_manifest import GuaranteeRecord, ReadingRecord
from dprelease.mechanisms import registry
from dprelease.mechanisms.symmetric_alpha_stable import SymmetricAlphaStable
from dprelease.planning.federated_plan import (
    ShareColumn,
    Trust,
    resolve_federated,
    trusts_of,
)
from dprelease.planning.guarantees import interpretation_of
from dprelease.planning.plan import PlannedColumn
from dprelease.query.resolve import Query
from dprelease.report.accuracy.rehearsal_errors import Errors, with_error_section
from dprelease.report.facts import (
    Checks,
    Facts,
    LabelSource,
    ProtectedUnit,
    ReleaseFiles,
    fraction_of_text,
)
from dprelease.report.page import render_page
from dprelease.report.pictures import PageTable
from dprelease.report.privacy_section import label_of
from dprelease.report.provenance_section import LONGEST, ProvenanceSection, provenance_section
from dprelease.report.section_context import Context
from dprelease.report.words import Names, Words, round_up_to_three_digits, to_three_digits


@dataclass(frozen=True)
class PartyFacts(Facts):
    """A verified manifest of messages, with guarantees of the sum if enough parties are honest."""

    record: PartiesManifest

    @cached_property
    def queries(self) -> Mapping[str, Query]:
        """Return the query of every table, by name."""
        return {query.name: query for query in resolve_federated(self.declaration)}

    @cached_property
    def shares(self) -> tuple[ShareColumn, ...]:
        """Return each column of messages with the noise that one party adds."""
        found = []
        for held in self.record.measurements:
            mechanism, query = registry.mechanism_of_event(held.event), self.queries[held.query]
            measurement = next(one for one in query.measurements if one.name == held.column)
            if not isinstance(mechanism, SymmetricAlphaStable):
                raise TypeError("shares of noise are stable")
            found.append(ShareColumn(query, measurement, mechanism, held.refined, held.chosen_by))
        return tuple(found)

    @cached_property
    def assumed_trust(self) -> Trust:
        """Return the guarantee for the number of honest parties that the release assumes."""
        spec = self.declaration.spec.federated
        if spec is None:
            raise TypeError("the release declares no parties")
        trusts = trusts_of(self.shares, spec, self.declaration.spec.budget)
        return next(trust for trust in trusts if trust.honest == spec.least)

    @property
    def label(self) -> LabelSource:
        """Return the facts for the label: the guarantee under the assumed trust."""
        guarantee, units = self.assumed_trust.guarantee, self.record.privacy_unit
        return LabelSource(
            [ProtectedUnit(unit.table, unit.id, unit.words) for unit in units],
            GuaranteeRecord.of(guarantee),
            ReadingRecord.model_validate(interpretation_of(guarantee)),
            None,
        )

    def planned_columns(self) -> Iterator[PlannedColumn]:
        """Yield every column with the noise that one party adds to it."""
        for share in self.shares:
            yield PlannedColumn(share.query, share.measurement, share.mechanism, share.chosen_by)


PARTS = ("label", "sums", "made")


@dataclass(frozen=True)
class SumsPart:
    """The content of the section on the sum of all messages, ready for the page."""

    margins: PageTable
    trusts: PageTable
    words: list[Markup]


def page_of_messages(
    release: ReleaseFiles,
    *,
    language: str | None = None,
    checks: Checks | None = None,
    errors: Errors | None = None,
) -> bytes:
    """Return the report on one party's messages; the other parameters are those of `page_of`.

    The report shows no content of the messages, which only the noise of one share protects.
    `errors`: the errors of a rehearsal of all parties.
    """
    assert isinstance(release.record, PartiesManifest)
    facts = PartyFacts(release.record)

    def fill_page(words: Words, names: Names, most: int) -> Mapping[str, Any]:
        """Return the parts of the page by name."""
        context = Context(facts, words, names, most)
        label = label_of(facts, words, names)
        return {
            **with_error_section(PARTS, context, errors, "simulated.lead.sums"),
            "label": label,
            "sums": SumsPart(
                _margin_table(context, facts),
                _trust_table(context, facts),
                list(_trust_sentences(context, facts)),
            ),
            "made": _provenance(context, facts, checks),
            "warning": "" if errors is not None else _warning_text(words, facts),
            "tables": words.number(len(facts.queries)),
            "shortened": len(facts.shares) > most,
        }

    return render_page(release, language, fill_page)


def _warning_text(words: Words, facts: PartyFacts) -> Markup:
    """Return the warning that the messages of a single party are not for publication."""
    record = facts.record
    party = record.party if isinstance(record, FederatedManifest) else 0
    return words.say(
        "sums.warning",
        party=words.number(party),
        parties=words.number(facts.record.parties),
        honest=words.number(facts.record.honest),
    )


def _margin_table(context: Context, facts: PartyFacts) -> PageTable:
    """Return the table of margins of the sums; a column has the same margin in every cell."""
    words, names, rows = context.words, context.names, []
    for held in facts.record.measurements[: context.most]:
        margin = round_up_to_three_digits(float(fraction_of_text(held.sum_margin_95)))
        rows.append(
            context.cells(
                names.name(f"{held.query}.{held.column}"),
                words.number(facts.queries[held.query].keys.size),
                Markup("± {} {}").format(words.number(margin), context.unit_name(held.unit)),
            )
        )
    heads = [words.say(f"sums.head.{name}") for name in ("column", "cells", "margin")]
    return PageTable(words.say("sums.margins"), heads, rows)


def _trust_table(context: Context, facts: PartyFacts) -> PageTable:
    """Return the table of guarantees by the number of honest parties."""
    words, rows = context.words, []
    for held in facts.record.trust:
        guarantee = held.guarantee
        rows.append(
            context.cells(
                words.say(
                    "sums.honest",
                    honest=words.number(held.honest),
                    parties=words.number(facts.record.parties),
                ),
                words.number(round_up_to_three_digits(float(guarantee.epsilon))),
                words.exactly(fraction_of_text(guarantee.delta)),
            )
        )
    heads = [words.say(f"sums.head.{name}") for name in ("honest", "epsilon", "delta")]
    return PageTable(words.say("sums.trusts"), heads, rows)


def _trust_sentences(context: Context, facts: PartyFacts) -> Iterator[Markup]:
    """Yield sentences on what the guarantees assume about the other parties."""
    yield context.words.say("sums.trust.seen")
    for text in facts.record.trust_words[2:]:  # the first two lines are already in the page
        yield context.names.sentence(text, LONGEST)


def _provenance(context: Context, facts: PartyFacts, checks: Checks | None) -> ProvenanceSection:
    """Return how the messages were made, with the noise of one share per column."""
    words, names, rows = context.words, context.names, []
    for share in facts.shares[: context.most]:
        rows.append(
            context.cells(
                names.name(f"{share.query.name}.{share.measurement.name}"),
                names.name(share.mechanism.name),
                words.say(
                    "sums.scale",
                    alpha=words.number(to_three_digits(share.mechanism.alpha)),
                    share=words.number(
                        to_three_digits(_share_scale_in_steps(share.mechanism, share.refined))
                    ),
                    sum=words.number(
                        to_three_digits(
                            _share_scale_in_steps(
                                share.sum_mechanism(facts.record.parties), share.refined
                            )
                        )
                    ),
                ),
                names.name(str(share.measurement.sensitivity), LONGEST),
            )
        )
    heads = [words.say(f"sums.head.{name}") for name in ("column", "noise", "scale", "moves")]
    noise = PageTable(words.say("sums.noise"), heads, rows)
    return replace(provenance_section(context, checks), noise=noise)


def _share_scale_in_steps(mechanism: SymmetricAlphaStable, refined: int) -> float:
    """Return the scale of one share's noise in steps of the published value."""
    return float(mechanism.scale) / refined
