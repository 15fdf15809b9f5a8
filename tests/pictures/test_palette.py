"""Colours that readers tell apart, on light and dark paper, and one look for each method."""

from itertools import combinations

import numpy as np
import pytest

from mmpca_dist.methods.base.registry import METHODS
from mmpca_dist.pictures.palette import COLOURS, DARK, KNOWN, LIGHT, MARKS, SHADES, method_look, place_look, ramp

APART, CONTRAST = 20, 3
SIGHT = {
    "normal": np.eye(3),
    # Machado, Oliveira & Fernandes 2009, severity 1, of linear RGB.
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
"""Of linear sRGB with the white of D65 (IEC 61966-2-1)."""


def linear(colour):
    share = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    t = XYZ @ np.clip(rgb, 0, 1) / XYZ.sum(axis=1)
    f = np.where(t > (6 / 29) ** 3, np.cbrt(t), t / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(one, other):
    """WCAG 2.2: of relative luminances."""
    dark, light = sorted(0.05 + XYZ[1] @ linear(colour) for colour in (one, other))
    return light / dark


@pytest.mark.parametrize("paper", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_are_told_apart_from_each_other_and_from_paper(paper):
    colours = [paper[f"c{i}"] for i in range(COLOURS)]
    for seen in SIGHT.values():
        places = [lab(np.array(seen) @ linear(colour)) for colour in colours]
        assert min(np.linalg.norm(a - b) for a, b in combinations(places, 2)) >= APART
    marks = [*colours, *(paper[name] for name in ("ink", "faint", "positive", "negative"))]
    marks += [ramp(i / (SHADES - 1)) for i in range(SHADES)]
    assert min(contrast(mark, paper["paper"]) for mark in marks) >= CONTRAST
    assert LIGHT.keys() == DARK.keys()


def test_each_method_has_one_look_and_known_ones_differ():
    assert method_look("pca") == ("ink", "circle")
    looks = [method_look(name) for name in ("pca", *KNOWN)]
    assert len(set(looks)) == len(looks) and set(KNOWN) <= METHODS.keys()
    assert method_look("a stranger's") == method_look("a stranger's")
    assert {place_look(i) for i in range(COLOURS * len(MARKS))} == {(f"c{i}", m) for i in range(COLOURS) for m in MARKS}
