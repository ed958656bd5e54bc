"""What an attacker finds in three overlapping tables of census records, published in several forms.

`python -m examples.reconstruction.comparison FOLDER` rehearses `attacked.yaml` on records of the
NIST excerpt at several budgets, attacks each rehearsal, and writes into the folder what was found
(`reconstruction.csv`, and a file for each attack), with two pictures of it. Noise, random rounding
and swaps differ with every run. `--draw FOLDER` draws the pictures again from a folder's numbers.
"""

from __future__ import annotations

import csv
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import yaml
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import dprelease
from dprelease.documents.attack_outcome import FORMS, AttackOutcome, Form, FormOutcome
from dprelease.reconstruction.attack import AttackRequest, attack

HERE = Path(__file__).parent
PUBLIC = HERE.parent / "nist_acs" / "data" / "national2019.csv"
BUDGETS = ("2", "0.5", "8")
"""The first is the release's own: there all forms are attacked, at the others its noise alone."""

NUMBERS = "reconstruction.csv"
FOUND, ERRORS = "reconstruction-found.svg", "reconstruction-errors.svg"
HEADS = (
    "form", "epsilon", "error", "withheld", "named", "right", "beyond", "alone_found",
    "alone_named", "alone_right", "certain", "certain_right", "certain_alone", "decided",
)  # fmt: skip
LEFT = ("rounded", "rounded at random")
"""Forms whose names stand at the left of their dots, where those of others are at the right."""

TICKS = (0, 0.5, 1, 2, 5, 10, 20)
Row = Mapping[str, str]


def compare(
    folder: Path,
    public: Path = PUBLIC,
    budgets: Sequence[str] = BUDGETS,
    seconds: float = 300.0,
    forms: Sequence[Form] = FORMS,
) -> None:
    """Rehearse, attack and draw into a folder; `seconds`: for each form of the tables."""
    folder.mkdir(parents=True, exist_ok=True)
    declared = folder / "declared" / "reconstruction"
    shutil.copytree(HERE, declared, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.py"))
    people = folder / "declared" / "people.csv"
    choose(public, people)
    rows: list[dict[str, object]] = []
    for i, budget in enumerate(budgets):
        found = _attacked(declared, people, budget, forms if i == 0 else ["noised"], seconds)
        file = folder / f"attack-at-{budget}.json"
        file.write_text(found.model_dump_json(indent=1) + "\n", encoding="utf-8")
        rows += [*_guesses(found), *_rows(found, budget)] if i == 0 else _rows(found, budget)
    with (folder / NUMBERS).open("w", encoding="utf-8", newline="") as file_of_rows:
        writer = csv.DictWriter(file_of_rows, HEADS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    draw(folder)


def choose(public: Path, chosen: Path) -> None:
    """Write the records of the declared areas into a file."""
    schema = yaml.safe_load((HERE / "schemas" / "persons.yaml").read_text(encoding="utf-8"))
    areas = {*schema["columns"]["PUMA"]["values"]}
    with public.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with chosen.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0]], lineterminator="\n")
        writer.writeheader()
        writer.writerows(row for row in rows if row["PUMA"] in areas)


def _attacked(
    declared: Path, public: Path, budget: str, forms: Sequence[Form], seconds: float
) -> AttackOutcome:
    """Return what is found at a budget."""
    text = (HERE / "attacked.yaml").read_text(encoding="utf-8")
    release = declared / f"at-{budget}.yaml"
    release.write_text(text.replace("epsilon: 2,", f"epsilon: {budget},"), encoding="utf-8")
    made = dprelease.rehearse(
        release, on=public, output=declared / f"made-at-{budget}", overwrite=True
    )
    return attack(made.folder, AttackRequest(area="PUMA", forms=forms, seconds=seconds), on=public)


def _guesses(found: AttackOutcome) -> Iterator[dict[str, object]]:
    """Yield what there is to find, and what is right without any table of several attributes."""
    empty = dict.fromkeys(HEADS, "")
    yield {**empty, "form": "all", "right": found.records, "alone_found": found.alone}
    beside = found.baseline
    alone = f"{beside.alone:.0f}"
    yield {**empty, "form": "drawn", "right": f"{beside.drawn:.0f}", "alone_found": alone}
    yield {**empty, "form": "apportioned", "right": beside.apportioned}


def _rows(found: AttackOutcome, budget: str) -> Iterator[dict[str, object]]:
    for one in found.forms:
        yield dict(zip(HEADS, _values(one, budget if one.form == "noised" else ""), strict=True))


def _values(one: FormOutcome, budget: str) -> tuple[object, ...]:
    return (
        one.form, budget, f"{one.error:.3g}", f"{one.withheld:.3g}", one.records, one.right,
        f"{one.beyond:.0f}", one.alone_found, one.alone_named, one.alone_right, one.certain,
        one.certain_right, one.certain_alone, str(one.decided).lower(),
    )  # fmt: skip


