"""Accuracy of BM2PCA by C on tables of all widths: ``python benchmarks/bm2pca_weights.py [NAME ...]``.

Prints a line of a Markdown table for each data set and number of components: mean accuracy in percent on the rows held
out, over splits that keep the shares of the classes, with its standard error. Rows are in their own units. The files
are those of the folder ``MMPCA_DATA``; the other data sets are scikit-learn's.
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

from mmpca_dist import BayesianMarginPCA, open_dataset

MOST_TESTED = 2000
PER_COLUMN = (0.3, 3, 30)
GIVEN = (100.0, 1e4, 1e6)


class Case(NamedTuple):
    """A data set, how many rows train, numbers of components, and splits."""

    source: str | Callable[..., Any]
    train: int
    sizes: tuple[int, ...]
    splits: int = 10


CASES = {
    "newsgroups": Case("newsgroups20_tfidf.npz", 100, (10,), 3),
    "prostate": Case("prostate.npz", 50, (2, 10)),
    "leukemia": Case("leukemia.npz", 36, (2, 10)),
    "colon": Case("colon.parquet", 30, (2, 10)),
    "orl": Case("orl_32x32.npz", 80, (10,)),
    "yale": Case("yale_32x32.npz", 45, (10,)),
    "digits": Case(datasets.load_digits, 180, (5, 10)),
    "breast_cancer": Case(datasets.load_breast_cancer, 60, (2, 10)),
    "wine": Case(datasets.load_wine, 40, (2, 10)),
    "iris": Case(datasets.load_iris, 40, (2, 4)),
}


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
    ours, d = BayesianMarginPCA(k, precision="double"), X.shape[1]
    return {
        "SVM on all columns": svm(),
        "PCA + SVM": reduced(pca, svm()),
        "PCA + LDA": reduced(pca, lda),
        **{f"C = {C:g}": bm2pca(n_components=k, C=C) for C in GIVEN},
        **{f"C = {factor:g} d": bm2pca(n_components=k, C=factor * d) for factor in PER_COLUMN},
        "C by folds": bm2pca(n_components=k, C="auto"),
        "default + SVM": supervised(ours, svm()),
    }


def supervised(reducer: Any, classify: Classify) -> Classify:
    """Return a classifier after a reduction that learns from the classes."""

    def after(X: Any, y: NDArray, X_new: Any) -> NDArray:
        reducer.fit(X, y)
        return classify(reducer.transform(X), y, reducer.transform(X_new))

    return after


def line(name: str, k: int) -> list[str]:
    """Return the cells of a line."""
    case = CASES[name]
    X, y = rows_of(case)
    tested = min(len(y) - case.train, MOST_TESTED)
    splits = StratifiedShuffleSplit(case.splits, train_size=case.train, test_size=tested, random_state=0)
    hits: dict[str, list[float]] = {}
    for train, test in splits.split(np.zeros(len(y)), y):
        for title, classify in methods(X, k).items():
            with quiet():
                named = classify(X[train], y[train], X[test])
            hits.setdefault(title, []).append(100 * float(np.mean(named == y[test])))
    cells = [f"{np.mean(each):.1f} ({np.std(each, ddof=1) / len(each) ** 0.5:.1f})" for each in hits.values()]
    return [f"{name}, {X.shape[1]:,}", str(k), *cells]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(CASES), choices=list(CASES))
    titles = ["data set, columns d", "k", *methods(np.empty((1, 1)), 1)]
    print(f"| {' | '.join(titles)} |\n|{' --- |' * len(titles)}")
    for name in parser.parse_args().names:
        for k in CASES[name].sizes:
            print(f"| {' | '.join(line(name, k))} |", flush=True)


if __name__ == "__main__":
    main()
