"""The context of the sections of a report: the facts, words and names that they share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from dprelease.documents.metadata import ROWS_UNIT, Texts
from dprelease.report.facts import Facts
from dprelease.report.words import Names, Words, printable_text

MOST_TITLES = 6
"""Maximum number of titles of tables in a sentence."""


@dataclass(frozen=True)
class Context:
    """What all parts of a section share; `most`: the maximum rows of a table or picture."""

    facts: Facts
    words: Words
    names: Names
    most: int

    def cells(self, *texts: object) -> list[Markup]:
        """Return texts as the cells of a table's row."""
        return [
            text if isinstance(text, Markup) else Markup.escape(printable_text(str(text)))
            for text in texts
        ]

    def titles_of(self, queries: Sequence[str]) -> Markup:
        """Return the titles of the tables of some queries in words; of many, the first ones."""
        tables = self.names.metadata.tables_for_readers
        found = {one.name.rpartition("/")[2]: self.names.table(one) for one in tables}
        return self._first_titles([found.get(name) or self.names.name(name) for name in queries])

    def _first_titles(self, named: Sequence[Markup]) -> Markup:
        """Return titles in words, each once; of many, the first ones."""
        titles = list(dict.fromkeys(named))
        shown = [Markup("“{}”").format(title) for title in titles[:MOST_TITLES]]
        if len(titles) > MOST_TITLES:
            more = self.words.number(len(titles) - MOST_TITLES)
            shown.append(self.words.say("page.more", number=more))
        return Markup(", ").join(shown)

    def query_titles(self, queries: Iterable[str]) -> Markup:
        """Return the titles of queries in words, each once; of many, the first ones."""
        declared = self.facts.declaration.spec.queries
        languages = self.names.metadata.languages
        titles = []
        for name in dict.fromkeys(queries):
            label = declared[name].label if name in declared else None
            titles.append(self.names.text({} if label is None else label.texts(languages), name))
        return self._first_titles(titles)

    @property
    def protected_unit(self) -> Markup:
        """Return what is protected in one word: the label of the one id, if it has a label."""
        ids = {unit.id for unit in self.facts.label.units}
        if ids == {None}:
            return self.words.say("unit.record")
        texts = self._unit_label(str(next(iter(ids)))) if len(ids) == 1 else {}
        return self.names.text(texts) if texts else self.words.say("unit.any")

    def is_count(self, unit: str) -> bool:
        """Return whether a unit is that of counts, which a label says better: rows or an id."""
        return unit == ROWS_UNIT or any(
            unit == query.unit.id for query in self.facts.queries.values()
        )

    def key_name(self, name: str) -> Markup:
        """Return the title of a key, as in the tables for readers that have it."""
        tables = self.names.metadata.tables_for_readers
        keys = (key for table in tables for key in table.keys if key.name == name)
        found = next(keys, None)
        return self.names.name(name) if found is None else self.names.column(found)

    def unit_name(self, unit: str) -> Markup:
        """Return a unit for readers: for an id of people, the label of its column if it has one."""
        texts = self._unit_label(unit)
        return self.names.text(texts, unit) if texts else self.names.name(unit)

    def plain_unit_name(self, unit: str) -> str:
        """Return a unit for readers as plain text."""
        return self.names.plain(self._unit_label(unit), unit) if unit else ""

    def with_unit_labels(self, text: str) -> str:
        """Return a text with the labels of ids of people in place of their quoted names."""
        for unit in {query.unit.id for query in self.facts.queries.values()} - {None}:
            text = text.replace(f"'{unit}'", f"'{self.plain_unit_name(str(unit))}'")
        return text

    def _unit_label(self, unit: str) -> Texts:
        """Return the label of the column with an id of people, by language; empty without one."""
        for query in self.facts.queries.values():
            column = query.table.columns.get(unit) if query.unit.id == unit else None
            if column is not None and column.label is not None:
                return column.label.texts(self.names.metadata.languages)
        return {}
