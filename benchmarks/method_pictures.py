"""Draw what each method keeps: ``python benchmarks/method_pictures.py [FOLDER]`` makes ``method-NAME.png``.

On the left, two classes of unequal size, and the direction of the first component. On the right, the digits of
scikit-learn on the first two coordinates. See docs/methods.md.
"""

from __future__ import annotations

import argparse
import tempfile
from io import BytesIO
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image
from sklearn.datasets import load_digits

from mmpca_dist import load_model, run
from mmpca_dist.methods.base.registry import METHODS

BLUE, ORANGE = "#0072B2", "#E69F00"
ROWS, RARE = 1000, 0.15
COLOURS = 128  # a quarter of the bytes of all colours


def two_classes() -> tuple[np.ndarray, np.ndarray]:
    """Return rows that vary most along an axis that is oblique to the difference of the class means, and labels."""
    rng = np.random.default_rng(3)
    y = (rng.random(ROWS) < RARE).astype(int)
    axis = np.asarray([np.cos(np.pi / 6), np.sin(np.pi / 6)])
    rows = 0.55 * rng.standard_normal((ROWS, 2)) + 1.7 * rng.standard_normal((ROWS, 1)) * axis
    return rows + y[:, None] * np.asarray([0.6, 3.6]), y


def direction(model: object) -> np.ndarray:
    """Return the vector, of length 1, whose product with a row is the row's first coordinate, up to a constant."""
    coordinates = model.transform(np.vstack([np.zeros(2), np.eye(2)]))[:, 0]
    vector = coordinates[1:] - coordinates[0]
    return vector / np.linalg.norm(vector)


def draw_direction(panel: Axes, X: np.ndarray, y: np.ndarray, vector: np.ndarray) -> None:
    """Draw the rows and the direction through their mean."""
    for label, colour in enumerate((BLUE, ORANGE)):
        panel.scatter(*X[y == label].T, s=4, c=colour, linewidths=0, alpha=0.5)
    ends = X.mean(axis=0) + 4.5 * np.outer([-1, 1], vector)
    panel.plot(*ends.T, color="black", linewidth=2)
    panel.set_title("the first direction", fontsize=9)
    panel.set(xlim=(-5.5, 5.5), ylim=(-4, 6.5), aspect="equal")


def draw_rows(panel: Axes, Z: np.ndarray, y: np.ndarray) -> None:
    """Draw rows on two coordinates."""
    panel.scatter(*Z[:, :2].T, s=3, c=y, cmap="tab10", linewidths=0)
    panel.set_title("digits on two coordinates", fontsize=9)


def models(folder: Path, X: np.ndarray, y: np.ndarray, n_components: int) -> dict[str, object]:
    """Fit all methods to rows, as one run."""
    np.savez(folder / "rows.npz", X=X, y=y)
    config = {"dataset": {"uri": str(folder / "rows.npz")}, "methods": list(METHODS), "n_components": n_components}
    run({**config, "project": {"methods": []}, "output": str(folder / "run")})
    return {name: load_model(str(folder / "run"), name) for name in METHODS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("docs"))
    folder = parser.parse_args().folder
    X, y = two_classes()
    digits, labels = load_digits(return_X_y=True)
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        of_two, of_digits = models(Path(one), X, y, 1), models(Path(other), digits, labels, 2)
        for name, method in METHODS.items():
            if not method.reduces:
                continue
            figure = Figure(figsize=(4.6, 2.3), layout="constrained")
            left, right = figure.subplots(1, 2)
            draw_direction(left, X, y, direction(of_two[name]))
            draw_rows(right, of_digits[name].transform(digits), labels)
            for panel in (left, right):
                panel.set(xticks=[], yticks=[])
            drawn = BytesIO()
            figure.savefig(drawn, dpi=110)
            image = Image.open(drawn).convert("RGB").quantize(COLOURS)
            image.save(folder / f"method-{name}.png", optimize=True)


if __name__ == "__main__":
    main()
