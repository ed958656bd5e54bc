"""The values of a category with their areas and labels, from the schema or from a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Self

from pydantic import BeforeValidator, PrivateAttr, ValidationError

from dprelease.schema.field_types import TEXT_SCHEMA, ShortForm, Text, as_list
from dprelease.schema.localized_text import LocalizedText
from dprelease.schema.model import Files
from dprelease.schema.public_values.key_files import (
    AS_LISTED,
    Columns,
    KeyValues,
    ValuesFrom,
    expand_file_name,
    values_of_file,
)
from dprelease.schema.public_values.nesting import (
    parts_of_areas,
    refuse_repeated_values,
    without_repeated_rows,
)
from dprelease.schema.public_values.unallocated import (
    UNALLOCATED,
    Allocatable,
    refuse_declared_code,
)
from dprelease.schema.public_values.value_labels import labels_of_rows, labels_of_values_file

# The public values of a category, with their areas and labels.

_LABELLED = {"type": "object", "additionalProperties": {"type": ["string", "object"]}}
_PARTS = {"anyOf": [{"type": "array", "items": TEXT_SCHEMA}, _LABELLED]}
_BY_AREA = {"type": "object", "additionalProperties": _PARTS}


class PublicCategories(Allocatable):
    """The declared values of a category, and the areas that contain them."""

    values: Annotated[tuple[Text, ...] | None, ShortForm(_LABELLED, _BY_AREA), AS_LISTED] = None
    values_from: (
        Annotated[ValuesFrom, BeforeValidator(expand_file_name), ShortForm(TEXT_SCHEMA)] | None
    ) = None
    within: Annotated[tuple[Text, ...], BeforeValidator(as_list), ShortForm(TEXT_SCHEMA)] = ()
    _parent_areas: tuple[tuple[str, ...], ...] = PrivateAttr(())
    _labels: Mapping[str, LocalizedText] = PrivateAttr(default_factory=dict)
    _allocated: KeyValues | None = PrivateAttr(None)

    @property
    def value_labels(self) -> Mapping[str, LocalizedText]:
        """The labels of the values that have one."""
        return self._labels

    @property
    def parent_areas(self) -> tuple[str, ...]:
        """The area one level up that contains each value; empty for the top level.

        If the column lies within several others, these are the areas of the first.
        """
        return self._parent_areas[0] if self._parent_areas else ()

    def areas_in(self, column: str) -> tuple[str, ...]:
        """Return the area, in one of the columns of `within`, that contains each value."""
        return self._parent_areas[self.within.index(column)]

    def with_areas(self, values: Sequence[str], parent_areas: Sequence[Sequence[str]]) -> Self:
        """Return the column with other values, and the areas in each column of `within`."""
        key_values = values if isinstance(values, KeyValues) else KeyValues(values)
        column = self.model_copy(update={"values": key_values})
        column._parent_areas = tuple(map(tuple, parent_areas))
        return column

    def with_unallocated(
        self, added: Sequence[str], areas: Mapping[str, LocalizedText | None]
    ) -> Self:
        """Return the column with the unallocated values `added`, and their labels.

        `areas` has the area that contains each of these values, with its label if it has one. In
        every other column of `within`, these values lie in the unallocated value.
        """
        values = self.values or ()
        refuse_declared_code(values, added)
        elsewhere = [UNALLOCATED] * len(added)
        above = [
            [*known, *(elsewhere if i else areas)] for i, known in enumerate(self._parent_areas)
        ]
        column = self.with_areas([*values, *added], above)
        column._labels = {**self._labels, **self.unallocated_labels(areas)}
        column._allocated = KeyValues(values)
        return column

    def with_codes(self, codes: Sequence[str]) -> Self:
        """Return the column with further codes, which a file has in place of some values."""
        values = KeyValues(dict.fromkeys([*codes, *self.allocated_values]))
        column = self.model_copy(update={"values": values})
        column._allocated = None
        return column

    @property
    def allocated_values(self) -> tuple[str, ...]:
        """The declared values, without those that `unallocated` adds."""
        return self.values or () if self._allocated is None else self._allocated


def listed_values(
    raw: Mapping[str, object], within: Sequence[str], files: object
) -> tuple[Columns, Mapping[str, LocalizedText]] | None:
    """Return values with their areas (of the columns `within`), and the labels of values.

    Returns no values if they are declared as a plain list, and None if the declaration of a file is
    invalid, which the model reports.

    Raises PydanticCustomError: the errors of `values_of_file`, `labels_of_rows`,
    `labels_of_values_file`, `parts_of_areas` and `refuse_repeated_values`.
    """
    labels = labels_of_values_file(raw.get("values"), within)
    listed: Columns = [(), ()]
    if "values_from" in raw and isinstance(files, Files):
        try:
            spec = ValuesFrom.model_validate(expand_file_name(raw["values_from"]))
        except ValidationError:
            return None
        listed = values_of_file(spec, files, within)
        if within:
            for areas in listed[1 : 1 + len(within)]:
                refuse_repeated_values(listed[0], areas, of_file=True)
            # Only now: a value in two areas is a mistake, and a repeated row is none.
            listed = without_repeated_rows(listed)
        if spec.labels is not None:
            rows = zip(*listed, strict=True)
            labels = labels_of_rows(spec.labels, rows, 1 + len(within))
    elif within and "values" in raw:
        listed = parts_of_areas(raw["values"], within)
    elif labels:
        listed = [list(labels)]
    if within:
        refuse_repeated_values(*listed[:2])
    return listed, labels