def numbers(folder: Path) -> list[dict[str, str]]:
    """Return the rows of a folder's numbers."""
    with (folder / NUMBERS).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def draw(folder: Path) -> None:
    """Draw the pictures of the numbers in a folder; the same numbers make the same bytes."""
    rows = numbers(folder)
    with mpl.rc_context({"svg.hashsalt": "dprelease", "svg.fonttype": "none"}):
        _draw_found(rows, folder / FOUND)
        _draw_errors(rows, folder / ERRORS)


def label(row: Row) -> str:
    """Return what a form is called in pictures."""
    return f"noised, epsilon {row['epsilon']}" if row["form"] == "noised" else row["form"]


def _guess(known: Mapping[str, Row], column: str) -> float:
    """Return what the better of both guesses gets right."""
    return max(float(known[name][column] or 0) for name in ("drawn", "apportioned"))


def _draw_found(rows: Sequence[Row], path: Path) -> None:
    """Draw a row for each form: records that are right, and those proven, of all and of alone."""
    known = {row["form"]: row for row in rows}
    forms = [row for row in rows if row["form"] in FORMS]
    forms.sort(key=lambda row: (row["form"] == "noised", -float(row["epsilon"] or 0)))
    figure = Figure(figsize=(8.0, 3.6), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    parts = (("right", "certain_right", "all records, %"),
             ("alone_found", "certain_alone", "people alone with their attributes, %"))  # fmt: skip
    for axes, (right, certain, title) in zip(panels, parts, strict=True):
        every = float(known["all"][right])
        guess = 100 * _guess(known, right) / every
        axes.axvline(guess, color="0.75", linewidth=1, zorder=0)
        axes.annotate(
            "guessed", (guess, -0.75), xytext=(3, 0), textcoords="offset points", size=7,
            color="0.5", va="center",
        )  # fmt: skip
        for place, row in enumerate(forms):
            ends = [100 * float(row[name]) / every for name in (certain, right)]
            axes.plot(ends, [place] * 2, color="0.88", linewidth=1, zorder=0)
            axes.plot(ends[1], place, "o", markersize=5, color="C0")
            axes.plot(ends[0], place, "o", markersize=5, mfc="white", mec="C1", mew=1.2)
        first = [100 * float(forms[0][name]) / every for name in (certain, right)]
        for end, words, colour in zip(first, ("proven", "right"), ("C1", "C0"), strict=True):
            axes.annotate(
                words, (end, 0), xytext=(0, 6), textcoords="offset points", ha="center", size=7,
                color=colour,
            )  # fmt: skip
        axes.set(xlim=(-2, 102), yticks=range(len(forms)), yticklabels=map(label, forms))
        axes.set_title(title, loc="left", fontsize=9)
        _plain(axes)
    panels[0].set_ylim(len(forms) - 0.5, -1.1)
    figure.savefig(path, metadata={"Date": None})


def _draw_errors(rows: Sequence[Row], path: Path) -> None:
    """Draw how far shown counts are off, and how many of those alone are proven, or found."""
    known = {row["form"]: row for row in rows}
    forms = [row for row in rows if row["form"] in FORMS]
    every, guess = float(known["all"]["right"]), _guess(known, "right")
    figure = Figure(figsize=(8.0, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.axhline(100 * guess / every, color="0.75", linewidth=1, zorder=0)
    noise = sorted((r for r in forms if r["form"] == "noised"), key=lambda r: float(r["error"]))
    places = [(float(row["error"]), 100 * float(row["right"]) / every) for row in noise]
    axes.plot(*zip(*places, strict=True), "-", color="C0", linewidth=1, alpha=0.5)
    for row in forms:
        colour = "C0" if row["form"] == "noised" else "C1"
        x, y = float(row["error"]), 100 * float(row["right"]) / every
        axes.plot(x, y, "o", markersize=5, color=colour)
        withheld = float(row["withheld"])
        more = f" ({100 * withheld:.0f} % withheld)" if withheld else ""
        left = row["form"] in LEFT
        axes.annotate(
            label(row) + more, (x, y), xytext=(-6 if left else 6, 0), textcoords="offset points",
            size=7, va="center", ha="right" if left else "left", color=colour,
        )  # fmt: skip
    axes.annotate(
        "guessed", (1, 100 * guess / every), xycoords=("axes fraction", "data"), xytext=(-3, -6),
        textcoords="offset points", size=7, color="0.5", ha="right", va="center",
    )  # fmt: skip
    axes.set_xlabel("mean absolute error of the counts that are shown, persons")
    axes.set_title("records that are right, %", loc="left", fontsize=9)
    axes.set_xscale("symlog", linthresh=0.5)
    axes.set(xlim=(-0.05, 40), xticks=TICKS, xticklabels=map("{:g}".format, TICKS))
    axes.minorticks_off()
    _plain(axes)
    figure.savefig(path, metadata={"Date": None})


def _plain(axes: Axes) -> None:
    axes.tick_params(labelsize=7, length=2)
    axes.xaxis.label.set_size(8)
    axes.grid(axis="x", color="0.93")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    if sys.argv[1] == "--draw":
        draw(Path(sys.argv[2]))
    else:
        compare(Path(sys.argv[1]))
