"""Colours and marks of pictures, for light and dark paper: names of CSS variables, which pages and files define.

The seven colours of classes and methods are at least 20 apart in CIELAB, for readers without red or green cones too
(Machado, Oliveira & Fernandes 2009), and have a contrast of 3 to their paper. Marks change after the seventh.
"""

from __future__ import annotations

from zlib import crc32

LIGHT = {
    "c0": "#0508a3", "c1": "#e76709", "c2": "#17a35f", "c3": "#99085a", "c4": "#704e09", "c5": "#299fcd",
    "c6": "#7c52ec", "ink": "#1c2127", "ring": "#1c2127",
    "faint": "#8a949e", "line": "#dfe3e8", "paper": "#ffffff", "before": "#c9ced4",
    "positive": "#b2182b", "negative": "#2166ac",
}  # fmt: skip
DARK = {
    "c0": "#3568f6", "c1": "#dd6c3c", "c2": "#2ef077", "c3": "#fcb2c8", "c4": "#d79700", "c5": "#43b2e1",
    "c6": "#7758bb", "ink": "#e4e8ec", "ring": "#e4e8ec",
    "faint": "#6b7681", "line": "#343b43", "paper": "#15191d", "before": "#434b54",
    "positive": "#ef6f6c", "negative": "#5aa2e6",
}  # fmt: skip
COLOURS, SHADES = 7, 40
MARKS = ("circle", "triangle", "square", "diamond")
KNOWN = (
    "m-pca0", "m-pca2", "m-pca1a", "fisher", "hsic", "m-pca1b", "lol",
    "bm2pca", "pls", "mmc", "lasso", "ridge", "projection-penalty", "logistic-discriminant",
    "fisher-score", "random-projection", "contrast", "whitening", "erase",
)  # fmt: skip
"""Methods by their place among the colours and marks, those that are compared most on different colours."""


def place_look(place: int) -> tuple[str, str]:
    """Return the colour and the mark of the class, or the curve, at a place."""
    return f"c{place % COLOURS}", MARKS[place // COLOURS % len(MARKS)]


def method_dash(name: str) -> str:
    """Return the dashes of a method's line: those of the second seven, whose colours come again, have a pattern."""
    return "dashdot" if name in KNOWN[COLOURS:] else ""


def method_look(name: str) -> tuple[str, str]:
    """Return the colour and the mark of a method, the same in all pictures: of PCA that of the ink, of none grey."""
    if name in ("pca", "all-columns"):
        return ("ink" if name == "pca" else "faint"), "circle"
    return place_look(KNOWN.index(name) if name in KNOWN else crc32(name.encode()))


def style() -> str:
    """Return the variables as a style sheet, with those for dark screens, and what the classes of marks are."""
    light, night = (";".join(f"--{name}:{value}" for name, value in one.items()) for one in (LIGHT, DARK))
    classes = "".join(f".{name}{{color:var(--{name})}}" for name in LIGHT)
    classes += "".join(f".shade{i}{{color:{ramp(i / (SHADES - 1))}}}" for i in range(SHADES))
    screens = f"@media screen and (prefers-color-scheme:dark){{:root{{{night}}}}}"
    return f":root{{{light}}}{screens}{classes}"


def ramp(share: float) -> str:
    """Return a colour from blue, at 0, to orange, at 1, that shows on light and on dark paper."""
    ends = zip((0x2B, 0x6C, 0xD4), (0xE2, 0x70, 0x0A), strict=True)
    return "#" + "".join(f"{round(low + share * (high - low)):02x}" for low, high in ends)
