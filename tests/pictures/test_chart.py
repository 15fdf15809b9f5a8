"""Panels place marks where their axes say, leave out what cannot be shown, and are XML whatever the data says."""

import math
import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import numpy as np
import pytest
from helpers.pictures import Read, check_drawn, check_picture

from mmpca_dist.pictures.chart import Axis, Panel, key, svg_file
from mmpca_dist.pictures.frame import Figure
from mmpca_dist.pictures.mosaic import coefficients, greys, mosaic
from mmpca_dist.pictures.palette import MARKS

HOSTILE = "<b>&\"'\x00\x1b]\ud800\uffff\n</svg><script>alert(1)</script>"
BAD = [math.nan, math.inf, -math.inf]
RANGES = [(0, 1), (-3, 7), (-0.004, -0.001), (1e-12, 3e-12), (5, 5), (0, 0), (1e6, 1.00001e6), (-1e300, 1e300)]
PIXEL = 0.31
"""Pixels by which marks may be off: discs are written to a half, others and the ticks to a tenth."""


def seen(low, high, **options):
    axis = Axis(**options)
    axis.see([low, high])
    return axis


@pytest.mark.parametrize(("low", "high"), RANGES)
def test_ticks_increase_within_the_range(low, high):
    axis = seen(low, high)
    values, (start, end) = [value for value, _ in axis.marked()], axis.range()
    assert start <= low <= high <= end and 2 <= len(values) <= 2 * axis.most
    assert all(a < b for a, b in pairwise(values))
    slack = 1e-6 * (end - start)
    assert start - slack <= values[0] and values[-1] <= end + slack
    assert len({label for _, label in axis.marked()}) == len(values) or high / (high - low or high or 1) > 1e4


@pytest.mark.parametrize(("low", "high"), [(1e-9, 1), (1, 2), (3.1, 3.3), (7, 7), (0.002, 0.09), (1e-300, 1e300)])
def test_ticks_of_logarithmic_axes(low, high):
    axis = seen(low, high, log=True)
    values = [value for value, _ in axis.marked()]
    start, end = axis.range()
    assert start <= math.log10(low) <= math.log10(high) <= end and 2 <= len(values) <= 2 * axis.most
    assert all(a < b for a, b in pairwise(values)) and start <= math.log10(values[0]) <= math.log10(values[-1]) <= end
    places = axis.place([low, math.sqrt(low) * math.sqrt(high), high], 0, 100)
    assert places[1] == pytest.approx((places[0] + places[2]) / 2), "the geometric mean is in the middle"


def test_whole_ticks_are_whole():
    for low, high, log in ((1, 2, False), (1, 1, False), (1, 40, False), (1, 1, True), (1, 7, True), (1, 400, True)):
        assert all(value == round(value) for value, _ in seen(low, high, whole=True, log=log).marked())


def test_points_lines_and_rules_are_where_the_axes_say():
    x, y = np.linspace(-3, 9, 13), np.geomspace(1e-3, 10, 13)
    panel = Panel("title", "across", "up", y=Axis(log=True))
    panel.line(x, y, "c0")
    panel.points(x, y, "c1")
    panel.points(x[:5], y[:5], "c2", "square", hollow=True)
    panel.rule("ink", y=0.1)
    shown = Read(panel.drawn(), log="y")
    slack = {"x": PIXEL * 13 / 250, "y": math.expm1(PIXEL * math.log(1e4) / 130)}
    (line,) = shown.lines("c0")
    for found in (line, shown.points("c1")):
        np.testing.assert_allclose(found[:, 0], x, atol=slack["x"])
        np.testing.assert_allclose(found[:, 1], y, rtol=slack["y"])
    assert len(shown.points("c2", hollow=True)) == 5 and not len(shown.points("c2", hollow=False))
    assert shown.rule("ink") == pytest.approx(0.1, rel=slack["y"])
    assert {"title", "across", "up"} <= set(shown.texts)


@pytest.mark.parametrize("hollow", [False, True])
@pytest.mark.parametrize("mark", MARKS)
def test_each_point_has_a_mark_in_its_middle(mark, hollow):
    panel = Panel()
    panel.points([0, 1, 2], [5, math.nan, 7], "c3", mark, hollow=hollow)
    np.testing.assert_allclose(Read(panel.drawn()).points("c3", hollow), [[0, 5], [2, 7]], atol=0.02)


