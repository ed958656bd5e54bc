"""The page in a real browser: no window is too narrow for it, and axe-core finds nothing wrong.

Needs Chromium. AXE_CORE names the `axe.min.js` of another axe-core than that of `axe-core-python`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from html import escape, unescape
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from tests import processes
from tests.report.releases import KINDS, read_release
from tests.report.test_page import HOSTILE, with_labels

PageFor = Callable[[str], bytes]
FolderOf = Callable[[str], Path]

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTHS = (360, 1280)
POLICY = re.compile(rb'<meta http-equiv="Content-Security-Policy"[^>]*>')

MEASURE = """
const wide = document.documentElement.clientWidth;
const inside = one => one.closest('.scroll') !== null || one.closest('.skip') !== null;
const over = [...document.body.querySelectorAll('*')].filter(
  one => !inside(one) && one.getBoundingClientRect().right > wide + 1);
const clipped = [...document.querySelectorAll('svg text')].filter(one => {
  const [text, whole] = [one, one.ownerSVGElement].map(each => each.getBoundingClientRect());
  return text.left < whole.left - 1 || text.right > whole.right + 1;
});
const found = {
  wide: window.innerWidth,
  page: document.documentElement.scrollWidth,
  over: over.map(one => one.outerHTML.slice(0, 200)),
  clipped: clipped.map(one => one.textContent),
};
const tell = () => {
  const told = document.createElement('pre');
  told.id = 'found';
  told.textContent = JSON.stringify(found);
  window.top.document.body.append(told);
};
"""
AXE = """
axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa', 'best-practice']})
  .then(done => { found.violations = done.violations.map(one => [one.id, one.help,
    one.nodes.slice(0, 3).map(node => node.html.slice(0, 200) + node.failureSummary)]); tell(); })
  .catch(problem => { found.problem = String(problem); tell(); });
"""


def browser() -> str:
    """Return the command of a browser, or skip the test."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip("no Chromium is installed")
    return path


def run_script(page: bytes, width: int, folder: Path, script: str) -> dict[str, Any]:
    """Return what a script finds in a page that a browser shows in a window of some width."""
    assert POLICY.search(page)  # without which scripts run in this copy
    copy = POLICY.sub(b"", page).replace(b"</body>", f"<script>{script}</script></body>".encode())
    # A window of a browser has a least width; a frame has none.
    frame = f'<iframe width="{width}" height="900" srcdoc="{escape(copy.decode())}"></iframe>'
    path = folder / "page.html"
    path.write_text(f'<!DOCTYPE html><meta charset="utf-8"><body>{frame}', encoding="utf-8")
    command = [
        browser(), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
        f"--user-data-dir={folder / 'profile'}", "--window-size=1600,1000",
        "--virtual-time-budget=30000", "--dump-dom", path.as_uri(),
    ]  # fmt: skip
    done = processes.run(command, capture_output=True, check=True, text=True)
    told = re.findall(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert told, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(unescape(told[-1]))
    return found


@pytest.mark.audit
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", KINDS)
def test_page_fits_narrow_windows(name: str, width: int, page_for: PageFor, tmp_path: Path) -> None:
    found = run_script(page_for(name), width, tmp_path, f"{MEASURE} tell();")
    assert found == {"wide": width, "page": width, "over": [], "clipped": []}


@pytest.mark.audit
@pytest.mark.parametrize("case", ["long", "wide", "bidi", "script"])
def test_long_labels_fit(case: str, folder_of: FolderOf, tmp_path: Path) -> None:
    page = with_labels(read_release(folder_of("several")), HOSTILE[case])
    found = run_script(page, WIDTHS[0], tmp_path, f"{MEASURE} tell();")
    assert found == {"wide": WIDTHS[0], "page": WIDTHS[0], "over": [], "clipped": []}


@pytest.mark.audit
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["several", "family", "paid"])
def test_axe_finds_nothing(name: str, width: int, page_for: PageFor, tmp_path: Path) -> None:
    """Contrast, landmarks, names, languages, headings, tables: by axe-core."""
    given = os.environ.get("AXE_CORE")
    path = Path(given) if given else files("axe_core_python") / "axe.min.js"
    axe = path.read_text(encoding="utf-8").replace("</script", "<\\/script")
    found = run_script(page_for(name), width, tmp_path, f"{axe}\n{MEASURE} {AXE}")
    assert found["violations"] == []


@pytest.mark.audit
def test_page_policy_blocks_scripts(page_for: PageFor, tmp_path: Path) -> None:
    """Its policy keeps one out even if somebody put it there."""
    page = page_for("paid").replace(b"</body>", b"<script>document.title = 'ran'</script></body>")
    path = tmp_path / "page.html"
    path.write_bytes(page)
    command = [browser(), "--headless=new", "--no-sandbox", "--disable-gpu"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", path.as_uri()]
    done = processes.run(command, capture_output=True, check=True, text=True)
    assert "<title>ran</title>" not in done.stdout
    assert "</footer>" in done.stdout
