"""How Sphinx builds the manual: `make docs`. It asks no other machine for anything."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

from dprelease.version import __version__

project = "dprelease"
author = "The dprelease team"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "docs.from_code"]
exclude_patterns = ["__init__.py", "from_code"]
nitpicky = False

myst_enable_extensions = ["attrs_inline", "colon_fence"]
myst_heading_anchors = 3
# Anchors of headings are those of other places that show Markdown.
suppress_warnings: list[str] = []

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False
default_role = "code"  # docstrings have single backticks around code
add_module_names = False

html_theme = "pydata_sphinx_theme"
html_title = "dprelease"
html_show_sourcelink = False
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
html_sidebars = {"tutorial": [], "index": []}
html_static_path = ["_static"]
html_css_files = ["manual.css"]


def setup(app: Sphinx) -> None:
    """Show CSV as plain text, and signs of RST in docstrings as themselves."""
    app.add_lexer("csv", TextLexer)
    app.connect("autodoc-process-docstring", _plain_stars, priority=100)


def _plain_stars(
    _app: Sphinx, _what: str, _name: str, _object: object, _options: object, lines: list[str]
) -> None:
    lines[:] = [line.replace("-*", r"-\*") for line in lines]
