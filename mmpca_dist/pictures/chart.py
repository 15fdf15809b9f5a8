"""``Panel``: marks on two axes as SVG, in the colours of the page. Panels of a picture flow as the page is wide."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmpca_dist.pictures import palette
from mmpca_dist.pictures.frame import Drawn, Figure, Key

WIDTH, HEIGHT, NARROW = 320, 210, 190
"""Pixels of a panel, which pages stretch to the room there is; of narrow ones two fit on a phone, five on paper."""
SMALL = 90, 22
"""Pixels of a histogram in a field of a table."""
TEXT, LETTER = 11, 6.7
"""Pixels of letters, and the width of one, about."""
MOST = 1e300
"""Size of numbers on axes at most, so that what is computed of them is finite."""
ROOM = 0.04
"""Share of the range that axes have beyond the marks."""
SHAPES = {
    "triangle": ((0, -1.15), (1.1, 0.85), (-1.1, 0.85)),
    "square": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    "diamond": ((0, -1.25), (1.25, 0), (0, 1.25), (-1.25, 0)),
}
"""Corners of marks, in half their size."""
DASHES = {"": "", "dashed": ' stroke-dasharray="5 3"', "dotted": ' stroke-dasharray="1 3"',
          "dashdot": ' stroke-dasharray="7 2 1.5 2"'}  # fmt: skip


def printable(text: str) -> str:
    """Return text with spaces for characters that cannot be seen, many of which XML cannot hold."""
    return "".join(c if c.isprintable() else " " for c in text)


def words(text: object, limit: int = 24, fallback: str = "?") -> str:
    """Return text from data in one line, shortened in the middle, because names often differ at their ends only."""
    shown = printable(str(text)).strip() or fallback
    if len(shown) > limit:
        head = limit // 2
        shown = shown[:head] + "\N{HORIZONTAL ELLIPSIS}" + shown[len(shown) - (limit - 1 - head) :]
    return shown


def distinct(names: Sequence[object], limit: int = 24, positions: Sequence[int] | None = None) -> list[str]:
    """Return names as ``words`` does, led by their position where shortening makes two of them equal."""
    numbers = range(len(names)) if positions is None else positions
    short = [words(name, limit, f"no. {i}") for i, name in zip(numbers, names, strict=True)]
    return [
        f"{i}: {words(name, max(limit - 4, 4))}" if short.count(shown) > 1 else shown
        for i, name, shown in zip(numbers, names, short, strict=True)
    ]


def percent(share: float) -> str:
    """Return a share as a percentage short enough for a tick."""
    value = 100 * share
    return f"{value:.0e}%".replace("e-0", "e-") if 0 < abs(value) < 1e-3 else f"{value:.3g}%"


def number(value: float) -> str:
    """Return a number short enough for a tick."""
    return f"{value:.4g}".replace("e-0", "e-").replace("e+0", "e").replace("-", "\N{MINUS SIGN}", value < 0)


@dataclass
class Axis:
    """A range with ticks; what is not set follows from the marks."""

    low: float | None = None
    high: float | None = None
    log: bool = False
    format: Callable[[float], str] = number
    ticks: Sequence[tuple[float, str]] | None = None
    """Values with their labels."""
    most: int = 5
    """Ticks, about."""
    whole: bool = False
    """Whether ticks are whole numbers."""
    reaches: tuple[float, float] = (math.inf, -math.inf)

    def see(self, values: ArrayLike) -> NDArray[np.float64]:
        """Let the range reach to these values, as far as it can show them."""
        array = np.asarray(values, np.float64)
        shown = array[np.isfinite(array) & ((array > 0) | (not self.log))]
        if shown.size:
            shown = np.clip(shown, 1 / MOST if self.log else -MOST, MOST)
            self.reaches = min(self.reaches[0], float(shown.min())), max(self.reaches[1], float(shown.max()))
        return array

    def range(self) -> tuple[float, float]:
        """Return the ends, of a logarithmic axis their logarithms."""
        low, high = self.reaches if self.reaches[0] <= self.reaches[1] else (1.0, 1.0)
        scale = math.log10 if self.log else float
        low, high = scale(low), scale(high)
        room = ROOM * (high - low) or 0.5 * (self.log or self.whole) or 0.05 * abs(high) or 1.0
        return (
            low - room if self.low is None else scale(self.low),
            high + room if self.high is None else scale(self.high),
        )

    def place(self, values: ArrayLike, start: float, end: float) -> NDArray[np.float64]:
        """Return where values are between two pixels; NaN where they cannot be shown."""
        low, high = self.range()
        array = np.asarray(values, np.float64)
        with np.errstate(all="ignore"):
            shares = ((np.log10(np.where(array > 0, array, np.nan)) if self.log else array) - low) / (high - low)
        return start + np.where(np.isfinite(shares), shares, np.nan) * (end - start)

    def marked(self) -> list[tuple[float, str]]:
        """Return the ticks within the range."""
        low, high = self.range()
        if self.ticks is not None:
            return list(self.ticks)
        step = math.ceil((high - low) / self.most) if self.log else _step((high - low) / self.most)
        if self.whole or self.log:
            step = max(step, 1)
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        values = [count * step for count in range(first, last + 1)]
        if self.log:
            values = [10.0**v for v in values] if last > first else self._between(low, high)
        return [(v, self.format(v)) for v in values]

    def _between(self, low: float, high: float) -> list[float]:
        """Return ticks of a logarithmic axis with less than two powers of ten."""
        powers = range(math.floor(low), math.ceil(high) + 1)
        values = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
        values = [v for v in values if low <= math.log10(v) <= high and (v >= 1 or not self.whole)]
        if len(values) > 1 or self.whole:
            return values
        step = _step((10.0**high - 10.0**low) / self.most)
        return [count * step for count in range(math.ceil(10.0**low / step), math.floor(10.0**high / step) + 1)]


def _step(least: float) -> float:
    """Return the smallest of 1, 2, 2.5, 5 times a power of ten that is at least so large."""
    power = 10.0 ** math.floor(math.log10(least)) if least > 0 else 1.0
    return next((factor * power for factor in (1, 2, 2.5, 5) if factor * power >= least * (1 - 1e-9)), 10 * power)


@dataclass
class Panel:
    """A plot; marks come in the order in which they are added. Colours are names of ``palette``."""

    title: str = ""
    xlabel: str = ""
    ylabel: str = ""
    height: int = HEIGHT
    width: int = WIDTH
    x: Axis = field(default_factory=Axis)
    y: Axis = field(default_factory=Axis)
    notes: Sequence[tuple[str, str]] = ()
    """Lines of text below the title, with their colours."""
    square: bool = False
    """Whether both axes are equally long."""
    _marks: list[Callable[[Panel], str]] = field(default_factory=list)
    _box: tuple[float, float, float, float] = (0, 0, 0, 0)

    def _xy(self, x: ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
        """Return where points are, shape (n, 2), without those that cannot be shown."""
        left, top, right, bottom = self._box
        placed = np.stack([self.x.place(x, left, right), self.y.place(y, bottom, top)], axis=1)
        placed[~np.isfinite(placed).all(axis=1)] = np.nan
        return np.clip(placed, -4000, 8000)

    def line(self, x: ArrayLike, y: ArrayLike, colour: str, width: float = 1.6, dash: str = "") -> None:
        """Add a line through points, broken where one cannot be shown."""
        a, b = self.x.see(x), self.y.see(y)

        def draw(panel: Panel) -> str:
            return f'<path class="{colour}" stroke-width="{width}"{DASHES[dash]} d="{_path(panel._xy(a, b))}"/>'

        self._marks.append(draw)

    def points(
        self, x: ArrayLike, y: ArrayLike, colour: str, mark: str = "circle", size: float = 6, hollow: bool = False,
        opacity: float = 1.0, within: bool = True,
    ) -> None:  # fmt: skip
        """Add marks of a size in pixels; hollow ones have the colour of the paper within, or none if not ``within``."""
        a, b = self.x.see(x), self.y.see(y)

        def draw(panel: Panel) -> str:
            placed = panel._xy(a, b)
            drawn = _points(placed[np.isfinite(placed[:, 0])], colour, mark, size, hollow, opacity)
            return drawn if within else drawn.replace("fill:var(--paper)", "fill:none")

        self._marks.append(draw)

    def whiskers(self, x: ArrayLike, low: ArrayLike, high: ArrayLike, colour: str) -> None:
        """Add vertical lines."""
        a, ends = self.x.see(x), [self.y.see(low), self.y.see(high)]

        def draw(panel: Panel) -> str:
            pairs = zip(*(panel._xy(a, end) for end in ends), strict=True)
            return f'<path class="{colour}" d="{"".join(_path(np.stack(pair)) for pair in pairs)}"/>'

        self._marks.append(draw)

    def steps(self, edges: ArrayLike, heights: ArrayLike, colour: str, fill: bool = False) -> None:
        """Add a histogram, b heights between b + 1 edges: an area, or its outline."""
        a, b = np.repeat(self.x.see(edges), 2), np.repeat(self.y.see(heights), 2)
        self.y.see([0.0])
        b = np.concatenate([[0.0], b, [0.0]])
        look = ' fill="currentColor" stroke="none"' if fill else ' stroke-width="1.6"'
        self._marks.append(lambda panel: f'<path class="{colour}"{look} d="{_path(panel._xy(a, b))}"/>')

    def rule(self, colour: str, *, x: float | None = None, y: float | None = None, dash: str = "") -> None:
        """Add a line across the panel, at a value of one axis."""

        def draw(panel: Panel) -> str:
            left, top, right, bottom = panel._box
            path = ""
            if x is not None and left <= (at := float(panel.x.place(x, left, right))) <= right:
                path = f"M{at:.1f} {bottom:.1f}V{top:.1f}"
            if y is not None and top <= (at := float(panel.y.place(y, bottom, top))) <= bottom:
                path = f"M{left:.1f} {at:.1f}H{right:.1f}"
            return f'<path class="{colour}"{DASHES[dash]} d="{path}"/>' if path else ""

        self._marks.append(draw)

    def boxes(self, left: ArrayLike, right: ArrayLike, low: ArrayLike, high: ArrayLike, colour: str,
              opacity: float = 1.0) -> None:  # fmt: skip
        """Add filled rectangles between values of both axes, without those of NaN; infinite ones reach to the edge."""
        ends = [self.x.see(left), self.y.see(low), self.x.see(right), self.y.see(high)]

        def draw(panel: Panel) -> str:
            corners = np.stack(np.broadcast_arrays(*map(np.atleast_1d, ends)))
            corners = corners[:, ~np.isnan(corners).any(axis=0)]
            box = panel._box
            placed = [panel.x.place(corners[0], box[0], box[2]), panel.y.place(corners[1], box[3], box[1]),
                      panel.x.place(corners[2], box[0], box[2]), panel.y.place(corners[3], box[3], box[1])]  # fmt: skip
            inside = [np.where(np.isfinite(values), values, box[(0, 3, 2, 1)[i]]) for i, values in enumerate(placed)]
            path = "".join(f"M{a:.1f} {b:.1f}H{c:.1f}V{d:.1f}H{a:.1f}z" for a, b, c, d in zip(*inside, strict=True))
            return f'<path class="{colour}" fill="currentColor" stroke="none" opacity="{opacity}" d="{path}"/>'

        self._marks.append(draw)

    def drawn(self) -> Drawn:
        """Return the panel as SVG."""
        across, up = self.x.marked(), self.y.marked()
        left = 8 + LETTER * max((len(label) for _, label in up), default=0) + (TEXT + 6) * bool(self.ylabel)
        top = 8 + 18 * bool(self.title) + 14 * len(self.notes)
        right, below = self.width - 10, 6 + 16 * bool(across) + 17 * bool(self.xlabel)
        height = int(right - left + top + below) if self.square else self.height
        self._box = (left, top, right, height - below)
        parts = [
            text(2, 13, self.title, "title") if self.title else "",
            *(text(2, 27 + 14 * i, shown, colour) for i, (shown, colour) in enumerate(self.notes)),
            *self._axes(across, up),
        ]
        inner = "".join(mark(self) for mark in self._marks)
        # What reaches beyond the axes is cut, but for half a mark.
        x, y, across_all, down = left - 4, top - 4, right - left + 8, height - below - top + 8
        window = f'x="{x:.1f}" y="{y:.1f}" width="{across_all:.1f}" height="{down:.1f}"'
        parts.append(f'<svg {window} viewBox="{x:.1f} {y:.1f} {across_all:.1f} {down:.1f}">{inner}</svg>')
        return Drawn("".join(parts), self.width, height)

    def _axes(self, across: Sequence[tuple[float, str]], up: Sequence[tuple[float, str]]) -> Iterable[str]:
        left, top, right, bottom = self._box
        for value, label in up:
            y = float(self.y.place(value, bottom, top))
            if top - 1 <= y <= bottom + 1:
                yield f'<path class="line" d="M{left:.1f} {y:.1f}H{right:.1f}"/>'
                yield text(left - 5, y + 4, label, "end")
        yield f'<path class="faint" d="M{left:.1f} {top:.1f}V{bottom:.1f}H{right:.1f}"/>'
        room, last = (right - left) / max(len(across), 1), -math.inf
        for value, label in across:
            x = float(self.x.place(value, left, right))
            if left - 1 <= x <= right + 1 and x - last >= min(room, LETTER * len(label)) * 0.9:
                last = x
                yield f'<path class="faint" d="M{x:.1f} {bottom:.1f}v4"/>{text(x, bottom + 15, label, "middle")}'
        if self.xlabel:
            yield text((left + right) / 2, bottom + 16 * bool(across) + 15, self.xlabel, "middle")
        if self.ylabel:
            yield text(11, (top + bottom) / 2, self.ylabel, "middle", turned=True)


def text(x: float, y: float, shown: str, kind: str, *, turned: bool = False) -> str:
    """Return a line of text as an element; ``kind`` is one of the style sheet, and may name a colour."""
    turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}"{turn}>{escape(printable(shown))}</text>'


def _path(placed: NDArray[np.float64]) -> str:
    """Return lines through points, which end where one is NaN."""
    parts, pen = [], "M"
    for x, y in placed.tolist():
        if x != x:
            pen = "M"
            continue
        parts.append(f"{pen}{x:.1f} {y:.1f}")
        pen = "L"
    return "".join(parts)


def _points(placed: NDArray[np.float64], colour: str, mark: str, size: float, hollow: bool, opacity: float) -> str:
    """Return marks as one path: points with round ends, or corners."""
    # In half pixels, without decimals: there may be thousands.
    shade, half = f' opacity="{opacity}"' if opacity < 1 else "", round(size)
    fill = ' style="fill:var(--paper)" stroke-width="2.8"' if hollow else ' fill="currentColor" stroke="none"'
    if mark == "circle" and not hollow:
        outline, fill = "h0", f' stroke-width="{2 * size:g}" stroke-linecap="round"'
    elif mark == "circle":
        outline = f"m{-half} 0a{half} {half} 0 1 0 {2 * half} 0a{half} {half} 0 1 0 {-2 * half} 0z"
    else:
        corners = np.round(half * np.array(SHAPES[mark])).astype(int)
        moves = " ".join(f"{across} {down}" for across, down in np.diff(corners, axis=0).tolist())
        outline = f"m{corners[0, 0]} {corners[0, 1]}l{moves}z"
    path = "".join(f"M{x} {y}{outline}" for x, y in np.round(2 * placed).astype(int).tolist())
    return f'<path class="{colour}" transform="scale(.5)"{fill}{shade} d="{path}"/>'


def sparkline(heights: Sequence[int], rest: bool = False) -> Drawn:
    """Return a histogram as small as a word; with ``rest`` the last bar, of all other values, is cut at the tallest."""
    step, tallest = SMALL[0] / max(len(heights), 6), max(heights[: len(heights) - rest], default=0)
    tops = [SMALL[1] - max((SMALL[1] - 1) * min(n / tallest, 1), 1.5) if n else SMALL[1] for n in heights]
    bars = [f"M{i * step:.1f} {SMALL[1]}h{step - 1:.1f}V{top:.1f}h{1 - step:.1f}z" for i, top in enumerate(tops)]
    last = f'<path class="faint" fill="currentColor" stroke="none" d="{bars.pop()}"/>' if rest else ""
    ground = f'<path class="line" d="M0 {SMALL[1] - 0.5}H{SMALL[0]}"/>'
    return Drawn(f'{ground}<path fill="currentColor" stroke="none" d="{"".join(bars)}"/>{last}', *SMALL)


def gauge(share: float) -> Drawn:
    """Return a share as a bar below a number."""
    whole = '<path class="line" stroke-width="3" d="M0 2H56"/>'
    return Drawn(f'{whole}<path stroke-width="3" d="M0 2H{56 * share:.1f}"/>', 56, 4)


STYLE = (
    ".drawn text{fill:currentColor;stroke:none}.drawn .title{font-weight:600;font-size:12.5px}"
    ".drawn .middle{text-anchor:middle}.drawn .end{text-anchor:end}.drawn image{image-rendering:pixelated}"
)
"""The style sheet of pictures, besides that of their colours."""


def key(label: str, colour: str, mark: str = "", dash: str | None = None, *, hollow: bool = False,
        renderers: str = "") -> Key:  # fmt: skip
    """Return an entry of a legend."""
    return Key(words(label, 40), swatch(colour, mark, dash, hollow), renderers)


def panel_columns(count: int) -> int:
    """Return how many panels stand side by side where there is room for four, few places empty."""
    return 2 if count == 4 else min(count, 3) if count <= 6 or count == 9 else 4


def svg_file(figure: Figure) -> bytes:
    """Return a picture as an SVG file, which is dark on dark screens."""
    columns, gap, parts, y = panel_columns(len(figure.panels)), 16, [], 10.0
    width = columns * (figure.panels[0].width + gap) + gap
    for first in range(0, len(figure.panels), columns):
        row = figure.panels[first : first + columns]
        for i, panel in enumerate(row):
            x, height = gap + i * (row[0].width + gap), panel.height
            parts.append(panel.svg(f'x="{x:g}" y="{y:g}" width="{panel.width:g}" height="{height:g}"'))
        y += max(panel.height for panel in row) + 12
    x = float(gap)
    for each in figure.legend:
        room = 30 + LETTER * len(each.label) + gap
        x, y = (x, y) if x + room <= width or x == gap else (gap, y + 18)
        parts.append(
            each.swatch.svg(f'x="{x:g}" y="{y:g}" width="22" height="12"') + text(x + 27, y + 10, each.label, "")
        )
        x += room
    height = y + 24 * bool(figure.legend)
    paper = '<rect width="100%" height="100%" style="fill:var(--paper)" stroke="none"/>'
    head = f'xmlns="http://www.w3.org/2000/svg" class="drawn ink" font-family="system-ui,sans-serif" width="{width:g}"'
    head += f' height="{height:g}"'
    sheet = f"<style>{palette.style()}{STYLE}</style><title>{escape(printable(figure.title))}</title>"
    return Drawn(sheet + paper + "".join(parts), width, height).svg(head).encode()


def swatch(colour: str, mark: str = "", dash: str | None = None, hollow: bool = False) -> Drawn:
    """Return the entry of a legend: a mark on a line, a mark, a line, or with neither a filled box."""
    parts: list[Any] = []
    if dash is not None:
        parts.append(f'<path class="{colour}" stroke-width="1.6"{DASHES[dash]} d="M1 6H21"/>')
    if mark:
        parts.append(_points(np.array([[11.0, 6.0]]), colour, mark, 8, hollow, 1))
    box = f'<path class="{colour}" fill="currentColor" stroke="none" d="M3 1H19V11H3z"/>'
    return Drawn("".join(parts) or box, 22, 12)
