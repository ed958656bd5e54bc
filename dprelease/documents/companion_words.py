"""What stands beside a value, in words: the label of such a column is the value's, and these."""

from __future__ import annotations

from collections.abc import Mapping

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
    "unreliable": {
        "en": "unreliable", "de": "unzuverlässig", "fr": "peu fiable", "es": "poco fiable",
        "it": "poco affidabile", "nl": "onbetrouwbaar", "pt": "pouco fiável",
    },
    "adjusted": {
        "en": "adjusted", "de": "angepasst", "fr": "ajusté", "es": "ajustado", "it": "corretto",
        "nl": "aangepast", "pt": "ajustado",
    },
    "label": {
        "en": "in words", "de": "in Worten", "fr": "en toutes lettres", "es": "en palabras",
        "it": "in parole", "nl": "in woorden", "pt": "por extenso",
    },
}  # fmt: skip
"""By the ending of the column's name, then by language."""


def label_beside(label: Mapping[str, str], ending: str) -> dict[str, str]:
    """Return the label of what stands beside a column, by that column's; empty if it has none.

    In a language without words for it, it is told by the ending of its name.
    """
    words = WORDS.get(ending, {})
    return {
        tag: f"{text}, {words.get(tag.partition('-')[0], ending)}" for tag, text in label.items()
    }
