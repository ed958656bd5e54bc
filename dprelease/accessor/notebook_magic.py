"""`%%dpsql` of notebooks: a cell with one SELECT over a frame that is registered with a session."""

from __future__ import annotations

import re
import sys
from functools import partial, update_wrapper
from typing import Any

import pandas as pd

from dprelease.errors import DpReleaseError, UsageError
from dprelease.errors.printable import printable

LINE = re.compile(r"\s*(?:([A-Za-z_]\w*)\s*=\s*)?([A-Za-z_]\w*)\s*(?:,(.*))?", re.DOTALL)
EXAMPLE = "%%dpsql people, epsilon=0.5"


def register(shell: Any) -> None:
    """Add `%%dpsql` to a notebook."""
    magic = update_wrapper(partial(dpsql, shell), dpsql)  # `%%dpsql?` shows its docstring
    shell.register_magic_function(magic, "cell", "dpsql")


def dpsql(shell: Any, line: str, cell: str) -> pd.DataFrame | None:
    """Return the noisy answer of the SELECT in a cell; print errors of this package.

    `line`: a variable with a frame that is registered with a session, and the options of
    `df.dp.sql` as in Python, such as `people, epsilon=0.5, margins=True`. With `answer = ` before
    it, the answer is stored in this variable and not shown.
    """
    try:
        found = LINE.fullmatch(line)
        frame: Any = None if found is None else shell.user_ns.get(found[2])
        if found is None or not hasattr(frame, "dp"):
            wanted = f"the name of a frame, as in {EXAMPLE}"
            kind = "an unknown name" if frame is None else f"a {type(frame).__name__}"
            kind = "this line" if found is None else kind
            raise UsageError("DP-SESSION-016", name="%%dpsql", wanted=wanted, kind=kind)
        options = shell.ev(f"dict({found[3] or ''})")
        answer: pd.DataFrame = frame.dp.sql(cell.strip(), **options)
    except DpReleaseError as error:
        print(printable(str(error)), file=sys.stderr)
        return None
    if found[1]:
        shell.user_ns[found[1]] = answer
        return None
    return answer
