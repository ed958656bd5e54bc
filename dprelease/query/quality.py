"""Quality codes of published values: how far a value may be quoted, or why a cell is empty.

A code follows from published numbers alone: from the value, the ends of its interval and the
declared limits. So it has no privacy cost, and a reader can compute it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Final, TypeVar

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
Label = TypeVar("Label", bound=str)
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

    Parameters
    ----------
    values
        Published values (n,) after post-processing; NaN for an empty cell.
    lower, upper
        Ends (n,) of the 95 % interval, in the unit of the values; for a margin of error m, these
        are values - m and values + m. NaN or infinite if there is no end.
    limits
        The largest half-widths of the codes A, B and C, as fractions of the value.
    at_bound
        Which values (n,) are at a bound to which values are moved.
    emptied
        Which cells (n,) were left empty, by the code of the reason; the first reason counts. An
        empty cell without a reason is `undefined`.
    """
    codes = np.full(values.shape, CODES.index(UNRELIABLE), dtype=np.int8)
    with np.errstate(invalid="ignore"):
        widths = np.maximum(values - lower, upper - values)
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

_AT_MOST: Final[dict[str, str]] = {
    "en": "margin of error at most {share} % of the value",
    "de": "Fehlerspanne höchstens {share} % des Werts",
    "fr": "marge d’erreur d’au plus {share} % de la valeur",
    "es": "margen de error de como máximo {share} % del valor",
    "it": "margine di errore al massimo {share} % del valore",
    "nl": "foutmarge hoogstens {share} % van de waarde",
    "pt": "margem de erro de no máximo {share} % do valor",
}
"""Labels of the codes A, B and C; {share} is the limit in percent."""

_AFTER_LIMITS: Final[dict[str, str]] = {
    "en": "{label} after contribution limits; rows above the limits are not counted",
    "de": "{label} nach den Beitragsgrenzen; Zeilen über den Grenzen sind nicht gezählt",
    "fr": "{label} après les limites de contribution ; les lignes au-delà ne sont pas comptées",
    "es": "{label} tras los límites de contribución; las filas que los superan no se cuentan",
    "it": "{label} dopo i limiti di contributo; le righe oltre i limiti non sono contate",
    "nl": "{label} na de bijdragelimieten; rijen boven de limieten zijn niet geteld",
    "pt": "{label} após os limites de contribuição; as linhas acima deles não são contadas",
}
"""Labels of the codes A to D of values from which contribution limits may leave out rows."""

_LABELS: Final[dict[str, dict[str, str]]] = {
    UNRELIABLE: {
        "en": "unreliable: don’t quote; margin of error above {share} % of the value",
        "de": "unzuverlässig: nicht zitieren; Fehlerspanne über {share} % des Werts",
        "fr": "peu fiable : ne pas citer ; marge d’erreur supérieure à {share} % de la valeur",
        "es": "poco fiable: no citar; margen de error superior al {share} % del valor",
        "it": "poco affidabile: non citare; margine di errore superiore al {share} % del valore",
        "nl": "onbetrouwbaar: niet citeren; foutmarge boven {share} % van de waarde",
        "pt": "pouco fiável: não citar; margem de erro acima de {share} % do valor",
    },
    AT_BOUND: {
        "en": "unreliable: don’t quote; the value is at a bound of its column",
        "de": "unzuverlässig: nicht zitieren; der Wert liegt an einer Grenze seiner Spalte",
        "fr": "peu fiable : ne pas citer ; la valeur est à une borne de sa colonne",
        "es": "poco fiable: no citar; el valor está en un límite de su columna",
        "it": "poco affidabile: non citare; il valore è a un limite della sua colonna",
        "nl": "onbetrouwbaar: niet citeren; de waarde ligt op een grens van haar kolom",
        "pt": "pouco fiável: não citar; o valor está num limite da sua coluna",
    },
    UNSURE_DIVISOR: {
        "en": "no value, only an interval: the divisor is not clearly above 0",
        "de": "kein Wert, nur ein Intervall: Der Divisor liegt nicht klar über 0",
        "fr": "pas de valeur, seulement un intervalle : le diviseur n’est pas nettement "
        "supérieur à 0",
        "es": "sin valor, solo un intervalo: el divisor no es claramente mayor que 0",
        "it": "nessun valore, solo un intervallo: il divisore non è chiaramente maggiore di 0",
        "nl": "geen waarde, alleen een interval: de deler ligt niet duidelijk boven 0",
        "pt": "sem valor, apenas um intervalo: o divisor não é claramente maior que 0",
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


def quality_labels(
    limits: Limits, languages: Sequence[str], *, cut: bool = False
) -> dict[str, dict[str, str]]:
    """Return the label of every code in each language; English in languages without labels.

    `cut`: whether contribution limits may leave out rows, which no margin of error covers.
    """
    found = {}
    for code, words, share in _labels_with_shares(limits):
        found[code] = labels = dict[str, str]()
        for tag in languages:
            spoken = tag.partition("-")[0]
            spoken = spoken if spoken in words else "en"
            label = words[spoken].format(share=share)
            of_margin = cut and code in (*RELIABLE, UNRELIABLE)
            labels[tag] = _AFTER_LIMITS[spoken].format(label=label) if of_margin else label
    return found


def longest_labels(labels: Iterable[Label]) -> list[Label]:
    """Return different labels of a code, without those with which another one begins.

    A label that also mentions contribution limits holds for columns that no limit cuts, too.
    """
    found = list(dict.fromkeys(labels))
    return [
        one
        for one in found
        if not any(other != one and str(other).startswith(str(one)) for other in found)
    ]


def _labels_with_shares(limits: Limits) -> Iterator[tuple[str, dict[str, str], str]]:
    """Yield every code with its labels by language, and with its limit in percent."""
    shares = [plain_text(100 * limit) for limit in limits]
    for code, share in zip(RELIABLE, shares, strict=True):
        yield code, _AT_MOST, share
    for code, words in _LABELS.items():
        yield code, words, shares[-1]
