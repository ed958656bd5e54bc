"""What the manifests of all kinds of releases have in common."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from importlib import metadata as packages
from typing import Annotated, Literal, Self, TypeVar

from pydantic import Field

from dprelease.documents.audits.audit_name import NAME as AUDIT
from dprelease.documents.encoding import canonical, digest_of, sha256
from dprelease.documents.file_records import ExportRecord, FileRecord, Texts
from dprelease.documents.ledger_record import LedgerRecord
from dprelease.documents.metadata import Metadata
from dprelease.documents.treatments import TreatmentRecord
from dprelease.planning.bounded_words import bounded_words
from dprelease.planning.guarantees import budget_of
from dprelease.privacy.event import Event
from dprelease.privacy.guarantee import Guarantee
from dprelease.privacy.unit import Neighbours
from dprelease.query.resolve import Query
from dprelease.schema.document_part import Part
from dprelease.schema.load import Declaration
from dprelease.schema.public_values.large_files import KeptFile
from dprelease.version import __version__

Variant = Literal["pure", "approximate", "zero_concentrated"]
DEPENDENCIES = ("duckdb", "numpy", "scipy", "pyarrow", "python-flint", "dp-accounting")


class Tool(Part):
    """The tool and what it ran on."""

    name: str
    version: str
    dependencies: dict[str, str]


class KeptRecord(Part):
    """A file that the release was declared with: its form, digest and number of bytes."""

    form: Literal["csv", "parquet"]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    size: int


class NamedAudit(Part):
    """The outcome of an audit of the declaration, which stands beside the manifest."""

    file: Literal["audit.json"]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class DeclarationRecord(Part):
    """Every text that the release was declared with, and its digest; the values of variables.

    `files`: those that are no texts; a copy of each is in the folder `declaration`. `audit`: one
    that the release names.
    """

    release: str
    texts: dict[str, str]
    sha256: dict[str, str]
    variables: dict[str, str] = Field(default_factory=dict)
    files: dict[str, KeptRecord] = Field(default_factory=dict)
    audit: NamedAudit | None = None

    @property
    def kept(self) -> dict[str, KeptFile]:
        """Return the files that are no texts, by name."""
        return {
            name: KeptFile(file.sha256, file.size, file.form) for name, file in self.files.items()
        }


class AboutRecord(Part):
    """What readers are told of a release as a whole; texts are by language."""

    languages: list[str]
    titles: Texts = Field(default_factory=dict)
    description: Texts = Field(default_factory=dict)
    publisher: str | None = None
    contact: str | None = None
    licence: str | None = None
    period: str | None = None
    area: str | None = None
    version: str | None = None
    replaces: str | None = None
    methodology: str | None = None
    notes: list[Texts] = Field(default_factory=list)


class PrivacyParameters(Part):
    """Epsilon and delta as decimal texts."""

    epsilon: str
    delta: str


class GuaranteeRecord(PrivacyParameters):
    """The guarantee and how it was composed."""

    neighbours: Literal["add_remove", "replace"]
    accountant: Literal["pure", "pld", "zcdp"]
    pure_epsilon: str | None
    rho: str | None
    invariants: list[str] = Field(default_factory=list)
    holds: str | None = None

    @classmethod
    def of(cls, guarantee: Guarantee) -> Self:
        """Return the record of a guarantee."""
        return cls.model_validate(guarantee.to_json())

    @property
    def parameters(self) -> PrivacyParameters:
        """Return epsilon and delta alone."""
        return PrivacyParameters(epsilon=self.epsilon, delta=self.delta)


class MoveRecord(Part):
    """`cells` cells, each moved by at most `shift` steps."""

    shift: int
    cells: int | None


class SensitivityRecord(Part):
    """At most `slots` parts, each one of `moves`.

    `meeting`: in truth as many times fewer, of which up to `meeting` may touch the same cells; that
    costs no more.
    """

    slots: int
    moves: list[MoveRecord]
    meeting: int = 1


class NoiseRecord(Part):
    """The noise of one vector."""

    query: str
    column: str
    mechanism: str
    parameters: dict[str, str]
    sensitivity: SensitivityRecord
    step: str
    unit: str
    chosen_by: str

    @property
    def event(self) -> Event:
        """Return the event from which an accountant computes the privacy cost."""
        return Event.from_json(self.to_json())


class UnitRecord(Part):
    """The privacy unit of one query."""

    query: str
    table: str
    id: str | None
    max_groups: int
    max_rows_per_group: int
    neighbours: Literal["add_remove", "replace"]
    words: str


class PosteriorRecord(Part):
    """A prior belief in a statement about a privacy unit, and the most that it can become."""

    prior: float
    posterior: float


class ReadingRecord(Part):
    """What the guarantee means for an attacker."""

    least_total_error: float
    least_total_error_words: str
    largest_posterior: list[PosteriorRecord]
    largest_posterior_words: str
    invariants_words: str | None = None


class ReleaseManifest(Part):
    """What the manifests of all kinds of releases, and of their rehearsals, have in common."""

    format: str
    title: str
    about: AboutRecord | None = None
    tool: Tool
    declaration: DeclarationRecord
    dp_variant: str
    measurements: Sequence[NoiseRecord]
    treatments: list[TreatmentRecord]
    files: Sequence[FileRecord]
    post_processing: list[str]
    unprotected_quantities: list[str]
    digest: str

    def sealed(self) -> Self:
        """Return the manifest with the SHA-256 of its encoding without that digest."""
        return self.model_copy(update={"digest": digest_of(self.to_json())})

    def changed(self, **changes: object) -> Self:
        """Return the manifest with other values of some keys, sealed."""
        return self.model_copy(update=changes).sealed()

    @property
    def paid_by(self) -> LedgerRecord | None:
        """Return the entry of the ledger that paid for the release; None without a ledger."""
        return None

    def as_read(self) -> Self:
        """Return the manifest as a reader gets it, with the keys of all mappings in order."""
        return self.model_validate(json.loads(canonical(self.to_json())))

    @property
    def table_files(self) -> list[str]:
        """Return the names of all files of published tables, in the order of the manifest."""
        return [name for file in self.files for name in file.digests]

    def as_form(self, form: type[Manifest], **changes: object) -> Manifest:
        """Return the sealed manifest of another form, with the keys that it has too."""
        own = {name: value for name, value in self if name in form.model_fields}
        return form.model_validate({**own, **changes}).sealed()


class GuaranteedManifest(ReleaseManifest):
    """What the manifests of tables and of single records have in common."""

    privacy_parameters: PrivacyParameters
    guarantee: GuaranteeRecord
    ledger: LedgerRecord | None
    composition: str
    reading: ReadingRecord
    exports: list[ExportRecord] = Field(default_factory=list)

    @property
    def paid_by(self) -> LedgerRecord | None:
        """Return the entry of the ledger that paid for the release; None without a ledger."""
        return self.ledger

    def without_exports(self) -> Self:
        """Return the manifest that the exports of a release are made from."""
        return self.model_copy(update={"exports": [], "digest": ""})


Manifest = TypeVar("Manifest", bound=ReleaseManifest)
AnyGuaranteed = TypeVar("AnyGuaranteed", bound=GuaranteedManifest)


def opening(form: str, declaration: Declaration, metadata: Metadata) -> dict[str, object]:
    """Return what every manifest has first; its digest is empty until it is sealed."""
    return {
        "format": form,
        "title": declaration.spec.title,
        "about": _about(declaration, metadata),
        "tool": tool(),
        "declaration": _declaration(declaration),
        "dp_variant": budget_of(declaration.spec.budget).variant.value,
        "digest": "",
    }


def _about(declaration: Declaration, metadata: Metadata) -> AboutRecord | None:
    """Return what the manifest says of the release as a whole; None if nothing was declared."""
    if declaration.spec.about is None:
        return None
    texts = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(metadata.about).items()
        if value and name != "title"
    }
    return AboutRecord.model_validate({"languages": list(metadata.languages), **texts})


def _declaration(declaration: Declaration) -> DeclarationRecord:
    texts, audit = dict(declaration.texts), declaration.audit
    kept = {
        name: {"form": file.form, "sha256": file.sha256, "size": file.size}
        for name, (file, _) in declaration.kept.items()
    }
    return DeclarationRecord.model_validate(
        {
            "release": declaration.document.path.name,
            "texts": texts,
            "sha256": {name: sha256(text.encode()) for name, text in texts.items()},
            "variables": dict(declaration.variables),
            "files": kept,
            "audit": None if audit is None else {"file": AUDIT, "sha256": sha256(audit)},
        }
    )


def tool() -> Tool:
    """Return the tool and what it runs on."""
    versions = {name: _version(name) for name in DEPENDENCIES}
    return Tool(name="dprelease", version=__version__, dependencies=versions)


@cache
def _version(name: str) -> str:
    """Return the installed version of a package.

    Not `metadata.version`: it parses all that a package says of itself, as if it were a mail.
    """
    text = packages.distribution(name).read_text("METADATA") or ""
    match = re.search(r"^Version: *(\S+)", text, re.MULTILINE)
    return packages.version(name) if match is None else match[1]


def composition(guarantee: Guarantee) -> str:
    """Return in words how losses were composed."""
    if guarantee.accountant == "pure":
        return (
            "The exact sum of the largest privacy losses of all noisy vectors (basic composition)."
        )
    if guarantee.accountant == "zcdp":
        return (
            "The sum of Rényi curves, rounded up; rho bounds it at all orders. Epsilon at delta is "
            "the smaller result of privacy-loss distributions and of the conversion of rho."
        )
    return (
        "Privacy-loss distributions, rounded to the safe side, composed by sums of positive "
        "floating-point numbers, whose relative errors are bounded and included; or the sum of "
        "pure losses or the closed form of normal noise where that is smaller."
    )


UNLIMITED = "No contribution limit leaves out rows; the treatments state which rows count."


def unit_record(query: Query) -> UnitRecord:
    """Return the record of the privacy unit of a query."""
    unit = query.unit
    who = "each row" if unit.id is None else f"all rows with the same '{unit.id}'"
    change = (
        "one privacy unit more or less"
        if query.neighbours is Neighbours.ADD_REMOVE
        else "one privacy unit replaced by another"
    )
    limits = f"Values are {bounded_words(query)}." if unit.bounded_rows else UNLIMITED
    return UnitRecord.model_validate(
        {
            "query": query.name,
            "table": query.table.name,
            "id": unit.id,
            "max_groups": unit.max_groups,
            "max_rows_per_group": unit.max_rows_per_group,
            "neighbours": query.neighbours.value,
            "words": f"A privacy unit is {who}. Neighbouring tables differ by {change}. {limits}",
        }
    )
