"""`python -m tests.added FOLDER`: declare, plan, publish and verify what was added; print what is found."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.added.register import register

if __name__ == "__main__":
    register()
    from tests.added import looks

    print(json.dumps(looks.all_of(Path(sys.argv[1]))))
