"""The elements of all pictures: sheets, panels, colours, safe text, PNG bytes.

No pyplot and no rcParams are touched, and no mathtext is used (its parser is one object for all threads).
"""

from __future__ import annotations

import io
import threading
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np
from matplotlib import colormaps, font_manager
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Sheet
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, MaxNLocator
from PIL import Image

from mmpca_dist.pictures.frame import Figure

DPI = 200
"""Twice what the page shows, for dense screens."""
PAGE_WIDTH = 9.6
"""Inches; 960 pixels on the page."""
FONT = "DejaVu Sans"  # comes with matplotlib, so pictures look the same everywhere
TITLE_SIZE, LABEL_SIZE, TICK_SIZE = 9.5, 8.5, 8
INK, FAINT = "#222222", "#8a8a8a"
BEFORE = "#c9ced4"
"""Colour of distances before projection, which outlines of those after it are compared with."""

MAX_COLOURS = 20
"""Beyond so many classes a legend helps nobody and colour follows a continuous map."""

# Okabe & Ito's colour-blind-safe palette without black and yellow (invisible on white), black last.
FEW_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#222222")
# Tol's muted palette, colour-blind safe, and a grey.
TEN_COLOURS = (
    "#332288", "#88CCEE", "#117733", "#DDCC77", "#CC6677",
    "#AA4499", "#44AA99", "#999933", "#882255", "#9a9a9a",
)  # fmt: skip
METHOD_MARKERS = "osD^vPX"

_drawing = threading.Lock()  # Agg draws figures independently, but matplotlib's font caches promise nothing


def sheet(width: float, height: float) -> Sheet:
    """Return an empty white sheet of this size in inches, whose panels make room for their labels."""
    layout = ConstrainedLayoutEngine(w_pad=0.07, h_pad=0.06)
    drawn = Sheet(figsize=(width, height), dpi=DPI, layout=layout, facecolor="white")
    FigureCanvasAgg(drawn)
    return drawn


def panel_grid(n: int, height: float) -> tuple[Sheet, list[Axes]]:
    """Return a sheet with ``n`` panels of this height in inches, in columns that leave few places empty."""
    columns = 2 if n == 4 else min(n, 3) if n <= 6 or n == 9 else 4
    rows = -(-n // columns)
    drawn = sheet(PAGE_WIDTH if columns > 1 else 0.65 * PAGE_WIDTH, rows * height)
    panels = list(drawn.subplots(rows, columns, squeeze=False).flat)
    for unused in panels[n:]:
        unused.remove()
    return drawn, panels[:n]


def dress(
    panel: Axes, title: str = "", xlabel: str = "", ylabel: str = "", *, pad: float | None = None, outer: bool = False
) -> None:
    """Give a panel its titles and the common look; call when all is drawn.

    ``pad`` is the room between title and panel in points, for text between them. Of the panels of a grid whose labels
    are ``outer``, only the lowest and those on the left have any.
    """
    if outer and (spec := panel.get_subplotspec()) is not None:
        columns = spec.get_gridspec().ncols
        xlabel = xlabel if spec.num1 >= len(panel.figure.axes) - columns else ""
        ylabel = ylabel if spec.num1 % columns == 0 else ""
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        panel.spines[side].set_color(FAINT)
    panel.tick_params(labelsize=TICK_SIZE, color=FAINT, labelcolor=INK, labelfontfamily=FONT, length=3)
    panel.tick_params(which="minor", length=0)
    panel.set_title(title, fontsize=TITLE_SIZE, color=INK, loc="left", family=FONT, fontweight="bold", pad=pad)
    panel.set_xlabel(xlabel, fontsize=LABEL_SIZE, color=INK, family=FONT)
    panel.set_ylabel(ylabel, fontsize=LABEL_SIZE, color=INK, family=FONT)


def legend_below(drawn: Sheet, handles: Sequence[Any], labels: Sequence[str], most: int = 7, **look: Any) -> None:
    """Put a legend without frame below all panels, in at most ``most`` columns, with rows that are filled evenly."""
    rows = -(-len(labels) // most)
    columns = -(-len(labels) // rows)
    drawn.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=LABEL_SIZE, **look)


def few_numbers(panel: Axes) -> None:
    """Label the horizontal axis with few numbers, and those that are small or large by powers of ten."""
    panel.xaxis.set_major_locator(MaxNLocator(nbins=5))
    panel.ticklabel_format(axis="x", scilimits=(-3, 4))


def shares_of_distances(panel: Axes) -> None:
    """Label the axes of a histogram of distances."""
    few_numbers(panel)
    panel.yaxis.set_major_locator(MaxNLocator(nbins=4))
    percent_axis(panel)


def whole_numbers(panel: Axes, last: int) -> None:
    """Let the horizontal axis count components from 1 to ``last``."""
    panel.set_xlim(0.5, last + 0.5) if last < 3 else panel.set_xlim(1 - 0.03 * last, last + 0.03 * last)
    panel.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))


