"""The documentation as a site: ``pip install '.[docs]' && sphinx-build -W -c docs . runs/site``.

The source folder is the repository, so that links between pages are the same here and on a forge. The navigation stands
below, not in the pages. Nothing is loaded from another server: formulas become MathML, which browsers draw themselves.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

import mmpca_dist

project = "mmpca_dist"
release = mmpca_dist.__version__
root_doc = "README"
include_patterns = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**"]
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]

NAVIGATION = {
    "Start": ["messy-tables", "data", "runs", "evaluation"],
    "Larger": ["laptop-to-cluster", "object-storage", "operations", "docker"],
    "Kinds of tables": ["embeddings", "single-cells"],
    "Methods": ["bm2pca", "projection-penalties", "search", "theory"],
    "Reference": ["settings", "solvers", "proofs", "trust", "design"],
    "Evidence": ["benchmarks", "paper", "projection-penalties-tables"],
    "Project": ["../CONTRIBUTING", "../CHANGELOG"],
}

html_theme = "furo"
html_title = project
html_copy_source = False
html_extra_path = ["site/index.html"]
html_static_path = ["site/extra.css"]
html_css_files = ["extra.css"]
html_math_renderer = "mathml"
pygments_style = "tango"
pygments_dark_style = "monokai"

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 60

autodoc_typehints = "none"  # the docstrings say it
autodoc_inherit_docstrings = True
napoleon_google_docstring = False


def navigation() -> str:
    """Return the navigation as directives that follow the text of the README."""
    parts = []
    for caption, pages in NAVIGATION.items():
        paths = "\n".join(f"docs/{page}".replace("docs/../", "") for page in pages)
        parts.append(f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{paths}\n```\n")
    return "\n".join(parts)


def add_navigation(_app: Any, page: str, content: list[str]) -> None:
    """Append the navigation to the first page."""
    if page == root_doc:
        content[0] += "\n" + navigation()


def write_formula(translator: Any, node: nodes.Element) -> None:
    """Write a formula as MathML."""
    block = isinstance(node, nodes.math_block)
    formula = tex2mathml(node.astext(), as_block=block)
    translator.body.append(f'<div class="formula">{formula}</div>' if block else formula)
    raise nodes.SkipNode


def setup(app: Any) -> None:
    """Register what is above."""
    app.connect("source-read", add_navigation)
    app.add_html_math_renderer("mathml", (write_formula, None), (write_formula, None))
