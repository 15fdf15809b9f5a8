"""Tables 2 to 4 of Zhang & Schneider 2010: projection penalties on pairs of 20 Newsgroups.

In each group 60% are training documents. Vocabulary (1,433 words; the paper: 1,443) and topics are learned from all
9,561 of them, of all groups, without labels of the tasks. A task tells two groups apart by 2%, 5% or 10% of their
training documents. Models are logistic regressions on words ("L2-LGR"), on topics ("LGR-Topic"), and on both with a
projection penalty ("Proj-Topic"). All choose their alpha by stratified 5-fold cross-validation; of alphas that err
equally, they take the largest. Topics of counts are appended to rows before the fit, with P = [0 I]: that is what the
estimator does with a fitted reduction of its rows.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.preprocessing import normalize

from mmpca_dist import ProjectionPenaltyClassifier
from mmpca_dist.settings import setting

from .table import Array, Table, stored_arrays

WORDS, COMMON = 200, 20
"""Most frequent words of a group that are kept, and most frequent of all that are not."""
TOPICS = 30
TEST_SHARE = 0.4
FOLDS = 5


class Documents(NamedTuple):
    """Documents, and what is known of them before any is labelled.

    Attributes
    ----------
    rows : sparse array of shape (n, p)
        Weights of the words of the vocabulary, as the configuration says.
    topics : array of shape (n, TOPICS)
        Shares of the topics, which add up to 1.
    y : array of shape (n,)
        Groups.
    is_train : array of bool of shape (n,)
    """

    rows: csr_array
    topics: Array
    y: NDArray
    is_train: NDArray[np.bool_]


class Newsgroups(Table):
    """Tables 2 to 4, and what the paper leaves open about them."""

    NUMBERS = (2, 3, 4)
    TRAINING = "percent"
    FULL = 20
    RIVALS = {"Proj-Topic": ("L2-LGR", "LGR-Topic")}  # noqa: RUF012

    table: Literal["newsgroups"]
    pairs: int = setting(ge=1, le=190, example=40, description="Number of pairs of groups, the same ones every time")
    shares: list[Literal[2, 5, 10]] = setting(
        min_length=1, values="2, 5 or 10", example=[2, 5, 10], description="Labelled training documents, in percent"
    )
    rows: Literal["counts", "log", "frequencies", "length", "tf-idf"] = setting(
        example="frequencies", description="Counts, log(1 + counts), shares of the document, unit length, or tf-idf"
    )

    @property
    def amounts(self) -> list[Literal[2, 5, 10]]:
        """Percent of the training documents that are labelled."""
        return self.shares

    def load(self) -> Documents:
        """Split the documents, and learn vocabulary and topics from all training documents of all groups."""
        data, indices, indptr, shape, y = stored_arrays(self.path, "data", "indices", "indptr", "shape", "y")
        return self.prepare(csr_array((data, indices, indptr), shape=tuple(shape)).astype(np.float64), y)

    def prepare(self, counts: csr_array, y: NDArray) -> Documents:
        """Return the documents of term counts, shape (n, terms), and groups, shape (n,)."""
        split = train_test_split(np.arange(len(y)), test_size=TEST_SHARE, stratify=y, random_state=self.seed)
        is_train = np.isin(np.arange(len(y)), split[0])
        words = counts[:, vocabulary(counts[is_train], y[is_train])]
        print(f"{is_train.sum()} training documents, {words.shape[1]} words, {TOPICS} topics", flush=True)
        model = LatentDirichletAllocation(TOPICS, random_state=self.seed).fit(words[is_train])
        return Documents(scaled(words, is_train, self.rows), model.transform(words), y, is_train)

    def run(self, data: Documents, amount: int, seed: int) -> dict[str, float]:
        """Return the mean errors of a random choice of labelled documents over the pairs of groups."""
        return {model: float(np.mean(values)) for model, values in self.errors(data, amount, seed).items()}

    def errors(self, documents: Documents, share: int, seed: int) -> dict[str, list[float]]:
        """Return the errors of every model for each pair of groups, with a random choice of labelled documents."""
        rng = np.random.default_rng([seed, share])
        labelled = {}
        for group in np.unique(documents.y):
            rows = rng.permutation(np.flatnonzero((documents.y == group) & documents.is_train))
            labelled[group] = rows[: round(share * len(rows) / 100)]
        errors = defaultdict(list)
        for pair in self.chosen_pairs(documents.y):
            train = np.concatenate([labelled[group] for group in pair])
            test = np.flatnonzero(np.isin(documents.y, pair) & ~documents.is_train)
            for model, error in self.pair_errors(documents, train, test, seed).items():
                errors[model].append(error)
        return errors

    def chosen_pairs(self, y: NDArray) -> list[tuple[int, int]]:
        """Return so many pairs of groups, or all where there are fewer."""
        pairs = list(itertools.combinations(np.unique(y).tolist(), 2))
        order = np.random.default_rng(0).permutation(len(pairs))
        return [pairs[i] for i in sorted(order[: self.pairs])]

    def pair_errors(self, documents: Documents, train: NDArray, test: NDArray, seed: int) -> dict[str, float]:
        """Return the test errors in percent of the three models for the documents of two groups."""
        X, Z, y = documents.rows, documents.topics, documents.y
        labels = y[train], y[test]
        model = penalised("auto", self.epsilon, X.shape[1], alphas=tuple(self.alphas))
        model.fit(appended(X[train].toarray(), Z[train], self.epsilon), labels[0])
        score = float(model.score(appended(X[test].toarray(), Z[test], self.epsilon), labels[1]))
        return {
            "L2-LGR": self.logistic_error(X[train].toarray(), labels[0], X[test].toarray(), labels[1], seed),
            "LGR-Topic": self.logistic_error(Z[train], labels[0], Z[test], labels[1], seed),
            "Proj-Topic": 100 - 100 * score,
        }

    def logistic_error(self, train: Array, y: NDArray, test: Array, y_test: NDArray, seed: int) -> float:
        """Return the test error in percent of logistic regression whose alpha is chosen as the estimator's is."""
        span = np.linalg.svd(train, full_matrices=False)[2].T  # of the rows, which has all coefficients
        train, test = train @ span, test @ span

        def fitted(alpha: float, chosen: NDArray | slice) -> LogisticRegression:
            return LogisticRegression(C=1 / (2 * alpha), max_iter=1000).fit(train[chosen], y[chosen])

        folds = list(StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(train, y))
        wrong = [
            sum(int(np.sum(fitted(alpha, own).predict(train[held_out]) != y[held_out])) for own, held_out in folds)
            for alpha in self.alphas
        ]
        alpha = max(zip(-np.asarray(wrong), self.alphas, strict=True))[1]  # of equal errors the largest
        return 100 * float(np.mean(fitted(alpha, slice(None)).predict(test) != y_test))