def percent(share: float, _position: object = None) -> str:
    """Return a share as a percentage short enough for a tick."""
    value = 100 * share
    return f"{value:.0e}%".replace("e-0", "e-") if 0 < abs(value) < 1e-3 else f"{value:.3g}%"


def percent_axis(panel: Axes) -> None:
    """Label the vertical axis in percent."""
    panel.yaxis.set_major_formatter(FuncFormatter(percent))


def figure(
    name: str, title: str, caption: str, drawn: Sheet, alt: str = "", *, palette: bool = True, photo: bool = False
) -> Figure:
    """Return a sheet as a picture of a report."""
    return Figure(name, title, caption, png(drawn, palette=palette), alt, photo)


def png(drawn: Sheet, *, palette: bool = True) -> bytes:
    """Return the sheet as a PNG, with a palette unless shades matter (a third to a quarter of the bytes)."""
    canvas = cast(FigureCanvasAgg, drawn.canvas)
    with _drawing:
        canvas.draw()
        image = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    if palette:
        image = image.quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
        colours, paper = image.getpalette() or [], image.getpixel((0, 0))
        if isinstance(paper, int) and colours:  # the paper may be averaged with what is nearly white
            colours[3 * paper : 3 * paper + 3] = [255, 255, 255]
            image.putpalette(colours)
    buffer = io.BytesIO()
    image.save(buffer, format="png")
    return buffer.getvalue()


def class_colours(n_classes: int) -> list[str] | np.ndarray:
    """Return a colour for each class; beyond ten they repeat and ``class_marker`` tells them apart."""
    if n_classes <= len(FEW_COLOURS):
        return list(FEW_COLOURS[:n_classes])
    if n_classes <= MAX_COLOURS:
        return [TEN_COLOURS[i % len(TEN_COLOURS)] for i in range(n_classes)]
    return colormaps["viridis"](np.linspace(0, 1, n_classes))


def class_marker(position: int, n_classes: int) -> str:
    """Return the marker of a class."""
    second = len(TEN_COLOURS) <= position and n_classes <= MAX_COLOURS
    return "^" if second else "o"


@lru_cache(maxsize=1)
def _drawable() -> frozenset[int]:
    path = font_manager.findfont(FONT)
    return frozenset(font_manager.get_font(path).get_charmap())


def plain(text: object, fallback: str = "?", limit: int = 24) -> str:
    """Return text from data as matplotlib may draw it.

    Shortened in the middle, because names often differ at their ends only; dollars do not start formulas; a
    name in a script the font does not have becomes ``fallback`` in place of empty boxes.
    """
    words = "".join(c if c.isprintable() else " " for c in str(text)).strip()
    if not words or any(ord(c) not in _drawable() for c in words):
        words = fallback
    if len(words) > limit:
        head = limit // 2
        words = words[:head] + "\N{HORIZONTAL ELLIPSIS}" + words[len(words) - (limit - 1 - head) :]
    return words.replace("$", r"\$")


def distinct(
    names: Sequence[object],
    limit: int = 24,
    fallback: str = "no. {}",
    positions: Sequence[int] | None = None,
) -> list[str]:
    """Return names as ``plain`` does, led by their position where shortening makes two of them equal."""
    numbers = range(len(names)) if positions is None else positions
    short = [plain(name, fallback.format(i), limit) for i, name in zip(numbers, names, strict=True)]
    times = Counter(short)
    return [
        f"{i}: {plain(name, fallback.format(i), max(limit - 4, 4))}" if times[shown] > 1 else shown
        for i, name, shown in zip(numbers, names, short, strict=True)
    ]
