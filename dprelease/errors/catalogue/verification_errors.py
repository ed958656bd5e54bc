"""Catalogue: verification, keys, and lists of signers."""

from dprelease.errors.catalogue import Template

TEMPLATES: dict[str, Template] = {
    "DP-VERIFY-011": Template(
        cause="The published integers cost at least {found}, more than the claimed {claimed}.",
        fix="do not rely on the guarantee; please report this with the manifest.",
    ),
    "DP-VERIFY-024": Template(
        cause="The claim of {claimed} ({counted}) is not proved: only {found} is proved for the "
        "recorded noise.",
        fix="do not rely on the guarantee; please report this with the manifest.",
    ),
    "DP-VERIFY-026": Template(
        cause="The claim of {claimed} ({counted}) is not proved: {reason}.",
        fix="do not call the claim proved. `dprelease verify` without --certify checks everything "
        "else; the manual's page on accounting lists the noise whose claims are proved.",
    ),
    "DP-VERIFY-010": Template(
        cause="The ledger '{name}' does not hold this release: {problem}.",
        fix="check that you named the ledger that the release was charged to. If it is that one, "
        "an older copy was restored or it was replaced: release nothing until you find the copy "
        "that holds this release.",
    ),
    "DP-VERIFY-001": Template(
        cause="There is no readable manifest.json here.",
        fix="name the folder of a release.",
    ),
    "DP-VERIFY-002": Template(
        cause="The manifest was changed after dprelease wrote it, or was not written by it: "
        "{problem}.",
        fix="get the release again from its publisher.",
    ),
    "DP-VERIFY-003": Template(
        cause="The manifest has the format {found}, and this version knows only {known}.",
        fix="verify with the version of dprelease that the manifest names.",
    ),
    "DP-VERIFY-004": Template(
        cause="The file '{name}' is missing, or is not the one that was published.",
        fix="get the release again from its publisher.",
    ),
    "DP-VERIFY-005": Template(
        cause="The file '{name}' is not part of the release.",
        fix="remove it, or ask who put it there.",
    ),
    "DP-VERIFY-006": Template(
        cause="The table '{name}' does not have the rows, columns or values that follow from its "
        "declaration.",
        fix="do not rely on this release.",
    ),
    "DP-VERIFY-007": Template(
        cause="The recorded {what} of {query}.{column} does not follow from the declaration.",
        fix="do not rely on this release.",
    ),
    "DP-VERIFY-008": Template(
        cause="The guarantee in the manifest does not match its recorded noise: it is {found}, "
        "not {recorded}.",
        fix="do not rely on this release.",
    ),
    "DP-VERIFY-012": Template(
        cause="The table '{name}' does not follow from the measurements that are published with "
        "it.",
        fix="do not rely on this release.",
    ),
    "DP-VERIFY-013": Template(
        cause="The tables of '{family}' do not pass the second check of '{step}': {problem}.",
        fix="do not rely on this release; please report this with the manifest.",
    ),
    "DP-VERIFY-009": Template(
        cause="The declaration in the manifest is not valid ({why}).",
        fix="do not rely on this release; or verify with the version of dprelease that the "
        "manifest names.",
    ),
    "DP-VERIFY-014": Template(
        cause="The {what} is not signed: there is no file '{name}'.",
        fix="ask the publisher for the signature, or for a signed release.",
    ),
    "DP-VERIFY-015": Template(
        cause="The signature can't be read: {problem}.",
        fix="get the {what} again from its publisher.",
    ),
    "DP-VERIFY-016": Template(
        cause="The signature by {by} is not for this {signed}.",
        fix="do not rely on this {what}: it, or its signature, was replaced after signing.",
    ),
    "DP-VERIFY-017": Template(
        cause="The {what} is signed by {by}, which is not in the list of signers.",
        fix="ask the publisher whose key this is; add it to the list only if you trust it.",
    ),
    "DP-VERIFY-018": Template(
        cause="The signature by {by} is not valid: {problem}.",
        fix="look at the line of this key in the list of signers; ask the publisher for a valid "
        "signature.",
    ),
    "DP-VERIFY-019": Template(
        cause="This is a rehearsal, not a release: its tables are not about the declared people.",
        fix="do not publish it as a release; use --rehearsal to verify it as a rehearsal.",
    ),
    "DP-VERIFY-020": Template(
        cause="This is not a rehearsal.",
        fix="leave out --rehearsal to verify it as a release.",
    ),
    "DP-VERIFY-021": Template(
        cause="The true values that the rehearsal states are wrong: {problem}.",
        fix="do not rely on its errors; rehearse again.",
    ),
    "DP-VERIFY-022": Template(
        cause="The manifest's record of the formats does not match the declaration: {problem}.",
        fix="do not rely on this release.",
    ),
    "DP-VERIFY-025": Template(
        cause="The folder contains {found}, but this command needs {wanted}.",
        fix="name another folder, or use a command for what it contains: `dprelease verify` "
        "describes it.",
    ),
    "DP-VERIFY-027": Template(
        cause="The contribution limits do not follow from a private choice of them: {problem}.",
        fix="do not rely on this release.",
    ),
    "DP-VERIFY-023": Template(
        cause="The file '{name}' in the format {format} does not match the tables.",
        fix="do not rely on it: take the numbers from the tables, or get the release again from "
        "its publisher.",
    ),
    "DP-EXPORT-010": Template(
        cause="A rehearsal can't be exported: a file such as a CSV could not state that its "
        "numbers are not about the declared people.",
        fix="use its Parquet tables, or the page that `dprelease report` makes of it; export the "
        "release after it has been run.",
    ),
    "DP-ATTACK-001": Template(
        cause="The folder contains '{found}', not a rehearsal; only for a rehearsal are the true "
        "values known.",
        fix="rehearse the same release with `dprelease rehearse`, and attack the rehearsal.",
    ),
    "DP-ATTACK-004": Template(
        cause="The true values in '{file}' are not those of the people in the rehearsal.",
        fix="rehearse again: this folder was changed after it was written.",
    ),
    "DP-AUDIT-006": Template(
        cause="The audit's check of {check} found that '{what}' does not hold: claimed is "
        "{claimed}, found was {seen}{pair}.",
        fix="do not publish; keep the folder that --output wrote, and report it.",
    ),
    "DP-AUDIT-007": Template(
        cause="The audit that the release names is not about this release: {problem}.",
        fix="do not use the release; ask its publisher.",
    ),
    "DP-AUDIT-009": Template(
        cause="'{name}' is not an unchanged result of an audit: {problem}.",
        fix="to verify a release, name its folder. To verify an audit, get its audit.json again "
        "from whoever audited the release.",
    ),
}


