"""What is shown of how tables are read: which of them by one scan, and why not the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dprelease.errors.printable import one_line

if TYPE_CHECKING:
    from dprelease.query.grouping.group_keys import KeySpace
    from dprelease.query.resolve import Query
    from dprelease.query.scans.scan_planning import Joint
    from dprelease.schema.release import ReleaseSpec

BY_ITSELF = "this engine reads each table separately"
BOUNDED = "the rows are read, and ids numbered, only once if they fit in memory"
MOST_NAMED = 4
"""Tables that a line names; of more it tells the number."""


def reads(spec: ReleaseSpec, queries: Sequence[Query]) -> list[dict[str, Any]]:
    """Return an object for each scan: its tables, its joint tables, and why there is only one."""
    from dprelease.planning.kinds import kind_of

    read_alone = kind_of(spec).read_alone or (BY_ITSELF if spec.engine != "duckdb" else "")
    if read_alone:
        return [_alone(query.name, [read_alone]) for query in queries]
    from dprelease.query.scans.scan_planning import MOST_TABLES, bounded_together, scans

    objects = [_family(space, of_it) for space, of_it in _families(queries)]
    together, reasons = scans([query for query in queries if query.finest is None])
    for scan in together:
        joints = [_joint(spec, joint) for joint in scan.joints]
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
            reasons[query.name] = [f"{MOST_TABLES} other tables already share a scan of its rows"]
    return objects + [_alone(name, why) for name, why in reasons.items()]


def _joint(spec: ReleaseSpec, joint: Joint) -> dict[str, Any]:
    """Return a joint table, and what tells it from others of the same keys."""
    tables = list(dict.fromkeys(part.query.name for part in joint.parts))
    keys = [key.column for key in joint.space.keys]
    shown: dict[str, Any] = {"keys": keys, "cells": joint.space.size, "tables": tables}
    where, candidates = spec.published_tables[tables[0]].where, joint.parts[0].candidates
    if where is not None:
        shown["where"] = where
    if candidates:
        shown["candidates"] = str(candidates[0])
    return shown


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
    shown = reads(spec, queries)
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
                f": sums of {finest['cells']:,} finest cells, by {_keys(finest['keys'])}"
                f"{', with contribution limits applied once' if finest['bounded'] else ''}"
            )
        if "bounded" in one:
            lines[-1] += f": {one['bounded']}, then limited for each table"
        lines += [f"              {_joint_words(joint)}" for joint in one.get("joint_tables", ())]
    return "\n".join(lines)


def _joint_words(joint: Mapping[str, Any]) -> str:
    keys, tables = _keys(joint["keys"]), joint["tables"]
    where = f", where {one_line(joint['where'])}" if "where" in joint else ""
    values = f", by values of {one_line(joint['candidates'])}" if "candidates" in joint else ""
    of = one_line(", ".join(tables)) if len(tables) <= MOST_NAMED else f"{len(tables)} of them"
    return f"joint table of {keys}{values}{where}: {joint['cells']:,} cells, for {of}"


def _keys(names: Sequence[str]) -> str:
    return one_line(", ".join(names)) if names else "all rows"
