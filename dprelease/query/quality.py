"""Quality codes of published values: how far a value may be quoted, or why a cell is empty.

A code follows from published numbers alone: from the value, the ends of its interval and the
declared limits. So it has no privacy cost, and a reader can compute it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dprelease.numerics.lattice import Flags, Floats
from dprelease.numerics.rounding import plain_text
from dprelease.schema.column_spec import DEFAULT_CONFIDENCE
from dprelease.schema.release_parts.limits import QUALITY_LIMITS

RELIABLE: Final = ("A", "B", "C")
"""Codes of values that may be quoted, each with its own limit."""

UNRELIABLE: Final = "D"
AT_BOUND: Final = "at_bound"
UNSURE_DIVISOR: Final = "unsure_divisor"
SUPPRESSED: Final = "unreliable"
FEW_PEOPLE: Final = "few_people"
UNDEFINED: Final = "undefined"

CODES: Final = (
    *RELIABLE, UNRELIABLE, AT_BOUND, UNSURE_DIVISOR, SUPPRESSED, FEW_PEOPLE, UNDEFINED,
)  # fmt: skip
"""All codes: of values, from the best to the worst, and then of empty cells."""

BLANKS: Final = CODES[CODES.index(UNSURE_DIVISOR) :]
"""Codes of cells without a value."""

TO_AVOID: Final = (UNRELIABLE, AT_BOUND)
"""Codes of values that should not be quoted."""

CONFIDENCE: Final = DEFAULT_CONFIDENCE
"""Confidence of the margins that decide codes, whatever confidence a column declares."""

TOLERANCE: Final = 1e-9
"""Relative tolerance of a limit, so that rounding of floats doesn't decide a margin equal to it."""

Limits = Sequence[Fraction]
Codes = NDArray[np.int8]
"""Codes (n,) of cells, as positions in `CODES`."""


def quality_codes(
    values: Floats,
    lower: Floats,
    upper: Floats,
    limits: Limits = QUALITY_LIMITS,
    *,
    at_bound: Flags | None = None,
    emptied: Mapping[str, Flags] | None = None,
) -> Codes:
    """Return the quality codes (n,) of published values, as positions in `CODES`.

    - `values`: published values (n,) after post-processing; NaN for an empty cell.
    - `lower`, `upper`: ends (n,) of the 95 % interval, in the unit of the values; for a margin of
      error m, these are values - m and values + m. NaN or infinite if there is no end.
    - `limits`: the largest half-widths of the codes A, B and C, as fractions of the value.
    - `at_bound`: which values (n,) are at a bound to which values are moved.
    - `emptied`: which cells (n,) were left empty, by the code of the reason; the first reason
      counts. An empty cell without a reason is `undefined`.
    """
    codes = np.full(values.shape, CODES.index(UNRELIABLE), dtype=np.int8)
    with np.errstate(invalid="ignore"):
        widths = np.maximum(values - lower, upper - values)
        # From the widest limit to the narrowest, so that the best code that fits is written last.
        for code, limit in reversed(list(zip(RELIABLE, limits, strict=True))):
            within = widths <= float(limit) * np.abs(values) * (1.0 + TOLERANCE)
            codes[within] = CODES.index(code)
    if at_bound is not None:
        codes[at_bound] = CODES.index(AT_BOUND)
    codes[np.isnan(values)] = CODES.index(UNDEFINED)
    for code, cells in reversed(list((emptied or {}).items())):
        codes[cells & np.isnan(values)] = CODES.index(code)
    return codes


def too_wide(values: Floats, lower: Floats, upper: Floats, limit: Fraction) -> Flags:
    """Return which values (n,) have a half-width above this fraction of the value."""
    with np.errstate(invalid="ignore"):
        widths = np.maximum(values - lower, upper - values)
        narrow = widths <= float(limit) * np.abs(values) * (1.0 + TOLERANCE)
    return ~(narrow | np.isnan(values))


