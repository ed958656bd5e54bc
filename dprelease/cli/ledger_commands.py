"""Commands for the budgets in a ledger: open one, show it, recover it after a crash."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dprelease.cli.reporting import (
    AsJson,
    Commands,
    Wide,
    print_result,
    print_text,
    report_failures,
)
from dprelease.cli.signing import Key, PassphraseFile, key_of
from dprelease.cli.texts.text_tables import table_text
from dprelease.errors.printable import one_line

if TYPE_CHECKING:
    from dprelease.errors import DpReleaseError
    from dprelease.signatures.signers import Signers

UTC = "+00:00"

app = Commands(help="Create and inspect budgets that last across releases.", no_args_is_help=True)

File = Annotated[Path, typer.Argument(help="The ledger, an SQLite file.", show_default=False)]


@app.command()
def init(
    ledger: File,
    name: Annotated[str, typer.Option("--table", help="The declared name of the table.")],
    owner: Annotated[str, typer.Option(help="The id of the owner, as in the table's schema.")],
    epsilon: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="The whole budget; or use --rho.")
    ] = None,
    delta: Annotated[
        str, typer.Option(metavar="NUMBER", help="The delta of the budget; 0 for a pure budget.")
    ] = "0",
    rho: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="The whole budget, instead of an epsilon.")
    ] = None,
    rho_delta: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER",
            help="The part of delta for keys from the data; without it, no release can have them.",
        ),
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option(help="The id column of the privacy unit; without it, each row is one."),
    ] = None,
    neighbours: Annotated[str, typer.Option(help="add_remove or replace.")] = "add_remove",
    invariant: Annotated[
        list[str] | None,
        typer.Option(
            help="The name of an exact total that releases may publish outside the budget."
        ),
    ] = None,
    every: Annotated[str | None, typer.Option(help="Renew the budget every year or month.")] = None,
    begins: Annotated[
        str | None, typer.Option(help="The first day of the first period.", metavar="YYYY-MM-DD")
    ] = None,
    periods: Annotated[int | None, typer.Option(help="The number of periods.")] = None,
    signers: Annotated[
        Path | None, typer.Option(help="Who signs entries and releases: an allowed_signers file.")
    ] = None,
    key: Key = None,
    passphrase_file: PassphraseFile = None,
    as_json: AsJson = False,
) -> None:
    """Create the budget of a table, once; creates the ledger file if it does not exist."""
    with report_failures(as_json):
        from dprelease.release.accounts import account_of, open_account, renewal_of
        from dprelease.release.folder import refuse_inside_release

        refuse_inside_release(ledger)
        renewal = renewal_of(every, begins, periods)
        account = account_of(
            f"{owner}/{name}", unit, neighbours, epsilon, delta, rho, renewal, invariant or (),
            rho_delta,
        )  # fmt: skip
        sentences = open_account(ledger, account, signers, key_of(key, passphrase_file))
        sentences += [_invariant_text(name) for name in account.invariants]
        amount = f"{float(account.amount):.6g} {account.privacy_measure}"
        words = one_line(" ".join([f"{account.table} has a budget of {amount}.", *sentences]))
        print_result(as_json, account.to_json(), words)


@app.command()
def signers(
    ledger: File,
    names: Annotated[
        Path, typer.Argument(help="An allowed_signers file of OpenSSH.", show_default=False)
    ],
    key: Key = None,
    passphrase_file: PassphraseFile = None,
    as_json: AsJson = False,
) -> None:
    """Set who signs all further entries, and all releases that are charged."""
    with report_failures(as_json):
        from dprelease.ledger.ledger import Ledger
        from dprelease.signatures.signers import read_signers

        listed = read_signers(names)
        held = Ledger(ledger, key_of(key, passphrase_file))
        held.state()  # raises for a mistyped path, which would otherwise create a new ledger
        entry = held.set_signers(listed.text)
        words = f"From entry {entry.number} on, {_signer_names(listed)} may sign."
        answer = {"entry": entry.number, "signers": [line.principals for line in listed.lines]}
        print_result(as_json, answer, one_line(words))


def _signer_names(listed: Signers) -> str:
    """Return the names of all signers in a list, separated by commas."""
    return ", ".join(dict.fromkeys(line.principals for line in listed.lines))


@app.command()
def show(ledger: File, wide: Wide = False, as_json: AsJson = False) -> None:
    """Print the budget of every table: its amount, what is spent and what is left."""
    with report_failures(as_json, prints_only=True):
        from dprelease.ledger.ledger import Ledger
        from dprelease.release.accounts import read_ledger

        accounts = read_ledger(ledger).to_json()
        rows = [("table", "budget", "spent", "left", "of", "releases", "open")]
        for row in accounts:
            amounts = (f"{row[key]:.6g}" for key in ("amount", "spent", "left"))
            counts = (str(row["releases"]), str(row["open"]))
            rows.append((row["table"], *amounts, row["counted"], *counts))
        sentences = [
            one_line(f"{row['table']}: {row['renewal']['words']}")
            for row in accounts
            if "renewal" in row
        ]
        sentences += [
            one_line(f"{row['table']}: {_invariant_text(name)}")
            for row in accounts
            for name in row.get("invariants", ())
        ]
        listed = Ledger(ledger).state().signers
        if listed is not None:
            sentences.append(
                one_line(f"Entries and releases are signed by {_signer_names(listed)}.")
            )
        print_result(as_json, accounts, "\n\n".join([table_text(rows, wide=wide), *sentences]))


def _invariant_text(invariant: str) -> str:
    """Return a sentence on an exact total that releases may publish outside the budget."""
    return f"Releases may publish outside the budget, exactly: {invariant}."


@app.command()
def history(ledger: File, wide: Wide = False, as_json: AsJson = False) -> None:
    """Print every entry, oldest first, after checking the chain of digests."""
    with report_failures(as_json, prints_only=True):
        from dprelease.ledger.ledger import Ledger

        entries = Ledger(ledger).history()
        rows: list[tuple[str, ...]] = [("entry", "time (UTC)", "what", "reservation", "charges")]
        for entry in entries:
            rows.append(
                (str(entry.number), _time_text(entry.body["time"]), *_entry_texts(entry.body))
            )
        shown = [{"number": e.number, "digest": e.digest, **e.body} for e in entries]
        print_result(as_json, shown, table_text(rows, wide=wide))


def _time_text(text: str) -> str:
    """Return the time of a ledger entry as text; the offset of UTC is left out."""
    return text.removesuffix(UTC).replace("T", " ") if text.endswith(UTC) else text


def _entry_texts(body: dict[str, Any]) -> tuple[str, str, str]:
    """Return the step, the release and the content of a ledger entry as texts."""
    if body["kind"] == "open":
        from dprelease.ledger.account import BUDGET_KEYS  # slow to import

        account = body["account"]
        named = (f"{n} {account[n]}" for n in BUDGET_KEYS if account.get(n))
        renews = account.get("renews")
        every = f", every {renews['every']} from {renews['begins']} on" if renews else ""
        every += "".join(f", exactly {name}" for name in account.get("invariants") or ())
        return "open", "", f"{account['table']}: {', '.join(named)}{every}"
    if body["kind"] == "signers":
        return "signers", "", "entries and releases must be signed from here on"
    charges = "; ".join(
        f"{c['table']}: {'all that was left' if c['takes_all'] else c['price']} {c['counted']}"
        + (f" in period {c['period'] + 1}" if c.get("period") is not None else "")
        + "".join(f", exactly {name}" for name in c.get("invariants") or ())
        for c in body.get("charges", ())
    )
    return body["kind"], body["id"], charges


@app.command()
def recover(
    ledger: File,
    gone: Annotated[
        list[str] | None,
        typer.Option("--host-is-gone", help="A machine on which no run is active any more."),
    ] = None,
    key: Key = None,
    passphrase_file: PassphraseFile = None,
    as_json: AsJson = False,
) -> None:
    """Settle the reservations of runs that were interrupted, and report what happened."""
    with report_failures(as_json):
        from dprelease.ledger.ledger import Ledger

        words = Ledger(ledger, key_of(key, passphrase_file)).recover(gone or ())
        lines = [one_line(line) for line in words] or ["Nothing to recover."]
        print_result(as_json, words, "\n".join(lines))


@app.command()
def export(ledger: File, as_json: AsJson = False) -> None:
    """Print the whole history with all digests as JSON lines, to store a copy elsewhere."""
    # The output is for programs, so errors are JSON even without --json.
    with report_failures(True, prints_only=True):
        from dprelease.ledger.entries import canonical_json_text
        from dprelease.ledger.ledger import Ledger

        lines: list[dict[str, Any]] = [
            {"number": e.number, "previous": e.previous, "digest": e.digest, "body": e.body}
            for e in Ledger(ledger).history()
        ]
        if as_json:  # one list instead of lines
            print_result(True, lines, "")
            return
        for line in lines:
            print_text(canonical_json_text(line))


Signed = Annotated[
    Path | None, typer.Option(help="Who must have signed it: a list stored elsewhere.")
]


@app.command()
def verify(
    ledger: File,
    releases: Annotated[
        list[Path] | None, typer.Argument(help="Folders of releases that were charged to it.")
    ] = None,
    signers: Signed = None,
    as_json: AsJson = False,
) -> None:
    """Do the same as `check`."""
    check(ledger, releases, signers, as_json)


@app.command()
def check(
    ledger: File,
    releases: Annotated[
        list[Path] | None, typer.Argument(help="Folders of releases that were charged to it.")
    ] = None,
    signers: Signed = None,
    as_json: AsJson = False,
) -> None:
    """Check chain, costs, signatures, and that releases are in it (detects a rollback)."""
    with report_failures(as_json, prints_only=True):
        from dprelease.errors import Findings
        from dprelease.release.accounts import check_recorded_costs, check_signers
        from dprelease.verification.verify import verify as check_release

        words = [] if signers is None else [check_signers(ledger, signers)]
        words += check_recorded_costs(ledger)
        wrong: list[DpReleaseError] = []
        for folder in releases or ():
            findings = check_release(folder, ledger=ledger, signers=signers).findings
            for finding in findings:  # with several folders, each finding names its folder
                finding.place = replace(
                    finding.place, file=str(folder / (finding.place.file or ""))
                )
            wrong += findings
            words.append(f"the ledger contains the charge of {folder.name}")
        if wrong:
            raise Findings(wrong)
        lines = "\n".join(f"ok  {one_line(word)}" for word in words)
        print_result(as_json, {"ok": True, "checked": words}, lines)
