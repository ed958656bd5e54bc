"""Sign a release on the command line; read the key, and ask for its passphrase."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dprelease.cli.reporting import AsJson, print_result, report_failures
from dprelease.errors.printable import one_line

if TYPE_CHECKING:
    from dprelease.signatures.keys import SigningKey

KEY = (
    "Sign with this Ed25519 key of OpenSSH: a private file, or the .pub file of a key in an agent."
)
Key = Annotated[Path | None, typer.Option(help=KEY)]
PassphraseFile = Annotated[
    Path | None,
    typer.Option(
        help="Read the passphrase of the key from this file, instead of asking at the terminal."
    ),
]


def key_of(path: Path | None, passphrase_file: Path | None) -> SigningKey | None:
    """Return the signing key that a command names; None if it names none.

    Raises SignatureError for a file that is not a key, or a passphrase that is missing.
    """
    if path is None:
        return None
    from dprelease.signatures.keys import passphrase_from_file, read_key

    # A job without a terminal must fail at once, and not wait for a passphrase.
    ask = _ask_passphrase if passphrase_file is None else passphrase_from_file(passphrase_file)
    return read_key(path, ask if passphrase_file is not None or _has_terminal() else None)


def _has_terminal() -> bool:
    """Return whether the standard input is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def _ask_passphrase(name: str) -> bytes:
    """Ask for the passphrase of a key at the terminal, and return it."""
    return getpass.getpass(f"Passphrase of {one_line(name)}: ").encode()


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
    """Verify a release, or an audit, and write an SSH signature next to its manifest."""
    with report_failures(as_json):
        from dprelease.documents.encoding import ENDING, SIGNATURE
        from dprelease.signatures.sshsig import fingerprint
        from dprelease.verification.after_publication import signing

        signing_key = key_of(key, passphrase_file)
        assert signing_key is not None  # the command requires a key
        if folder.is_file():
            made = signing.sign_audit(folder, signing_key, overwrite=overwrite)
            written = folder.with_name(folder.name + ENDING)
        else:
            made = signing.sign(folder, signing_key, overwrite=overwrite)
            written = folder / SIGNATURE
        name = fingerprint(made.public)
        answer = {"signature": str(written), "key": name, "namespace": made.namespace}
        print_result(as_json, answer, one_line(f"Signed {folder} with {name} in {written.name}."))