def quality_formula(name: str, limits: Limits) -> str:
    """Return how the codes of a column follow from its published numbers, for the manifest."""
    classes = ", ".join(
        f"{code} if at most {plain_text(100 * limit)} %"
        for code, limit in zip(RELIABLE, limits, strict=True)
    )
    return (
        f"the larger distance to an end of the {plain_text(100 * CONFIDENCE)} % interval, as share "
        f"of [{name}]: {classes}, otherwise {UNRELIABLE}; {AT_BOUND} at a bound of the column; for "
        "an empty cell its reason"
    )


QUALITY_WORDS: Final[dict[str, str]] = {
    "en": "quality", "de": "Qualität", "fr": "qualité", "es": "calidad", "it": "qualità",
    "nl": "kwaliteit", "pt": "qualidade",
}  # fmt: skip
"""The word for the companion column, by language."""

SIGNS: Final = {
    AT_BOUND: "‡", UNSURE_DIVISOR: "[x]", SUPPRESSED: "[u]", FEW_PEOPLE: "[c]", UNDEFINED: "[z]",
}  # fmt: skip
"""Signs of a value at a bound and of empty cells, by code, in all documents for readers.

Those of empty cells follow the shorthands that the UK's Analysis Function recommends: not
available, unreliable, confidential, not applicable.
"""

_QUOTABLE: Final[dict[str, str]] = {
    "en": "may be quoted: margin of error at most {share} % of the value",
    "de": "darf zitiert werden: Fehlerspanne höchstens {share} % des Werts",
    "fr": "peut être cité : marge d’erreur d’au plus {share} % de la valeur",
    "es": "se puede citar: margen de error de como máximo {share} % del valor",
    "it": "si può citare: margine di errore al massimo {share} % del valore",
    "nl": "mag geciteerd worden: foutmarge hoogstens {share} % van de waarde",
    "pt": "pode ser citado: margem de erro de no máximo {share} % do valor",
}
"""Labels of the codes A and B; {share} is the limit in percent."""

_WITH_RANGE: Final[dict[str, str]] = {
    "en": "quote only with its range: margin of error at most {share} % of the value",
    "de": "nur mit Spanne zitieren: Fehlerspanne höchstens {share} % des Werts",
    "fr": "à citer seulement avec son intervalle : marge d’erreur d’au plus {share} % de la valeur",
    "es": "citar solo con su intervalo: margen de error de como máximo {share} % del valor",
    "it": "citare solo con l’intervallo: margine di errore al massimo {share} % del valore",
    "nl": "alleen met interval citeren: foutmarge hoogstens {share} % van de waarde",
    "pt": "citar apenas com o intervalo: margem de erro de no máximo {share} % do valor",
}
"""Labels of the code C."""

