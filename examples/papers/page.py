"""All tables and figures of the papers on one page, which needs nothing beside itself.

    python -m examples.papers.page FOLDER

writes FOLDER/index.html and the points of the curves; ends with 1 if a number is off.
"""

from __future__ import annotations

import html
import sys
from pathlib import Path

from examples.papers import (
    asymmetric_and_truncated_laplace,
    offset_symmetric_gaussian,
    symmetric_alpha_stable,
)
from examples.papers.charts import Figure, svg
from examples.papers.report import Report, write_curves

PAPERS = (symmetric_alpha_stable, offset_symmetric_gaussian, asymmetric_and_truncated_laplace)

STYLE = """
body{font:15px/1.45 system-ui,sans-serif;max-width:74rem;margin:2rem auto;padding:0 1rem;color:#222}
h1{font-size:1.5rem}h2{font-size:1.25rem;margin-top:3rem;border-top:1px solid #ccc;padding-top:1rem}
h3{font-size:1rem;margin:1.6rem 0 .4rem}
figure{display:flex;flex-wrap:wrap;gap:1.5rem;margin:1rem 0;align-items:flex-start}
figure svg{width:auto;height:auto;max-width:100%}figcaption{flex:1;min-width:15rem}
dt{font-weight:600}dd{margin:0 0 .6rem}
table{border-collapse:collapse;font-size:.85rem}td,th{padding:.15rem .8rem .15rem 0;text-align:left}
td.n{text-align:right;font-variant-numeric:tabular-nums}.off{color:#a11;font-weight:600}
summary{cursor:pointer}
"""
INTRODUCTION = (
    "Every number is computed by the package. It stands beside the number that the paper prints, "
    "to half a unit of the last printed digit, or beside an independent computation by quadrature. "
    "Where no number of a printed figure is known here, its entry says so, and describes what is "
    "drawn."
)


def page(reports: list[Report]) -> str:
    """Return the page."""
    body = "\n".join(map(_paper, reports))
    off = sum(report.off for report in reports)
    verdict = "All agree." if not off else f"{off} off."
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>Papers, computed again</title><style>{STYLE}</style></head><body>"
        f"<h1>Papers, computed again</h1><p>{INTRODUCTION} <b>{verdict}</b></p>\n"
        f"{body}</body></html>\n"
    )


def _paper(report: Report) -> str:
    parts = [f"<h2>{html.escape(report.title)}</h2>", _misprints(report)]
    parts += [_figure(figure) for figure in report.figures]
    lines = sum(len(found) for _, found in report.sections)
    parts.append(f"<details><summary>All {lines} lines of its tables</summary>")
    parts += [_table(report, i) for i in range(len(report.sections))]
    return "\n".join([*parts, "</details>"])


def _misprints(report: Report) -> str:
    if not report.misprints:
        return ""
    rows = "".join(
        f"<tr><td>{html.escape(one.what)}</td><td>{html.escape(one.printed)}</td>"
        f"<td>{html.escape(one.corrected)}</td></tr>"
        for one in report.misprints
    )
    return (
        f"<h3>Misprints</h3><table><tr><th></th><th>printed</th><th>right</th></tr>{rows}</table>"
    )


def _figure(figure: Figure) -> str:
    return (
        f'<h3>{html.escape(figure.number)}</h3><figure id="{figure.name}">{svg(figure)}'
        f"<figcaption><dl><dt>In the paper</dt><dd>{html.escape(figure.there)}</dd>"
        f"<dt>Drawn here</dt><dd>{html.escape(figure.drawn)}</dd></dl></figcaption></figure>"
    )


def _table(report: Report, place: int) -> str:
    title, found = report.sections[place]
    rows = "".join(
        f"<tr{'' if one.good else ' class=off'}><td>{html.escape(one.what)}</td>"
        f'<td class="n">{html.escape(one.there)}</td>'
        f'<td class="n">{html.escape(one.ours)}</td></tr>'
        for one in found
    )
    return f"<h3>{html.escape(title)}</h3><table>{rows}</table>"


def main(folder: Path) -> int:
    """Write the page; return 1 if a number is off."""
    reports = []
    for paper in PAPERS:
        report = Report(paper.TITLE)
        paper.tell(report)
        reports.append(report)
        for figure in report.figures:
            write_curves(figure, folder / "curves")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "index.html").write_text(page(reports), encoding="utf-8")
    off = sum(report.off for report in reports)
    sys.stdout.write(f"{folder / 'index.html'}: {'all agree' if not off else f'{off} off'}\n")
    return int(off > 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/papers")))
