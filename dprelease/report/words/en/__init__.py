"""English texts of the report."""

from dprelease.report.words.en.other_models import OTHER_MODELS
from dprelease.report.words.en.quality import QUALITY

DECIMAL = "."
THOUSANDS = ","

SENTENCES: dict[str, str] = {
    # The page
    "page.kind": "Statistics with protected personal data",
    "page.skip": "Skip to the numbers",
    "page.contents": "Contents",
    "page.rehearsal": (
        "<strong>This is a rehearsal.</strong> Its tables are made from invented people, or from "
        "a public table that stands in for the data. They describe nobody."
    ),
    "page.shortened": (
        "This release is large. The annex sums up its columns; the manifest and the published "
        "files have everything."
    ),
    "page.made": (
        "Made by {tool} {version} from the published files of the release and its manifest, "
        "SHA-256 {digest}. Every number on this page is published in the release, declared, or "
        "computed from the distribution of the noise."
    ),
    "page.made.here": (
        "Made by {tool} {version} from the published files in the same folder and their manifest. "
        "Every number on this page is published in the release, declared, or computed from the "
        "distribution of the noise."
    ),
    "page.rehearsed_from": (
        "The errors that were found come from a rehearsal, whose true values are those of invented "
        "people or of a public table."
    ),
    "page.more": "and {number} more",
    "page.scroll": "{title} (table; scrolls sideways in a narrow window)",
    "page.scroll.picture": "{title}, picture {number} (scrolls sideways in a narrow window)",
    # About
    "about.contact": "Contact",
    "about.licence": "Licence",
    "about.period": "Reference period",
    "about.area": "Area",
    "about.version": "Version",
    "about.replaces": "Replaces",
    "about.methodology": "Methodology",
    "about.notes": "Notes",
    # The numbers
    "numbers.heading": "The numbers",
    "numbers.lead": (
        "Random amounts (“noise”) were added to the numbers, so that they reveal hardly anything "
        "about any one {unit}. So each number has a range, or a margin of error written with “±”: "
        "how far the noise may have moved it. In pictures, a bar is the published number and a "
        "thin line its range. Don’t quote faded numbers, at most their ranges."
    ),
    "numbers.reading": "How to compare numbers",
    "numbers.reading.parts": (
        "The noise differs from number to number. So a part can be larger than its whole, and "
        "tables can contradict each other within their ranges."
    ),
    "numbers.reading.agree": "The tables of {queries} add up exactly.",
    "numbers.reading.whole": (
        "The tables of {queries} add up exactly: take single numbers and totals from them. Only "
        "for sums of your own, for instance of several areas, add up the numbers of the tables "
        "whose title ends with “({estimates})”: these were not raised or lowered."
    ),
    "numbers.reading.misses": (
        "About 1 in {one_in} ranges does not contain the number without noise."
    ),
    "numbers.reading.differ": "Two numbers differ clearly only if their ranges do not overlap.",
    "numbers.reading.sums": (
        "If you add up numbers, the margin of error of the sum is usually larger than theirs."
    ),
    "numbers.reading.limits": (
        "Margins of error, ranges and quality classes are about the noise alone: they do not "
        "contain what limits leave out."
    ),
    "numbers.negative": "Numbers below 0 come from noise: read them as few or none.",
    "numbers.raised": (
        "Small numbers were raised and large ones lowered a little, so that none is below 0 and "
        "all add up."
    ),
    "numbers.full_range": (
        "The range {range} says nothing: it is as wide as the bounds. Don’t quote it."
    ),
    "unit.record": "record",
    "unit.any": "protected unit",
    "numbers.legend": "Quality of each number",
    "numbers.interval": "{low} to {high}",
    "numbers.all": "Table",
    "numbers.largest": "The {shown} of {all} rows with the largest {column}.",
    "numbers.surest": "The {shown} of {all} rows with the narrowest ranges of {column}.",
    "numbers.heat.left": (
        "{number} further rows with smaller numbers are in the published file. A stronger "
        "colour means a larger number."
    ),
    "numbers.heat.left.one": (
        "{number} further row with smaller numbers is in the published file. A stronger "
        "colour means a larger number."
    ),
    "numbers.heat.first": (
        "{number} further rows are in the published file. A stronger colour means a larger number."
    ),
    "numbers.heat.first.one": (
        "{number} further row is in the published file. A stronger colour means a larger number."
    ),
    "numbers.heat": "A stronger colour means a larger number.",
    "numbers.class.first": "below {high}",
    "numbers.class": "{low} to below {high}",
    "numbers.distribution": "{column}: how many of the {all} published numbers are …",
    "numbers.columns.alt": "{columns}",
    "numbers.table": "Open the table with margins of error ({number} rows)",
    "numbers.table.one": "Open the table with margins of error ({number} row)",
    "numbers.rest.all": "The published file is {file}.",
    "numbers.rest.some": "The table shows the first {shown} of {all} rows; all are in {file}.",
    "numbers.rest.largest": (
        "The table shows {shown} of the rows with the largest numbers; all {all} rows are in "
        "{file}."
    ),
    "numbers.limited.figures": (
        "A figure whose name states a limit does not count what is above it, so it can be too low."
    ),
    "numbers.limited": (
        "Limit for each {id}: {limit}. What is above it is left out, so counts can be too low, and "
        "other numbers too low or too high; no margin covers this."
    ),
    "limit.rows": "at most {number} rows",
    "limit.rows.one": "at most {number} row",
    "limit.cells": "in at most {number} cells",
    "limit.cells.one": "in at most {number} cell",
    "limit.in_cells": "counted {cells} (by {keys})",
    "limit.per_cell": "{rows} per cell, {cells} (by {keys})",
    "limit.per_cell.total": "{total}, and {rows} per cell, {cells} (by {keys})",
    "numbers.bounded": (
        "These counts and sums need not add up with those of other tables; the section on quality "
        "says why."
    ),
    "numbers.head.margin": "Margin or interval at {confidence}",
    "numbers.head.quality": "Quality",
    "numbers.others": "Further tables of this release",
    "numbers.others.open": "List the tables without a picture",
    "numbers.other": "{title}: {number} rows, in {file}",
    "numbers.other.one": "{title}: {number} row, in {file}",
    # The label
    "label.heading": "Privacy",
    "label.lead": (
        "What this release guarantees to the people in the data, and what an attacker can still "
        "learn."
    ),
    "label.who": "Who is protected",
    "label.unit.row": "Each row of {table}",
    "label.unit.id": "All records of the same {id}",
    "label.add_remove": (
        "Protected are whether somebody is in the data at all, and everything that the data says "
        "about them."
    ),
    "label.replace": (
        "Protected is everything that the data says about somebody. Not protected are whether they "
        "are in the data, and how many people are in it."
    ),
    "label.exact": (
        "Some totals are published exactly, outside of the guarantee. The guarantee has this form: "
        "{holds}"
    ),
    "label.against.words": (
        "The guarantee holds against everybody who sees the release, whatever else they know: even "
        "if they know everything about all other people."
    ),
    "label.amount": "How strong the guarantee is",
    "label.epsilon": "Epsilon {epsilon}",
    "label.epsilon.words": (
        "The data of one protected unit makes any published result at most {factor} times as "
        "likely, or as unlikely. A smaller epsilon protects more."
    ),
    "label.delta": "Delta {delta}",
    "label.delta.none": "That limit holds without exception.",
    "label.delta.words": (
        "That limit may fail for events with a probability of {delta} in total: about 1 in "
        "{one_in}."
    ),
    "label.rho": "Rho {rho}",
    "label.rho.words": (
        "The same guarantee as zero-concentrated differential privacy. A smaller rho protects more."
    ),
    "label.rho.delta": (
        "It does not hold for events with a probability of {delta} in total, such as the "
        "publication of a group that contains only one protected unit."
    ),
    "label.gain": "What an attacker gains",
    "label.gain.guess": (
        "An attacker who knows everything about all other people, and who guesses whether one "
        "given {unit} is in the data, is right at most {right} of the time. Without the release, a "
        "coin is right 50{space}% of the time."
    ),
    "label.gain.guess.replace": (
        "An attacker who knows everything about all other people, and who guesses which of two "
        "values one given {unit} has, is right at most {right} of the time. Without the release, a "
        "coin is right 50{space}% of the time."
    ),
    "label.gain.belief": (
        "An attacker who suspects something about one {unit} can become more certain, but only up "
        "to a limit:"
    ),
    "label.gain.but": "Both statements may fail with the probability delta.",
    "label.cost": "What it costs of the privacy budget",
    "label.cost.none": (
        "The release was not charged to a ledger. Other releases about the same people weaken the "
        "guarantee, and this release does not count them."
    ),
    "label.cost.ledger": (
        "The release is entry {entry} of the ledger {file}, which keeps the sum of all releases "
        "about the same people below its limit."
    ),
    "label.cost.part": (
        "{table}: the release used {part} of the budget for one {every}, from {begin} to before "
        "{end}."
    ),
    "label.cost.whole": (
        "{table}: the release may use the whole budget for one {every}, from {begin} to before "
        "{end}, as a first release can."
    ),
    "label.outside": "What is not protected",
    "label.cut": "How much one {unit} can count",
    "label.cut.tables": "For each {id}: {limit}. Tables: {tables}.",
    "label.cut.all": "No contribution limit leaves out rows.",
    "belief.title": "How much a suspicion can grow",
    "belief.caption": (
        "Each bar starts at the probability that an attacker assumes before the release, and ends "
        "at the highest probability that the release can justify. The grey line goes to 100 %."
    ),
    "belief.row": "from {prior} to at most {posterior}",
    # How to read a margin
    "margin.heading": "How to read a margin of error",
    "margin.lead": "One number of this release as an example:",
    "margin.none": (
        "No number of this release has a margin of error: each was selected among candidates, or "
        "has an error that differs from cell to cell. The annex shows expected errors."
    ),
    "margin.cell": "In the table {table}, the cell {cell} has",
    "margin.cell.total": "The table {table} has",
    "margin.value": "{value}{unit}, with a margin of error of {margin}",
    "margin.value.range": "{value}{unit}, with a range of {low} to {high}",
    "margin.uneven": "The ends of a range need not be equally far from the number.",
    "margin.uneven.whole": (
        "The ends of the range need not be equally far from the number: small numbers were raised "
        "and large ones lowered a little, so that none is below 0 and all add up."
    ),
    "margin.range.none": (
        "With {confidence} confidence, the value before noise is between {low} and {high}."
    ),
    "margin.range.limits": (
        "With {confidence} confidence, the count after contribution limits is between {low} and "
        "{high}. Rows above the limits are not in it."
    ),
    "margin.range.bounds": (
        "With {confidence} confidence, the result from values within the declared bounds is "
        "between {low} and {high}. Values outside of the bounds count as the nearest bound."
    ),
    "margin.range.both": (
        "With {confidence} confidence, the result after contribution limits, from values within "
        "the declared bounds, is between {low} and {high}."
    ),
    "margin.only": (
        "The margin covers the noise only. Other errors come in addition: those of sampling, of "
        "answers and of coding, and what limits and bounds cut off."
    ),
    "margin.zero": (
        "A number that is smaller than its margin may as well be zero. This is intended: it "
        "protects small groups."
    ),
    "margin.alt": "{value}, with an interval from {low} to {high}",
    "margin.axis": "{column}",
    "margin.axis.unit": "{column}, {unit}",
    **OTHER_MODELS,
    **QUALITY,
    # How it was made
    "made.heading": "Annex: method, noise and checks",
    "made.lead": "For experts: how the numbers were made, and what was checked.",
    "made.bounds": "Bounds of values",
    "made.bounds.lead": (
        "The publisher declares that these bounds come from public knowledge and not from the "
        "data. Values outside are set to the nearest bound before anything is added up."
    ),
    "made.bounds.none": "No numbers with bounds are published.",
    "made.head.column": "Column",
    "made.head.bounds": "Bounds",
    "made.head.step": "Step",
    "made.head.treatment": "What happens to other values",
    "made.head.tables": "In the tables",
    "made.range": "{low} to {high} {unit}",
    "made.treatment": "Keys and missing values",
    "made.cut": "Which rows count",
    "made.cut.lead": (
        "As declared. How many rows or values are left out depends on the data, and is not "
        "published."
    ),
    "made.where": "Only rows with",
    "made.noise": "Noise",
    "made.noise.lead": (
        "Random integers with these distributions were added to integers of steps, without "
        "floating-point errors. For selected values such as medians and the ends of their "
        "intervals, the margin is the largest distance from the true rank in rows, not in the unit "
        "of the column: what a published median may be off is in its interval."
    ),
    "made.head.noise": "Noise",
    "made.head.parameters": "Parameters",
    "made.head.for": "Added to",
    "made.head.counts": "What is counted",
    "made.head.sensitivity": "What one unit changes",
    "made.head.margin": "Margin at 95 %",
    "made.composition": "How the privacy cost was added up",
    "made.processing": "What was done after the noise",
    "made.family": "Consistent tables: {name}",
    "made.checks": "Checks",
    "made.checks.lead": (
        "<code>dprelease verify</code> computed the manifest again from its declaration and its "
        "noise, and the privacy cost by a second method. This does not prove the privacy cost: "
        "<code>dprelease verify --certify</code> does. All of these checks passed:"
    ),
    "made.checks.held": "passed",
    "made.checks.notes": "Found, and not checked:",
    "made.audit": "The audit of this declaration",
    "made.audit.lead": (
        "Before publication, the release was tested on invented tables that differ in one unit "
        "(<code>dprelease audit</code>): which share of each claimed sensitivity any pair of "
        "tables used, and which ε many draws of the noise prove at least. No claim was exceeded; "
        "details are in the file audit.json."
    ),
    "made.audit.untried": "not tried",
    "made.head.pairs": "Pairs",
    "made.head.used": "Used at most",
    "made.head.least": "ε at least",
    "made.checks.later": (
        "This page is a file of the release itself, so it can’t contain the results of checks of "
        "the release. Anybody can check it with {command}."
    ),
}
