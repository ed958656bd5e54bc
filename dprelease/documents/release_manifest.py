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

from dprelease.documents.encoding import AUDIT, canonical, digest_of, sha256
from dprelease.documents.file_records import ExportRecord, FileRecord, LedgerRecord, Texts
from dprelease.documents.metadata import Metadata
from dprelease.planning.bounded_words import contribution_limits_text
from dprelease.planning.guarantees import budget_of
from dprelease.planning.treatments import TreatmentRecord
from dprelease.privacy.guarantee import Event, Guarantee
from dprelease.privacy.unit import Neighbours
from dprelease.query.resolve import Query
from dprelease.schema.document_part import Part
from dprelease.schema.load import Declaration
from dprelease.schema.public_values.large_files import FileCopy
from dprelease.version import __version__

Variant = Literal["pure", "approximate", "zero_concentrated"]
DEPENDENCIES = ("duckdb", "numpy", "scipy", "pyarrow", "python-flint", "dp-accounting")


class Tool(Part):
    """The tool that made the release, and the software on which it ran."""

    name: str
    version: str
    dependencies: dict[str, str]


class FileCopyRecord(Part):
    """A file that the declaration refers to: its form, its digest and its number of bytes."""

    form: Literal["csv", "parquet"]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    size: int


class AuditReference(Part):
    """The outcome of an audit of the declaration, which is published next to the manifest."""

    file: Literal["audit.json"]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class DeclarationRecord(Part):
    """Every text of the declaration, its digest, and the values of variables.

    `files`: files of the declaration other than texts; the folder `declaration` has a copy of each.
    `audit`: the audit that the release names. `replaced_sources`: the tables that the run read from
    another path than the declared one. `table_versions`: the versions of tables of lakehouse
    formats that the run read, by the name of the table. `chooses`: what this release chooses
    privately for the declared release, which follows.
    """

    release: str
    texts: dict[str, str]
    sha256: dict[str, str]
    variables: dict[str, str] = Field(default_factory=dict)
    files: dict[str, FileCopyRecord] = Field(default_factory=dict)
    audit: AuditReference | None = None
    replaced_sources: list[str] = Field(default_factory=list)
    table_versions: dict[str, Annotated[str, Field(pattern="^[0-9]+$")]] = Field(
        default_factory=dict
    )
    chooses: Literal["limits"] | None = None

    @property
    def file_copies(self) -> dict[str, FileCopy]:
        """Return the files of the declaration that are not texts, by name."""
        return {
            name: FileCopy(file.sha256, file.size, file.form) for name, file in self.files.items()
        }


class AboutRecord(Part):
    """The declared facts for readers about a release as a whole; texts are by language."""

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
    """The guarantee, and the composition theorem that it follows from.

    `rho_delta`: the probability of events for which rho does not hold; missing if it is 0.
    """

    neighbours: Literal["add_remove", "replace"]
    accountant: Literal["pure", "pld", "zcdp"]
    pure_epsilon: str | None
    rho: str | None
    rho_delta: str | None = None
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
    """A bound on a change: at most `slots` parts change, each by one of `moves`.

    `meeting`: in truth, the number of changed parts is smaller by this factor, and up to `meeting`
    of them may change the same cells. This costs no more than the recorded bound.
    `of_all_rows`: in truth, more cells may change, if the sum of all changes is no larger. This
    costs no more, but only for selections and for symmetric log-concave noise.
    """

    slots: int
    moves: list[MoveRecord]
    meeting: int = 1
    of_all_rows: bool = False


class NoiseRecord(Part):
    """The noise of one vector: its mechanism, its parameters and its sensitivity."""

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
    max_rows: int | None = None
    neighbours: Literal["add_remove", "replace"]
    words: str


class PosteriorRecord(Part):
    """A prior belief in a statement about a privacy unit, and the largest posterior belief."""

    prior: float
    posterior: float


class ReadingRecord(Part):
    """The meaning of the guarantee for an attacker, as bounds on guesses and on beliefs."""

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
        """Return the sealed manifest with other values of some keys."""
        return self.model_copy(update=changes).sealed()

    @property
    def noise_of_all(self) -> Sequence[NoiseRecord]:
        """Return the noise of all vectors for which the stated guarantee holds."""
        return self.measurements

    @property
    def ledger_entry(self) -> LedgerRecord | None:
        """Return the ledger entry that paid for the release; None without a ledger."""
        return None

    def as_read(self) -> Self:
        """Return the manifest as a reader parses it, with the keys of all mappings sorted."""
        # The encoding sorts keys, and exports follow the order of the manifest's mappings: made
        # from the manifest in memory, they would differ from those that a verifier makes again.
        return self.model_validate(json.loads(canonical(self.to_json())))

    @property
    def table_files(self) -> list[str]:
        """Return the names of all files of published tables, in the order of the manifest."""
        return [name for file in self.files for name in file.digests]

    def as_form(self, form: type[Manifest], **changes: object) -> Manifest:
        """Return the sealed manifest in another form, with the keys that both forms have."""
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
    def ledger_entry(self) -> LedgerRecord | None:
        """Return the ledger entry that paid for the release; None without a ledger."""
        return self.ledger

    def without_exports(self) -> Self:
        """Return the manifest from which exports are made, which lacks their entries."""
        # The digest covers the entries of exports, which are known only when these are made.
        return self.model_copy(update={"exports": [], "digest": ""})


