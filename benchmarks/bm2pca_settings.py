"""Accuracy of BM2PCA by setting, with others: ``python benchmarks/bm2pca_settings.py [orl] [yale] [newsgroups]``.

Prints a Markdown table for each data set of the folder ``MMPCA_DATA``: mean accuracy in percent and its standard
deviation over 20 splits, on the rows held out. On the faces the splits are those of ``conf/paper/bm2pca-orl.yaml`` and
``bm2pca-yale.yaml``. On 20 Newsgroups they are the paper's, which no configuration can say: 60% of every class, drawn
once, of which 5 rows a class train in every split, and the other 40% test. The file is that of
``newsgroups_tfidf.py``. Rows have unit length and there are 10 components, where a line says nothing else.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import scipy.sparse
from bm2pca_printed import PrintedMarginPCA
from numpy.typing import NDArray
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from mmpca_dist import BayesianMarginPCA, FisherDiscriminant, open_dataset
from mmpca_dist.evaluation.splits import share_splits
from mmpca_dist.models.bayesian_margin import sweep as margin_sweep
from mmpca_dist.models.bayesian_margin.posterior import ORDER
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Threads

FILES = {"orl": "orl_32x32.npz", "yale": "yale_32x32.npz", "newsgroups": "newsgroups20_tfidf.npz"}
TRAIN = {"orl": "1/5", "yale": "3/11"}
A_CLASS = 5
"""Rows of each newsgroup that train."""
N_SPLITS, K = 20, 10
SVM, PCA_SVM = "SVM on all columns, one against the rest, C by folds", "PCA + SVM, C by folds"
PCA_LDA = "PCA + LDA"
PCA_OF_ALL = "PCA of training and test rows + SVM, C by folds"
DEFAULTS = "defaults: PCA start, C = 3 a column, tolerance 0.001"
NAT = 1 / 1024
"""In nats a value, the tolerance of a nat a row of the faces."""
FORMER = {"C": 100.0, "tol": NAT}
"""Settings that the variants below change, near those of the paper."""
PAPER = {"C": "auto", "candidates": (10.0, 20.0, 30.0, 40.0)}
PENALTIES = {"C": [1e-3, 1e-2, 1e-1, 1, 10, 100]}
"""The penalties that evaluations choose among."""


class Split(NamedTuple):
    """Positions of the rows that train, and of those that are classified."""

    train: NDArray[np.intp]
    test: NDArray[np.intp]


class Table(NamedTuple):
    """Rows of unit length as they are stored, their classes, and the splits."""

    X: Any
    y: NDArray
    splits: list[Split]


Classify = Callable[[Any, NDArray, Any], NDArray]
"""Classes of the last rows, by rows and classes to train on."""


@cache
def faces(name: str, train: str) -> Table:
    """Return faces with the splits of an evaluation with ``splits: shares`` and this share ``train``."""
    dataset = open_dataset(str(data_file(name)))
    batch = dataset.batch(0, dataset.n_rows)
    splits = share_splits(Rows.of(dataset, Threads(1)), train, n_splits=N_SPLITS, seed=0)
    is_training = splits.training(batch)
    own = [Split(np.flatnonzero(rows), np.flatnonzero(~rows)) for rows in is_training]
    return Table(np.asarray(batch.X, np.float64), batch.label, own)


@cache
def newsgroups() -> Table:
    """Return 20 Newsgroups with 60% of which some rows train, and the other 40%."""
    path = data_file("newsgroups")
    with np.load(path) as file:
        y = file["y"]
    return Table(scipy.sparse.load_npz(path), y, list(newsgroup_splits(y)))


def data_file(name: str) -> Path:
    return Path(os.environ["MMPCA_DATA"]) / FILES[name]


def newsgroup_splits(y: NDArray) -> Iterator[Split]:
    """Yield 5 rows of each class out of 60%, and the other 40%."""
    pool, test = train_test_split(np.arange(len(y)), train_size=0.6, stratify=y, random_state=0)
    for seed in range(N_SPLITS):
        rng = np.random.default_rng(seed)
        chosen = [rng.choice(pool[y[pool] == label], A_CLASS, replace=False) for label in np.unique(y)]
        yield Split(np.sort(np.concatenate(chosen)), test)


def bm2pca(**options: Any) -> Classify:
    """Return BM2PCA with its own classifier."""
    settings = {"n_components": K, "precision": "double", **options}
    return lambda X, y, X_new: BayesianMarginPCA(**settings).fit(X, y).predict(X_new)


def with_test_rows(X: Any, y: NDArray, X_new: Any) -> NDArray:
    """Fit BM2PCA to the rows to be classified as well, without their classes."""
    labels = np.concatenate([y, np.full(X_new.shape[0], -1)])
    return bm2pca(unlabelled=-1, **FORMER)(np.vstack([X, X_new]), labels, X_new)


def svm(**options: Any) -> Classify:
    """Return a linear SVM whose C is chosen by cross-validation of the rows that train."""

    def classify(X: Any, y: NDArray, X_new: Any) -> NDArray:
        X, X_new = in_span(X, X_new)
        folds = min(5, int(np.unique(y, return_counts=True)[1].min()))
        search = GridSearchCV(LinearSVC(max_iter=5000, random_state=0, **options), PENALTIES, cv=folds)
        return search.fit(X, y).predict(X_new)

    return classify


def in_span(X: Any, X_new: Any) -> tuple[NDArray, NDArray]:
    """Return rows in coordinates of the span of ``X``: a linear SVM is the same there, and takes less time."""
    if X.shape[0] >= X.shape[1]:
        return X, X_new
    basis = np.linalg.qr(X.T.toarray() if scipy.sparse.issparse(X) else X.T)[0]
    return X @ basis, X_new @ basis


def crammer_singer(C: float, bias: bool = True) -> Classify:
    """Return the SVM of the paper's baselines, LIBLINEAR's of Crammer and Singer, with a given C."""
    model = LinearSVC(C=C, multi_class="crammer_singer", fit_intercept=bias, max_iter=5000, random_state=0)

    def classify(X: Any, y: NDArray, X_new: Any) -> NDArray:
        X, X_new = in_span(X, X_new)
        return model.fit(X, y).predict(X_new)

    return classify


def reduced(reducer: Any, classify: Classify, transductive: bool = False) -> Classify:
    """Return a classifier after a reduction, which is fitted to the rows to be classified as well if transductive."""

    def after(X: Any, y: NDArray, X_new: Any) -> NDArray:
        reducer.fit(_together(X, X_new) if transductive else X, None if transductive else y)
        return classify(reducer.transform(X), y, reducer.transform(X_new))

    return after


def _together(X: Any, X_new: Any) -> Any:
    return scipy.sparse.vstack([X, X_new]) if scipy.sparse.issparse(X) else np.vstack([X, X_new])


def neighbor(X: Any, y: NDArray, X_new: Any) -> NDArray:
    return KNeighborsClassifier(1).fit(X, y).predict(X_new)


def lda(X: Any, y: NDArray, X_new: Any) -> NDArray:
    return LinearDiscriminantAnalysis().fit(X, y).predict(X_new)


def ordered(*order: str) -> Classify:
    """Return BM2PCA whose factors are updated in another order after a pass."""

    def classify(X: Any, y: NDArray, X_new: Any) -> NDArray:
        with mock.patch.object(margin_sweep, "update", partial(margin_sweep.update, order=order)):
            return bm2pca(**FORMER)(X, y, X_new)

    return classify


def printed(form: str, sweeps: int, C: float = 100.0) -> Classify:
    """Return BM2PCA by the row-by-row updates, in a form of them."""
    return lambda X, y, X_new: PrintedMarginPCA(K, C, sweeps, form).fit(X, y).predict(X_new)


def classical() -> dict[str, Classify]:
    pca = PCA(K, svd_solver="full")
    fisher = FisherDiscriminant(n_components=K, precision="double")
    return {
        SVM: svm(),
        **{f"Crammer-Singer SVM on all columns, C = {C:g}": crammer_singer(C) for C in (0.01, 1, 100)},
        "Crammer-Singer SVM on all columns without a constant term, C = 1": crammer_singer(1, False),
        "nearest neighbour on all columns": neighbor,
        PCA_SVM: reduced(pca, svm()),
        **{f"PCA + Crammer-Singer SVM, C = {C:g}": reduced(pca, crammer_singer(C)) for C in (1, 100)},
        PCA_LDA: reduced(pca, lda),
        "LDA + SVM, C by folds": reduced(fisher, svm()),
        PCA_OF_ALL: reduced(pca, svm(), True),
        "PCA + nearest neighbour": reduced(pca, neighbor),
    }


def for_faces() -> dict[str, Classify]:
    after_rows = ("loadings", "location", "relevance", "noise")
    return {
        DEFAULTS: bm2pca(),
        **{f"C = {C:g}": bm2pca(C=C) for C in (10.0, 40.0, 100.0, 1e3, 1e4, 1e5, 1e6)},
        "C by folds": bm2pca(C="auto"),
        "C of the paper's grid, 10 to 40": bm2pca(**PAPER),
        **{f"k = {k}": bm2pca(n_components=k) for k in (5, 20, 40)},
        "C = 100, a nat a row": bm2pca(**FORMER),
        "the same, paper's grid, 0.01 nats": bm2pca(**PAPER, tol=NAT / 100, max_iter=200),
        **{f"the same, random start, seed {seed}": bm2pca(**FORMER, start="random", seed=seed) for seed in range(3)},
        "the same, random start, 200 sweeps": bm2pca(C=100.0, start="random", tol=0, max_iter=200),
        **{f"the same, {t:g} nats": bm2pca(C=100.0, tol=t * NAT, max_iter=1000) for t in (10, 0.1, 0.01)},
        "the same, update order: loadings, ..., noise, then weights": ordered(
            *after_rows, "weights", "weight_precision"
        ),
        "the same, update order: the reverse": ordered(*ORDER[::-1]),
        "the same, test rows take part without labels": with_test_rows,
        "own row-by-row updates, as derived, C = 100, 10 sweeps": printed("derived", 10),
        "the same with the printed mean of z": printed("printed mean", 10),
        "the same with the printed mean of z and the printed chi": printed("printed", 10),
        "printed mean of z and chi, 50 sweeps": printed("printed", 50),
        "printed mean of z and chi, C = 40, 50 sweeps": printed("printed", 50, 40.0),
    }


def for_text() -> dict[str, Classify]:
    pca = TruncatedSVD(K, algorithm="arpack")
    return {
        SVM: svm(),
        PCA_SVM: reduced(pca, svm()),
        PCA_OF_ALL: reduced(pca, svm(), True),
        PCA_LDA: reduced(pca, lda),
        DEFAULTS: bm2pca(),
        **{f"C = {C:g}, a nat a row": bm2pca(C=C, tol=1 / 62061) for C in (100.0, 1000.0)},
        **{f"random start, C = {C:g}, a nat a row": bm2pca(start="random", C=C, tol=1 / 62061) for C in (40.0, 100.0)},
    }


SWEEPS = (3, 10, 50, 200, 1000)
WEIGHTS = (10.0, 40.0, 100.0, 1e3, 1e4, 1e6)


def accuracies(classify: Classify, table: Table, X: Any) -> NDArray[np.float64]:
    """Return the accuracy in percent in every split."""
    hits = [
        classify(X[split.train], table.y[split.train], X[split.test]) == table.y[split.test] for split in table.splits
    ]
    return 100 * np.array([hit.mean() for hit in hits])


def spread(values: NDArray[np.float64]) -> str:
    return f"{values.mean():.1f} ({values.std(ddof=1):.1f})"


@contextmanager
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scikit-learn: many classes, largest numbers of iterations
        yield


def settings_table(name: str) -> None:
    """Print a line for each setting."""
    dense = name in TRAIN
    table = faces(name, TRAIN[name]) if dense else newsgroups()
    unit = normalize(table.X)
    kinds = classical() | for_faces() if dense else for_text()
    lines = [(title, classify, unit) for title, classify in kinds.items()]
    if dense:
        lines += [("values as they are: defaults", bm2pca(), table.X)]
        lines += [("values as they are: PCA + LDA", classical()[PCA_LDA], table.X)]
        for title, X in {"values / 255": table.X / 255, "rows centred, unit length": _centred(table.X)}.items():
            lines += [(f"{title}: C = 100, a nat a row", bm2pca(**FORMER), X)]
            lines += [(f"{title}: paper's grid", bm2pca(**PAPER, tol=NAT), X)]
            lines += [(f"{title}: SVM on all columns", svm(), X), (f"{title}: PCA + SVM", classical()[PCA_SVM], X)]
    print(f"\n| {name} | accuracy (standard deviation) | seconds a split |\n| --- | --- | --- |")
    for title, classify, X in lines:
        begun = time.perf_counter()
        with quiet():
            cell = spread(accuracies(classify, table, X))
        print(f"| {title} | {cell} | {(time.perf_counter() - begun) / len(table.splits):.2f} |", flush=True)


def _centred(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return rows of mean zero and of unit length: each less its own mean, which needs no other row."""
    return normalize(X - X.mean(axis=1, keepdims=True))


def sweeps_table() -> None:
    """Print accuracies on ORL by C and the number of sweeps."""
    table = faces("orl", TRAIN["orl"])
    unit = normalize(table.X)
    print(f"\n| orl: C | {' | '.join(f'{n} sweeps' for n in SWEEPS)} |\n|{' --- |' * (len(SWEEPS) + 1)}")
    for C in WEIGHTS:
        cells = [spread(accuracies(bm2pca(C=C, tol=0, max_iter=n), table, unit)) for n in SWEEPS]
        print(f"| {C:g} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["orl", "yale"], choices=list(FILES))
    for name in parser.parse_args().names:
        settings_table(name)
        if name == "orl":
            sweeps_table()


if __name__ == "__main__":
    main()
