"""The values of a category with their areas and labels, from the schema or from a file."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from dprelease.schema.localized_text import LocalizedText
from dprelease.schema.model import Files
from dprelease.schema.public_values.key_files import (
    Columns,
    ValuesFrom,
    expand_file_name,
    values_of_file,
)
from dprelease.schema.public_values.nesting import (
    parts_of_areas,
    refuse_repeated_values,
    without_repeated_rows,
)
from dprelease.schema.public_values.value_labels import labels_of_rows, labels_of_values_file


def listed_values(
    raw: Mapping[str, object], within: str | None, files: object
) -> tuple[Columns, Mapping[str, LocalizedText]] | None:
    """Return values with their areas (of the column `within`), and the labels of values.

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
        if within is not None:
            refuse_repeated_values(*listed[:2], of_file=True)
            listed = without_repeated_rows(listed)
        if spec.labels is not None:
            rows = zip(*listed, strict=True)
            labels = labels_of_rows(spec.labels, rows, 1 if within is None else 2)
    elif within is not None and "values" in raw:
        listed = parts_of_areas(raw["values"], within)
    elif labels:
        listed = [list(labels)]
    if within is not None:
        refuse_repeated_values(*listed[:2])
    return listed, labels
