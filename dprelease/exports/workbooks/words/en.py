"""The texts of workbooks in English."""

DECIMAL = "."

WORDS = {
    "cover": "Cover",
    "contents": "Contents",
    "notes": "Notes",
    "annex": "Annex",
    "table": "Table",
    "worksheet": "Worksheet",
    "title": "Title",
    "row": "Row",
    "in_all": "in all",
    "by": "by {keys}",
    "column": "Column",
    "text": "Text",
    "notes_title": "Signs, classes, and notes on the tables",
    "annex_title": "Technical details, in English",
    "one_table": "This worksheet contains one table.",
    "estimates": "Estimates",
    "estimates_meaning": (
        "These are estimates, with decimals, and they may be below 0. Use them only for sums of "
        "your own, for instance of several areas. Take single numbers and totals from the file "
        "{file}, where small numbers were raised and large ones lowered a little."
    ),
    "official_meaning": (
        "Take single numbers and totals from this file. Only for sums of your own, for instance "
        "of several areas, add up the estimates in the file {file}: these were not raised or "
        "lowered."
    ),
    "about": "About this publication",
    "publisher": "Published by: {text}",
    "contact": "Contact: {text}",
    "licence": "Licence: {text}",
    "period": "Reference period: {text}",
    "area": "Area: {text}",
    "version": "Version: {text}",
    "replaces": "Replaces: {text}",
    "methodology": "Methodology: {text}",
    "protected": "Who is protected",
    "protected_rows": "Each record of the data is protected by itself.",
    "protected_ids": "Each “{id}” is protected, with all its records together.",
    "limits": (
        "Limit for each “{id}”: at most {rows} per cell, in at most {groups} of a table. What is "
        "above it is left out: counts can be too low, other numbers too low or too high. No "
        "margin of error covers this. Tables: {sheets}."
    ),
    "limits_of_all_rows": (
        "Limit for each “{id}”: at most {total} of a table. What is above it is left out: counts "
        "can be too low, other numbers too low or too high. No margin of error covers this. "
        "Tables: {sheets}."
    ),
    "limits_of_people": (
        "Each “{id}” counts in at most {groups} of a table. What is above it is left out: counts "
        "can be too low. No margin of error covers this. Tables: {sheets}."
    ),
    "guarantee": "How the protection works",
    "noise": (
        "Random noise was added to the numbers before publication. No number is exact, and small "
        "numbers are less certain, in proportion, than large ones."
    ),
    "guess": (
        "The noise limits what these numbers can reveal about anyone: whoever considers a "
        "statement about someone {prior} % likely can consider it at most {posterior} % likely "
        "after reading all numbers."
    ),
    "parameters": (
        "This is differential privacy with epsilon = {epsilon} and delta = {delta}; delta is about "
        "the probability that the limit does not hold."
    ),
    "exact": "Published exactly, without noise and outside of this protection: {names}.",
    "reading": "How to read the numbers",
    "margin": (
        "Margin of error: with {confidence} % confidence, the number without noise is at most this "
        "far from the published number."
    ),
    "interval": (
        "Lower and upper bound: with {confidence} % confidence, the number without noise lies "
        "between them."
    ),
    "range": (
        "The range of a number goes from its lower to its upper bound, or from the number minus "
        "its margin of error to the number plus this margin."
    ),
    "parts": (
        "The noise differs from number to number. So a part can be larger than its whole, and "
        "tables can contradict each other within their ranges."
    ),
    "misses": "About 1 in {one_in} ranges does not contain the number without noise.",
    "differ": "Two numbers differ clearly only if their ranges do not overlap.",
    "sums": "If you add up numbers, the margin of error of the sum is usually larger than theirs.",
    "negative": "Numbers below 0 come from noise: read them as few or none.",
    "raised": (
        "Small numbers were raised and large ones lowered a little, so that none is below 0 and "
        "all add up."
    ),
    "adjusted": (
        "“{column}” marks numbers that were moved out of their own range so that all add up, or "
        "that have no whole number from 0 up within their margin. Don’t quote them."
    ),
    "full_range": (
        "The range {low} to {high} says nothing: it is as wide as the bounds. Don’t quote it."
    ),
    "classes": "Quality classes next to the numbers, and signs in cells without a number:",
    "weak": "Don’t quote numbers in grey italics, at most their ranges.",
    "own_noise": (
        "Totals are measured separately, with noise and limits of their own: the parts need not "
        "add up to them."
    ),
    "bounded": (
        "{tables}: the counts and sums of these tables need not add up, even without noise. "
        "Limits apply to each table separately, so a record that one leaves out may be in another."
    ),
    "no_row": "no row of the table belongs to this cell.",
    "total_code": "Code “{code}”: total.",
    "further": "Technical details are on the last sheet, “{annex}”.",
}
