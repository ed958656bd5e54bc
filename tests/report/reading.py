"""Reads a page as a browser and a screen reader do: its elements, names, headings and colours."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any
from xml.etree.ElementTree import Element

import html5lib

HTML, SVG = "{http://www.w3.org/1999/xhtml}", "{http://www.w3.org/2000/svg}"
XLINK = "{http://www.w3.org/1999/xlink}href"
HEADS = [f"{HTML}h{i}" for i in range(1, 7)]


def parse_page(page: bytes) -> Element:
    """Return the elements of a page, which has no error that a strict parser finds."""
    parser = html5lib.HTMLParser(strict=True, tree=html5lib.getTreeBuilder("etree"))
    root: Element = parser.parse(page, transport_encoding="utf-8")
    return root


def text_of(element: Element) -> str:
    """Return the text of an element."""
    return " ".join("".join(element.itertext()).split())


def shape_of(root: Element) -> Counter[tuple[Any, ...]]:
    """Return which elements a page has, with the names of their attributes, and how many of each."""
    return Counter((one.tag, *sorted(map(str, one.attrib))) for one in root.iter())


def named_by(root: Element, element: Element) -> str:
    """Return the name of an element for a screen reader."""
    if "aria-label" in element.attrib:
        return str(element.attrib["aria-label"])
    ids = {one.attrib["id"]: one for one in root.iter() if "id" in one.attrib}
    names = element.attrib.get("aria-labelledby", "").split()
    return " ".join(text_of(ids[name]) for name in names)


def brightness(colour: str) -> float:
    """Return the relative luminance of a colour (WCAG 2.2)."""
    digits = colour.removeprefix("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str = "#ffffff") -> float:
    """Return how far two colours are apart, 1 to 21 (WCAG 2.2)."""
    high, low = sorted((brightness(one), brightness(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def colour_schemes(root: Element) -> list[dict[str, str]]:
    """Return the colours of a page by name, in light and in dark."""
    style = "".join(one.text or "" for one in root.iter(f"{HTML}style"))
    light, dark = re.findall(r":root \{([^}]*)\}", style)
    schemes = [dict(re.findall(r"(--[a-z0-9-]+): (#[0-9a-f]{6})", text)) for text in (light, dark)]
    return [schemes[0], {**schemes[0], **schemes[1]}]
