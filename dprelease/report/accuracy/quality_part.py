"""Write the quality section: expected errors, published cells, and errors of a rehearsal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from dprelease.planning.bounded_words import differently_counted
from dprelease.report.accuracy.doubtful_numbers import (
    Disagreement,
    agreeing_queries,
    bias_at_zero,
    impossible_value_sentences,
    weak_table_sentences,
)
from dprelease.report.accuracy.quality import (
    ColumnQuality,
    SizeTable,
    official_figures,
    size_tables,
)
from dprelease.report.accuracy.rehearsal_errors import SimulatedColumn
from dprelease.report.pictures import PageTable
from dprelease.report.section_context import Context
from dprelease.report.words import round_up_to_three_digits, to_three_digits

SimulatedErrors = Mapping[tuple[str, str], SimulatedColumn]


@dataclass(frozen=True)
class QualitySection:
    """The content of the quality section, ready for the page."""

    lead: Markup
    weak: list[Markup]
    tables: list[PageTable]
    notes: list[Markup]
    sizes: list[SizeTable]
    sizes_left: Markup
    impossible: list[Markup]
    totals: list[Markup]
    disagreeing: PageTable | None
    bias: list[Markup]
    lifted: list[PageTable]
    compared: PageTable | None


def quality_section(
    context: Context,
    columns: Sequence[ColumnQuality],
    disagreements: tuple[Sequence[Disagreement], int],
    simulated: SimulatedErrors | None,
) -> QualitySection:
    """Return the content of the quality section."""
    found, left = disagreements
    lifted = _bias_tables(context, columns)
    official = official_figures(columns)
    sizes, sizes_left = size_tables(context, official)
    lead = "quality.lead" if len(official) == len(columns) else "quality.lead.official"
    return QualitySection(
        lead=context.words.say(lead, estimates=context.names.estimates),
        weak=weak_table_sentences(context, official),
        tables=_column_tables(context, columns),
        notes=_note_sentences(context, columns),
        sizes=sizes,
        sizes_left=sizes_left,
        impossible=impossible_value_sentences(context, official),
        totals=_total_sentences(context, found, left),
        disagreeing=_disagreement_table(context, found),
        bias=_bias_sentences(context, columns, has_table=bool(lifted)),
        lifted=lifted,
        compared=None if simulated is None else _error_table(context, columns, simulated),
    )


def _table_heads(context: Context, *names: str) -> list[Markup]:
    """Return the heads of a table in the language of the report, by the names of their texts."""
    return [context.words.say(name) for name in names]


COLUMNS = (
    "quality.head.table",
    "quality.head.column",
    "quality.head.cells",
    "quality.head.margin",
    "quality.head.wide",
    "quality.head.negative",
    "quality.head.empty",
)


def _column_tables(context: Context, columns: Sequence[ColumnQuality]) -> list[PageTable]:
    """Return a table with one row for each column.

    If there are many columns, the result is a table of groups of columns, and a table of the
    columns with the widest margins.
    """
    if not columns:
        return []
    heads = _table_heads(context, *COLUMNS)
    if len(columns) <= context.most:
        caption = context.words.say("quality.table")
        return [PageTable(caption, heads, [_column_row(context, one) for one in columns])]
    widest = sorted(columns, key=lambda one: -(one.wide_share or 0.0))[: context.most]
    number = context.words.number
    part = context.words.say(
        "quality.table.part", shown=number(len(widest)), all=number(len(columns))
    )
    return [
        PageTable(
            context.words.say("quality.groups"),
            _table_heads(
                context,
                "quality.head.table",
                "quality.head.column",
                "quality.head.tables",
                "quality.head.cells",
                "quality.head.margin",
                "quality.head.wide",
                "quality.head.negative",
            ),
            [_group_row(context, group) for group in group_columns(columns)[: context.most]],
        ),
        PageTable(part, heads, [_column_row(context, one) for one in widest]),
    ]


def group_columns(columns: Sequence[ColumnQuality]) -> list[list[ColumnQuality]]:
    """Return columns grouped by name, query and processing."""
    groups: dict[tuple[str, str, str], list[ColumnQuality]] = {}
    for one in columns:
        made = one.table.name.rpartition("/")[0]
        groups.setdefault((made, one.table.query, one.column.name), []).append(one)
    return list(groups.values())


def group_name(group: Sequence[ColumnQuality]) -> str:
    """Return the name of a group of columns: the name of its query, after that of its folder.

    Only the tables of a post-processing step are in a folder.
    """
    made = group[0].table.name.rpartition("/")[0]
    query = group[0].table.query
    return f"{made}/{query}" if made else query


def _column_row(context: Context, one: ColumnQuality) -> list[Markup]:
    """Return the row of a table of the report about one column."""
    words, counted = context.words, one.counted
    margin = margin_text(context, [one])
    negative = words.number(counted.negative) if one.never_negative else words.number(None)
    return context.cells(
        context.names.table(one.table),
        context.names.column(one.column),
        words.number(counted.cells),
        margin,
        words.percent(one.wide_share),
        negative,
        words.number(counted.empty),
    )


def _group_row(context: Context, group: Sequence[ColumnQuality]) -> list[Markup]:
    """Return the row of a table of the report about a group of columns."""
    words, names = context.words, context.names
    cells = sum(one.counted.cells for one in group)
    known = sum(one.counted.cells_with_margin_count for one in group)
    wide = sum(one.counted.wide for one in group)
    return context.cells(
        names.name(group_name(group)),
        names.column(group[0].column),
        words.number(len(group)),
        words.number(cells),
        margin_text(context, group),
        words.percent(wide / known if known else None),
        words.number(sum(one.counted.negative for one in group)),
    )


def margin_text(context: Context, group: Sequence[ColumnQuality]) -> str:
    """Return the margin of a column as text; of several, the smallest, middle and largest."""
    words = context.words
    expected = [one.expected for one in group if one.expected is not None]
    if not expected:
        return words.number(None)
    margins = sorted(one.margin for one in expected)
    margin, least = margins[len(margins) // 2], min(one.least for one in expected)
    largest = max(one.largest for one in expected)
    unit = expected[0].unit
    in_rows = unit != group[0].column.unit
    if in_rows and all(one.end_columns is not None for one in group):
        return words.plain("quality.margin.ranges")
    unit = "" if context.is_count(unit) and not in_rows else context.plain_unit_name(unit)
    rows = {one.rows for one in expected}
    number = f"{words.number(round_up_to_three_digits(margin))} {unit}".strip()
    if rows == {None}:
        if largest > 1.0005 * least:
            ends = {
                "least": words.number(round_up_to_three_digits(least)),
                "largest": words.number(round_up_to_three_digits(largest)),
            }
            return words.plain("quality.margin.range", margin=number, **ends)
        return words.plain("quality.margin", margin=number)
    of = words.number(max(row or 0 for row in rows))
    return words.plain("quality.margin.rows", margin=number, rows=of)


def _note_sentences(context: Context, columns: Sequence[ColumnQuality]) -> list[Markup]:
    """Return a sentence if no column has numbers, or if an error has another unit than values."""
    if not columns:
        return [context.words.say("quality.none")]
    differs = any(
        one.expected is not None and one.expected.unit != one.column.unit for one in columns
    )
    return [context.words.say("quality.ranks")] if differs else []


def _total_sentences(context: Context, found: Sequence[Disagreement], left: int) -> list[Markup]:
    """Return sentences on whether the totals of pairs of tables agree.

    `left` is the number of pairs that were not compared.
    """
    words = context.words
    bounded = [
        words.say("quality.totals.bounded", tables=context.titles_of(one.tables))
        for one in context.facts.central.differently_bounded
    ]
    if not found:
        sentences = [] if bounded else [words.say("quality.totals.none")]
    else:
        agreeing = agreeing_queries(found)
        sentences = []
        if agreeing:
            titles = context.query_titles(agreeing)
            sentences.append(words.say("quality.totals.agree", queries=titles))
        if any(one.differing for one in found):
            sentences += [words.say("quality.totals.lead"), words.say("quality.totals.why")]
    if left:
        sentences.append(words.many("quality.totals.left", left))
    counted = [
        words.say(
            "quality.totals.counted",
            tables=context.titles_of(tables),
            keys=Markup(", ").join(map(context.key_name, keys)),
        )
        for one in differently_counted(list(context.facts.queries.values()))
        for keys, tables in one.without
    ]
    return [*sentences, *bounded, *counted]


def _disagreement_table(context: Context, found: Sequence[Disagreement]) -> PageTable | None:
    """Return a table of the totals that disagree most; None if all totals agree."""
    apart = sorted(
        (one for one in found if one.differing),
        key=lambda one: -one.root_mean_square / (one.expected or 1e-300),
    )
    if not apart:
        return None
    words, names = context.words, context.names
    heads = _table_heads(
        context,
        "quality.totals.finer",
        "quality.totals.coarser",
        "quality.head.column",
        "quality.totals.differ",
        "quality.totals.typical",
        "quality.totals.expected",
        "quality.totals.largest",
    )
    rows = []
    for one in apart[: context.most]:
        changed = words.say("quality.totals.changed") if one.changed else None
        expected = words.number(None if one.expected is None else to_three_digits(one.expected))
        rows.append(
            context.cells(
                names.table(one.fine),
                names.table(one.coarse),
                names.column(one.column),
                words.say(
                    "quality.totals.of",
                    number=words.number(one.differing),
                    all=words.number(one.totals),
                ),
                words.number(to_three_digits(one.root_mean_square)),
                Markup("{} ({})").format(expected, changed) if changed else expected,
                words.number(to_three_digits(one.largest)),
            )
        )
    return PageTable(words.say("quality.totals"), heads, rows)


def _changed_by_clipping(context: Context, columns: Sequence[ColumnQuality]) -> list[ColumnQuality]:
    """Return the columns in which negative values were replaced by 0."""
    found = []
    for one in columns:
        output = context.facts.query_column(one.table, one.column)
        if output is not None and output.post.non_negative:
            found.append(one)
    return found


def _bias_sentences(
    context: Context, columns: Sequence[ColumnQuality], *, has_table: bool
) -> list[Markup]:
    """Return sentences on columns with a bias upward; `has_table`: whether a table has them."""
    sentences = []
    clipped = _changed_by_clipping(context, columns)
    if clipped:
        titles = [context.names.column(one.column) for one in clipped]
        unique = list(dict.fromkeys(titles))
        shown = Markup(", ").join(unique[:6])
        if len(unique) > 6:
            more = context.words.say("page.more", number=context.words.number(len(unique) - 6))
            shown = Markup("{} {}").format(shown, more)
        name = "quality.bias.lead" if has_table else "quality.bias.unknown"
        sentences.append(context.words.say(name, columns=shown))
    whole = [one.table.query for one in columns if context.facts.is_integer_table(one.table)]
    if whole:
        queries = context.query_titles(whole)
        estimates = context.names.estimates
        sentences.append(
            context.words.say("quality.bias.whole", queries=queries, estimates=estimates)
        )
    return sentences


def _bias_tables(context: Context, columns: Sequence[ColumnQuality]) -> list[PageTable]:
    """Return, for each noise, a table of the bias of small numbers if negatives become 0."""
    words, names = context.words, context.names
    tables: dict[object, PageTable] = {}
    for one in _changed_by_clipping(context, columns):
        mechanism = context.facts.noise_of(one.table, one.column)
        output = context.facts.query_column(one.table, one.column)
        if mechanism is None or output is None or (mechanism, output.step) in tables:
            continue
        step, unit = float(output.step or 1), context.unit_name(one.column.unit)
        rows = [
            context.cells(
                Markup("{} {}").format(words.number(true * step), unit),
                Markup("{} {}").format(words.number(to_three_digits(mean * step)), unit),
            )
            for true, mean in bias_at_zero(mechanism)
        ]
        if rows and len(tables) < 4:
            caption = Markup("{}, {}").format(names.table(one.table), names.column(one.column))
            heads = _table_heads(context, "quality.bias.true", "quality.bias.mean")
            tables[mechanism, output.step] = PageTable(caption, heads, rows)
    return list(tables.values())


def _error_table(
    context: Context, columns: Sequence[ColumnQuality], simulated: SimulatedErrors
) -> PageTable:
    """Return the table of expected and simulated errors, largest difference first."""
    words, names = context.words, context.names
    heads = _table_heads(
        context,
        "quality.head.table",
        "quality.head.column",
        "quality.simulated.error",
        "quality.simulated.found",
        "quality.simulated.coverage",
        "quality.simulated.bias",
    )
    rows: list[list[Markup]] = []
    for one in columns:
        errors = simulated.get((one.table.name, one.column.name))
        if errors is None or errors.error is None or len(rows) >= context.most:
            continue
        bias = max((errors.bias_in(size) for size in errors.classes), key=abs, default=0.0)
        expected = one.expected_error
        rows.append(
            context.cells(
                names.table(one.table),
                names.column(one.column),
                words.number(None if expected is None else to_three_digits(expected)),
                words.number(to_three_digits(errors.error)),
                words.percent(errors.coverage),
                words.number(to_three_digits(bias)),
            )
        )
    return PageTable(words.say("quality.simulated"), heads, rows)
