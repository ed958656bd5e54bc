"""English texts on quality."""

from __future__ import annotations

QUALITY: dict[str, str] = {
    # Quality
    "quality.heading": "How good the numbers are",
    "quality.lead": (
        "Expected errors follow from the noise, before any data was read. Everything else here is "
        "counted from the published, noised tables."
    ),
    "quality.expected": "Expected error",
    "quality.table": "Expected error and what is published, by table",
    "quality.table.part": (
        "The {shown} columns with the widest margins for their size, of {all}; sums of all are in "
        "the table before."
    ),
    "quality.groups": "Sums over all tables of a query",
    "quality.none": "No column of this release is a number with noise.",
    "quality.head.table": "Table",
    "quality.head.column": "Column",
    "quality.head.tables": "Tables",
    "quality.head.cells": "Cells",
    "quality.head.error": "Mean error",
    "quality.head.margin": "Margin of error",
    "quality.head.wide": "Margin above the value",
    "quality.head.limit": "Above the declared limit",
    "quality.head.negative": "Below 0",
    "quality.head.empty": "Left empty",
    "quality.margin": "± {margin}",
    "quality.margin.range": "± {margin} ({least} to {largest})",
    "quality.margin.rows": "± {margin} in a cell of {rows} rows",
    "quality.margin.at": "at {confidence}",
    "quality.limit": "{part} (limit {limit})",
    "quality.limit.relative": "{limit} of the value",
    "quality.ranks": (
        "Chosen values (medians, quantiles, ends, frequent values) have errors in rows: how many "
        "rows lie between what was asked for and what is published."
    ),
    "quality.size": "Margins by the size of a number",
    "quality.size.lead": (
        "The larger a number, the less its noise matters. Rings are columns of single tables, dots "
        "all of them together."
    ),
    "quality.impossible": "Impossible values",
    "quality.impossible.none": "No published number is below 0 where a true one can’t be.",
    "quality.impossible.some": (
        "{number} of {cells} published numbers ({part}) are below 0, which no true one can be. "
        "They are noise around small numbers. Averages and sums of several cells are right because "
        "of them: setting them to 0 would make small groups look larger than they are."
    ),
    "quality.impossible.some.one": (
        "{number} of {cells} published numbers ({part}) is below 0, which no true one can be. It "
        "is noise around a small number. Averages and sums of several cells are right because of "
        "such numbers: setting them to 0 would make small groups look larger than they are."
    ),
    "quality.impossible.fractional": (
        "{number} published estimates of whole numbers are not whole; the whole tables are."
    ),
    "quality.impossible.fractional.one": (
        "{number} published estimate of a whole number is not whole; the whole tables are."
    ),
    "quality.empty.small": (
        "{number} cells were left empty: their noised values are below the declared least."
    ),
    "quality.empty.small.one": (
        "{number} cell was left empty: its noised value is below the declared least."
    ),
    "quality.empty.divided": (
        "{number} cells were left empty: they have hardly any rows by their noised numbers, and "
        "there is nothing to divide by."
    ),
    "quality.empty.divided.one": (
        "{number} cell was left empty: it has hardly any rows by its noised number, and there is "
        "nothing to divide by."
    ),
    "quality.empty.either": (
        "{number} cells were left empty: their noised values are below the declared least, or they "
        "have hardly any rows by their noised numbers, and there is nothing to divide by."
    ),
    "quality.empty.either.one": (
        "{number} cell was left empty: its noised value is below the declared least, or it has "
        "hardly any rows by its noised number, and there is nothing to divide by."
    ),
    "quality.adjusted.one": (
        "{part} of the whole numbers lie outside of their own interval ({number} cell): there, "
        "adding up took precedence."
    ),
    "quality.adjusted": (
        "{part} of the whole numbers lie outside of their own interval ({number} cells): there, "
        "adding up took precedence."
    ),
    "quality.totals": "Totals that disagree",
    "quality.totals.lead": (
        "What finer tables add up to, beside what coarser ones say themselves. Noise alone makes "
        "the expected difference."
    ),
    "quality.totals.none": "No table of this release adds up to another one.",
    "quality.totals.agree": "All {number} comparisons of tables agree exactly.",
    "quality.totals.agree.one": "The one comparison of tables agrees exactly.",
    "quality.totals.left": "{number} more pairs of tables were not compared here.",
    "quality.totals.left.one": "{number} more pair of tables was not compared here.",
    "quality.totals.finer": "Finer table",
    "quality.totals.coarser": "Coarser table",
    "quality.totals.differ": "Totals that differ",
    "quality.totals.typical": "Typical difference",
    "quality.totals.expected": "Expected from noise",
    "quality.totals.largest": "Largest",
    "quality.totals.changed": "values were cut or rounded after the noise",
    "quality.totals.of": "{number} of {all}",
    "quality.totals.why": (
        "A typical difference well above the expected one has another cause: rows without a value "
        "of the finer table’s further keys, bounds on what a person counts, or what was done to "
        "values after the noise."
    ),
    "quality.bias": "Bias by size",
    "quality.bias.lead": (
        "Numbers below 0 are published as 0 in {columns}. That lifts small numbers on average, by "
        "so much:"
    ),
    "quality.bias.unknown": (
        "Numbers below 0 are published as 0 in {columns}. That lifts small numbers on average."
    ),
    "quality.bias.true": "A true value of",
    "quality.bias.mean": "is published too high by",
    "quality.bias.none": "No column is lifted or lowered by what was done after the noise.",
    "quality.bias.whole": (
        "Whole tables never go below 0, so small numbers are lifted and large ones lowered. The "
        "estimates beside them are without bias: use these for sums that the release does not "
        "publish."
    ),
    "quality.simulated": "Simulated error",
    "quality.simulated.lead": (
        "The same release was rehearsed on people who don’t exist, so that published numbers could "
        "be compared with true ones."
    ),
    "quality.simulated.none": (
        "No rehearsal was given. <code>dprelease rehearse</code> runs the release on invented "
        "people, and its report compares published numbers with true ones."
    ),
    "quality.simulated.error": "Mean error, expected",
    "quality.simulated.found": "Mean error, simulated",
    "quality.simulated.coverage": "Margins that reach the truth",
    "quality.simulated.bias": "Largest bias of a size class",
    # Pictures of quality
    "errors.title": "Margins of error by table: {unit}",
    "errors.caption": "Each dot is the margin of error of a cell.",
    "errors_range.title": "Margins of error by table: {unit}",
    "errors_range.caption": (
        "Each dot is the margin of error of a cell; a line goes from the best to the worst area of "
        "a table, or table of a query."
    ),
    "errors.axis": "margin of error, {unit}",
    "errors.alt": "{rows}.",
    "errors.alt.row": "{name}: {told}",
    "errors.unit.none": "no unit",
    "size.title": "Margins against sizes: {unit}",
    "size.caption": "The mean margin of error of cells of a size, as a part of the value.",
    "size.axis": "margin of error, part of the value",
    "size.row": "{low} to below {high}",
    "size.row.first": "below {high}",
    "size.told": "{cells} cells, {part}",
    "size.told.one": "{cells} cell, {part}",
    "size.alt": "{rows}.",
    "size.ring": "one column of one table",
    "size.dot": "all together",
    "simulated.title": "Error by size, simulated: {unit}",
    "simulated.caption": "Mean error of cells by the size of their true value.",
    "simulated.axis": "mean error, {unit}",
    "simulated.dot": "simulated",
    "simulated.ring": "expected",
    "simulated.told": "{cells} cells, {error}",
    "simulated.told.one": "{cells} cell, {error}",
    "bias.title": "Bias by size, simulated: {unit}",
    "bias.caption": (
        "The mean of published less true values, by size of the true value. Lines reach as far as "
        "chance alone would; one that crosses the tick at 0 shows no bias."
    ),
    "bias.axis": "published less true, {unit}",
    "bias.told": "{bias}",
}
