"""Turn Matplotlib's SVG into an element of a page: small, without styles or shared ids.

Matplotlib writes a whole document, whose style rules would apply to the surrounding page. This
module takes only its shapes and texts, with their appearance as attributes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import StringIO
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from markupsafe import Markup

from dprelease.report.safe import printable_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETTINGS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "dprelease",
    "font.family": "DejaVu Sans",
    "font.size": 8.0,
    "text.usetex": False,
    "text.parse_math": False,
    "path.simplify": False,
    "axes.unicode_minus": False,
}
"""Settings that differ from Matplotlib's defaults: texts stay texts, and ids are deterministic."""

SVG = "{http://www.w3.org/2000/svg}"
LINK = "{http://www.w3.org/1999/xlink}href"
NUMBER = re.compile(r"-?[0-9]+\.[0-9]+(e-?[0-9]+)?")
KEPT = {
    "fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "opacity",
    "fill-opacity", "stroke-opacity", "text-anchor",
}  # fmt: skip
"""Properties that are copied; fonts are those of the page."""


@contextmanager
def same_everywhere() -> Iterator[None]:
    """Draw with fixed settings, and restore the user's own afterwards."""
    from matplotlib import rc_context, rcdefaults, rcParams

    with rc_context():
        rcdefaults()
        rcParams.update(SETTINGS)
        yield


def inline_svg(figure: Figure, words: Sequence[str], name: str, title: str, told: str) -> Markup:
    """Return a drawing as an element of a page.

    Parameters
    ----------
    figure
        Its texts are "T0", "T1", ... and stand for `words`, so that labels are never read as
        formulas
        and need no font here.
    words
        The texts.
    name
        The prefix of ids inside; unique per picture of a page.
    title, told
        Title and description of the picture, for those who don't see it.
    """
    held = StringIO()
    figure.savefig(held, format="svg", metadata={"Date": None})
    root = ElementTree.fromstring(held.getvalue())
    width, height = (float(size) for size in root.attrib["viewBox"].split()[2:])
    box = f"0 0 {width:g} {height:g}"
    named = {"aria-labelledby": f"{name}-t {name}-d", "role": "img", "class": "picture"}
    sizes = {"width": f"{width * 4 / 3:.0f}", "height": f"{height * 4 / 3:.0f}"}
    page = ElementTree.Element("svg", {**named, "viewBox": box, **sizes})
    ElementTree.SubElement(page, "title", {"id": f"{name}-t"}).text = printable_text(title, None)
    ElementTree.SubElement(page, "desc", {"id": f"{name}-d"}).text = printable_text(told, None)
    marks: dict[str, str] = {}
    for element in _shapes(root, marks, name):
        if element.tag == "text":
            element.text = _label_text(element.text or "", words)
        page.append(element)
    return Markup(ElementTree.tostring(page, encoding="unicode"))


def _label_text(text: str, words: Sequence[str]) -> str:
    return printable_text(words[int(text.strip().removeprefix("T"))], None)


def _shapes(
    root: ElementTree.Element, marks: dict[str, str], name: str
) -> Iterator[ElementTree.Element]:
    """Yield shapes and texts in painting order; markers before their uses."""
    for defined in root.iter(f"{SVG}defs"):
        for mark in defined.findall(f"{SVG}path"):
            marks[f"#{mark.attrib['id']}"] = f"{name}-m{len(marks)}"
            definition = ElementTree.Element("defs")
            # Its colours are those of each use, which its own colour would override.
            held = {"id": marks[f"#{mark.attrib['id']}"], "d": _look(mark)["d"]}
            ElementTree.SubElement(definition, "path", held)
            yield definition
    defined_paths = {id(path) for defs in root.iter(f"{SVG}defs") for path in defs.iter()}
    for element in root.iter():
        if id(element) in defined_paths:
            continue
        if element.tag == f"{SVG}path":
            look = _look(element)
            if len(look["d"].split()) > 3:  # otherwise it is a position, not a line
                yield ElementTree.Element("path", look)
        elif element.tag == f"{SVG}use":
            link = {"href": marks[element.attrib[LINK]]}
            link["href"] = f"#{link['href']}"
            yield ElementTree.Element("use", {**link, **_look(element)})
        elif element.tag == f"{SVG}text":
            made = ElementTree.Element("text", _look(element))
            made.text = element.text
            yield made


def _look(element: ElementTree.Element) -> dict[str, str]:
    """Return the appearance and position of an element, with numbers of few digits."""
    places = ("d", "x", "y")
    held = {name: element.attrib[name] for name in places if name in element.attrib}
    look: dict[str, str] = {name: " ".join(_few(value).split()) for name, value in held.items()}
    style = _style(element.attrib.get("style", ""))
    look |= {name: _few(value) for name, value in style.items() if name in KEPT}
    if element.tag == f"{SVG}path" and "fill" not in look:
        look["fill"] = look.get("fill", "black")
    words = (style.get(name, "") for name in ("font", "font-size", "font-weight"))
    return look | _font(" ".join(words))


def _style(text: str) -> Mapping[str, str]:
    parts = (part.partition(":") for part in text.split(";") if ":" in part)
    return {name.strip(): value.strip() for name, _, value in parts}


def _font(font: str) -> dict[str, str]:
    """Return size and weight of a font in short form, such as "bold 9px 'DejaVu Sans'"."""
    look = {}
    for word in font.split("'")[0].split():
        if re.fullmatch(r"[0-9.]+px", word):
            look["font-size"] = _few(word.removesuffix("px"))
        elif word in ("bold", "700"):
            look["font-weight"] = "bold"
    return look


def _few(text: str) -> str:
    """Return a text whose numbers have one decimal."""
    return NUMBER.sub(lambda number: f"{float(number[0]):.1f}".removesuffix(".0"), text)
