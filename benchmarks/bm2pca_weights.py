"""Accuracy of BM2PCA by C on tables of all widths: ``python benchmarks/bm2pca_weights.py [NAME ...]``.

Prints a line of a Markdown table for each data set, share and number of components: mean accuracy in percent on the
rows held out, and how much more the default is right than PCA with an SVM, with the standard error of the mean of the
paired differences. Rows are in their own units; splits keep the shares of the classes. The files are those of the
folder ``MMPCA_DATA`` (`newsgroups_tfidf.py` makes that of 20 Newsgroups); the other data sets are scikit-learn's.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from bm2pca_settings import Classify, bm2pca, lda, quiet, reduced, svm
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.model_selection import StratifiedShuffleSplit

from mmpca_dist import open_dataset

MAX_TESTED = 2000
PER_COLUMN = (1, 3, 10, 30)
DEFAULT = "C = 3 d"


class Case(NamedTuple):
    """A data set, how many rows train, components, and splits."""

    source: str | Callable[..., Any]
    train: int
    k: int
    splits: int


FILES = {
    "newsgroups": ("newsgroups20_tfidf.npz", [(100, 10, 2)]),
    "prostate": ("prostate.npz", [(50, 2, 8), (50, 10, 8)]),
    "leukemia": ("leukemia.npz", [(36, 2, 8), (36, 10, 8)]),
    "colon": ("colon.parquet", [(30, 2, 8), (30, 10, 8)]),
    "orl": ("orl_32x32.npz", [(80, 10, 4)]),
    "yale": ("yale_32x32.npz", [(45, 10, 6)]),
    "mnist": ("mnist.npz", [(1000, 10, 2), (4000, 10, 2)]),
    "digits": (datasets.load_digits, [(180, 10, 5), (1400, 10, 3)]),
    "sonar": ("sonar.parquet", [(100, 5, 8)]),
    "ionosphere": ("ionosphere.parquet", [(100, 5, 8)]),
    "breast_cancer": (datasets.load_breast_cancer, [(60, 2, 10), (60, 10, 10), (400, 10, 6)]),
    "wine": (datasets.load_wine, [(40, 2, 10), (40, 10, 10)]),
    "iris": (datasets.load_iris, [(40, 2, 10), (40, 4, 10)]),
}
"""By name: where it is, and rows that train, components and splits."""


def rows_of(case: Case) -> tuple[Any, NDArray]:
    """Return the rows, dense or CSR, and their classes."""
    if callable(case.source):
        return case.source(return_X_y=True)
    dataset = open_dataset(str(Path(os.environ["MMPCA_DATA"]) / case.source))
    read = dataset.read_sparse if dataset.sparse else dataset.read_rows
    X: Any = read(0, dataset.n_rows)
    return X.astype(np.float64), dataset.read_labels(0, dataset.n_rows)


def methods(X: Any, k: int) -> dict[str, Classify]:
    """Return what is compared, by title."""
    pca = PCA(k, svd_solver="full") if isinstance(X, np.ndarray) else TruncatedSVD(k, algorithm="arpack")
    d = X.shape[1]
    return {
        "PCA + SVM": reduced(pca, svm()),
        "PCA + LDA": reduced(pca, lda),
        "C = 100, 1 nat a row": bm2pca(n_components=k, C=100.0, tol=1 / d),
        **{f"C = {factor:g} d": bm2pca(n_components=k, C=float(factor * d)) for factor in PER_COLUMN},
    }


def line(name: str, case: Case) -> list[str]:
    """Return the cells of a line."""
    X, y = rows_of(case)
    tested = min(len(y) - case.train, MAX_TESTED)
    splits = StratifiedShuffleSplit(case.splits, train_size=case.train, test_size=tested, random_state=3)
    hits: dict[str, list[float]] = {}
    for train, test in splits.split(np.zeros(len(y)), y):
        for title, classify in methods(X, case.k).items():
            with quiet():
                named = classify(X[train], y[train], X[test])
            hits.setdefault(title, []).append(100 * float(np.mean(named == y[test])))
    more = np.subtract(hits[DEFAULT], hits["PCA + SVM"])
    difference = f"{more.mean():+.1f} ({more.std(ddof=1) / len(more) ** 0.5:.1f})"
    shape = [f"{name}, {X.shape[1]:,}", f"{case.train:,}", str(case.k)]
    return [*shape, *(f"{np.mean(each):.1f}" for each in hits.values()), difference]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(FILES), choices=list(FILES))
    titles = ["data set, columns d", "rows", "k", *methods(np.empty((1, 1)), 1), "default less PCA + SVM"]
    print(f"| {' | '.join(titles)} |\n|{' --- |' * len(titles)}")
    for name in parser.parse_args().names:
        source, cases = FILES[name]
        for case in cases:
            print(f"| {' | '.join(line(name, Case(source, *case)))} |", flush=True)


if __name__ == "__main__":
    main()
