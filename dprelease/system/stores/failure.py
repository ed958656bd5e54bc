"""Why a store could not be read; the messages of clients are dropped, for they name keys."""

from __future__ import annotations

from enum import Enum


class Cause(Enum):
    """Why a store could not be read: the reason in words, and what to do."""

    MISSING = ("the store has no such object", "check the bucket and the path")
    DENIED = (
        "the store refused access",
        "check the credentials in the environment, and their permission to read and list",
    )
    CHANGED = (
        "an object changed, or objects were added or removed, while they were copied",
        "run again when no other program writes there",
    )
    UNREACHABLE = (
        "the store can't be reached, or did not answer as expected",
        "check the address, the network, and the variables of the environment that name the "
        "region, the endpoint and the credentials",
    )
    NO_SPACE = (
        "its copy can't be written",
        "free space in the temporary folder, or declare another one in `duckdb`, as "
        "`temp_directory`",
    )


class StoreError(Exception):
    """A store could not be read; without any text of the store."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(cause.value[0])
        self.cause = cause