def vocabulary(counts: csr_array, y: NDArray) -> NDArray[np.intp]:
    """Return the columns of the words that most documents of a group have, less those that most of all have."""
    has = (counts > 0).astype(np.float64)
    common = np.argsort(-has.sum(axis=0), kind="stable")[:COMMON]
    words: set[int] = set()
    for group in np.unique(y):
        frequency = has[y == group].sum(axis=0)
        frequency[common] = 0
        order = np.argsort(-frequency, kind="stable")[:WORDS]
        words.update(order[frequency[order] > 0].tolist())
    return np.asarray(sorted(words), np.intp)


def scaled(counts: csr_array, is_train: NDArray[np.bool_], rows: str) -> csr_array:
    """Return rows as the setting ``rows`` says."""
    if rows == "counts":
        return counts
    if rows == "log":
        return counts.log1p()
    if rows == "tf-idf":
        documents = np.maximum((counts[is_train] > 0).sum(axis=0), 1)
        counts = csr_array(counts @ diags_array(np.log(is_train.sum() / documents)))
    return csr_array(normalize(counts, norm="l1" if rows == "frequencies" else "l2"))


def appended(X: Array, Z: Array, epsilon: float) -> Array:
    """Return [x; z'] in which the estimator's penalty of coefficients of z is alpha epsilon |v|^2.

    With P = [0 I] a coefficient u of z' costs min_v (u - v)^2 + epsilon v^2 = epsilon u^2 / (1 + epsilon).
    """
    return np.hstack([X, Z / (1 + epsilon) ** 0.5])


def penalised(alpha: float | str, epsilon: float, n_words: int, **more: Any) -> ProjectionPenaltyClassifier:
    """Return the estimator for rows with topics behind so many words."""
    options: dict[str, Any] = {"alpha": alpha, "epsilon": epsilon, **more}
    return ProjectionPenaltyClassifier(np.eye(n_words + TOPICS)[n_words:], **options)
