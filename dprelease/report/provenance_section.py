"""Write the section on how a release was made, from its declaration and its manifest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from dprelease.documents.audit_record import Audit
from dprelease.documents.file_records import FamilyRecord, TableRecord
from dprelease.documents.manifest import CentralManifest
from dprelease.documents.release_manifest import GuaranteedManifest, ReleaseManifest
from dprelease.planning.bounded_words import contribution_limits_text, table_range_text
from dprelease.planning.invariant_plans import without_invariants
from dprelease.planning.plan import PlannedColumn
from dprelease.planning.treatments import treatment_sentence
from dprelease.report.facts import Checks
from dprelease.report.pictures import PageTable
from dprelease.report.section_context import Context
from dprelease.report.words import round_up_to_three_digits, to_three_digits

MOST_NAMED = 4
"""Maximum number of named columns among those that share a noise distribution."""

LONGEST = 600
"""Maximum number of characters of a sentence from the manifest."""


@dataclass(frozen=True)
class ProvenanceSection:
    """The content of the section, ready for the page."""

    bounds: PageTable | None
    treatments: PageTable | None
    cuts: list[Markup]
    noise_lead: Markup
    noise: PageTable
    composition: Markup
    processing: list[Markup]
    families: list[tuple[Markup, list[Markup]]]
    checked: list[Markup] | None
    notes: list[Markup]
    audit: PageTable | None


def provenance_section(context: Context, checks: Checks | None) -> ProvenanceSection:
    """Return the content of the section."""
    names, record = context.names, context.facts.record
    mechanisms = _vectors_by_noise(context)
    return ProvenanceSection(
        bounds=_bounds_table(context),
        treatments=_treatments_table(context),
        cuts=list(_counted_rows_sentences(context)),
        noise_lead=context.words.say("made.noise.lead"),
        noise=_noise_table(context, mechanisms),
        composition=names.sentence(record.composition, LONGEST)
        if isinstance(record, GuaranteedManifest)
        else Markup(""),
        processing=list(_processing_sentences(context)),
        families=[
            (
                context.words.say("made.family", name=names.name(family.name)),
                [names.sentence(text, LONGEST) for text in family.words],
            )
            for family in _family_records(record)[: context.most]
        ],
        checked=None
        if checks is None
        else [names.sentence(one, LONGEST) for one in checks.checked],
        notes=[] if checks is None else [names.sentence(one, LONGEST) for one in checks.notes],
        audit=None
        if checks is None or checks.audit is None
        else _audit_table(context, checks.audit),
    )


def _family_records(record: ReleaseManifest) -> Sequence[FamilyRecord]:
    """Return the manifest's records of families; other kinds of releases have none."""
    return record.families if isinstance(record, CentralManifest) else ()


def _table_heads(context: Context, *names: str) -> list[Markup]:
    """Return the heads of a table in the language of the page."""
    return [context.words.say(f"made.head.{name}") for name in names]


def _truncate_rows(context: Context, rows: Sequence[list[Markup]]) -> list[list[Markup]]:
    """Return at most as many rows as the page admits; the last row counts the omitted rows."""
    if len(rows) <= context.most:
        return list(rows)
    left = context.words.say("page.more", number=context.words.number(len(rows) - context.most + 1))
    empty = [Markup("") for _ in rows[0][1:]]
    return [*rows[: context.most - 1], [left, *empty]]


def _bounds_table(context: Context) -> PageTable | None:
    """Return the table of bounds of all summed columns, each once per table."""
    words, found = context.words, {}
    for query in context.facts.queries.values():
        for factor in (one for m in query.measurements for one in m.aggregate.factors):
            name, lattice = factor.column, factor.lattice
            if name is None or lattice is None:
                continue
            low, high = (
                words.exactly(end * lattice.step) for end in (lattice.lower, lattice.upper)
            )
            unit = getattr(query.table.columns[name], "unit", None) or ""
            says = {"low": low, "high": high, "unit": context.names.name(unit)}
            found[query.declared.table.name, name] = context.cells(
                context.names.name(name),
                words.say("made.range", **says),
                words.exactly(lattice.step),
            )
    if not found:
        return None
    heads = _table_heads(context, "column", "bounds", "step")
    return PageTable(words.say("made.bounds"), heads, _truncate_rows(context, list(found.values())))


def _treatments_table(context: Context) -> PageTable | None:
    """Return the table of treatments of missing and undeclared values, with the tables of each."""
    tables: dict[tuple[str, str], list[str]] = {}
    for held in context.facts.record.treatments:
        for column, says in held.columns.items():
            tables.setdefault((column, treatment_sentence(says)), []).append(held.query)
    if not tables:
        return None
    rows = [
        context.cells(
            context.names.name(column),
            context.names.sentence(says, LONGEST),
            context.names.name(table_range_text(queries), LONGEST),
        )
        for (column, says), queries in tables.items()
    ]
    heads = _table_heads(context, "column", "treatment", "tables")
    return PageTable(context.words.say("made.treatment"), heads, _truncate_rows(context, rows))


