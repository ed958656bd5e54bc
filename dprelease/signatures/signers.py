"""Read lists of allowed signers in the format of OpenSSH (ssh-keygen(1), ALLOWED SIGNERS).

A line has principals, options and a public key: it says who may sign with the key, for what
purpose, and when. Lines that OpenSSH rejects are rejected with their line number, and so are lines
with certificate authorities, which are not supported. Lines are parsed as in the function
`sshsig_check_allowed_keys` of OpenSSH: the only escape sequence is `\\"`, and only blanks and tabs
separate fields.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from dprelease.errors import Place, SignatureError
from dprelease.signatures.sshsig import ED25519, SshReader, parse_base64, raw_public_key
from dprelease.system.files import read_file, reason_of

MOST_BYTES = 1 << 20
QUOTED = r'"((?:\\"|[^"\\]|\\(?!"))*)"'
"""The pattern of a text in quotes, in which a backslash is literal except before a quote."""

OPTION = re.compile(rf"([A-Za-z-]+)(?:={QUOTED})?")
OPTIONS = re.compile(rf'((?:\\"|[^ \t"\\]|\\(?!")|{QUOTED})+)[ \t]+(.*)$', re.DOTALL)
PRINCIPALS = re.compile(r'"([^"]+)"[ \t\r]*(.*)$|([^\s"]+)[ \t\r]+(.*)$', re.DOTALL)
KEY_TYPES = re.compile(
    r"(ssh-(rsa|dss|ed25519)|ecdsa-sha2-nistp(256|384|521))(-cert-v01@openssh\.com)?"
    r"|sk-(ssh-ed25519|ecdsa-sha2-nistp256)(-cert-v01)?@openssh\.com"
)
"""The pattern of the types of keys that OpenSSH supports."""

LONGEST_PATTERN = 1022
"""The maximum bytes of a pattern: in a list with a longer pattern, OpenSSH finds no match."""

UTC_SUFFIX = re.compile(r"(?i)(?:z|utc)$")
TIME_FORMATS = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}


@dataclass(frozen=True, slots=True)
class Signer:
    """One line of a list: the owner of a key, its namespaces, and its period of validity."""

    principals: str
    public: bytes
    namespaces: str | None = None
    after: datetime | None = None
    before: datetime | None = None
    is_local: bool = False
    """Whether a time of the line is a local time, in the time zone of the machine that reads it."""

    def refusal(self, namespace: str, at: datetime) -> str | None:
        """Return why the key was not valid for a namespace at a time; None if it was valid."""
        if not _match_anyone(self.principals):
            return f"the principals {self.principals} match nobody"
        if self.namespaces is not None and not _matches_patterns(namespace, self.namespaces):
            return f"it may not sign for the namespace {namespace}"
        if self.after is not None and at < self.after:
            return f"it is valid only after {self.after.isoformat()}"
        if self.before is not None and at > self.before:
            return f"it was valid only before {self.before.isoformat()}"
        return None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of a list on a key: the key's owner, or why the key is not accepted."""

    principals: str = ""
    known: bool = False
    refusal: str = ""

    @property
    def is_accepted(self) -> bool:
        """Return whether a signature by the key is accepted."""
        return self.known and not self.refusal


@dataclass(frozen=True, slots=True)
class Signers:
    """A list of allowed signers, and its text."""

    text: str
    lines: tuple[Signer, ...]

    def judge(self, public: bytes, namespace: str, at: datetime) -> Verdict:
        """Return the verdict on a key, which is accepted if at least one line accepts the key."""
        refusal, known = "", False
        for line in self.lines:
            if line.public != public:
                continue
            reason = line.refusal(namespace, at)
            if reason is None:
                return Verdict(line.principals, known=True)
            refusal, known = refusal or reason, True
        return Verdict(known=known, refusal=refusal)


def read_signers(path: Path) -> Signers:
    """Return the list of signers in a file.

    Raises SignatureError: DP-SIGN-008 if the file can't be read, 007 for its first invalid line.
    """
    problem = ""
    try:
        text = read_file(path, MOST_BYTES).decode("utf-8")
    except UnicodeDecodeError:
        problem = "it is not UTF-8"
    except OSError as refused:
        problem = reason_of(refused)
    if problem:
        raise SignatureError("DP-SIGN-008", place=Place(path.name), problem=problem)
    return signers_of(text, path.name)


@lru_cache(maxsize=16)
def signers_of(text: str, name: str) -> Signers:
    """Return the list of signers in a text, which messages call `name`.

    The errors are those of `read_signers`.
    """
    lines = tuple(_parse_lines(text, name))
    if not lines:
        raise SignatureError("DP-SIGN-007", place=Place(name), problem="no line names a key")
    return Signers(text, lines)


def _parse_lines(text: str, name: str) -> Iterator[Signer]:
    """Yield the signers in the lines of a file; raise DP-SIGN-007 for an invalid line."""
    for number, line in enumerate(text.split("\n"), start=1):
        entry = line.strip(" \t\r")
        if not entry or entry.startswith("#"):
            continue
        problem = ""
        try:
            yield _parse_line(entry)
        except ValueError as refused:
            problem = str(refused)
        if problem:
            raise SignatureError("DP-SIGN-007", place=Place(name, number), problem=problem)