SIGNATURES: dict[str, Template] = {
    "DP-SIGN-001": Template(
        cause="The file '{name}' can't be read: {problem}.",
        fix="name an OpenSSH key, such as ~/.ssh/id_ed25519, or a file with its passphrase.",
    ),
    "DP-SIGN-002": Template(
        cause="The file '{name}' is not an OpenSSH key.",
        fix="create one with `ssh-keygen -t ed25519`; name the private file, or the .pub file of "
        "a key that an agent holds.",
    ),
    "DP-SIGN-003": Template(
        cause="The key '{name}' is of the type {found}; only Ed25519 keys can sign.",
        fix="create one with `ssh-keygen -t ed25519`.",
    ),
    "DP-SIGN-004": Template(
        cause="Other users may read the file '{name}', which holds a secret.",
        fix="remove their permissions (chmod 600), and find out who has read it.",
    ),
    "DP-SIGN-005": Template(
        cause="The key '{name}' has a passphrase: {problem}.",
        fix="type it at a terminal, use --passphrase-file, or add the key to an agent with "
        "ssh-add and name its .pub file.",
    ),
    "DP-SIGN-006": Template(
        cause="No agent signed for the key '{name}': {problem}.",
        fix="install OpenSSH, add the key with ssh-add and set SSH_AUTH_SOCK to the agent's "
        "socket; or name the private file.",
    ),
    "DP-SIGN-007": Template(
        cause="This is not a list of signers: {problem}.",
        fix="write lines as described in ssh-keygen(1) under ALLOWED SIGNERS, such as: "
        'steward@office namespaces="dprelease-*" ssh-ed25519 AAAA...',
    ),
    "DP-SIGN-008": Template(
        cause="The list of signers can't be read: {problem}.",
        fix="name a file such as allowed_signers; the path is relative to the current folder.",
    ),
    "DP-SIGN-009": Template(
        cause="The key '{name}' has a passphrase, and the package that reads such keys is not "
        "installed.",
        fix="install the extra: pip install 'dprelease[sign]'; or add the key to an agent with "
        "ssh-add and name its .pub file.",
    ),
    "DP-SIGN-010": Template(
        cause="The release in '{name}' already has a signature.",
        fix="check it with `dprelease verify --signers`, or use --overwrite to replace it.",
    ),
    "DP-SIGN-011": Template(
        cause="The signature can't be written to '{name}': {reason}.",
        fix="check that you may write to the folder; then sign again.",
    ),
}
