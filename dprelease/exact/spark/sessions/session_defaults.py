"""Read Spark's configuration on this machine without starting Spark."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Self

DEFAULTS_FILE = "spark-defaults.conf"


class Defaults(dict[str, str]):
    """Settings of `spark-defaults.conf`; a release's own settings override them."""

    @classmethod
    def read(cls) -> Self:
        """Return the settings that Spark would read; empty if the file is missing or not text."""
        try:
            text = (_configuration_folder() / DEFAULTS_FILE).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return cls()
        lines = (line.strip() for line in text.splitlines())
        pairs = (re.split(r"\s*[=:\s]\s*", line, maxsplit=1) for line in lines if line)
        return cls((name, rest[0]) for name, *rest in pairs if rest and name[0] not in "#!")


def _configuration_folder() -> Path:
    """Return the folder of Spark's configuration."""
    named = os.environ.get("SPARK_CONF_DIR")
    if named:
        return Path(named)
    home = os.environ.get("SPARK_HOME")
    if home:
        return Path(home) / "conf"
    package = find_spec("pyspark")
    return Path(package.origin).parent / "conf" if package and package.origin else Path("conf")
