"""Which axis does the first component keep? ``python benchmarks/which_axis.py [FOLDER]`` draws ``which-axis.png``.

Two Gaussian classes (``synthetic:gaussian``), variance 0.25 along the axis of their means and 4 along every other:
the angle between that axis and the first component of each method as the means part, for several imbalances; and the
distance from which on it stays below 45 degrees, and ``threshold_distance``. See docs/theory.md.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from mmpca_paper.theory import PREDICTED, threshold_distance

from mmpca_dist import MarginPCA, open_dataset

ROWS, COLUMNS, VARIANCE, SPREAD = 20_000, 8, 0.25, 4.0
SHARES = (0.5, 0.1, 0.02)
SEEDS = (0, 1, 2)
STYLES = {
    "pca": ("PCA", "#0072B2", "o"),
    "m-pca0": ("M-PCA0", "#009E73", "s"),
    "m-pca1a": ("M-PCA1a", "#E69F00", "D"),
    "m-pca1b": ("M-PCA1b", "#CC79A7", "^"),
    "m-pca2": ("M-PCA2", "#D55E00", "v"),
}


def angle(method: str, share: float, distance: float) -> float:
    """Return the median angle, in degrees, between the first component and the axis of the means."""
    found = []
    for seed in SEEDS:
        uri = f"synthetic:gaussian?n={ROWS}&d={COLUMNS}&imbalance={share}&distance={distance!r}"
        data = open_dataset(f"{uri}&variance={VARIANCE}&spread={SPREAD}&seed={seed}")
        X, y = data.read_rows(0, ROWS), data.read_labels(0, ROWS)
        component = MarginPCA(1, method).fit(X, y).components_[0]
        found.append(np.degrees(np.arctan2(np.linalg.norm(component[1:]), abs(component[0]))))
    return float(np.median(found))


def measured_threshold(method: str, share: float, steps: int = 9) -> float:
    """Return the distance at which the angle falls below 45 degrees, by bisection on its logarithm."""
    low, high = 0.1, 40.0
    for _ in range(steps):
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if angle(method, share, middle) < 45 else (middle, high)
    return float(np.sqrt(low * high))


def draw_angles(panel: Axes, share: float) -> None:
    """Draw the angle of every method against the distance of the means."""
    distances = np.geomspace(0.2, 40, 25)
    for method, (title, colour, marker) in STYLES.items():
        angles = [angle(method, share, float(distance)) for distance in distances]
        panel.semilogx(distances, angles, marker + "-", color=colour, markersize=3.5, linewidth=1, label=title)
        if method in PREDICTED:
            panel.axvline(threshold_distance(method, share, VARIANCE, SPREAD), color=colour, linestyle=":")
    panel.set_title(f"{share:.0%} of the rows in one class", loc="left", fontsize=10)
    panel.set_xlabel("distance D of the class means")
    panel.set_ylabel("degrees from their axis")
    panel.set_yticks([0, 45, 90])
    panel.set_xticks([0.2, 0.5, 1, 2, 5, 10, 20, 40], ["0.2", "0.5", "1", "2", "5", "10", "20", "40"])
    panel.minorticks_off()


def draw_thresholds(panel: Axes) -> None:
    """Draw predicted and measured thresholds against the share of the smaller class."""
    shares, dense = np.geomspace(0.01, 0.5, 6), np.geomspace(0.01, 0.5, 100)
    for method, (_, colour, marker) in STYLES.items():
        measured = [measured_threshold(method, float(share)) for share in shares]
        panel.loglog(shares, measured, marker, color=colour, markersize=5)
        if method in PREDICTED:
            predicted = partial(threshold_distance, method, variance=VARIANCE, spread=SPREAD)
            panel.loglog(dense, [predicted(float(share)) for share in dense], ":", color=colour)
        print(method, *(f"{share:.3f}: {found:.2f}" for share, found in zip(shares, measured, strict=True)))
    panel.set_title("Where the axis is won: theory dotted", loc="left", fontsize=10)
    panel.set_xlabel("share of the smaller class")
    panel.set_ylabel("threshold of D")
    panel.set_xticks([0.01, 0.02, 0.05, 0.1, 0.2, 0.5], ["1%", "2%", "5%", "10%", "20%", "50%"])
    panel.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
    panel.minorticks_off()


def main() -> None:
    """Measure and draw."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", nargs="?", default="docs", type=Path)
    sheet = Figure(figsize=(9.6, 6.4), layout="constrained")
    *angles, thresholds = sheet.subplots(2, 2).flat
    for panel, share in zip(angles, SHARES, strict=True):
        draw_angles(panel, share)
    draw_thresholds(thresholds)
    for panel in (*angles, thresholds):
        panel.spines[["top", "right"]].set_visible(False)
    handles, titles = angles[0].get_legend_handles_labels()
    sheet.legend(handles, titles, loc="outside lower center", ncols=len(STYLES), frameon=False)
    sheet.savefig(parser.parse_args().folder / "which-axis.png", dpi=150)


if __name__ == "__main__":
    main()
