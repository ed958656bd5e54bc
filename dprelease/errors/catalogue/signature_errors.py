"""Catalogue: keys, and lists of signers."""

from dprelease.errors.catalogue import Template

TEMPLATES: dict[str, Template] = {
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
