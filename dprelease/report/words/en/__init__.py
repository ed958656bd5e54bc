"""English texts of the report."""

from __future__ import annotations

from dprelease.report.words.en.other_models_said import OTHER_MODELS
from dprelease.report.words.en.quality_said import QUALITY

DECIMAL = "."
THOUSANDS = ","

SENTENCES: dict[str, str] = {
    # The page
    "page.title": "{title}: privacy and quality report",
    "page.kind": "Privacy and quality report",
    "page.skip": "Skip to the report",
    "page.contents": "Contents",
    "page.rehearsal": (
        "<strong>This is a rehearsal.</strong> Its tables are made from invented people, or from "
        "a public table that stands in for the data. They say nothing about anybody."
    ),
    "page.shortened": (
        "This release is large. Tables and pictures of this page show parts of it and sums over "
        "the rest; the manifest and the published files have everything."
    ),
    "page.made": (
        "Made by {tool} {version} from the release’s published files and its manifest, SHA-256 "
        "{digest}. No value in this page comes from anywhere else."
    ),
    "page.made.here": (
        "Made by {tool} {version} from the published files beside it and their manifest. No value "
        "in this page comes from anywhere else."
    ),
    "page.rehearsed_from": (
        "Simulated errors come from a rehearsal, whose true values are those of invented people "
        "or of a public table."
    ),
    "page.more": "and {number} more",
    "page.scroll": "{title} (table; scrolls sideways in a narrow window)",
    # About
    "about.publisher": "Publisher",
    "about.contact": "Contact",
    "about.licence": "Licence",
    "about.period": "Reference period",
    "about.area": "Area",
    "about.version": "Version",
    "about.replaces": "Replaces",
    "about.methodology": "Methodology",
    "about.tables": "Tables",
    "about.notes": "Notes",
    # The label
    "label.heading": "The label",
    "label.lead": (
        "What this release promises to the people in the data, what it does not, and what that "
        "means, in plain words."
    ),
    "label.who": "Who is protected",
    "label.unit.row": "Each row of {table} by itself",
    "label.unit.id": "All rows of {table} with the same {id} together, such as one person’s",
    "label.add_remove": "that they are in the data at all, and everything that they say",
    "label.replace": (
        "everything that they say. That they are there, and how many there are, is not protected"
    ),
    "label.exact": (
        "Some totals are published exactly, outside of what is promised here. What is promised "
        "holds so: {holds}"
    ),
    "label.against": "Protected against",
    "label.against.words": (
        "Anybody who sees the release, whatever they know from elsewhere: even everything about "
        "everybody else."
    ),
    "label.epsilon": "Epsilon {epsilon}",
    "label.epsilon.words": (
        "How much the data of one protected unit can change what is published: it makes nothing "
        "more than {factor} times as likely, or as unlikely, as it would be otherwise. Smaller is "
        "safer; 0 would publish nothing."
    ),
    "label.delta": "Delta {delta}",
    "label.delta.none": "That limit holds without exception.",
    "label.delta.words": (
        "That limit may fail for events with a probability of {delta} in all: about 1 in {one_in}."
    ),
    "label.rho": "Rho {rho}",
    "label.rho.words": (
        "The same promise, counted as zero-concentrated privacy: the smaller, the safer."
    ),
    "label.gain": "What an attacker can gain",
    "label.gain.guess": (
        "Somebody knows everything about all others and has to guess whether one given unit is in "
        "the data. A coin is right 50{space}% of the time. With this release, the guess is right "
        "at most {right} of the time."
    ),
    "label.gain.guess.replace": (
        "Somebody knows everything about all others and has to guess which of two values one given "
        "unit has. A coin is right 50{space}% of the time. With this release, the guess is right "
        "at most {right} of the time."
    ),
    "label.gain.belief": (
        "Somebody else suspects something about one unit. However true or false it is, the release "
        "raises that belief at most {beliefs}."
    ),
    "label.gain.from_to": "from {prior} to {posterior}",
    "label.gain.but": "Both hold but for the probability that delta names.",
    "label.cost": "What it costs of the budget",
    "label.cost.none": (
        "No lasting budget was charged. Other releases about the same people add to this one, and "
        "nothing here counts them."
    ),
    "label.cost.ledger": (
        "Entry {entry} of the ledger {file} paid for it. The ledger keeps the sum of all releases "
        "about the same people below its limit."
    ),
    "label.cost.part": (
        "{table}: this release took {part} of the budget for one {every}, {begin} to before {end}."
    ),
    "label.cost.whole": (
        "{table}: this release may take the whole budget for one {every}, {begin} to before {end}, "
        "as the first one can."
    ),
    "label.outside": "What is not protected",
    "label.cut": "How much one unit can count",
    "label.cut.all": "No contribution limit leaves out rows.",
    # Pictures of the label
    "belief.title": "How far a belief can rise",
    "belief.caption": (
        "Each line begins where somebody’s belief in a statement about one unit stands before the "
        "release, and ends where it can stand after it at most."
    ),
    "belief.row": "a belief of {prior}",
    "belief.told": "to {posterior} at most",
    "belief.axis": "belief in a statement about one unit",
    "belief.before": "before the release",
    "belief.after": "after it, at most",
    "belief.alt": "From {prior} to at most {posterior}.",
    "trade.title": "Guessing whether a unit is in the data",
    "trade_replace.title": "Guessing which of two values a unit has",
    "trade_replace.caption": (
        "Whoever is seldom wrong about one value is often wrong about the other. No attack is "
        "below the solid line; blind guessing is on the dashed one."
    ),
    "trade.caption": (
        "Whoever raises few false alarms misses many units. No attack is below the solid line; "
        "blind guessing is on the dashed one."
    ),
    "trade.x": "false alarms",
    "trade.y": "units missed, at least",
    "trade.blind": "blind guessing",
    "trade.this": "this release",
    "trade.alt": "With {alarms} false alarms, at least {missed} are missed.",
    # How to read a margin
    "margin.heading": "How to read a margin of error",
    "margin.lead": (
        "Every number of this release has noise that was added on purpose. A margin of error says "
        "how far noise may have moved it. One cell as the example:"
    ),
    "margin.none": (
        "No number of this release has a margin of error of its own: each was chosen among "
        "candidates, or has an error that is not the same everywhere. What was expected stands "
        "below."
    ),
    "margin.cell": "In the table {table}, the cell {cell} has",
    "margin.cell.total": "The table {table} has",
    "margin.value": "{value} {unit}, with a margin of error of {margin}",
    "margin.range": (
        "The number without noise lies between {low} and {high}. Intervals that are made so hold "
        "it in {confidence} of all cells at least."
    ),
    "margin.differ": (
        "Two such cells that differ by less than about {difference} may well be equal without "
        "noise."
    ),
    "margin.only": (
        "The margin is about the noise alone. Errors that the data itself has, as those of "
        "sampling, answers or coding, come on top, and so does what bounds cut off."
    ),
    "margin.zero": (
        "A number whose margin is larger than itself can’t be told from zero. That is no mistake: "
        "it is what protects small groups."
    ),
    "margin.title": "One cell and its margin of error",
    "margin.caption": "The dot is the published number, the line is its margin of error.",
    "margin.alt": "The dot stands at {value}; the line goes from {low} to {high}.",
    "margin.axis": "{column}",
    "margin.axis.unit": "{column}, {unit}",
    **OTHER_MODELS,
    **QUALITY,
    # How it was made
    "made.heading": "How it was made",
    "made.bounds": "Bounds of values",
    "made.bounds.lead": (
        "Declared from public knowledge, never taken from the data. Values outside are set to the "
        "nearer end before anything is added up."
    ),
    "made.bounds.none": "No numbers with bounds are published.",
    "made.head.column": "Column",
    "made.head.bounds": "Bounds",
    "made.head.step": "Step",
    "made.head.treatment": "What happens to other values",
    "made.head.tables": "In the tables",
    "made.range": "{low} to {high} {unit}",
    "made.treatment": "Keys, and values that are missing",
    "made.cut": "What was cut off",
    "made.cut.lead": (
        "By declaration. How many rows or values that were depends on the data, and is told to "
        "nobody."
    ),
    "made.where": "Only rows with",
    "made.noise": "Noise",
    "made.noise.lead": (
        "Whole numbers drawn from these laws were added to whole numbers of steps, without any "
        "error of floating point."
    ),
    "made.head.noise": "Noise",
    "made.head.parameters": "Parameters",
    "made.head.for": "Added to",
    "made.head.counts": "What is counted",
    "made.head.sensitivity": "What one unit moves",
    "made.head.margin": "Margin at 95 %",
    "made.composition": "How the price was added up",
    "made.processing": "What was done after the noise",
    "made.family": "Tables that agree: {name}",
    "made.checks": "Checks",
    "made.checks.lead": (
        "<code>dprelease verify</code> makes the whole manifest again from its declaration and its "
        "noise, and computes the claimed privacy cost again. This does not prove the privacy cost: "
        "<code>dprelease verify --certify</code> does. All of these held:"
    ),
    "made.checks.held": "held",
    "made.checks.notes": "Seen, and not checked:",
    "made.audit": "The audit of this declaration",
    "made.audit.lead": (
        "Before it was published, the release was put to the test on invented tables that differ "
        "in one unit (<code>dprelease audit</code>): how much of what is claimed any pair used, "
        "and which ε many draws of its noise show at least. All of it held; the file audit.json "
        "tells more."
    ),
    "made.audit.untried": "not tried",
    "made.head.pairs": "Pairs",
    "made.head.used": "Used at most",
    "made.head.least": "ε at least",
    "made.checks.later": (
        "This page is a file of the release itself, so it can’t tell how checks of the release "
        "end. Anybody can make them: {command}"
    ),
    "noise.title": "{mechanism}, ± {margin} {unit}",
    "noise.caption": "How many cells have a larger error than the number below the line.",
    "noise.axis": "error, {unit}",
    "noise.axis.y": "cells with a larger error",
    "noise.alt": "Half of all cells have errors above {half}, 5 % above {margin}, 1 % above {far}.",
    "noise.tick": "{part}: {error}",
}
