"""Notes and labels on what a table counts, in seven languages, which all formats of a release show.

A reader who adds up numbers needs to know which rows a table leaves out, and whether a person may
count in several of its cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dprelease.documents.limit_labels import ROW_NOUNS, in_language
from dprelease.errors.printable import one_line
from dprelease.planning.bounded_words import bounded_groups
from dprelease.query.aggregates.aggregate import IDS
from dprelease.query.measurement import OutputColumn
from dprelease.query.resolve import Query

Notes = tuple[dict[str, str], ...]

ROWS_LEFT_OUT = {
    "en": "Rows without a declared value of {keys} are not in this table.",
    "de": "Zeilen ohne deklarierten Wert von {keys} sind nicht in dieser Tabelle.",
    "fr": "Les lignes sans valeur déclarée de {keys} ne sont pas dans ce tableau.",
    "es": "Las filas sin un valor declarado de {keys} no están en esta tabla.",
    "it": "Le righe senza un valore dichiarato di {keys} non sono in questa tabella.",
    "nl": "Rijen zonder gedeclareerde waarde van {keys} staan niet in deze tabel.",
    "pt": "As linhas sem um valor declarado de {keys} não estão neste quadro.",
}
"""The note on a table that leaves out rows because of its keys, or of those of its family."""

IN_SEVERAL_CELLS = {
    "en": "Each unit ({unit}) can count in several cells: these numbers must not be added up.",
    "de": "Jede Einheit ({unit}) kann in mehreren Zellen zählen: diese Zahlen dürfen nicht addiert "
    "werden.",
    "fr": "Chaque unité ({unit}) peut compter dans plusieurs cellules : ces nombres ne doivent pas "
    "être additionnés.",
    "es": "Cada unidad ({unit}) puede contar en varias celdas: estos números no deben sumarse.",
    "it": "Ogni unità ({unit}) può contare in più celle: questi numeri non vanno sommati.",
    "nl": "Elke eenheid ({unit}) kan in meerdere cellen meetellen: deze getallen mogen niet worden "
    "opgeteld.",
    "pt": "Cada unidade ({unit}) pode contar em várias células: estes números não devem ser "
    "somados.",
}
"""The note on numbers of people by cells, of which one person may be in several."""

OPEN_END: dict[str, str] = {
    "en": "If empty: the noise sets no limit on this side, or the value was left empty.",
    "de": "Wenn leer: Das Rauschen setzt auf dieser Seite keine Grenze, oder der Wert blieb leer.",
    "fr": "Si vide : le bruit ne fixe pas de limite de ce côté, ou la valeur a été laissée vide.",
    "es": "Si está vacío: el ruido no fija ningún límite en este lado, o el valor se dejó vacío.",
    "it": "Se vuoto: il rumore non fissa limiti da questo lato, o il valore è lasciato vuoto.",
    "nl": "Indien leeg: de ruis stelt aan deze kant geen grens, of de waarde is leeg gelaten.",
    "pt": "Se vazio: o ruído não fixa nenhum limite deste lado, ou o valor foi deixado vazio.",
}
"""Meaning of an empty end of an interval, by language."""

SHARE_OF = {
    "en": ("share of {what} in the total of {keys}", "share of {what} in the total of all"),
    "de": ("Anteil {what} an der Summe nach {keys}", "Anteil {what} an der Summe aller"),
    "fr": ("part de {what} dans le total par {keys}", "part de {what} dans le total"),
    "es": ("proporción de {what} en el total por {keys}", "proporción de {what} en el total"),
    "it": ("quota di {what} sul totale per {keys}", "quota di {what} sul totale"),
    "nl": ("aandeel {what} in het totaal per {keys}", "aandeel {what} in het totaal"),
    "pt": ("proporção de {what} no total por {keys}", "proporção de {what} no total"),
}
"""The label of a share in the total of each group of some keys, and in the total of all cells."""

IN_PERCENT = {
    "en": ("in percent", "as a ratio"), "de": ("in Prozent", "als Verhältnis"),
    "fr": ("en pour cent", "en rapport"), "es": ("en porcentaje", "como razón"),
    "it": ("in percentuale", "come rapporto"), "nl": ("in procent", "als verhouding"),
    "pt": ("em percentagem", "como razão"),
}  # fmt: skip
"""The words for the unit of a share: percent, or a number from 0 to 1."""


def share_label(
    summed: Mapping[str, str] | None,
    within: Sequence[Mapping[str, str]],
    languages: Sequence[str],
    *,
    percent: bool,
) -> dict[str, str]:
    """Return the label of a share in each language.

    `summed`: the label of the summed column; None for rows. `within`: the labels of the keys that
    all cells of a total have in common.
    """
    found = {}
    for tag in languages:
        what = in_language(ROW_NOUNS, tag)[1] if summed is None else summed[tag]
        text = in_language(SHARE_OF, tag)[0 if within else 1]
        share = text.format(what=what, keys=", ".join(label[tag] for label in within))
        found[tag] = f"{share}, {in_language(IN_PERCENT, tag)[0 if percent else 1]}"
    return found


RANGES = {
    "en": ("The margin of error", "The interval"), "de": ("Die Fehlerspanne", "Das Intervall"),
    "fr": ("La marge d’erreur", "L’intervalle"), "es": ("El margen de error", "El intervalo"),
    "it": ("Il margine di errore", "L’intervallo"), "nl": ("De foutmarge", "Het interval"),
    "pt": ("A margem de erro", "O intervalo"),
}  # fmt: skip
"""The subjects of notes on margins of error, and on intervals."""

NO_DESIGN_VARIANCE = {
    "en": "{range} covers the noise and the rounding alone. It does not cover the variance of the "
    "sampling design.",
    "de": "{range} erfasst nur das Rauschen und die Rundung, nicht die Varianz des "
    "Stichprobendesigns.",
    "fr": "{range} ne couvre que le bruit et l’arrondi, et non la variance du plan de sondage.",
    "es": "{range} solo cubre el ruido y el redondeo, y no la varianza del diseño muestral.",
    "it": "{range} copre solo il rumore e l’arrotondamento, e non la varianza del disegno "
    "campionario.",
    "nl": "{range} omvat alleen de ruis en de afronding, en niet de variantie van het "
    "steekproefontwerp.",
    "pt": "{range} cobre apenas o ruído e o arredondamento, e não a variância do desenho amostral.",
}
"""The note on values of weighted rows that have a margin of error or an interval."""

DESIGN_ERROR_OF = {
    "en": "Standard error under the sampling design: {what} (weight: {weight}). Its interval "
    "covers the noise alone.",
    "de": "Standardfehler durch die Stichprobe: {what} (Gewicht: {weight}). Sein Intervall erfasst "
    "nur das Rauschen.",
    "fr": "Erreur type due au plan de sondage : {what} (poids : {weight}). Son intervalle ne "
    "couvre que le bruit.",
    "es": "Error estándar debido al diseño muestral: {what} (peso: {weight}). Su intervalo solo "
    "cubre el ruido.",
    "it": "Errore standard dovuto al disegno campionario: {what} (peso: {weight}). Il suo "
    "intervallo copre solo il rumore.",
    "nl": "Standaardfout door het steekproefontwerp: {what} (gewicht: {weight}). Het interval "
    "omvat alleen de ruis.",
    "pt": "Erro padrão devido ao desenho amostral: {what} (peso: {weight}). O seu intervalo cobre "
    "apenas o ruído.",
}
"""The note on a design error; {what} is the number of which it is the standard error."""

WEIGHTED_TOTALS = {
    "en": ("weighted count", "weighted sum of {of}"),
    "de": ("gewichtete Anzahl", "gewichtete Summe von {of}"),
    "fr": ("nombre pondéré", "somme pondérée de {of}"),
    "es": ("número ponderado", "suma ponderada de {of}"),
    "it": ("numero ponderato", "somma ponderata di {of}"),
    "nl": ("gewogen aantal", "gewogen som van {of}"),
    "pt": ("número ponderado", "soma ponderada de {of}"),
}
"""The words for a weighted count and a weighted sum, by language."""


def notes_on_weights(
    published: OutputColumn, languages: Sequence[str], *, has_margin: bool
) -> Notes:
    """Return a note that margins and intervals cover no variance of a sampling design.

    The result is empty if rows are not weighted, or if the column has neither.
    """
    has_interval = not published.form.on_lattice
    if not published.is_weighted or not (has_margin or has_interval):
        return ()
    note = {}
    for tag in languages:
        subject = in_language(RANGES, tag)[1 if has_interval else 0]
        note[tag] = in_language(NO_DESIGN_VARIANCE, tag).format(range=subject)
    return (note,)


def note_on_design_error(
    published: Mapping[str, str] | None,
    summed: Mapping[str, str] | None,
    weight: Mapping[str, str],
) -> dict[str, str]:
    """Return a note on which number a design error is the standard error of, by language.

    `published`: the title of the published column with this number; None if there is none.
    `summed`: the label of the column in a weighted sum; None for a weighted count. `weight`: the
    label of the weight.
    """
    note = {}
    for tag, label in weight.items():
        count, total = in_language(WEIGHTED_TOTALS, tag)
        what = count if summed is None else total.format(of=one_line(summed[tag]))
        if published is not None:
            what = f"{one_line(published[tag])}, {what}"
        text = in_language(DESIGN_ERROR_OF, tag)
        note[tag] = text.format(what=what, weight=one_line(label))
    return note


def notes_on_rows(
    query: Query, keys: Mapping[str, Mapping[str, str]], languages: Sequence[str]
) -> Notes:
    """Return a note on the keys because of which a table leaves out rows, if there are any.

    `keys`: the keys of the table and of its family that do so, each with its label by language.
    """
    if not keys or query.private is not None:
        return ()
    note = {}
    for tag in languages:
        names = ", ".join(one_line(label.get(tag) or name) for name, label in keys.items())
        note[tag] = in_language(ROWS_LEFT_OUT, tag).format(keys=names)
    return (note,)


def notes_on_groups(query: Query, published: OutputColumn, unit: Mapping[str, str]) -> Notes:
    """Return a note that numbers of people must not be added up, if one person may count twice.

    `unit`: the name of the privacy unit in each language.
    """
    is_single = query.unit.most_groups == 1 or bounded_groups(query) == 1
    if is_single or any(part.aggregate.counted_kind != IDS for part in published.parts):
        return ()
    return (
        {
            tag: in_language(IN_SEVERAL_CELLS, tag).format(unit=one_line(text))
            for tag, text in unit.items()
        },
    )
