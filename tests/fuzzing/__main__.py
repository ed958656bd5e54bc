"""`python -m tests.fuzzing SECONDS [FOLDER] [SEED]`, and `python -m tests.fuzzing again FOLDER`.

The first searches, and leaves what breaks a promise in a folder of its own; the second tries what
is in such a folder, and says again what is wrong with it.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tests.exact.spark import small_pieces
from tests.fuzzing.checks import check
from tests.fuzzing.searching import search_for


def main(words: list[str]) -> int:
    if words[0] == "again":
        check(Path(words[1]))
        print("every promise is kept")
        return 0
    folder = Path(words[1] if len(words) > 1 else "out/fuzzing")
    seed = int(words[2]) if len(words) > 2 else time.time_ns()
    with small_pieces(2):
        found = search_for(float(words[0]), folder, seed)
    refused = ", ".join(f"{number} {code}" for code, number in found.refused.most_common())
    print(f"{found.tried} releases from the seed {seed} on, every promise kept; refused: {refused}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
