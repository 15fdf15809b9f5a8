"""Tables of numbers as pictures: the errors of all methods and sizes, and which classes are taken for which."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.evaluation.component_rule import lowest
from mmpca_dist.evaluation.tables import Cell
from mmpca_dist.methods.base.registry import title_of
from mmpca_dist.pictures.chart import LETTER, WIDTH, distinct, text, words
from mmpca_dist.pictures.frame import Drawn, Figure
from mmpca_dist.results.answer import cells_of_answer, digits, label, named
from mmpca_dist.results.evaluation import Evaluation
from mmpca_dist.results.forms import written

LINE, HEAD, CELL = 19, 40, 250
"""Pixels of a line, of the title and the names of the columns, and of all cells of a line, about."""
LONG_NAME, SHADE = 40, 0.5
"""Letters of a title; how opaque the largest number is."""


def error_map(evaluation: Evaluation) -> Figure:
    """Return the mean errors of all methods and numbers of components at a glance, a panel for each classifier."""
    sizes, methods, decimals, panels = evaluation.config.sizes, evaluation.config.labels, digits(evaluation), []
    for classifier in evaluation.classifiers:
        means = np.array([[evaluation.cells[m, k, classifier].summary.mean for k in sizes] for m in methods])
        heads = [str(size) if j else written("size", size) for j, size in enumerate(sizes)]
        texts = [[f"{mean:.{decimals}f}" for mean in line] for line in means]
        shades = (means - means.min()) / ((means.max() - means.min()) or 1)
        title = words(label(evaluation, classifier), LONG_NAME)
        panels.append(grid(title, list(map(title_of, methods)), heads, texts, shades, means == means.min()))
    best = lowest(list(evaluation.cells.values()))
    caption = (
        "Mean test error in percent, a line for each method, a column for each number of components: the stronger the "
        "colour, the more errors. The frame is the lowest mean of a panel."
    )
    alt = f"The lowest mean error is that of {named(evaluation, best)}."
    return Figure("error-map", "Errors of all methods", caption, panels, alt=alt)


def confusions(evaluation: Evaluation) -> list[Figure]:
    """Return which classes are taken for which, by the cells that the answer names; none with many classes."""
    cells = {cell.key: cell for cell in cells_of_answer(evaluation) if cell is not None}
    found = {key: evaluation.table.confusions(key) for key in cells} if evaluation.table.has_classes else {}
    classes, panels = [str(name) for name in evaluation.dataset["classes"]], []
    heads = distinct(classes, int(CELL / LETTER / len(classes)))
    for key, shares in found.items():
        if shares is None:
            return []
        texts = [
            ["" if not share > 0 else f"{100 * share:.0f}" if share >= 0.01 else "<1" for share in line]
            for line in shares
        ]
        wrong = np.where(np.eye(len(shares), dtype=bool), 0, np.nan_to_num(shares))
        panels.append(
            grid(words(_short(evaluation, cells[key]), LONG_NAME), classes, heads, texts,
                 wrong / (wrong.max() or 1), np.eye(len(shares), dtype=bool))
        )  # fmt: skip
    caption = (
        "Of the rows of each class (lines) that are held out, the percentage taken for each class (columns), in all "
        "splits together. Frames: taken for their own. The stronger the colour, the more are taken for another."
    )
    return [Figure("confusions", "Classes that are taken for others", caption, panels)] if panels else []


def _short(evaluation: Evaluation, cell: Cell) -> str:
    return f"{title_of(cell.method)} ({cell.used}), {label(evaluation, cell.classifier)}"


def grid(
    title: str, names: Sequence[str], heads: Sequence[str], texts: Sequence[Sequence[str]],
    shades: NDArray[np.float64], framed: NDArray[np.bool_],
) -> Drawn:  # fmt: skip
    """Return a panel of texts in cells, with shades from 0 to 1 and frames, under a title."""
    rows = distinct(names, 22)
    left = 8 + LETTER * max(map(len, rows))
    across = (WIDTH - left) / len(heads)
    parts = [text(2, 13, title, "title")]
    parts += [text(left + (j + 0.5) * across, HEAD - 6, head, "middle") for j, head in enumerate(heads)]
    for i, name in enumerate(rows):
        y = HEAD + i * LINE
        parts.append(text(2, y + 13, name, ""))
        for j, shown in enumerate(texts[i]):
            opacity = 0.05 + (SHADE - 0.05) * shades[i, j]
            frame = 'stroke="currentColor" stroke-width="1.5"' if framed[i, j] else 'stroke="none"'
            place = f'x="{left + j * across:.1f}" y="{y}" width="{across - 2:.1f}" height="{LINE - 2}"'
            parts.append(f'<rect class="c1" fill="currentColor" fill-opacity="{opacity:.2f}" {frame} {place}/>')
            parts.append(text(left + (j + 0.5) * across - 1, y + 13, shown, "middle"))
    return Drawn("".join(parts), WIDTH, HEAD + LINE * len(rows) + 4)
