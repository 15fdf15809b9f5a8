"""The figures of docs/bm2pca.md: ``python benchmarks/bm2pca_figures.py [1] [2] [3]``, written to ``docs/``.

They follow figures 1 to 3 of Du et al. 2015. The second and third need ORL in the folder ``MMPCA_DATA``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from bm2pca_settings import Classify, Table, accuracies, bm2pca, faces, quiet, reduced, svm
from matplotlib.axes import Axes
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.preprocessing import normalize

from mmpca_dist import BayesianMarginPCA
from mmpca_dist.pictures import drawing

DOCS = Path(__file__).parents[1] / "docs"
HEIGHT = 3.1
ROWS, SEED = 50, 0
"""Rows of each of the two clusters of figure 1, and the seed that draws them."""
SHARES = {2: "1/5", 3: "3/10", 4: "2/5", 5: "1/2", 7: "7/10"}
"""The share of the 10 images of each person that train, by their number."""
SIZES = (2, 5, 10, 20, 40)
WEIGHTS = (10.0, 100.0, 1e3, 1e4, 1e5, 1e6)
ALL, OURS = "SVM on all columns", "BM2PCA"
LOOKS = {OURS: ("#0072B2", "o"), "PCA + SVM": ("#D55E00", "s"), ALL: ("#222222", "D")}


def clusters() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return two clusters, narrow in the first column and long in the second, and three columns of noise."""
    rng = np.random.default_rng(SEED)
    y = np.repeat([0, 1], ROWS)
    X = rng.normal(size=(2 * ROWS, 2)) * [0.3, 1.3]
    X[:, 0] += 1 - 2.0 * y
    return np.hstack([X, rng.normal(size=(2 * ROWS, 3))]), y


def relevance() -> None:
    """Draw the rows along two components of PCA and of BM2PCA, and how long the loadings of five components are."""
    X, y = clusters()
    weak, strong = (
        BayesianMarginPCA(n_components=5, C=C, tol=2e-5, max_iter=5000, precision="double").fit(X, y)
        for C in (0.3, 3.0)
    )
    pca = PCA(5).fit(X)
    sheet, panels = drawing.panel_grid(3, HEIGHT)
    images = {"PCA": pca.transform(X), "BM2PCA, C = 0.3": weak.transform(X)}
    for panel, (title, Z) in zip(panels, images.items(), strict=False):
        for label, colour, marker in zip((0, 1), drawing.class_colours(2), "o^", strict=True):
            points = Z[y == label]
            panel.scatter(points[:, 0], points[:, 1], s=14, c=colour, marker=marker, alpha=0.8, linewidths=0)
        drawing.dress(panel, title, "first component", "second component")
    lengths = {
        "PCA: variances": (pca.explained_variance_, "#c9ced4"),
        "BM2PCA, C = 0.3": (weak.eigenvalues_, LOOKS[OURS][0]),
        "BM2PCA, C = 3": (strong.eigenvalues_, "#56B4E9"),
    }
    for i, (title, (values, colour)) in enumerate(lengths.items()):
        panels[2].bar(np.arange(1, 6) + 0.27 * (i - 1), values, 0.25, color=colour, label=title)
    panels[2].legend(frameon=False, fontsize=drawing.TICK_SIZE)
    drawing.dress(panels[2], "Five components", "component", "squared length of the loadings")
    (DOCS / "bm2pca-relevance.png").write_bytes(drawing.png(sheet))
    print("PCA", np.round(pca.explained_variance_, 2))
    for name, model in (("C = 0.3", weak), ("C = 3", strong)):
        outcome = f"{model.n_iter_} sweeps, accuracy {model.score(X, y):.2f}"
        print(name, np.round(model.eigenvalues_, 2), model.switched_off_, outcome)


def unit_faces(share: str) -> Table:
    """Return ORL with rows of unit length and splits of which this share trains."""
    table = faces("orl", share)
    return table._replace(X=normalize(table.X))


