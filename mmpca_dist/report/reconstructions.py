"""Pictures of images rebuilt from few components."""

from __future__ import annotations

from numpy.typing import NDArray

from mmpca_dist.report import drawing
from mmpca_dist.report.contents import Reconstructions, ReportContents
from mmpca_dist.report.drawing import PAGE_WIDTH, Figure, plain
from mmpca_dist.report.mosaics import NAMES_WIDTH, Tile, mosaic, widths

GAP, TALLEST = 0.25, 1.1
"""Between two rows of the data, in places of an image; inches of an image at most."""
LETTERS = 12
"""Letters of a title an inch."""


def reconstructions(contents: ReportContents) -> list[Figure]:
    """Return a picture of a few rows and of what the first components of every method rebuild of them."""
    shown, shape = contents.reconstructions, contents.image_shape
    methods = [m for m in contents.solved if shown is not None and shown.rebuilt.get(m.name)]
    if shown is None or shape is None or not methods:
        return []
    tops = [("as read", shown.rows)]
    if shown.before_noise is not None:
        tops = [("original", shown.before_noise), ("with noise", shown.rows)]
    n, columns = len(shown.rows), len(shown.sizes)
    room = (PAGE_WIDTH - NAMES_WIDTH) / (n * (columns + GAP) - GAP)
    _, slot = widths(shape, room, TALLEST)
    ends = (float(tops[0][1].min()), float(tops[0][1].max()))

    def tile(row: NDArray, example: int, column: float, title: str) -> Tile:
        return Tile(row.reshape(shape), example * (columns + GAP) + column, ends, title)

    lines: list[tuple[str, list[Tile]]] = []
    for name, rows in tops:
        most = max(int(LETTERS * slot * columns), 4)
        titles = ["" if lines else plain(label, most=most) for label in shown.labels]
        lines.append((name, [tile(rows[i], i, (columns - 1) / 2, titles[i]) for i in range(n)]))
    for method in methods:
        rebuilt, tiles = shown.rebuilt[method.name], []
        for column, size in enumerate(shown.sizes):
            used = _used(rebuilt, shown.sizes, column)
            if used is not None:
                is_labelled = method is methods[0] or used != size
                title = (f"K = {used}" if slot > 0.5 else str(used)) if is_labelled else ""
                tiles += [tile(rebuilt[used][i], i, column, title) for i in range(n)]
        lines.append((method.title, tiles))
    made = mosaic(lines, room, TALLEST, "gray_r")
    caption, title = _words(shown)
    return [Figure("reconstructions", title, caption, drawing.png(made))]


def _used(rebuilt: dict[int, NDArray], sizes: list[int], column: int) -> int | None:
    """Return how many components a column shows: as asked, or all where a method has fewer, and that once."""
    most = max(rebuilt)
    if sizes[column] in rebuilt:
        return sizes[column]
    return most if sizes[column] > most and (column == 0 or sizes[column - 1] < most) else None


def _words(shown: Reconstructions) -> tuple[str, str]:
    """Return caption and title."""
    rebuilt = (
        "what each method rebuilds from K components alone: of all rows with the same K coordinates, the one nearest "
        "to the mean. What is missing there, no classifier sees after the reduction."
    )
    if shown.before_noise is None:
        return f"A few rows as they were read, and {rebuilt}", "Rows rebuilt from few components"
    return (
        f"A few rows before noise was added (which no method has seen), with the noise, and {rebuilt} Noise spreads "
        "over all components alike and images over few, so a small K leaves most of the noise behind, and too small "
        "a K also the image. Shades end at the least and greatest values of the originals.",
        "Noisy rows, denoised by few components",
    )
