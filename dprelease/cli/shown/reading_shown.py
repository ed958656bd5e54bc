"""What is shown of how tables are read: which of them by one scan, and why not the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dprelease.errors.printable import one_line

if TYPE_CHECKING:
    from dprelease.query.grouping.group_keys import KeySpace
    from dprelease.query.resolve import Query
    from dprelease.schema.release import ReleaseSpec

BY_ITSELF = "this engine reads each table by itself"
BOUNDED = "if memory holds the rows, they are read, and ids numbered, once"
RECORD_BY_RECORD = "records are noised one by one"


def reads(spec: ReleaseSpec, queries: Sequence[Query]) -> list[dict[str, Any]]:
    """Return an object for each scan: its tables, its joint tables, and why there is only one."""
    if spec.mode == "local":
        return [_alone(query.name, [RECORD_BY_RECORD]) for query in queries]
    if spec.engine != "duckdb":
        return [_alone(query.name, [BY_ITSELF]) for query in queries]
    from dprelease.query.scans.joint import MOST_TABLES, bounded_together, scans

    objects = [_family(space, of_it) for space, of_it in _families(queries)]
    together, reasons = scans([query for query in queries if query.finest is None])
    for scan in together:
        joints = [
            {
                "keys": [key.column for key in joint.space.keys],
                "cells": joint.space.size,
                "tables": list(dict.fromkeys(part.query.name for part in joint.parts)),
            }
            for joint in scan.joints
        ]
        tables = list(dict.fromkeys(part.query.name for part in scan.parts))
        objects.append({"tables": tables, "joint_tables": joints})
    groups = bounded_together(queries)
    full = [group for group in groups if len(group.queries) == MOST_TABLES]
    for bounded in groups:
        names = [query.name for query in bounded.queries]
        limit = f", for at most {MOST_TABLES} tables" if len(names) == MOST_TABLES else ""
        objects.append({"tables": names, "bounded": BOUNDED + limit})
        reasons = {name: why for name, why in reasons.items() if name not in names}
    for query in queries:
        is_like = query.unit.id is not None and query.private is None
        if query.name in reasons and is_like and any(group.admits(query) for group in full):
            reasons[query.name] = [f"{MOST_TABLES} other tables share a reading of its rows"]
    return objects + [_alone(name, why) for name, why in reasons.items()]


def _families(queries: Sequence[Query]) -> list[tuple[KeySpace, list[Query]]]:
    """Return the tables that are sums of the same finest cells, and these."""
    by_cells: dict[int, tuple[KeySpace, list[Query]]] = {}
    for query in queries:
        if query.finest is not None:
            by_cells.setdefault(id(query.finest), (query.finest, []))[1].append(query)
    return list(by_cells.values())


def _family(finest: KeySpace, queries: Sequence[Query]) -> dict[str, Any]:
    bounded = queries[0].unit.id is not None
    cells = {"keys": [key.column for key in finest.keys], "cells": finest.size, "bounded": bounded}
    return {"tables": [query.name for query in queries], "finest_cells": cells}


def _alone(name: str, why: Sequence[str]) -> dict[str, Any]:
    return {"tables": [name], "alone": list(dict.fromkeys(why))}


def reads_words(spec: ReleaseSpec, queries: Sequence[Query]) -> str:
    """Return the same in lines."""
    lines = ["How the rows are read; the numbers are the same either way:"]
    for one in reads(spec, queries):
        names = one_line(", ".join(one["tables"]))
        if "alone" in one:
            lines.append(f"  by itself   {names}: {'; '.join(one['alone'])}")
            continue
        lines.append(f"  one scan    {names}")
        if "finest_cells" in one:
            finest = one["finest_cells"]
            lines[-1] += (
                f": sums of {finest['cells']:,} finest cells, by {_keys(finest['keys'])}"
                f"{', where ids are bounded once' if finest['bounded'] else ''}"
            )
        if "bounded" in one:
            lines[-1] += f": {one['bounded']}, then bounded for each table"
        lines += [
            f"              joint table of {_keys(joint['keys'])}: {joint['cells']:,} cells, for "
            f"{len(joint['tables'])} of them"
            for joint in one.get("joint_tables", ())
        ]
    return "\n".join(lines)


def _keys(names: Sequence[str]) -> str:
    return one_line(", ".join(names)) if names else "all rows"