_LABELS: Final[dict[str, dict[str, str]]] = {
    UNRELIABLE: {
        "en": "don’t quote the number, at most its range: margin of error above {share} % of the "
        "value",
        "de": "nicht die Zahl zitieren, höchstens ihre Spanne: Fehlerspanne über {share} % des "
        "Werts",
        "fr": "ne pas citer le nombre, au plus son intervalle : marge d’erreur supérieure à "
        "{share} % de la valeur",
        "es": "no citar el número, a lo sumo su intervalo: margen de error superior al {share} % "
        "del valor",
        "it": "non citare il numero, al massimo il suo intervallo: margine di errore superiore al "
        "{share} % del valore",
        "nl": "niet het getal citeren, hoogstens het interval: foutmarge boven {share} % van de "
        "waarde",
        "pt": "não citar o número, no máximo o seu intervalo: margem de erro acima de {share} % do "
        "valor",
    },
    AT_BOUND: {
        "en": "don’t quote the number, at most its range: it was cut at the smallest or largest "
        "possible value, or lies there",
        "de": "nicht die Zahl zitieren, höchstens ihre Spanne: Sie wurde am kleinsten oder größten "
        "möglichen Wert abgeschnitten oder liegt dort",
        "fr": "ne pas citer le nombre, au plus son intervalle : il a été ramené à la plus petite "
        "ou à la plus grande valeur possible, ou s’y trouve",
        "es": "no citar el número, a lo sumo su intervalo: se recortó en el menor o mayor valor "
        "posible, o está en él",
        "it": "non citare il numero, al massimo il suo intervallo: è stato tagliato al minimo o "
        "massimo valore possibile, o si trova lì",
        "nl": "niet het getal citeren, hoogstens het interval: het is afgekapt op de kleinst of "
        "grootst mogelijke waarde, of ligt daar",
        "pt": "não citar o número, no máximo o seu intervalo: foi cortado no menor ou maior valor "
        "possível, ou está nele",
    },
    UNSURE_DIVISOR: {
        "en": "no value, only a range: the divisor, or a variance, is not clearly above 0",
        "de": "kein Wert, nur eine Spanne: Der Divisor oder eine Varianz liegt nicht klar über 0",
        "fr": "pas de valeur, seulement un intervalle : le diviseur, ou une variance, n’est pas "
        "nettement supérieur à 0",
        "es": "sin valor, solo un intervalo: el divisor, o una varianza, no es claramente mayor "
        "que 0",
        "it": "nessun valore, solo un intervallo: il divisore, o una varianza, non è chiaramente "
        "maggiore di 0",
        "nl": "geen waarde, alleen een interval: de deler, of een variantie, ligt niet duidelijk "
        "boven 0",
        "pt": "sem valor, apenas um intervalo: o divisor, ou uma variância, não é claramente "
        "maior que 0",
    },
    SUPPRESSED: {
        "en": "left empty: the margin of error is too large for the value",
        "de": "leer gelassen: Die Fehlerspanne ist zu groß für den Wert",
        "fr": "laissé vide : la marge d’erreur est trop grande par rapport à la valeur",
        "es": "dejado vacío: el margen de error es demasiado grande para el valor",
        "it": "lasciato vuoto: il margine di errore è troppo grande per il valore",
        "nl": "leeg gelaten: de foutmarge is te groot voor de waarde",
        "pt": "deixado vazio: a margem de erro é demasiado grande para o valor",
    },
    FEW_PEOPLE: {
        "en": "left empty: the number with noise is below the declared limit",
        "de": "leer gelassen: die Zahl mit Rauschen liegt unter der erklärten Grenze",
        "fr": "laissé vide : le nombre avec bruit est inférieur à la limite déclarée",
        "es": "dejado vacío: el número con ruido es menor que el límite declarado",
        "it": "lasciato vuoto: il numero con rumore è inferiore al limite dichiarato",
        "nl": "leeg gelaten: het getal met ruis ligt onder de opgegeven grens",
        "pt": "deixado vazio: o número com ruído é inferior ao limite declarado",
    },
    UNDEFINED: {
        "en": "no value", "de": "kein Wert", "fr": "pas de valeur", "es": "sin valor",
        "it": "nessun valore", "nl": "geen waarde", "pt": "sem valor",
    },
}  # fmt: skip


def quality_labels(limits: Limits, languages: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the label of every code in each language; English in languages without labels."""
    found = {}
    for code, words, share in _labels_with_shares(limits):
        spoken = {tag: words.get(tag.partition("-")[0], words["en"]) for tag in languages}
        found[code] = {tag: text.format(share=share) for tag, text in spoken.items()}
    return found


def _labels_with_shares(limits: Limits) -> Iterator[tuple[str, dict[str, str], str]]:
    """Yield every code with its labels by language, and with its limit in percent."""
    shares = [plain_text(100 * limit) for limit in limits]
    for code, share in zip(RELIABLE, shares, strict=True):
        yield code, _WITH_RANGE if code == RELIABLE[-1] else _QUOTABLE, share
    for code, words in _LABELS.items():
        yield code, words, shares[-1]
