"""Words on contribution limits and companions for the labels of columns, in seven languages.

A number from which limits may leave out rows is not what its name says: "visits" are visits after
contribution limits. So its label states the limits, and the label of its margin states that the
margin is about the number after these limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TypeVar

from dprelease.errors.printable import one_line
from dprelease.numerics.rounding import plain_text
from dprelease.planning.bounded_words import CuttingLimits
from dprelease.query.aggregates.aggregate import DAYS, IDS, ROWS, SECONDS
from dprelease.query.quality import QUALITY_WORDS

WORDS: dict[str, dict[str, str]] = {
    "moe": {
        "en": "margin of error", "de": "Fehlerspanne", "fr": "marge d’erreur",
        "es": "margen de error", "it": "margine di errore", "nl": "foutmarge",
        "pt": "margem de erro",
    },
    "se": {
        "en": "standard error", "de": "Standardfehler", "fr": "erreur type",
        "es": "error estándar", "it": "errore standard", "nl": "standaardfout",
        "pt": "erro padrão",
    },
    "lower": {
        "en": "lower bound", "de": "Untergrenze", "fr": "borne inférieure",
        "es": "límite inferior", "it": "limite inferiore", "nl": "ondergrens",
        "pt": "limite inferior",
    },
    "upper": {
        "en": "upper bound", "de": "Obergrenze", "fr": "borne supérieure",
        "es": "límite superior", "it": "limite superiore", "nl": "bovengrens",
        "pt": "limite superior",
    },
    "adjusted": {
        "en": "adjusted", "de": "angepasst", "fr": "ajusté", "es": "ajustado", "it": "corretto",
        "nl": "aangepast", "pt": "ajustado",
    },
    "label": {
        "en": "in words", "de": "in Worten", "fr": "en toutes lettres", "es": "en palabras",
        "it": "in parole", "nl": "in woorden", "pt": "por extenso",
    },
    "quality": QUALITY_WORDS,
    "total": {
        "en": "total", "de": "insgesamt", "fr": "total", "es": "total", "it": "totale",
        "nl": "totaal", "pt": "total",
    },
    "measure": {
        "en": "measure", "de": "Kennzahl", "fr": "indicateur", "es": "indicador",
        "it": "indicatore", "nl": "indicator", "pt": "indicador",
    },
    "code": {
        "en": "code", "de": "Code", "fr": "code", "es": "código", "it": "codice", "nl": "code",
        "pt": "código",
    },
    "estimates": {
        "en": "estimates", "de": "Schätzwerte", "fr": "estimations", "es": "estimaciones",
        "it": "stime", "nl": "schattingen", "pt": "estimativas",
    },
    "measurements": {
        "en": "measurements", "de": "Messwerte", "fr": "mesures", "es": "mediciones",
        "it": "misure", "nl": "metingen", "pt": "medições",
    },
    "records": {
        "en": "records", "de": "Datensätze", "fr": "enregistrements", "es": "registros",
        "it": "record", "nl": "records", "pt": "registos",
    },
}  # fmt: skip
"""Words for companion columns, by the ending of the column's name, then by language.

