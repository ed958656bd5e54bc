"""Catalogue: writing a release."""

from __future__ import annotations

from dprelease.errors.template import Template

TEMPLATES: dict[str, Template] = {
    "DP-OUTPUT-001": Template(
        cause="The output '{name}' is already there.",
        fix="choose another folder, or say --overwrite to replace the release in it.",
    ),
    "DP-OUTPUT-014": Template(
        cause="The file '{name}' is already there, and is not replaced.",
        fix="choose another name, or remove the file first.",
    ),
    "DP-OUTPUT-002": Template(
        cause="'{name}' can't be written: {reason}.",
        fix="check that the folder can be written to and that the disk has room; then try again.",
    ),
    "DP-OUTPUT-003": Template(
        cause="The output '{name}' is there, but it is not a release: no manifest tells its files.",
        fix="choose another folder; --overwrite replaces releases only.",
    ),
    "DP-OUTPUT-011": Template(
        cause="There is no folder '{path}'; nothing was verified.",
        fix="name the folder of a release, from the folder where you are.",
    ),
    "DP-OUTPUT-004": Template(
        cause="The chart '{name}' needs matplotlib, which is not installed.",
        fix="install the extra: pip install 'dprelease[plot]'.",
    ),
    "DP-OUTPUT-005": Template(
        cause="The chart '{name}' is none of the kinds of image that can be drawn.",
        fix="end its name with one of {formats}.",
    ),
    "DP-OUTPUT-006": Template(
        cause="Another run is at work on the output '{name}'.",
        fix="wait until it has ended, or choose another folder; nothing has to be removed by hand.",
    ),
    "DP-OUTPUT-007": Template(
        cause="The answer can't be printed: {reason}.",
        fix="give the command an output that takes it; what the state says is done stays done.",
    ),
    "DP-OUTPUT-008": Template(
        cause="The release is in '{name}', but the disk did not confirm that it stays: {reason}.",
        fix="don't run it again, which would be charged again; put the disk in order and check the "
        "release with `dprelease verify`.",
    ),
    "DP-OUTPUT-009": Template(
        cause="The output '{name}' holds '{other}', which is not part of the release in it.",
        fix="choose another folder, or take it out of there: --overwrite would remove it.",
    ),
    "DP-OUTPUT-012": Template(
        cause="The output '{name}' and the source of the table '{table}' stand one in the other: "
        "a later run would read what this one publishes, or take the place of what it reads.",
        fix="publish into a folder that the source's path or pattern don't reach, by links either.",
    ),
    "DP-OUTPUT-013": Template(
        cause="This process was forked from a run that publishes '{name}', and can't go on.",
        fix="let the parent end its run, which nothing here has touched; begin one of your own.",
    ),
    "DP-OUTPUT-015": Template(
        cause="The release may write up to {needed}, and the disk of '{name}' has {free} left.",
        fix="make room there, publish on another disk, or name another temporary folder by "
        "`duckdb: {{temp_directory: ...}}`; publish less, or declare the `size` of the table, by "
        "which much less is known to suffice.",
    ),
    "DP-OUTPUT-016": Template(
        cause="The formats of the release can't be made again in the temporary folder: {reason}.",
        fix="make room there, or name another folder by TMPDIR, and verify again: nothing is known "
        "of these formats yet, for good or ill.",
    ),
    "DP-OUTPUT-017": Template(
        cause="'{file}' {what} the private folder of '{name}' while the run filled it.",
        fix="find out which other program works there, such as one that removes old files, and "
        "keep it from folders named `.*.dprelease-*`; then run again.",
    ),
    "DP-OUTPUT-010": Template(
        cause="The output '{name}' is a mount of its own, and can't be replaced in one step.",
        fix="publish into a folder inside it, or mount the folder that it is in.",
    ),
}
