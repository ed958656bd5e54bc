"""The parts of a plan on scans, consistent tables and written files, for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.cli.texts.text_tables import number_text, table_text
from dprelease.errors.printable import one_line

if TYPE_CHECKING:
    from dprelease.planning.families.family_errors import ConsistentErrors
    from dprelease.planning.plan import Plan
    from dprelease.query.grouping.group_keys import KeySpace
    from dprelease.query.resolve import Query
    from dprelease.query.scan_planning import Joint
    from dprelease.schema.load import Declaration
    from dprelease.schema.release import ReleaseSpec


NUMBERS = ("areas", "cells", "measured", "one table", "estimate", "largest", "margin")


def family_errors(declaration: Declaration, plan: Plan) -> list[ConsistentErrors]:
    """Return the expected errors of consistent tables; an empty list if the release has none."""
    consistent = [query.consistent for query in declaration.spec.queries.values()]
    if not any(consistent):
        return []
    from dprelease.planning.families.family_errors import consistent_errors

    errors = list(consistent_errors(plan))
    if not any(spec is not None and spec.non_negative for spec in consistent):
        return errors
    from dprelease.auditing.replayed_words import ReplayedBits
    from dprelease.documents.audit_record import digest_of_declaration
    from dprelease.rehearsal.integer_errors import integer_table_errors

    # Bits from the declaration alone: the counts are invented, and a plan must print the same
    # errors again.
    found = integer_table_errors(plan, ReplayedBits(digest_of_declaration(declaration)))
    return [
        replace(
            one, integers={t: x for (t, column), x in found.items() if column == one.agreed.name}
        )
        for one in errors
    ]


def draw_errors(declaration: Declaration, plan: Plan, path: Path) -> None:
    """Write charts of consistent tables next to the other charts of a plan.

    Raises the same exceptions as `draw_plan`, which draws the other charts.
    """
    if any(query.consistent for query in declaration.spec.queries.values()):
        from dprelease.planning.families.family_errors import draw_agreed_errors

        draw_agreed_errors(plan, path)


def standard_error_texts(
    errors: Sequence[ConsistentErrors], plan: Plan, *, wide: bool
) -> list[str]:
    """Return a table of standard errors for each column of consistent tables, and its accuracy."""
    shared = [one_line(f"Shares of the budget: {share}.") for share in plan.shared]
    return [
        *(_standard_errors_text(one, wide=wide) for one in errors),
        *("\n".join(_method_texts(one)) for one in errors if one.refinement),
        *(["\n".join(shared)] if shared else []),
    ]


def _method_texts(one: ConsistentErrors) -> list[str]:
    """Return sentences on how the integer tables of a column are computed, by method."""
    levels: dict[str, list[str]] = {}
    for record in one.refinement:
        if record.shared is None:  # the first clique; others have the same methods
            chain = " then ".join(f"[{', '.join(keys)}]" for keys in record.steps)
            along = {"least_squares": "by least squares", "fast": f"fast, along {chain}"}
            levels.setdefault(along[record.method], []).append(record.level)
    return [
        one_line(
            f"Integer tables of '{one.family}.{one.agreed.name}' at {', '.join(names)}: {how}."
        )
        for how, names in levels.items()
    ]


def _standard_errors_text(one: ConsistentErrors, *, wide: bool) -> str:
    """Return the standard errors of one column, by table and level, as a table."""
    confidence = f"{100 * float(one.agreed.confidence):g} %"
    more = ("integers",) if one.integers else ()
    rows: list[tuple[str, ...]] = [("consistent tables", "level", *NUMBERS, *more)]
    rows += [
        (
            f"{row['table']}.{row['column']}",
            row["level"],
            f"{row['areas']:,}",
            f"{row['cells']:,}",
            *(number_text(row[name]) for name in ("measured", "one_table", "estimate", "largest")),
            number_text(row["margin"]),
            *(number_text(row[name]) for name in more),
        )
        for row in one.to_json()
    ]
    text = table_text(rows, wide=wide, more=("level", "cells"), right=(*NUMBERS, *more))
    note = (
        "\nIntegers: mean absolute error of integer tables, simulated on invented counts."
        if more
        else ""
    )
    return (
        f"{text}\n"
        "Standard errors of a cell: of its own noise, from the best single table of its level,\n"
        f"of its estimate (median and largest of all areas); margin at {confidence} of the largest."
        f"{note if more else ''}"
    )


ENGINE_READS_TABLES_SEPARATELY = "this engine reads each table separately"
BOUNDED_SCAN_TEXT = "the rows are read, and ids numbered, only once if they fit in memory"
MOST_NAMED = 4
"""Maximum number of tables that a line lists by name; a longer list is replaced by its length."""


def scan_records(spec: ReleaseSpec, queries: Sequence[Query]) -> list[dict[str, Any]]:
    """Return an object for each scan: its tables, joint tables, or why it reads one table alone."""
    from dprelease.planning.kinds import kind_of

    problem = kind_of(spec).joint_scan_problem or (
        ENGINE_READS_TABLES_SEPARATELY if spec.engine != "duckdb" else ""
    )
    if problem:
        return [_single_table_record(query.name, [problem]) for query in queries]
    from dprelease.query.scan_planning import MOST_TABLES, groups_bounded_together, plan_scans

    records = [
        _family_scan_record(space, of_it) for space, of_it in _queries_by_finest_cells(queries)
    ]
    together, reasons = plan_scans([query for query in queries if query.finest is None])
    for scan in together:
        joints = [_joint_table_record(spec, joint) for joint in scan.joints]
        tables = list(dict.fromkeys(part.query.name for part in scan.parts))
        records.append({"tables": tables, "joint_tables": joints})
    groups = groups_bounded_together(queries)
    full = [group for group in groups if len(group.queries) == MOST_TABLES]
    for bounded in groups:
        names = [query.name for query in bounded.queries]
        limit = f", for at most {MOST_TABLES} tables" if len(names) == MOST_TABLES else ""
        records.append({"tables": names, "bounded": BOUNDED_SCAN_TEXT + limit})
        reasons = {name: why for name, why in reasons.items() if name not in names}
    for query in queries:
        is_like = query.unit.id is not None and query.private is None
        if query.name in reasons and is_like and any(group.admits(query) for group in full):
            reasons[query.name] = [f"{MOST_TABLES} other tables already share a scan of its rows"]
    return records + [_single_table_record(name, why) for name, why in reasons.items()]


def _joint_table_record(spec: ReleaseSpec, joint: Joint) -> dict[str, Any]:
    """Return a joint table, with the properties that distinguish it from others of these keys."""
    tables = list(dict.fromkeys(part.query.name for part in joint.parts))
    keys = [key.column for key in joint.space.keys]
    shown: dict[str, Any] = {"keys": keys, "cells": joint.space.size, "tables": tables}
    where, candidates = spec.published_tables[tables[0]].where, joint.parts[0].candidates
    if where is not None:
        shown["where"] = where
    if candidates:
        shown["candidates"] = str(candidates[0])
    return shown


def _queries_by_finest_cells(queries: Sequence[Query]) -> list[tuple[KeySpace, list[Query]]]:
    """Return the finest cells of each family of tables, and the queries that are sums of them."""
    by_cells: dict[int, tuple[KeySpace, list[Query]]] = {}
    for query in queries:
        if query.finest is not None:
            by_cells.setdefault(id(query.finest), (query.finest, []))[1].append(query)
    return list(by_cells.values())


def _family_scan_record(finest: KeySpace, queries: Sequence[Query]) -> dict[str, Any]:
    """Return the object for the scan of a family: its tables and its finest cells."""
    bounded = queries[0].unit.id is not None
    cells = {"keys": [key.column for key in finest.keys], "cells": finest.size, "bounded": bounded}
    return {"tables": [query.name for query in queries], "finest_cells": cells}


def _single_table_record(name: str, why: Sequence[str]) -> dict[str, Any]:
    """Return the object for a scan of one table, with the reasons why it is alone."""
    return {"tables": [name], "alone": list(dict.fromkeys(why))}


def scans_text(spec: ReleaseSpec, queries: Sequence[Query]) -> str:
    """Return the result of `scan_records` as lines of text."""
    lines = ["How the rows are read; the numbers are the same either way:"]
    shown = scan_records(spec, queries)
    shared = {name for one in shown if "alone" not in one for name in one["tables"]}
    for one in shown:
        names = one_line(", ".join(one["tables"]))
        if "alone" in one:
            rest = ", the rest of its columns" if shared.issuperset(one["tables"]) else ""
            lines.append(f"  by itself   {names}{rest}: {'; '.join(one['alone'])}")
            continue
        lines.append(f"  one scan    {names}")
        if "finest_cells" in one:
            finest = one["finest_cells"]
            lines[-1] += (
                f": sums of {finest['cells']:,} finest cells, by {_key_names_text(finest['keys'])}"
                f"{', with contribution limits applied once' if finest['bounded'] else ''}"
            )
        if "bounded" in one:
            lines[-1] += f": {one['bounded']}, then limited for each table"
        lines += [
            f"              {_joint_table_text(joint)}" for joint in one.get("joint_tables", ())
        ]
    return "\n".join(lines)


def _joint_table_text(joint: Mapping[str, Any]) -> str:
    """Return a sentence on one joint table: its keys, its cells and its tables."""
    keys, tables = _key_names_text(joint["keys"]), joint["tables"]
    where = f", where {one_line(joint['where'])}" if "where" in joint else ""
    values = f", by values of {one_line(joint['candidates'])}" if "candidates" in joint else ""
    of = one_line(", ".join(tables)) if len(tables) <= MOST_NAMED else f"{len(tables)} of them"
    return f"joint table of {keys}{values}{where}: {joint['cells']:,} cells, for {of}"


def _key_names_text(names: Sequence[str]) -> str:
    """Return the names of keys as text; "all rows" if there are no keys."""
    return one_line(", ".join(names)) if names else "all rows"


def has_unknown_rows(planned: Plan) -> bool:
    """Return whether a table has private keys, so that its number of rows is unknown beforehand."""
    return any(column.query.cells is None for column in planned.columns)


def disk_space_texts(
    declaration: Declaration, planned: Plan, most: int | None, *, explain: bool
) -> list[str]:
    """Return a warning if the disk is too small, and the maximum bytes if they are explained."""
    if most is None:
        return []
    from dprelease.errors import OutputError
    from dprelease.release.disk import ROOM, refuse_full_disk, size_text, temporary_space

    name = one_line(declaration.spec.output)
    tables = [f"tables of at most {size_text(most)}"] if most else []
    found = ["a row for each key that is found in the data, an unknown number"]
    text = f"On the disk of '{name}': {', and '.join(tables + found * has_unknown_rows(planned))}."
    text += f" A run also needs room for its manifest and {size_text(ROOM)} more."
    scratch = temporary_space(declaration, planned.queries)
    if scratch is not None:
        text += f" In the temporary folder it uses at most {size_text(scratch[1])} while it runs."
    folder = declaration.folder / declaration.spec.output
    existing = next(path for path in (folder, *folder.parents, Path("/")) if path.is_dir())
    try:
        refuse_full_disk(existing, name, most + ROOM, declaration.place("output"), scratch)
    except OutputError as refused:
        warning = f"Warning: a run would fail. {refused.cause}"
        return [f"{text}\n{warning}" if explain else warning]
    return [text] if explain else []


MOST_LISTED = 12
"""Maximum number of files that are listed by name."""


def file_list(files: Sequence[str]) -> str:
    """Return the names of files; if they are too many, the number of files in each folder."""
    if len(files) <= MOST_LISTED:
        return ", ".join(files)
    by_folder = Counter(name.rpartition("/")[0] for name in files)
    several = [f"{n} in {folder}/" for folder, n in sorted(by_folder.items()) if folder]
    own = [name for name in files if "/" not in name]
    named = own if len(own) <= MOST_LISTED else [f"{len(own)} files"]
    return ", ".join([*named, *several])
