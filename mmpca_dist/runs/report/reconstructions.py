"""Pictures of rows that are images, rebuilt from few components."""

from __future__ import annotations

from matplotlib.axes import Axes
from numpy.typing import NDArray

from mmpca_dist.runs.report import drawing
from mmpca_dist.runs.report.contents import Reconstructions, ReportContents
from mmpca_dist.runs.report.drawing import FAINT, INK, PAGE_WIDTH, Figure, plain

NAMES_WIDTH, GAP = 1.1, 0.25
"""Inches for the names on the left; width between two rows of the data, in widths of an image."""
TALLEST, NARROWEST = 1.1, 0.6
"""Inches of an image at most, where there are few, and that its title needs."""
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
    across = n * (columns + GAP) - GAP
    width = min((PAGE_WIDTH - NAMES_WIDTH) / across, max(TALLEST * shape[1] / shape[0], NARROWEST))
    tall = min(width * shape[0] / shape[1], TALLEST)
    made = drawing.sheet(NAMES_WIDTH + width * across, (len(tops) + len(methods)) * (tall + 0.1) + 0.6)
    widths = ([1.0] * columns + [GAP]) * n
    grid = made.add_gridspec(len(tops) + len(methods), len(widths) - 1, width_ratios=widths[:-1])
    scale = (float(tops[0][1].min()), float(tops[0][1].max()))
    for line, (name, rows) in enumerate(tops):
        for example in range(n):
            first = example * (columns + 1)
            panel = made.add_subplot(grid[line, first : first + columns])
            _image(panel, rows[example].reshape(shape), scale)
            if line == 0:
                _title(panel, plain(shown.labels[example], most=max(int(LETTERS * width * columns), 4)))
            if example == 0:  # beside the first image of the methods below
                _name(made.add_subplot(grid[line, 0]), name)
    for line, method in enumerate(methods, len(tops)):
        rebuilt = shown.rebuilt[method.name]
        for example in range(n):
            for column, size in enumerate(shown.sizes):
                panel = made.add_subplot(grid[line, example * (columns + 1) + column])
                used = _used(rebuilt, shown.sizes, column)
                if used is None:
                    panel.set_axis_off()
                    continue
                _image(panel, rebuilt[used][example].reshape(shape), scale)
                if line == len(tops) or used != size:
                    _title(panel, f"K = {used}" if width > 0.5 else str(used))
                if example == column == 0:
                    _name(panel, method.title)
    caption, title = _words(shown)
    return [Figure("reconstructions", title, caption, drawing.png(made))]


def _used(rebuilt: dict[int, NDArray], sizes: list[int], column: int) -> int | None:
    """Return how many components a column shows: as asked, or all where a method has fewer, and that once."""
    most = max(rebuilt)
    if sizes[column] in rebuilt:
        return sizes[column]
    return most if sizes[column] > most and (column == 0 or sizes[column - 1] < most) else None


def _image(panel: Axes, image: NDArray, scale: tuple[float, float]) -> None:
    panel.imshow(image, cmap="gray_r", vmin=scale[0], vmax=scale[1], interpolation="nearest")
    drawing.dress(panel)
    panel.set_xticks([])
    panel.set_yticks([])
    for side in panel.spines.values():
        side.set(visible=True, color=FAINT, linewidth=0.5)


def _title(panel: Axes, text: str) -> None:
    panel.set_title(text, fontsize=drawing.LABEL_SIZE, family=drawing.FONT, color=INK, loc="center", pad=3)


def _name(panel: Axes, name: str) -> None:
    """Write a name to the left of a panel, which is left as it is."""
    if not panel.images:
        panel.set_frame_on(False)
        panel.set_xticks([])
        panel.set_yticks([])
    panel.set_ylabel(
        plain(name, most=22).replace(" ", "\n", 1),
        fontsize=drawing.LABEL_SIZE, family=drawing.FONT, fontweight="bold", color=INK,
        rotation=0, ha="right", va="center",
    )  # fmt: skip


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
