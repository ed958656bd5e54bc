"""Catalogue: keys, and lists of who may sign."""

from __future__ import annotations

from dprelease.errors.template import Template

TEMPLATES: dict[str, Template] = {
    "DP-SIGN-001": Template(
        cause="The file '{name}' can't be read: {problem}.",
        fix="name a key of OpenSSH, such as ~/.ssh/id_ed25519, or a file with its passphrase.",
    ),
    "DP-SIGN-002": Template(
        cause="The file '{name}' holds no key of OpenSSH.",
        fix="make one with `ssh-keygen -t ed25519`; name the private file, or the .pub file of a "
        "key that an agent holds.",
    ),
    "DP-SIGN-003": Template(
        cause="The key '{name}' is of another type ({found}); only Ed25519 signs here.",
        fix="make one with `ssh-keygen -t ed25519`.",
    ),
    "DP-SIGN-004": Template(
        cause="Others may read the file '{name}', which holds a secret.",
        fix="take their rights away (chmod 600), and ask who has read it.",
    ),
    "DP-SIGN-005": Template(
        cause="The key '{name}' has a passphrase: {problem}.",
        fix="type it at a terminal, give --passphrase-file, or add the key to an agent with "
        "ssh-add and name its .pub file.",
    ),
    "DP-SIGN-006": Template(
        cause="No agent signed for the key '{name}': {problem}.",
        fix="install OpenSSH, add the key with ssh-add and let SSH_AUTH_SOCK lead to the agent; or "
        "name the private file.",
    ),
    "DP-SIGN-007": Template(
        cause="This is no list of signers: {problem}.",
        fix="write lines as ssh-keygen(1) tells under ALLOWED SIGNERS, such as: steward@office "
        'namespaces="dprelease-*" ssh-ed25519 AAAA...',
    ),
    "DP-SIGN-008": Template(
        cause="The list of signers can't be read: {problem}.",
        fix="name a file such as allowed_signers, from the folder where you are.",
    ),
    "DP-SIGN-009": Template(
        cause="The key '{name}' has a passphrase, and its package is not installed.",
        fix="install the extra: pip install 'dprelease[sign]'; or add the key to an agent with "
        "ssh-add and name its .pub file.",
    ),
    "DP-SIGN-010": Template(
        cause="The release in '{name}' has a signature already.",
        fix="check it with `dprelease verify --signers`, or say --overwrite to replace it.",
    ),
    "DP-SIGN-011": Template(
        cause="The signature can't be written to '{name}': {reason}.",
        fix="check that the folder can be written to; then sign again.",
    ),
}