Manifest = TypeVar("Manifest", bound=ReleaseManifest)
AnyGuaranteed = TypeVar("AnyGuaranteed", bound=GuaranteedManifest)


def first_keys(form: str, declaration: Declaration, metadata: Metadata) -> dict[str, object]:
    """Return the first keys of every manifest; the digest is empty until the manifest is sealed."""
    return {
        "format": form,
        "title": declaration.spec.title,
        "about": _about_record(declaration, metadata),
        "tool": tool_record(),
        "declaration": declaration_record(declaration),
        "dp_variant": budget_of(declaration.spec.budget).variant.value,
        "digest": "",
    }


def _about_record(declaration: Declaration, metadata: Metadata) -> AboutRecord | None:
    """Return the manifest's facts about the release as a whole; None if nothing was declared."""
    if declaration.spec.about is None:
        return None
    texts = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(metadata.about).items()
        if value and name != "title"
    }
    return AboutRecord.model_validate({"languages": list(metadata.languages), **texts})


def declaration_record(declaration: Declaration, *, with_audit: bool = True) -> DeclarationRecord:
    """Return the record of a declaration: its texts, variables, files and audit."""
    texts, audit = dict(declaration.texts), declaration.audit if with_audit else None
    copies = {
        name: {"form": file.form, "sha256": file.sha256, "size": file.size}
        for name, (file, _) in declaration.copies.items()
    }
    return DeclarationRecord.model_validate(
        {
            "release": declaration.document.path.name,
            "texts": texts,
            "sha256": {name: sha256(text.encode()) for name, text in texts.items()},
            "variables": dict(declaration.variables),
            "files": copies,
            "audit": None if audit is None else {"file": AUDIT, "sha256": sha256(audit)},
            "replaced_sources": list(declaration.replaced_sources),
            "table_versions": {n: str(one) for n, one in declaration.table_versions.items()},
            "chooses": None if declaration.chooses_for is None else "limits",
        }
    )


def tool_record() -> Tool:
    """Return the tool, and the software on which it runs."""
    versions = {name: _version(name) for name in DEPENDENCIES}
    return Tool(name="dprelease", version=__version__, dependencies=versions)


@cache
def _version(name: str) -> str:
    """Return the installed version of a package.

    This does not use `metadata.version`, which parses all metadata of the package as an email.
    """
    text = packages.distribution(name).read_text("METADATA") or ""
    match = re.search(r"^Version: *(\S+)", text, re.MULTILINE)
    return packages.version(name) if match is None else match[1]


def composition_text(guarantee: Guarantee) -> str:
    """Return a text on the theorem by which the privacy losses were composed."""
    if guarantee.accountant == "pure":
        return (
            "The exact sum of the largest privacy losses of all noisy vectors (basic composition)."
        )
    if guarantee.accountant == "zcdp":
        return (
            "The sum of Rényi curves, rounded up; rho bounds it at all orders. Epsilon at delta is "
            "the smaller result of privacy-loss distributions and of the conversion of rho."
        ) + (
            f" Rho does not hold for events with a probability of {guarantee.rho_delta!r} in "
            "total, such as the publication of a key that only one privacy unit has."
            if guarantee.rho_delta
            else ""
        )
    return (
        "Privacy-loss distributions, rounded to the safe side, composed by sums of positive "
        "floating-point numbers, whose relative errors are bounded and included; or the sum of "
        "pure losses or the closed form of normal noise where that is smaller."
    )


UNLIMITED = "No contribution limit leaves out rows; the treatments state which rows count."


def unit_record(query: Query) -> UnitRecord:
    """Return the record of the privacy unit of a query."""
    unit, lookup = query.unit, query.table.privacy_unit.lookup
    who = "each row" if unit.id is None else f"all rows with the same '{unit.id}'"
    if lookup is not None:
        who += f", the smallest that a correspondence table names for their '{lookup.key}'"
    change = (
        "one privacy unit more or less"
        if query.neighbours is Neighbours.ADD_REMOVE
        else "one privacy unit replaced by another"
    )
    limits = (
        f"Values are {contribution_limits_text(query)}."
        if unit.contribution_limits_text
        else UNLIMITED
    )
    return UnitRecord.model_validate(
        {
            "query": query.name,
            "table": query.table.name,
            "id": unit.id,
            "max_groups": unit.max_groups,
            "max_rows_per_group": unit.max_rows_per_group,
            "max_rows": unit.max_rows,
            "neighbours": query.neighbours.value,
            "words": f"A privacy unit is {who}. Neighbouring tables differ by {change}. {limits}",
        }
    )
