"""Sign a release from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dprelease.cli.reporting import AsJson, print_result, report_failures
from dprelease.cli.signing_keys import KEY, PassphraseFile, key_of
from dprelease.errors.printable import one_line


def sign(
    folder: Annotated[
        Path,
        typer.Argument(help="The folder of a release, or audit.json.", show_default=False),
    ],
    key: Annotated[Path, typer.Option(help=KEY, show_default=False)],
    passphrase_file: PassphraseFile = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the signature if it already exists.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Verify a release, or an audit, and write an SSH signature of its manifest beside it."""
    with report_failures(as_json):
        from dprelease.documents.audits.audit_name import ENDING
        from dprelease.documents.encoding import SIGNATURE
        from dprelease.signatures.sshsig import fingerprint
        from dprelease.verification.after_publication import signing as signing_of

        signing = key_of(key, passphrase_file)
        assert signing is not None  # the command requires a key
        if folder.is_file():
            made = signing_of.sign_audit(folder, signing, overwrite=overwrite)
            written = folder.with_name(folder.name + ENDING)
        else:
            made = signing_of.sign(folder, signing, overwrite=overwrite)
            written = folder / SIGNATURE
        name = fingerprint(made.public)
        answer = {"signature": str(written), "key": name, "namespace": made.namespace}
        print_result(as_json, answer, one_line(f"Signed {folder} with {name} in {written.name}."))