def test_whiskers_steps_and_boxes_are_where_the_axes_say():
    panel = Panel(x=Axis(0, 4), y=Axis(0, 10))
    panel.whiskers([1, 2], [2, 3], [4, 9], "c0")
    panel.steps([0, 1, 2, 4], [1, 8, 3], "c1")
    panel.boxes([1, -math.inf, math.nan], [2, math.inf, 3], 2, [4, 6, 6], "c2")
    shown = Read(panel.drawn())
    (bars,), (outline,) = shown.lines("c0"), shown.lines("c1")
    np.testing.assert_allclose(bars, [[1, 2], [1, 4], [2, 3], [2, 9]], atol=0.02)
    corners = [[0, 0], [0, 1], [1, 1], [1, 8], [2, 8], [2, 3], [4, 3], [4, 0]]
    np.testing.assert_allclose(outline, corners, atol=0.02)
    boxes = re.findall(r"M(\S+) (\S+)H(\S+)V(\S+?)H\S+?z", shown.paths("c2")[0].get("d"))
    left, low, right, high = np.array(boxes, float).T
    np.testing.assert_allclose(shown.values("x", np.array([left, right]).T), [[1, 2], [0, 4]], atol=0.02)
    np.testing.assert_allclose(shown.values("y", np.array([low, high]).T), [[2, 4], [2, 6]], atol=0.02)


@pytest.mark.parametrize("log", [False, True])
def test_what_cannot_be_shown_is_a_gap_and_no_garbage(log):
    values = [1.0, 2.0, *BAD, 3.0, 4.0, *([0.0, -5.0] * log), 5.0]
    panel, at = Panel("a", "b", "c", y=Axis(log=log)), np.arange(len(values), dtype=float)
    panel.line(at, values, "c0")
    panel.points(at, values, "c1")
    panel.points(at, values, "c2", "diamond")
    panel.whiskers(at, np.array(values) - 0.5, values, "c3")
    panel.rule("ink", x=math.nan)
    panel.rule("ink", y=math.inf)
    drawn = panel.drawn()
    check_drawn(drawn)
    shown = Read(drawn, log="y" * log)
    (line,) = [path.get("d") for path in shown.paths("c0")]
    assert line.count("M") == 2 + log and line.count("L") == len([v for v in values if v in (1, 2, 3, 4, 5)]) - 2 - log
    assert len(shown.points("c1")) == len(shown.points("c2")) == 5 and not shown.paths("ink")


@pytest.mark.parametrize("values", [[], BAD, [0.0], [-1.0], [1e308, -1e308], [5e-324], [1e-300, 1e300]])
@pytest.mark.parametrize("log", [False, True])
def test_a_panel_of_any_values_has_finite_numbers_only(values, log):
    panel = Panel("a", "b", "c", x=Axis(log=log), y=Axis(log=log))
    for draw in (panel.line, panel.points):
        draw(values, values, "c0")
    panel.boxes(values, values, values, values, "c1")
    check_drawn(panel.drawn())


def test_names_of_strangers_are_text_in_a_file_of_xml():
    panel = Panel(HOSTILE[:8], HOSTILE[:8], HOSTILE[:8], notes=[(HOSTILE[:8], "ink")])
    panel.x.ticks = [(0.0, HOSTILE[:8])]
    panel.points([0, 1], [0, 1], "c0")
    pictures = [panel.drawn(), mosaic("a", [(HOSTILE[:4], [greys(np.eye(3), (0, 1))], [HOSTILE[:4]])])]
    figure = Figure("name", HOSTILE, "A picture.", pictures, [key(HOSTILE, "c0"), key(HOSTILE * 9, "c1", "square")])
    check_picture(figure)
    root = ET.fromstring(svg_file(figure))  # noqa: S314 - made by the test
    assert not [element for element in root.iter() if element.tag.endswith(("script", "}b"))]
    assert svg_file(figure) == svg_file(figure) and "<b>&\"'" in "".join(root.itertext())


def test_coefficients_are_red_and_blue_and_clear_at_zero():
    pixels = coefficients(np.array([[2.0, 0, -1]]), 2.0)
    assert pixels[0, :, 3].tolist() == [255, 0, 128] and pixels[0, 0, 0] > pixels[0, 0, 2] < pixels[0, 2, 2]
    assert not coefficients(np.zeros((2, 2)), 0.0)[..., 3].any()
    assert greys(np.array([[-9.0, 0, 1, 9]]), (0, 1)).tolist() == [[255, 255, 0, 0]]
