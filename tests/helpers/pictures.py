"""What pictures of reports show, read from their SVG: words, and values where the ticks of the axes say."""

import re
import xml.etree.ElementTree as ET

import numpy as np

from mmpca_dist.pictures.chart import svg_file
from mmpca_dist.pictures.palette import LIGHT, SHADES
from mmpca_dist.report.run_page import figures

KINDS = {*LIGHT, *(f"shade{i}" for i in range(SHADES)), "", "title", "middle", "end", "drawn", None}
PLACES = ("d", "x", "y", "width", "height", "viewBox", "transform", "stroke-width", "opacity", "fill-opacity")
SHOWN = {"path", "rect", "image", "text"}
LETTER = 5.6
"""Pixels of a letter, on average and with few wide ones."""


def panels_of(contents, name, log=""):
    """Return the panels of a picture of a run, as they can be read."""
    return [Read(panel, log) for panel in next(figure for figure in figures(contents) if figure.name == name).panels]


class Read:
    """A panel that was drawn: ``x`` and ``y`` tell which values pixels are, as the ticks say."""

    def __init__(self, drawn, log=""):
        self.root = ET.fromstring(drawn.svg())  # noqa: S314 - made by the test
        self.texts = [element.text for element in self.root.iter("text")]
        self.title = next((e.text for e in self.root.iter("text") if e.get("class") == "title"), None)
        self.outer, self.log = list(self.root), log

    def ticks(self, axis):
        """Return pixels and labels of the ticks of an axis."""
        starts = {"x": r"M(\S+) \S+v4$", "y": r"M\S+ (\S+)H\S+$"}[axis]
        kind = {"x": "faint", "y": "line"}[axis]
        pairs = zip(self.outer, self.outer[1:], strict=False)
        return [
            (float(found[1]), after.text)
            for path, after in pairs
            if path.get("class") == kind and after.tag == "text" and (found := re.match(starts, path.get("d", "")))
        ]

    def values(self, axis, pixels):
        """Return which values pixels are."""
        places, labels = zip(*self.ticks(axis), strict=True)
        values = np.array([number(label) for label in labels])
        if axis in self.log:
            return 10 ** np.polyval(np.polyfit(places, np.log10(values), 1), pixels)
        return np.polyval(np.polyfit(places, values, 1), pixels)

    def paths(self, colour):
        """Return the outlines in a colour between the axes, in the order in which they were drawn."""
        inner = next(element for element in self.outer if element.tag == "svg")
        return [path for path in inner.iter("path") if path.get("class") == colour]

    def points(self, colour, hollow=None):
        """Return the values of marks in a colour, shape (n, 2); only hollow ones, or others, if ``hollow`` says so."""
        chosen = [path for path in self.paths(colour) if hollow is None or ("paper" in path.get("style", "")) == hollow]
        spots = [
            np.array(re.findall(r"M(\S+?) (\S+?)(?:h0|m)", path.get("d")), float).reshape(-1, 2)
            / (2 if path.get("transform") else 1)
            for path in chosen
        ]
        x, y = np.concatenate([np.zeros((0, 2)), *spots]).T
        return np.stack([self.values("x", x), self.values("y", y)], axis=1)

    def lines(self, colour):
        """Return the values of the corners of each path in a colour, shape (n, 2), without marks."""
        outlines = [path.get("d") for path in self.paths(colour) if not re.search("h0|m|v4", path.get("d"))]
        found = [np.array(re.findall(r"[ML](\S+?) ([-\d.]+)", d), float).reshape(-1, 2) for d in outlines]
        return [np.stack([self.values("x", at[:, 0]), self.values("y", at[:, 1])], axis=1) for at in found if len(at)]

    def rule(self, colour):
        """Return the value of the only line in a colour across the panel."""
        (y,) = [found[1] for path in self.paths(colour) if (found := re.match(r"M\S+ (\S+)H", path.get("d")))]
        return float(self.values("y", float(y)))


def number(label):
    """Return the number that a tick shows."""
    text = label.replace("\N{MINUS SIGN}", "-").replace(",", "")
    return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)


def check_picture(figure):
    """Check that a picture is whole, in the colours of the page, and stays within its panels."""
    root = ET.fromstring(svg_file(figure))  # noqa: S314 - made by the test
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert figure.title and figure.caption.endswith(".")
    assert len(figure.panels) == sum(child.tag.endswith("svg") for child in root) - len(figure.legend) > 0
    for drawn in [*figure.panels, *(entry.swatch for entry in figure.legend)]:
        check_drawn(drawn)


def check_drawn(drawn):
    """Check elements of an SVG picture."""
    root = ET.fromstring(drawn.svg())  # noqa: S314 - made by the test
    assert drawn.width > 0 and drawn.height > 0 and SHOWN & {element.tag for element in root.iter()}
    for element in root.iter():
        assert element.get("class") in KINDS
        told = " ".join(element.get(name, "") for name in PLACES)
        assert not re.search("nan|inf|None", told), told
        if element.tag == "text":
            text, middle = element.text or "", element.get("class") == "middle"
            at, size = ("y", drawn.height) if element.get("transform") else ("x", drawn.width)
            long = LETTER * len(text)
            start = float(element.get(at)) - long * (0.5 if middle else element.get("class") == "end")
            assert start >= -3 and start + long <= size + 3 and text.isprintable(), (text, start, size)
