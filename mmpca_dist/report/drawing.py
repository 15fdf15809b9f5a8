"""Shared by all pictures: panels, colours, safe text, PNG bytes.

No pyplot and no rcParams are touched, and no mathtext is used (its parser is one object for all threads).
"""

from __future__ import annotations

import base64
import io
import struct
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from matplotlib import colormaps, font_manager
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Sheet
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, MaxNLocator
from PIL import Image

DPI = 200
"""Twice what the page shows, for dense screens."""
PAGE_WIDTH = 9.6
"""Inches; 960 pixels on the page."""
FONT = "DejaVu Sans"  # comes with matplotlib, so pictures look alike everywhere
TITLE_SIZE, LABEL_SIZE, TICK_SIZE = 9.5, 8.5, 8
INK, FAINT = "#222222", "#8a8a8a"

MOST_COLOURS = 20
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


@dataclass(frozen=True)
class Figure:
    """A picture, ready to be shown anywhere.

    Attributes
    ----------
    name : str
        Lower case with dashes, unique in a report.
    title, caption : str
        The caption tells a newcomer how to read the picture.
    png : bytes
        At twice the size it is shown at.
    """

    name: str
    title: str
    caption: str
    png: bytes

    @property
    def data_uri(self) -> str:
        """The picture as a ``data:`` address."""
        return "data:image/png;base64," + base64.b64encode(self.png).decode("ascii")

    @property
    def size(self) -> tuple[int, int]:
        """Width and height to show it at, in CSS pixels."""
        width, height = struct.unpack(">II", self.png[16:24])  # the header chunk is always the first
        return width // 2, height // 2


def sheet(width: float, height: float) -> Sheet:
    """Return an empty white sheet of this size in inches, whose panels make room for their labels."""
    made = Sheet(
        figsize=(width, height), dpi=DPI, layout=ConstrainedLayoutEngine(w_pad=0.07, h_pad=0.06), facecolor="white"
    )
    FigureCanvasAgg(made)
    return made


def panel_grid(n: int, height: float) -> tuple[Sheet, list[Axes]]:
    """Return a sheet with ``n`` panels of this height in inches, in columns that leave few places empty."""
    columns = 2 if n == 4 else min(n, 3) if n <= 6 or n == 9 else 4
    rows = -(-n // columns)
    made = sheet(PAGE_WIDTH if columns > 1 else 0.65 * PAGE_WIDTH, rows * height)
    panels = list(made.subplots(rows, columns, squeeze=False).flat)
    for unused in panels[n:]:
        unused.remove()
    return made, panels[:n]


def dress(panel: Axes, title: str = "", xlabel: str = "", ylabel: str = "", pad: float | None = None) -> None:
    """Give a panel its titles and the common look; call when all is drawn.

    ``pad`` is the room between title and panel in points, where something stands there.
    """
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        panel.spines[side].set_color(FAINT)
    panel.tick_params(labelsize=TICK_SIZE, color=FAINT, labelcolor=INK, length=3)
    panel.tick_params(which="minor", length=0)
    panel.set_title(title, fontsize=TITLE_SIZE, color=INK, loc="left", family=FONT, fontweight="bold", pad=pad)
    panel.set_xlabel(xlabel, fontsize=LABEL_SIZE, color=INK, family=FONT)
    panel.set_ylabel(ylabel, fontsize=LABEL_SIZE, color=INK, family=FONT)
    for label in (*panel.get_xticklabels(), *panel.get_yticklabels()):
        label.set_fontfamily(FONT)


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


def png(drawn: Sheet, *, palette: bool = True) -> bytes:
    """Return the sheet as a PNG, with a palette unless shades matter (a third to a quarter of the bytes)."""
    canvas = FigureCanvasAgg(drawn)
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
    if n_classes <= MOST_COLOURS:
        return [TEN_COLOURS[i % len(TEN_COLOURS)] for i in range(n_classes)]
    return colormaps["viridis"](np.linspace(0, 1, n_classes))


def class_marker(position: int, n_classes: int) -> str:
    """Return the marker of a class."""
    second = len(TEN_COLOURS) <= position and n_classes <= MOST_COLOURS
    return "^" if second else "o"


@lru_cache(maxsize=1)
def _drawable() -> frozenset[int]:
    path = font_manager.findfont(FONT)
    return frozenset(font_manager.get_font(path).get_charmap())


def plain(text: object, fallback: str = "?", most: int = 24) -> str:
    """Return text from data as matplotlib may draw it.

    Shortened in the middle, because names often differ at their ends only; dollars do not start formulas; a
    name in a script the font does not have becomes ``fallback`` in place of empty boxes.
    """
    words = "".join(c if c.isprintable() else " " for c in str(text)).strip()
    if not words or any(ord(c) not in _drawable() for c in words):
        words = fallback
    if len(words) > most:
        head = most // 2
        words = words[:head] + "\N{HORIZONTAL ELLIPSIS}" + words[len(words) - (most - 1 - head) :]
    return words.replace("$", r"\$")


def distinct(
    names: Sequence[object],
    most: int = 24,
    fallback: str = "no. {}",
    positions: Sequence[int] | None = None,
) -> list[str]:
    """Return names as ``plain`` does, led by their position where shortening makes two of them equal."""
    numbers = range(len(names)) if positions is None else positions
    short = [plain(name, fallback.format(i), most) for i, name in zip(numbers, names, strict=True)]
    times = Counter(short)
    return [
        f"{i}: {plain(name, fallback.format(i), max(most - 4, 4))}" if times[shown] > 1 else shown
        for i, name, shown in zip(numbers, names, short, strict=True)
    ]
