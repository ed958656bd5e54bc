"""A Dockerfile read without Docker: its stages, and what is wrong with it.

The rules are those of common linters, by hand: what they would say of a base image without a version,
of a shell form that swallows signals, of caches that stay in the image, of root at the end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

KNOWN = (
    "FROM", "ARG", "ENV", "LABEL", "WORKDIR", "COPY", "RUN", "USER", "ENTRYPOINT", "CMD",
)  # fmt: skip
"""Instructions that the file may have: the rest is not needed (ADD fetches, VOLUME hides)."""


@dataclass
class Stage:
    """One stage: its base image, its name, and its instructions in order."""

    image: str
    name: str | None
    steps: list[tuple[str, str]] = field(default_factory=list)

    def all(self, word: str) -> list[str]:
        """Return the arguments of every instruction of a kind."""
        return [text for kind, text in self.steps if kind == word]


def instructions(text: str) -> list[tuple[str, str]]:
    """Return the instructions of a Dockerfile, with lines that go on in one piece."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    whole = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    found = [line.strip().partition(" ") for line in whole.splitlines() if line.strip()]
    return [(word, rest.strip()) for word, _, rest in found]


def stages(text: str) -> list[Stage]:
    """Return the stages of a Dockerfile."""
    found: list[Stage] = []
    for word, rest in instructions(text):
        if word == "FROM":
            image, _, name = rest.partition(" AS ")
            found.append(Stage(image.strip(), name.strip() or None))
        else:
            found[-1].steps.append((word, rest))
    return found


def faults(text: str) -> list[str]:
    """Return what is wrong with a Dockerfile."""
    parts = stages(text)
    found = [f"{word} is not one of {KNOWN}" for word, _ in instructions(text) if word not in KNOWN]
    for stage in parts:
        found += _of_a_stage(stage, {part.name for part in parts})
    return [*found, *_of_the_image(parts[-1])]


def _of_a_stage(stage: Stage, names: set[str | None]) -> Iterator[str]:
    if not re.fullmatch(r"[a-z/]+:\d+\.\d+-slim(?:-[a-z]+)?", stage.image):
        yield f"the image {stage.image} is not a slim one of a version"
    for command in stage.all("RUN"):
        if "pip install" in command and "--no-cache-dir" not in command:
            yield "pip leaves its cache in the image"
        if re.search(r"\bsudo\b|\bcurl\b|\bwget\b|apt-get|;", command):
            yield f"not to be run here: {command}"
    for copied in stage.all("COPY"):
        origin = re.search(r"--from=(\S+)", copied)
        if origin and origin[1] not in names:
            yield f"there is no stage {origin[1]}"
        if not origin and copied.split()[0] in (".", "./"):
            yield "everything is copied"
    for place in stage.all("WORKDIR"):
        if not place.startswith("/"):
            yield f"the folder {place} depends on another"


def _of_the_image(last: Stage) -> Iterator[str]:
    users = last.all("USER")
    if not users or not re.fullmatch(r"[1-9]\d*:[1-9]\d*", users[-1]):
        yield "it runs as root, or as a name that a cluster can't check"
    for word in ("ENTRYPOINT", "CMD"):
        found = last.all(word)
        if len(found) != 1 or not _is_list(found[0]):
            yield f"{word} is not one list of words: a shell would get the signals"
    if last.all("RUN"):
        yield "something is run in the stage that is kept"


def _is_list(text: str) -> bool:
    try:
        return isinstance(json.loads(text), list)
    except ValueError:
        return False


def environment(stage: Stage) -> dict[str, str]:
    """Return the variables that a stage sets."""
    pairs = (pair for text in stage.all("ENV") for pair in text.split())
    return dict(pair.split("=", 1) for pair in pairs)
