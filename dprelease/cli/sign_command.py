"""Signing a release from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dprelease.cli.reporting import AsJson, reporting, respond
from dprelease.cli.signing_keys import KEY, PassphraseFile, key_of
from dprelease.errors.printable import one_line


def sign(
    folder: Annotated[Path, typer.Argument(help="The folder of a release.", show_default=False)],
    key: Annotated[Path, typer.Option(help=KEY, show_default=False)],
    passphrase_file: PassphraseFile = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the signature that is there.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Verify a release, and write an SSH signature of its manifest beside it."""
    with reporting(as_json):
        from dprelease.documents.manifest import SIGNATURE
        from dprelease.signatures.sshsig import MANIFESTS, fingerprint
        from dprelease.verification.after_publication.signing import sign as sign_release

        signing = key_of(key, passphrase_file)
        assert signing is not None  # one was named
        made = sign_release(folder, signing, overwrite=overwrite)
        name = fingerprint(made.public)
        answer = {"signature": str(folder / SIGNATURE), "key": name, "namespace": MANIFESTS}
        respond(as_json, answer, one_line(f"Signed {folder} with {name} in {SIGNATURE}."))