`total`, `measure` and `code` are words for other columns of tables and cubes; `estimates`,
`measurements` and `records` are those for tables of one family, by their folder.
"""


def companion_word(ending: str, language: str) -> str:
    """Return the word for a companion in a language, in English if it has none there."""
    words = WORDS.get(ending, {})
    return words.get(language.partition("-")[0], words.get("en", ending))


def companion_label(label: Mapping[str, str], ending: str) -> dict[str, str]:
    """Return the label of a companion column from the label of its value column, by language.

    If the value column has no label, the result is empty. In a language without words for the
    companion, and without a declared language, they are English.
    """
    return {tag: f"{text}, {companion_word(ending, tag)}" for tag, text in label.items()}


Words = TypeVar("Words")

ENGLISH = "en"
"""The language of the words if a release declares no languages, or has no words for one."""

AT_MOST = {
    "en": "at most {most} per {unit}", "de": "höchstens {most} je {unit}",
    "fr": "au plus {most} par {unit}", "es": "como máximo {most} por {unit}",
    "it": "al massimo {most} per {unit}", "nl": "hoogstens {most} per {unit}",
    "pt": "no máximo {most} por {unit}",
}  # fmt: skip

IN_AT_MOST = {
    "en": "in at most {most} per {unit}", "de": "in höchstens {most} je {unit}",
    "fr": "dans au plus {most} par {unit}", "es": "en como máximo {most} por {unit}",
    "it": "in al massimo {most} per {unit}", "nl": "in hoogstens {most} per {unit}",
    "pt": "em no máximo {most} por {unit}",
}  # fmt: skip
"""The words for numbers of units, of which each may count in several cells."""

ONCE = {
    "en": "counted at most once per {unit}", "de": "höchstens einmal je {unit} gezählt",
    "fr": "au plus une fois par {unit}", "es": "como máximo una vez por {unit}",
    "it": "al massimo una volta per {unit}", "nl": "hoogstens één keer per {unit} geteld",
    "pt": "no máximo uma vez por {unit}",
}  # fmt: skip
"""The words for numbers of rows of which each unit has one: often the rows are the units."""

SUMS_CLIPPED = {
    "en": "sums clipped at {most} per {unit}", "de": "Summen auf {most} je {unit} begrenzt",
    "fr": "sommes plafonnées à {most} par {unit}", "es": "sumas limitadas a {most} por {unit}",
    "it": "somme limitate a {most} per {unit}", "nl": "sommen begrensd op {most} per {unit}",
    "pt": "somas limitadas a {most} por {unit}",
}  # fmt: skip
"""The words for `max_sum`."""

CHOSEN = {
    "en": "limit chosen privately", "de": "Grenze mit Datenschutz gewählt",
    "fr": "limite choisie de façon confidentielle", "es": "límite elegido de forma privada",
    "it": "limite scelto in modo riservato", "nl": "grens met privacybescherming gekozen",
    "pt": "limite escolhido de forma privada",
}  # fmt: skip
"""What a label adds if the release chose a limit privately."""

ROW_NOUNS = {
    "en": ("row", "rows"), "de": ("Zeile", "Zeilen"), "fr": ("ligne", "lignes"),
    "es": ("fila", "filas"), "it": ("riga", "righe"), "nl": ("rij", "rijen"),
    "pt": ("linha", "linhas"),
}  # fmt: skip

CELL_NOUNS = {
    "en": ("cell", "cells"), "de": ("Zelle", "Zellen"), "fr": ("cellule", "cellules"),
    "es": ("celda", "celdas"), "it": ("cella", "celle"), "nl": ("cel", "cellen"),
    "pt": ("célula", "células"),
}  # fmt: skip
"""The nouns for one and for several rows, or cells of a table, which are its groups."""

UNIT_NOUNS = {
    ROWS: ROW_NOUNS,
    DAYS: {
        "en": ("day", "days"), "de": ("Tag", "Tage"), "fr": ("jour", "jours"),
        "es": ("día", "días"), "it": ("giorno", "giorni"), "nl": ("dag", "dagen"),
        "pt": ("dia", "dias"),
    },
    SECONDS: {
        "en": ("second", "seconds"), "de": ("Sekunde", "Sekunden"), "fr": ("seconde", "secondes"),
        "es": ("segundo", "segundos"), "it": ("secondo", "secondi"),
        "nl": ("seconde", "seconden"), "pt": ("segundo", "segundos"),
    },
}  # fmt: skip
"""The nouns for units that no declaration names: those of counts, and of steps of times."""

COUNT_CONFIDENCE = {
    "en": "{confidence} % confidence about the count after contribution limits",
    "de": "{confidence} % Konfidenz für die Anzahl nach den Beitragsgrenzen",
    "fr": "confiance de {confidence} % pour le nombre après les limites de contribution",
    "es": "confianza del {confidence} % sobre el número tras los límites de contribución",
    "it": "confidenza del {confidence} % sul numero dopo i limiti di contributo",
    "nl": "{confidence} % betrouwbaarheid voor het aantal na de bijdragelimieten",
    "pt": "confiança de {confidence} % sobre o número após os limites de contribuição",
}

VALUE_CONFIDENCE = {
    "en": "{confidence} % confidence about the value after contribution limits",
    "de": "{confidence} % Konfidenz für den Wert nach den Beitragsgrenzen",
    "fr": "confiance de {confidence} % pour la valeur après les limites de contribution",
    "es": "confianza del {confidence} % sobre el valor tras los límites de contribución",
    "it": "confidenza del {confidence} % sul valore dopo i limiti di contributo",
    "nl": "{confidence} % betrouwbaarheid voor de waarde na de bijdragelimieten",
    "pt": "confiança de {confidence} % sobre o valor após os limites de contribuição",
}


def label_with_limits(
    label: Mapping[str, str], limits: CuttingLimits, unit: Mapping[str, str]
) -> dict[str, str]:
    """Return the label of a value column, followed by its contribution limits, by language.

    `unit`: the name of the privacy unit in each language. Visits of patients who count with two
    rows in three groups get "Visits, at most 3 x 2 per patient"; a sum gets "3 x 2 rows", and a
    number of patients "in at most 3 cells". If patients count with one row, visits get "counted at
    most once per patient". A sum whose `max_sum` is 500 also gets "sums clipped at 500 per
    patient". If patients count with 5 rows in all groups together, the labels have "5 (3 x 2)" and
    "5 (3 x 2) rows", or without other limits "5" and "5 rows". A label says so if the release chose
    one of its limits privately.
    """
    labels = {}
    for tag, text in label.items():
        most = _most_text(limits, tag)
        template = IN_AT_MOST if limits.counted == IDS else ONCE if most == "1" else AT_MOST
        words = in_language(template, tag).format(most=most, unit=one_line(unit[tag]))
        chosen = f" ({in_language(CHOSEN, tag)})" if limits.chosen else ""
        labels[tag] = f"{text}, {words}{chosen}{_clipping_text(limits, tag, unit)}"
    return labels


def label_with_confidence(
    label: Mapping[str, str], limits: CuttingLimits, confidence: str, unit: Mapping[str, str]
) -> dict[str, str]:
    """Return the label of a margin, followed by its confidence and by what it is about."""
    words = COUNT_CONFIDENCE if limits.counted else VALUE_CONFIDENCE
    percent = plain_text(100 * Fraction(confidence))
    labels = {}
    for tag, text in label.items():
        sentence = in_language(words, tag)
        # English is the only one of the seven languages that writes decimals with a point.
        number = percent if sentence is words[ENGLISH] else percent.replace(".", ",")
        clipped = _clipping_text(limits, tag, unit)
        labels[tag] = f"{text}, {sentence.format(confidence=number)}{clipped}"
    return labels


def _clipping_text(limits: CuttingLimits, tag: str, unit: Mapping[str, str]) -> str:
    """Return a text on the limit of the sums of privacy units; empty without such a limit."""
    if limits.clipped_sum is None:
        return ""
    words, number = in_language(SUMS_CLIPPED, tag), plain_text(limits.clipped_sum)
    number = number if words is SUMS_CLIPPED[ENGLISH] else number.replace(".", ",")
    return f", {words.format(most=number, unit=one_line(unit[tag]))}"


def _most_text(limits: CuttingLimits, tag: str) -> str:
    """Return how often a privacy unit counts at most: "3 x 2", "3 x 2 rows" or "3 cells"."""
    if limits.counted == IDS:
        return number_of(limits.groups, CELL_NOUNS, tag)
    product = f"{limits.groups} x {limits.rows}" if limits.groups > 1 else str(limits.rows)
    if limits.total is not None:
        product = f"{limits.total} ({product})" if limits.has_others else str(limits.total)
    if limits.counted == ROWS:
        return product
    one, several = in_language(ROW_NOUNS, tag)
    return f"{product} {one if product == '1' else several}"


def number_of(number: int, nouns: Mapping[str, tuple[str, str]], tag: str) -> str:
    """Return a number with its noun: "1 row" or "3 rows"."""
    one, several = in_language(nouns, tag)
    return f"{number} {one if number == 1 else several}"


def in_language(words: Mapping[str, Words], tag: str) -> Words:
    """Return the words in the language of a tag such as de-AT; English if there are none."""
    return words.get(tag.partition("-")[0], words[ENGLISH])
