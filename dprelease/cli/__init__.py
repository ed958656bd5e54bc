"""The command line.

Exit codes: 0 done, 1 an unexpected failure, 2 the input is wrong, 3 the budget does not allow it,
4 verification failed. Results go to standard output, everything else to standard error.
"""

from __future__ import annotations

import typer

from dprelease.cli import ledger, local, mechanisms, question, releases
from dprelease.cli.process import whole_process

app = typer.Typer(
    help="Differentially private data releases.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (releases.check, releases.plan, releases.run, releases.verify):
    app.command()(command)
app.command("sql")(question.ask)
app.command("init")(releases.init)
app.command("estimate")(local.estimate)
app.add_typer(mechanisms.app, name="mechanisms")
app.add_typer(ledger.app, name="ledger")


def main() -> None:
    """Run the command line as a whole process, which ends with its exit code."""
    whole_process(app)