def mean_accuracies(title: str, table: Table, lines: Sequence[Classify]) -> tuple[NDArray, NDArray]:
    """Return means and standard deviations over the splits, in percent, and print them."""
    with quiet():
        values = [accuracies(line, table, table.X) for line in lines]
    means, deviations = np.mean(values, axis=1), np.std(values, axis=1, ddof=1)
    print(title, " ".join(f"{m:.1f} ({s:.1f})" for m, s in zip(means, deviations, strict=True)), flush=True)
    return means, deviations


def _line(
    panel: Axes, x: Sequence[float], values: tuple[NDArray, NDArray], label: str, colour: str, marker: str
) -> None:
    panel.errorbar(
        x, *values, label=label, color=colour, marker=marker, markersize=4.5, linewidth=1.3, elinewidth=0.8, capsize=2
    )


def by_rows_and_size() -> None:
    """Draw accuracy on ORL by how many rows a class train, and by k."""
    sheet, panels = drawing.panel_grid(2, HEIGHT)
    makers: dict[str, Callable[[int], Classify]] = {
        OURS: lambda k: bm2pca(n_components=k),
        "PCA + SVM": lambda k: reduced(PCA(k, svd_solver="full"), svm()),
        ALL: lambda k: svm(),
    }
    few = unit_faces(SHARES[2])
    tables = {rows: unit_faces(share) for rows, share in SHARES.items()}
    for name, make in makers.items():
        pairs = [mean_accuracies(f"{name}, {rows} rows a class:", table, [make(10)]) for rows, table in tables.items()]
        by_rows = np.concatenate([means for means, _ in pairs]), np.concatenate([spread for _, spread in pairs])
        _line(panels[0], list(SHARES), by_rows, name, *LOOKS[name])
        if name == ALL:
            panels[1].axhline(by_rows[0][0], color=LOOKS[ALL][0], linewidth=1.1, linestyle="--")
        else:
            by_size = mean_accuracies(f"{name}, k of {SIZES}:", few, [make(k) for k in SIZES])
            _line(panels[1], SIZES, by_size, name, *LOOKS[name])
    panels[0].set_xticks(list(SHARES))
    panels[1].set_xticks(SIZES)
    drawing.dress(panels[0], "k = 10", "training rows a class, of 10", "accuracy, percent")
    drawing.dress(panels[1], "2 training rows a class", "components k", "accuracy, percent")
    drawing.legend_below(sheet, *panels[0].get_legend_handles_labels())
    (DOCS / "bm2pca-accuracy.png").write_bytes(drawing.png(sheet))


def by_weight_and_size() -> None:
    """Draw accuracy on ORL by C and by k."""
    table, sizes = unit_faces(SHARES[2]), SIZES[1:]
    grid = {
        k: mean_accuracies(f"k = {k}, C of {WEIGHTS}:", table, [bm2pca(C=C, n_components=k) for C in WEIGHTS])
        for k in sizes
    }
    sheet, panels = drawing.panel_grid(2, HEIGHT)
    for colour, marker, k in zip(drawing.FEW_COLOURS, drawing.METHOD_MARKERS, sizes, strict=False):
        _line(panels[0], WEIGHTS, grid[k], f"k = {k}", colour, marker)
    for colour, marker, C in zip(drawing.TEN_COLOURS, drawing.METHOD_MARKERS, (10.0, 100.0, 1000.0), strict=False):
        at = WEIGHTS.index(C)
        values = np.array([grid[k][0][at] for k in sizes]), np.array([grid[k][1][at] for k in sizes])
        _line(panels[1], sizes, values, f"C = {C:g}", colour, marker)
    panels[0].set_xscale("log")
    panels[0].set_xticks(WEIGHTS, [f"{C:g}" for C in WEIGHTS])
    panels[1].set_xticks(sizes)
    for panel, xlabel in zip(panels, ("weight of the hinge loss C", "components k"), strict=True):
        drawing.dress(panel, "", xlabel, "accuracy, percent")
        panel.legend(frameon=False, fontsize=drawing.LABEL_SIZE)
    (DOCS / "bm2pca-settings.png").write_bytes(drawing.png(sheet))


FIGURES = {"1": relevance, "2": by_rows_and_size, "3": by_weight_and_size}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(FIGURES), choices=list(FIGURES))
    for name in parser.parse_args().names:
        FIGURES[name]()


if __name__ == "__main__":
    main()
