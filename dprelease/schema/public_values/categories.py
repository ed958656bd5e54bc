"""The public values of a category, with their areas and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Self

from pydantic import BeforeValidator, PrivateAttr

from dprelease.schema.field_types import TEXT_SCHEMA, ShortForm, Text
from dprelease.schema.localized_text import LocalizedText
from dprelease.schema.public_values.key_files import (
    AS_LISTED,
    KeyValues,
    ValuesFrom,
    expand_file_name,
)
from dprelease.schema.public_values.unallocated import Allocatable, refuse_declared_code

_LABELLED = {"type": "object", "additionalProperties": {"type": ["string", "object"]}}
_PARTS = {"anyOf": [{"type": "array", "items": TEXT_SCHEMA}, _LABELLED]}
_BY_AREA = {"type": "object", "additionalProperties": _PARTS}


class PublicCategories(Allocatable):
    """The declared values of a category, and the areas that contain them."""

    values: Annotated[tuple[Text, ...] | None, ShortForm(_LABELLED, _BY_AREA), AS_LISTED] = None
    values_from: (
        Annotated[ValuesFrom, BeforeValidator(expand_file_name), ShortForm(TEXT_SCHEMA)] | None
    ) = None
    within: Text | None = None
    _parent_areas: tuple[str, ...] = PrivateAttr(())
    _labels: Mapping[str, LocalizedText] = PrivateAttr(default_factory=dict)
    _allocated: KeyValues | None = PrivateAttr(None)

    @property
    def value_labels(self) -> Mapping[str, LocalizedText]:
        """The labels of the values that have one."""
        return self._labels

    @property
    def parent_areas(self) -> tuple[str, ...]:
        """The area one level up that contains each value; empty for the top level."""
        return self._parent_areas

    def with_areas(self, values: Sequence[str], parent_areas: Sequence[str]) -> Self:
        """Return the column with other values; `parent_areas` are the areas that contain them."""
        key_values = values if isinstance(values, KeyValues) else KeyValues(values)
        column = self.model_copy(update={"values": key_values})
        column._parent_areas = tuple(parent_areas)
        return column

    def with_unallocated(
        self, added: Sequence[str], areas: Mapping[str, LocalizedText | None]
    ) -> Self:
        """Return the column with the unallocated values `added`, and their labels.

        `areas` has the area that contains each of these values, with its label if it has one.
        """
        values = self.values or ()
        refuse_declared_code(values, added)
        column = self.with_areas([*values, *added], [*self.parent_areas, *areas])
        column._labels = {**self._labels, **self.unallocated_labels(areas)}
        column._allocated = KeyValues(values)
        return column

    @property
    def allocated_values(self) -> tuple[str, ...]:
        """The declared values, without those that `unallocated` adds."""
        return self.values or () if self._allocated is None else self._allocated
