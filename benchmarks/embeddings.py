"""Nearest rows of the right class after reductions, where classes lie within a small share of the scatter.

Rows like embeddings: 2,000 classes of 20 rows for training and one held out, 256 columns, rotated; standard deviations
within classes fall as 3 / sqrt(j), class means have 0.2 in every direction: 16% of the scatter. Prints the share of the
rows held out whose nearest training row has their class. Takes a minute.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmpca_dist import FisherDiscriminant, MarginPCA

N_CLASSES, N_ROWS, N_COLUMNS, N_COMPONENTS, BETWEEN = 2_000, 20, 256, 64, 0.2
BATCH = 500


def embeddings(seed: int = 0) -> tuple[NDArray, NDArray]:
    """Return rows and their classes; the last row of each class is meant for tests."""
    rng = np.random.default_rng(seed)
    within = 3 / np.sqrt(np.arange(1, N_COLUMNS + 1))
    means = rng.normal(0, BETWEEN, (N_CLASSES, N_COLUMNS))
    y = np.repeat(np.arange(N_CLASSES), N_ROWS + 1)
    rotation = np.linalg.qr(rng.normal(size=(N_COLUMNS, N_COLUMNS)))[0]
    return ((means[y] + rng.normal(size=(len(y), N_COLUMNS)) * within) @ rotation).astype(np.float32), y


def nearest_is_right(rows: NDArray, y: NDArray, new: NDArray, y_new: NDArray) -> float:
    """Return the share of new rows whose nearest row has their class."""
    squares, right = (rows**2).sum(1), 0
    for start in range(0, len(new), BATCH):
        nearest = (squares - 2 * new[start : start + BATCH] @ rows.T).argmin(1)
        right += int((y[nearest] == y_new[start : start + BATCH]).sum())
    return right / len(new)


def main() -> None:
    X, y = embeddings()
    held_out = np.arange(len(y)) % (N_ROWS + 1) == N_ROWS
    train, test = ~held_out, held_out
    print(f"all columns: {nearest_is_right(X[train], y[train], X[test], y[test]):.1%}")
    for model in (MarginPCA(N_COMPONENTS, variant="m-pca0"), FisherDiscriminant(N_COMPONENTS)):
        model.fit(X[train], y[train])
        rows, new = model.transform(X[train]), model.transform(X[test])
        print(f"{model}: {nearest_is_right(rows, y[train], new, y[test]):.1%}")


if __name__ == "__main__":
    main()
