"""The documentation as a site: ``pip install '.[docs]' && sphinx-build -W -c docs . runs/site``.

The source folder is the repository, so that links between pages are the same here and on a forge. The navigation stands
below, not in the pages. Nothing is loaded from another server: formulas become MathML, which browsers draw themselves.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util.logging import getLogger

import mmpca_dist

project = "mmpca_dist"
release = mmpca_dist.__version__
root_doc = "README"
include_patterns = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**"]
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]

NAVIGATION = {
    "Start": {
        "Five minutes": "self",
        "A notebook": "docs/first-steps",
        "Your own CSV": "docs/messy-tables",
        "Python": "docs/python",
        "Data": "docs/data",
        "Runs": "docs/runs",
        "Evaluations": "docs/evaluation",
        "Models elsewhere": "docs/export",
    },
    "Kinds of tables": {
        "Embeddings": "docs/embeddings",
        "Erase a concept": "docs/erase",
        "Ask again without reading": "docs/cells",
        "Whiten by the controls": "docs/whiten",
        "Single cells": "docs/single-cells",
        "Text": "docs/text",
        "Images": "docs/images",
    },
    "Larger": {
        "Larger than memory": "docs/larger-than-memory",
        "Object storage": "docs/object-storage",
        "A cluster": "docs/laptop-to-cluster",
        "Every night": "docs/nightly",
        "Does this row still belong?": "docs/belonging",
        "Prefect": "docs/operations",
        "Containers": "docs/docker",
    },
    "Methods": {
        "Formulas and pictures": "docs/methods",
        "BM2PCA": "docs/bm2pca",
        "Projection penalties": "docs/projection-penalties",
        "Nearest rows": "docs/search",
        "Which axis is kept": "docs/theory",
    },
    "Reference": {
        "Commands": "docs/command-line",
        "Settings": "docs/settings",
        "Classes and functions": "docs/api",
        "Solvers": "docs/solvers",
        "What is proved": "docs/proofs",
        "What is promised": "docs/trust",
        "Design": "docs/design",
        "What is not public": "docs/patches",
        "Contributing": "CONTRIBUTING",
        "Changes": "CHANGELOG",
    },
    "Evidence": {
        "Benchmarks": "docs/benchmarks",
        "Table of benchmarks": "docs/benchmarks/table",
        "Luo & Durrant 2017": "docs/paper",
        "Zhang & Schneider 2010": "docs/projection-penalties-tables",
    },
}
"""Captions, and the pages below each with their names in the navigation; ``self`` is the README."""

html_theme = "furo"
html_title = project
html_copy_source = False
html_show_copyright = False
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
autodoc_default_options = {"members": True, "inherited-members": True}
napoleon_google_docstring = False
napoleon_use_ivar = True  # attributes are no entries of their own
suppress_warnings = ["ref.python"]  # names of attributes are no links, and several classes have a `report`


def navigation() -> str:
    """Return the navigation as directives."""
    parts = []
    for caption, pages in NAVIGATION.items():
        entries = "\n".join(f"{title} <{page}>" for title, page in pages.items())
        parts.append(f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{entries}\n```\n")
    return "\n".join(parts)


def interface() -> str:
    """Return directives for all that the package exports, functions first."""
    parts = {"Functions": "", "Classes": ""}
    for name in sorted(set(mmpca_dist.__all__) - {"__version__"}, key=str.lower):
        is_class = isinstance(getattr(mmpca_dist, name), type)
        directive = ".. autoclass:: " if is_class else ".. autofunction:: "
        parts["Classes" if is_class else "Functions"] += (
            f"### {name}\n\n```{{eval-rst}}\n{directive}mmpca_dist.{name}\n```\n\n"
        )
    return "\n".join(f"## {title}\n\n{part}" for title, part in parts.items())


def complete(_app: Any, page: str, content: list[str]) -> None:
    """Append to a page what is generated."""
    if page == root_doc:
        content[0] += "\n" + navigation()
    if page == "docs/api":
        content[0] += "\n" + interface()


def is_of_others(_app: Any, _what: str, _name: str, member: object, _skip: bool, _options: Any) -> bool | None:
    """Leave out what classes inherit from other packages."""
    return None if str(getattr(member, "__module__", project)).startswith(project) else True


def quote(_app: Any, _what: str, _name: str, _member: object, _options: Any, lines: list[str]) -> None:
    """Let ``|w|^2`` and ``n_iter_`` mean themselves in docstrings, which are written to be read as they are."""
    in_example = False
    for number, line in enumerate(lines):
        in_example = bool(line.strip()) and (in_example or line.lstrip().startswith(">>>"))
        if in_example:
            continue
        parts = re.split(r"(``.*?``)", line)
        parts[::2] = [re.sub(r"(?<!\\)(\||(?<=\w)_(?!\w))", r"\\\1", part) for part in parts[::2]]
        lines[number] = "".join(parts)


def write_formula(translator: Any, node: nodes.Element) -> None:
    """Write a formula as MathML."""
    block = isinstance(node, nodes.math_block)
    try:
        formula = tex2mathml(node.astext(), as_block=block)
    except MathError as error:
        getLogger(__name__).warning("%s", error, location=node)
        raise nodes.SkipNode from None
    translator.body.append(f'<div class="formula">{formula}</div>' if block else formula)
    raise nodes.SkipNode


def setup(app: Any) -> None:
    """Register what is above."""
    app.connect("source-read", complete)
    app.connect("autodoc-skip-member", is_of_others)
    app.connect("autodoc-process-docstring", quote, priority=600)  # after napoleon
    app.add_html_math_renderer("mathml", (write_formula, None), (write_formula, None))