def _parse_line(line: str) -> Signer:
    """Return the signer in a line; raise ValueError for an invalid line."""
    principals, rest = _split_principals(line)
    public, options = _leading_key(rest), ""
    if public is None:
        options, rest = _split_options(rest)
        public = _leading_key(rest)
    if public is None:
        raise ValueError("principals and options must be followed by a key type and the key")
    found = _parse_options(options)
    if "cert-authority" in found:
        raise ValueError("certificate authorities are not supported: list the keys themselves")
    after, before = (_parse_time(found.get(name)) for name in ("valid-after", "valid-before"))
    if after is not None and before is not None and before <= after:
        raise ValueError("valid-before is not after valid-after")
    times = (found.get(name, "Z") for name in ("valid-after", "valid-before"))
    is_local = not all(map(UTC_SUFFIX.search, times))
    return Signer(principals, public, found.get("namespaces"), after, before, is_local)


def _split_principals(line: str) -> tuple[str, str]:
    """Return the principals at the beginning of a line, and the rest of the line."""
    match = PRINCIPALS.match(line)
    if match is None:
        raise ValueError("a line must begin with principals, such as steward@office.example")
    return match[1] or match[3], match[2] or match[4] or ""


def _leading_key(text: str) -> bytes | None:
    """Return the key at the beginning of a text; None if the text does not begin with a key."""
    fields = re.split(r"[ \t]+", text, maxsplit=2)
    if len(fields) < 2 or not KEY_TYPES.fullmatch(fields[0]):
        return None
    try:
        public = parse_base64(fields[1].encode())
        kind = SshReader(public).string()
        if kind == ED25519:
            raw_public_key(public)
    except ValueError:
        return None
    return public if kind == fields[0].encode() else None


def _split_options(text: str) -> tuple[str, str]:
    """Return the options at the beginning of a text, up to a blank, and the remaining text."""
    match = OPTIONS.match(text)
    if match is None:
        raise ValueError("principals and options must be followed by a key type and the key")
    return match[1], match[3]


def _parse_options(text: str) -> dict[str, str]:
    """Return the values of options by their names; raise ValueError for invalid options."""
    found: dict[str, str] = {}
    rest = text.lstrip(",")
    if text and not rest:
        raise ValueError("a comma must be followed by an option")
    while rest:
        match = OPTION.match(rest)
        name = match[1].lower() if match else ""
        valued = match is not None and match[2] is not None
        if (
            match is None
            or name not in TAKES_VALUE
            or TAKES_VALUE[name] is not valued
            or name in found
        ):
            raise ValueError(f"'{rest[:40]}' is not a known option, or is listed twice")
        found[name] = (match[2] or "").replace('\\"', '"')
        rest_of_text = rest[match.end() :]
        rest = rest_of_text.lstrip(",")
        if rest_of_text and (rest_of_text[0] != "," or not rest):
            raise ValueError(f"options must be separated by a comma, not '{rest_of_text[:40]}'")
    return found


TAKES_VALUE = {
    "cert-authority": False,
    "namespaces": True,
    "valid-after": True,
    "valid-before": True,
}
"""Whether an option has a value, by the name of the option."""


def _parse_time(text: str | None) -> datetime | None:
    """Return the time in a text in OpenSSH's format, which is local time unless it ends with Z."""
    if text is None:
        return None
    digits = UTC_SUFFIX.sub("", text)
    form = TIME_FORMATS.get(len(digits))
    try:
        if form is None or not (digits.isascii() and digits.isdigit()):
            raise ValueError
        read = datetime.strptime(digits, form)
        moment = read.replace(tzinfo=UTC) if digits != text else _standard_time(read)
        if moment.timestamp() <= 0:  # OpenSSH treats such a time as missing
            raise ValueError
        return moment
    except (ValueError, OverflowError, OSError):
        words = (
            "a time is written YYYYMMDD, YYYYMMDDHHMM or YYYYMMDDHHMMSS, with Z for UTC, and is "
            "later than 1970 began"
        )
        raise ValueError(words) from None


def _standard_time(local: datetime) -> datetime:
    """Return the UTC time of a local time, read without daylight saving time as OpenSSH does."""
    fields = (*local.timetuple()[:8], 0)
    return datetime.fromtimestamp(time.mktime(fields), UTC)


def _matches_patterns(name: str, patterns: str) -> bool:
    """Return whether a name matches a pattern of a list, and no negated pattern of the list."""
    found = False
    for pattern in patterns.split(","):
        is_negated, text = pattern.startswith("!"), pattern.removeprefix("!")
        # The whole list fails, as in OpenSSH, so that no negated pattern is skipped.
        if len(text.encode()) > LONGEST_PATTERN:
            return False
        expression = re.escape(text).replace(r"\*", ".*").replace(r"\?", ".")
        if re.fullmatch(expression, name, re.DOTALL):
            if is_negated:
                return False
            found = True
    return found


@lru_cache(maxsize=256)
def _match_anyone(principals: str) -> bool:
    """Return whether there is a name that `ssh-keygen -Y verify -I` accepts for the principals.

    The function tries names that it makes from the patterns: it replaces `*` by no, one, two or
    many letters that are in no pattern. For lists with unusual negated patterns the result may be
    False although a name is accepted.
    """
    letter = next(chr(code) for code in range(97, 0x10000) if chr(code) not in principals)
    for pattern in principals.split(","):
        if pattern.startswith("!"):
            continue
        for many in (0, 1, 2, len(principals)):
            name = pattern.replace("?", letter).replace("*", letter * many)
            if name and _matches_patterns(name, principals):
                return True
    return False