def _counted_rows_sentences(context: Context) -> Iterator[Markup]:
    """Yield sentences on which rows count: conditions, joins, and contribution limits."""
    spec = context.facts.declaration.spec
    found: dict[str, None] = {}
    counted: dict[str, list[str]] = {}
    for name, query in spec.queries.items():
        if query.where is not None:
            found[f"{name}: {context.words.plain('made.where')} {query.where}"] = None
    for held in context.facts.record.treatments:
        counted.setdefault(held.rows, []).append(held.query)
    found |= {f"{', '.join(names)}: {rows}": None for rows, names in counted.items()}
    for held in context.facts.record.treatments:
        if held.join is not None:
            found[held.join] = None
    found |= dict.fromkeys(_limit_sentences(context))
    sentences = list(found)
    for text in sentences[: context.most]:
        yield context.names.sentence(context.with_unit_labels(text), LONGEST)
    if len(sentences) > context.most:
        yield context.words.say(
            "page.more", number=context.words.number(len(sentences) - context.most)
        )


def _limit_sentences(context: Context) -> Iterator[str]:
    """Yield the rows within contribution limits, each sentence with the names of its tables."""
    limited: dict[str, list[str]] = {}
    for query in context.facts.queries.values():
        if words := contribution_limits_text(query):
            limited.setdefault(words.removesuffix("."), []).append(query.name)
    for words, names in limited.items():
        yield f"{table_range_text(names)}: values are {words}."


Mechanisms = Mapping[tuple[Any, ...], list[PlannedColumn]]


def _vectors_by_noise(context: Context) -> Mechanisms:
    """Return the noisy vectors, grouped by noise, step and sensitivity."""
    found: dict[tuple[Any, ...], list[PlannedColumn]] = {}
    for column in without_invariants(list(context.facts.planned_columns())):
        measurement = column.measurement
        key = (
            column.mechanism,
            measurement.error_step,
            measurement.error_unit,
            measurement.sensitivity,
        )
        found.setdefault(key, []).append(column)
    return found


def _noise_table(context: Context, mechanisms: Mechanisms) -> PageTable:
    """Return the table of noise distributions, with the columns that have each."""
    words, names, rows = context.words, context.names, []
    for columns in mechanisms.values():
        first = columns[0]
        shape = ", ".join(
            f"{name} {parameter_text(text, context)}"
            for name, text in first.mechanism.parameters
            if text != "0.0"
        )
        margin = float(first.margin(0.95))
        unit = context.unit_name(first.measurement.error_unit)
        rows.append(
            context.cells(
                names.name(first.mechanism.name),
                names.name(shape, LONGEST),
                _noised_columns_text(context, columns),
                names.name(
                    context.with_unit_labels(first.measurement.aggregate.description), LONGEST
                ),
                names.name(str(first.measurement.sensitivity), LONGEST),
                Markup("± {} {}").format(words.number(round_up_to_three_digits(margin)), unit),
            )
        )
    heads = _table_heads(context, "noise", "parameters", "for", "counts", "sensitivity", "margin")
    return PageTable(words.say("made.noise"), heads, _truncate_rows(context, rows))


def _audit_table(context: Context, audit: Audit) -> PageTable:
    """Return how close changes between neighbouring tables came to each claim in the audit."""
    words, names = context.words, context.names
    bounds: dict[tuple[str, str], float] = {}
    for bound in audit.black_box or ():
        name = (bound.query, bound.column)
        bounds[name] = max(bound.bound, bounds.get(name, 0.0))
    rows = []
    left = {(one.query, one.column) for one in audit.not_tried}
    for one in audit.sensitivities:
        least = bounds.get((one.query, one.column))
        shown = [] if least is None else [words.number(to_three_digits(least))]
        shown += [words.say("made.audit.untried")] * ((one.query, one.column) in left)
        rows.append(
            context.cells(
                names.name(f"{one.query}.{one.column}"),
                names.name(one.claimed, LONGEST),
                words.number(one.pairs),
                f"{words.number(to_three_digits(100 * one.ratio))} %",
                ", ".join(shown),
            )
        )
    heads = _table_heads(context, "column", "sensitivity", "pairs", "used", "least")
    return PageTable(words.say("made.audit"), heads, _truncate_rows(context, rows))


def _noised_columns_text(context: Context, columns: Sequence[PlannedColumn]) -> Markup:
    """Return the names of columns; for many columns, only the first names and their number."""
    titles = [
        context.names.name(f"{column.query.name}.{column.measurement.name}")
        for column in columns[:MOST_NAMED]
    ]
    joined = Markup(", ").join(titles)
    if len(columns) <= MOST_NAMED:
        return joined
    more = context.words.say("page.more", number=context.words.number(len(columns) - MOST_NAMED))
    return Markup("{}, {}").format(joined, more)


def parameter_text(text: str, context: Context) -> str:
    """Return a noise parameter with three significant digits; a word is returned unchanged."""
    try:
        return context.words.number(to_three_digits(float(text)))
    except ValueError:
        return text


def _processing_sentences(context: Context) -> Iterator[Markup]:
    """Yield sentences on the processing of noisy values: of all columns, then of single columns."""
    record, names = context.facts.record, context.names
    for text in record.post_processing:
        yield names.sentence(text, LONGEST)
    by_words: dict[str, list[str]] = {}
    for file in (one for one in record.files if isinstance(one, TableRecord)):
        for column, sentences in file.post_processing.items():
            for text in sentences:
                by_words.setdefault(text, []).append(f"{file.query}.{column}")
    for text, columns in list(by_words.items())[: context.most]:
        shown = Markup(", ").join(names.name(name) for name in columns[:MOST_NAMED])
        if len(columns) > MOST_NAMED:
            more = context.words.number(len(columns) - MOST_NAMED)
            shown = Markup("{}, {}").format(shown, context.words.say("page.more", number=more))
        yield Markup("{} ({})").format(names.sentence(text, LONGEST), shown)
