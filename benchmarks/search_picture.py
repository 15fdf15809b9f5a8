"""Draw how a search leaves cells out: ``python benchmarks/search_picture.py [FOLDER]`` makes ``search.png``.

The cells, their order and their bounds are those of the library, for 6,000 rows of two columns. See docs/search.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from mmpca_dist.neighbors.bounds import Rules, cell_bound
from mmpca_dist.neighbors.cells import Cells, train_cells, train_frame

ROWS, CELLS, SEGMENTS, QUERY = 6000, 24, 4, (0.15, -0.45)
BLUE, ORANGE, GREY = "#0072B2", "#E69F00", "#bbbbbb"


def two_classes() -> tuple[np.ndarray, np.ndarray]:
    """Return rows of two classes that touch, and their labels."""
    rng = np.random.default_rng(7)
    y = rng.integers(0, 2, ROWS)
    angle = rng.uniform(0, np.pi, ROWS) + np.pi * y
    ring = np.stack([np.cos(angle) + y - 0.5, np.sin(angle) + 0.35 * (2 * y - 1)], axis=1)
    return ring + 0.16 * rng.standard_normal((ROWS, 2)), y


def draw_cells(panel: Axes, z: np.ndarray, y: np.ndarray, cells: Cells, owner: np.ndarray) -> None:
    """Draw the query, the distance to its nearest row, and which cells the bound leaves out."""
    distances = np.linalg.norm(z - QUERY, axis=1)
    query = int(np.argmin(np.where(y == 0, distances, np.inf)))
    reach = np.linalg.norm(z - z[query], axis=1)
    nearest = int(np.argmin(np.where(y == 1, reach, np.inf)))
    rules = Rules(width=2, frame_error=0.0, effort=np.inf)
    own = np.linalg.norm(z[owner == owner[query]] - cells.centres[owner[query]], axis=1).max()
    panel.scatter(*z.T, s=2, c=np.where(y == 0, BLUE, ORANGE), linewidths=0, alpha=0.35)
    visited = 0
    for cell, centre in enumerate(cells.centres):
        radius = float(np.linalg.norm(z[owner == cell] - centre, axis=1).max())
        bound = cell_bound(float(np.linalg.norm(z[query] - centre)), radius, float(own), rules)
        has_others = bool((y[owner == cell] == 1).any())
        compared = has_others and bound <= reach[nearest]
        visited += compared
        colour = "black" if compared else GREY
        panel.add_patch(Circle(tuple(centre), radius, fill=False, color=colour, linewidth=1.2 if compared else 0.6))
    panel.add_patch(Circle(tuple(z[query]), reach[nearest], color="#009E73", alpha=0.35))
    panel.plot(*z[query], "k*", markersize=11)
    panel.plot(*z[nearest], "kX", markersize=8)
    panel.set_title(f"The star's nearest row (x): {visited} of {len(cells.centres)} cells are read")
    panel.set_aspect("equal")
    panel.set_xticks([])
    panel.set_yticks([])


def draw_layout(panel: Axes, y: np.ndarray, owner: np.ndarray) -> None:
    """Draw the order of the rows in scratch: cells one after the other, classes within, segments around."""
    start, ends = 0, np.linspace(0, ROWS, SEGMENTS + 1)[1:]
    segment, left, height = 0, 0.0, 0.8
    for cell in range(CELLS):
        for label, colour in ((0, BLUE), (1, ORANGE)):
            count = int(np.sum((owner == cell) & (y == label)))
            panel.barh(-segment, count, height, left=left, color=colour, edgecolor="none", alpha=0.8)
            left, start = left + count, start + count
        panel.plot([left, left], [-segment - height / 2, -segment + height / 2], "k-", linewidth=1)
        if segment < SEGMENTS - 1 and start >= ends[segment]:
            segment, left = segment + 1, 0.0
    panel.set_yticks([-s for s in range(SEGMENTS)], [f"segment {s}" for s in range(SEGMENTS)])
    panel.set_xlabel("rows")
    panel.set_title("The same rows in scratch: by segment, cell and class")
    for side in ("top", "right", "left"):
        panel.spines[side].set_visible(False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", default="docs")
    X, y = two_classes()
    frame = train_frame(X)
    cells = train_cells(frame, X, CELLS)
    z = frame.coordinates(frame.rows(X))[0]
    owner = cells.assign(z)
    figure = Figure(figsize=(11, 4.6), layout="constrained", dpi=110)
    left, right = figure.subplots(1, 2, width_ratios=[1.1, 1])
    draw_cells(left, z, y, cells, owner)
    draw_layout(right, y, owner)
    figure.savefig(Path(parser.parse_args().folder) / "search.png")


if __name__ == "__main__":
    main()
