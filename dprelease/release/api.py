"""The Python interface to releases: declare or read a release, plan it, run it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

from dprelease.errors import DeclarationError, DpReleaseError, Findings, OutputError
from dprelease.errors.argument_types import checked_arguments, checked_methods
from dprelease.errors.error_tree import EXIT_UNEXPECTED
from dprelease.errors.local_paths import check_paths
from dprelease.planning.declaration_findings import single_errors
from dprelease.planning.plan import Plan
from dprelease.planning.prepare import prepare
from dprelease.release.check_result import CheckResult
from dprelease.release.kinds import plan_release
from dprelease.release.run_result import RunResult
from dprelease.schema.load import Declaration, is_table_schema, read_table
from dprelease.schema.typed import ReleaseMapping
from dprelease.schema.yaml_text.python_values import RELEASE_NAME, PythonDeclaration
from dprelease.system.files import reason_of
from dprelease.system.summaries import Summarized, Summary

if TYPE_CHECKING:
    from dprelease.release.ledger_forecast import Outlook
    from dprelease.release.run_result import IfPublished, RunResult
    from dprelease.signatures.keys import SigningKey


NO_MAPPING = (
    "a mapping in the form of a release file is needed; `read_release` reads a release file"
)


class RunOptions(TypedDict, total=False):
    """The options of `Release.run`, which describes them."""

    output: str | Path | None
    overwrite: bool
    if_published: IfPublished
    frames: Mapping[str, object] | None
    sources: Mapping[str, str | Path] | None
    engine: str | None
    party: int | None
    key: str | Path | SigningKey | None
    audit: str | Path | None


@checked_methods
class Release(Summarized):
    """A declared release; `plan` reads no data, `run` reads it and publishes.

    Parameters
    ----------
    declaration
        A mapping in the form of a release file. The items of its `tables` are paths of schemas, or
        mappings in the form of schemas, whose `source` may be a frame. The errors in it name key
        paths of the mapping. Type checkers check a mapping with the annotation `ReleaseMapping`, of
        `dprelease.schema.typed`.
    folder
        The folder to which paths in the mapping are relative; by default the current folder.
    variables
        The values of its variables by name.

    Raises
    ------
    DeclarationError, QueryError, BudgetError, Findings
        For all errors in the mapping, its tables and its queries, each with its key path.
    """

    def __init__(
        self,
        declaration: Declaration | ReleaseMapping | Mapping[str, object],
        *,
        folder: str | Path | None = None,
        variables: Mapping[str, object] | None = None,
    ) -> None:
        check_paths(folder)
        self._mapping: PythonDeclaration | None = None
        if isinstance(declaration, Declaration):
            self.declaration = declaration
            return
        if not isinstance(declaration, Mapping):
            raise DeclarationError("DP-DECL-003", problem=NO_MAPPING)
        from dprelease.planning.declaration_findings import load_declaration
        from dprelease.schema.release_parts.variables import parse_assignments

        self._mapping = mapping = PythonDeclaration.of(declaration)
        with self._positions_in_mapping():
            self.declaration = load_declaration(
                Path("" if folder is None else folder) / RELEASE_NAME,
                parse_assignments(variables),
                mapping.texts,
            )

    @contextmanager
    def _positions_in_mapping(self) -> Iterator[None]:
        """Give errors key paths of the mapping, because the YAML files exist only in memory."""
        try:
            yield
        except DpReleaseError as error:
            if self._mapping is not None:
                for one in error.errors if isinstance(error, Findings) else (error,):
                    one.set_place(self._mapping.place_in_mapping(one.place))
                if isinstance(error, Findings):
                    error.set_place(error.errors[0].place)
            raise

    def to_yaml(self, folder: str | Path | None = None) -> str:
        """Return the release file as YAML text.

        With `folder`, the release file, the schemas of its tables and all files that they name,
        except for data, are also written to this folder, as new files. Files that are declared by
        absolute paths stay where they are.

        Raises
        ------
        OutputError
            DP-OUTPUT-014 if one of these files exists, DP-OUTPUT-002 if it can't be written, 022 if
            a file lies outside the folder of the release file, 024 if `folder` is that of a
            published release, or in it.
        """
        check_paths(folder)
        declared = self.declaration
        if folder is not None:
            files = {name: text.encode() for name, text in declared.texts.items()}
            copies = {name: path for name, (_, path) in declared.copies.items()}
            _write_new_files(Path(folder), files, copies)
        return declared.texts[declared.document.path.name]

    def _summary(self) -> Summary:
        """Return the queries, and the tables that they read."""
        queries = getattr(self.declaration.spec, "queries", {})
        rows = [(name, getattr(query, "source", "")) for name, query in queries.items()]
        return f"Release: {self.title}", ("query", "table"), rows

    @property
    def title(self) -> str:
        """Return the title."""
        return self.declaration.spec.title

    @property
    def frames(self) -> Mapping[str, object]:
        """Return the frames in the mapping that are sources, by the name of their table."""
        return {} if self._mapping is None else self._mapping.frames

    def plan(self) -> Plan:
        """Return mechanism, privacy cost and expected error of every column.

        Raises
        ------
        QueryError, BudgetError, Findings
            If a query has no bounded sensitivity, nothing fits the budget, or a format is
            impossible.
        """
        with self._positions_in_mapping():
            release = plan_release(self.declaration)
            release.check()
            return release.plan

    def outlook(self) -> tuple[Outlook, ...] | None:
        """Return the remaining budget in the release's ledger by table; None without a ledger.

        Raises
        ------
        DpReleaseError
            The errors of `plan`; LedgerError if the ledger is missing, or can't pay for these
            tables.
        """
        from dprelease.release.ledger_forecast import ledger_outlooks

        with self._positions_in_mapping():
            return ledger_outlooks(self.declaration, *prepare(self.declaration))

    def run(self, **options: Unpack[RunOptions]) -> Path:
        """Publish the release and return its folder.

        Parameters
        ----------
        output
            The folder of the release, instead of the declared one.
        overwrite
            Whether to replace the release that is already in the folder.
        if_published
            "skip" to do nothing if the same declaration is already published in the folder, instead
            of raising an error. With `overwrite`, only a release of another declaration is replaced
            then.
        frames
            pandas or Arrow frames that replace the declared sources, or the frames in the mapping,
            by the name of the table, or by the name in `source: {frame: name}`.
        sources
            Paths that replace those of the declared sources, by the name of the table. The source
            must have the declared type. The manifest records the names of these tables.
        engine
            duckdb or spark, instead of the declared engine.
        party
            In a federated release, the number of the party whose messages are written.
        key
            The key that signs the manifest, and the entries of a ledger with signers: an Ed25519
            key of OpenSSH, or the result of `signing_key`.
        audit
            The file audit.json of an audit of this release, which is published with the release.

        Raises
        ------
        DpReleaseError
            Any of its subclasses; then nothing is published.
        """
        return self.publish(**options).folder

    def publish(self, **options: Unpack[RunOptions]) -> RunResult:
        """Publish the release, and return its folder, files, digest and spent budget.

        The options and the errors are those of `run`.
        """
        output, key, audit = (options.get(name) for name in ("output", "key", "audit"))
        check_paths(output, key, audit)
        from dprelease.exact.engines import frame_of, refuse_unknown_frames
        from dprelease.release.run_options import (
            with_audit,
            with_engine,
            with_party,
            with_signing_key,
            with_sources,
        )
        from dprelease.release.run_result import publish

        frames = options.get("frames")
        tables = (declared.table for declared in self.declaration.tables.values())
        refuse_unknown_frames(tables, {} if frames is None else frames)
        declaration = with_sources(self.declaration, options.get("sources"))
        for name in declaration.replaced_sources:
            if frame_of(declaration.tables[name].table, frames or {}) is not None:
                problem, known = f"'{name}' is also in `frames`", ", ".join(declaration.tables)
                raise DeclarationError("DP-PATH-004", problem=problem, known=known)
        declaration = with_party(
            with_engine(declaration, options.get("engine")), options.get("party")
        )
        declaration = with_audit(
            with_signing_key(declaration, options.get("key")), options.get("audit")
        )
        with self._positions_in_mapping():
            return publish(
                declaration,
                output=None if output is None else Path(str(output)),
                overwrite=options.get("overwrite", False),
                if_published=options.get("if_published", "fail"),
                frames={**self.frames, **(frames or {})},
            )


def _write_new_files(
    folder: Path, contents: Mapping[str, bytes], copies: Mapping[str, Path]
) -> None:
    """Write contents and copies of files as new files; refuse all before anything is written."""
    from dprelease.release.folder import refuse_inside_release

    refuse_inside_release(folder / RELEASE_NAME)
    names = [name for name in (*contents, *copies) if not os.path.isabs(name)]
    for name in names:
        if ".." in Path(name).parts:
            raise OutputError("DP-OUTPUT-022", name=name)
        if os.path.lexists(folder / name):
            raise OutputError("DP-OUTPUT-014", name=name, remedy="remove the file first")
    reason = ""
    try:
        for name in names:
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            content = contents[name] if name in contents else copies[name].read_bytes()
            # "x" also refuses a file that came after the check above.
            with open(target, "xb") as file:
                file.write(content)
    except OSError as problem:
        reason = reason_of(problem)
    if reason:
        raise OutputError("DP-OUTPUT-002", name=folder.name, reason=reason)


@checked_arguments
def read_release(path: str | Path, *, variables: Mapping[str, object] | None = None) -> Release:
    """Return the release that a YAML file declares.

    `variables`: the values of its variables by name, in the form in which they would be written in
    the file.

    Raises
    ------
    DeclarationError, QueryError, BudgetError, Findings
        For all errors in the file, its tables and its queries, each with file, line and key.
    """
    check_paths(path)
    from dprelease.planning.declaration_findings import load_declaration
    from dprelease.schema.release_parts.variables import parse_assignments

    return Release(load_declaration(Path(path), parse_assignments(variables)))


ReleaseLike = Release | Mapping[str, object] | str | Path
"""A release: a `Release`, a mapping in the form of a release file, or the path of one."""


@checked_arguments
def check(release: ReleaseLike, *, variables: Mapping[str, object] | None = None) -> CheckResult:
    """Check a release or the file of a table schema, and return all errors; opens no data.

    `variables`: the values of the release's variables by name.
    """
    name = Path(release).name if isinstance(release, str | os.PathLike) else "Release"
    try:
        if isinstance(release, str | os.PathLike):
            check_paths(release)
            if is_table_schema(Path(release)):
                return CheckResult.of_schema(read_table(Path(release)))
        checked = _release_of(release, variables)
        with checked._positions_in_mapping():
            return CheckResult.of_release(checked.declaration)
    except DpReleaseError as error:
        if error.exit_code == EXIT_UNEXPECTED:  # the system failed, and the release may be valid
            raise
        return CheckResult.failed(name, single_errors(error))


@checked_arguments
def plan(release: ReleaseLike, *, variables: Mapping[str, object] | None = None) -> Plan:
    """Return mechanism, privacy cost and expected error of every column; opens no data.

    `variables`: the values of the release's variables by name. Raises the errors of `Release.plan`.
    """
    return _release_of(release, variables).plan()


@checked_arguments
def run(
    release: ReleaseLike,
    *,
    variables: Mapping[str, object] | None = None,
    **options: Unpack[RunOptions],
) -> RunResult:
    """Publish a release, and return its folder, its digest and the budget that it spent.

    `variables`: the values of the release's variables by name. The other options, and the errors,
    are those of `Release.run`.
    """
    return _release_of(release, variables).publish(**options)


def _release_of(release: ReleaseLike, variables: Mapping[str, object] | None) -> Release:
    """Return a release of any form; variables belong to files and mappings."""
    if isinstance(release, Release):
        if variables:
            problem = "pass the variables where the release is read or declared"
            raise DeclarationError("DP-DECL-003", problem=problem)
        return release
    if isinstance(release, str | os.PathLike):
        return read_release(release, variables=variables)
    if not isinstance(release, Mapping):
        raise DeclarationError("DP-DECL-003", problem=NO_MAPPING)
    return Release(release, variables=variables)
