"""Catalogue: verifying a release."""

from __future__ import annotations

from dprelease.errors.template import Template

TEMPLATES: dict[str, Template] = {
    "DP-VERIFY-011": Template(
        cause="The published integers cost at least {found}, more than the {claimed} claimed.",
        fix="do not rely on the guarantee; please report this with the manifest.",
    ),
    "DP-VERIFY-024": Template(
        cause="The claim of {claimed} ({counted}) is not proved: what is proved of the recorded "
        "noise is {found}.",
        fix="do not rely on the guarantee; please report this with the manifest.",
    ),
    "DP-VERIFY-026": Template(
        cause="The claim of {claimed} ({counted}) is not proved: {reason}.",
        fix="do not call it proved. `dprelease verify` without --certify checks all else; the "
        "manual's page on accounting lists the noise whose claims are proved.",
    ),
    "DP-VERIFY-010": Template(
        cause="The ledger '{name}' does not hold this release: {problem}.",
        fix="the ledger was rolled back, replaced or is another one; find the copy that holds the "
        "release, and release nothing until then.",
    ),
    "DP-VERIFY-001": Template(
        cause="There is no readable manifest.json here.",
        fix="name the folder of a release.",
    ),
    "DP-VERIFY-002": Template(
        cause="The manifest is not what the tool wrote: {problem}.",
        fix="get the release again from whoever published it.",
    ),
    "DP-VERIFY-003": Template(
        cause="The manifest has another format ({found}) than this version knows ({known}).",
        fix="verify with the version of the tool that the manifest names.",
    ),
    "DP-VERIFY-004": Template(
        cause="The file '{name}' is missing, or another one than was published.",
        fix="get the release again from whoever published it.",
    ),
    "DP-VERIFY-005": Template(
        cause="The file '{name}' is not part of the release.",
        fix="remove it, or ask who put it there.",
    ),
    "DP-VERIFY-006": Template(
        cause="The table '{name}' has not the rows, columns or values that its declaration gives.",
        fix="do not rely on this release.",
    ),
    "DP-VERIFY-007": Template(
        cause="The recorded {what} of {query}.{column} does not follow from the declaration.",
        fix="do not rely on this release.",
    ),
    "DP-VERIFY-008": Template(
        cause="The guarantee of the manifest is not what its events cost: {found}, not {recorded}.",
        fix="do not rely on this release.",
    ),
    "DP-VERIFY-012": Template(
        cause="The table '{name}' is not what follows from the measurements beside it.",
        fix="do not rely on this release.",
    ),
    "DP-VERIFY-013": Template(
        cause="The tables of '{family}' do not pass the second check of '{step}': {problem}.",
        fix="do not rely on this release; please report this with the manifest.",
    ),
    "DP-VERIFY-009": Template(
        cause="The declaration in the manifest is not valid ({why}).",
        fix="do not rely on this release, or verify with the version that the manifest names.",
    ),
    "DP-VERIFY-014": Template(
        cause="The {what} is not signed: there is no '{name}' that is a file.",
        fix="ask whoever published it for the signature, or for a release that has one.",
    ),
    "DP-VERIFY-015": Template(
        cause="The signature can't be read: {problem}.",
        fix="get the {what} again from whoever published it.",
    ),
    "DP-VERIFY-016": Template(
        cause="The signature by {by} is not one of this {signed}.",
        fix="do not rely on this {what}: it, or its signature, is another one than was signed.",
    ),
    "DP-VERIFY-017": Template(
        cause="The {what} is signed by {by}, which the list of signers does not name.",
        fix="ask whoever published it whose key that is; add it to the list only if you trust it.",
    ),
    "DP-VERIFY-018": Template(
        cause="The signature by {by} does not count: {problem}.",
        fix="look at the line of that key in the list of signers; ask for a signature that counts.",
    ),
    "DP-VERIFY-019": Template(
        cause="This is a rehearsal, and no release: its tables are not about the declared people.",
        fix="publish nothing of it as theirs; --rehearsal verifies it as what it is.",
    ),
    "DP-VERIFY-020": Template(
        cause="This is no rehearsal.",
        fix="leave out --rehearsal to verify it as a release.",
    ),
    "DP-VERIFY-021": Template(
        cause="What the rehearsal says of its truth does not hold: {problem}.",
        fix="do not rely on its errors; rehearse again.",
    ),
    "DP-VERIFY-022": Template(
        cause="What the manifest says of formats is not what was declared: {problem}.",
        fix="do not rely on this release.",
    ),
    "DP-VERIFY-025": Template(
        cause="The folder holds {found}; what was asked for needs {wanted}.",
        fix="name the folder of another release, or ask for what this one can give: `dprelease "
        "verify` tells what it is.",
    ),
    "DP-VERIFY-023": Template(
        cause="The file '{name}' is not what the tables say in the format {format}.",
        fix="do not rely on it: take the numbers from the tables, or get the release again from "
        "whoever published it.",
    ),
}
