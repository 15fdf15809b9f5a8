"""The experiment on documents compares the models that the paper names, on made-up documents."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from helpers.tables import table
from mmpca_paper.zhang_schneider import newsgroups
from mmpca_paper.zhang_schneider.table import Figure, published
from scipy.sparse import csr_array
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from mmpca_dist import ProjectionPenaltyClassifier

COMMON = np.arange(newsgroups.COMMON)
"""Words that every document has."""


@pytest.fixture
def news():
    """Three groups of 100 documents, of 40 words beside the common ones, which each group has in shares of its own."""
    rng = np.random.default_rng(0)
    y = np.repeat([1, 2, 3], 100)
    shares = rng.dirichlet(np.full(40, 0.5), size=3)
    counts = np.hstack([np.ones((300, len(COMMON))), [rng.multinomial(30, shares[group - 1]) for group in y]])
    return csr_array(counts), y


@pytest.fixture
def documents(news, monkeypatch):
    monkeypatch.setattr(newsgroups, "TOPICS", 3)
    return table("newsgroups", rows="length").prepare(*news)


def test_the_published_figures_are_those_of_three_tables():
    figures = published(newsgroups.Newsgroups.NUMBERS)
    assert len(figures) == 9
    assert figures[2, "L2-LGR"] == (17.78, 0.082)
    assert figures[10, "Proj-Topic"] == (6.77, 0.029)


def test_words_that_most_documents_have_are_left_out(news, monkeypatch):
    words = newsgroups.vocabulary(*news)
    assert not set(words) & set(COMMON)
    monkeypatch.setattr(newsgroups, "WORDS", 1)
    assert 1 <= len(newsgroups.vocabulary(*news)) <= 3


@pytest.mark.parametrize("kind", get_args(newsgroups.Newsgroups.model_fields["rows"].annotation))
def test_rows_are_scaled_as_the_configuration_says(news, kind):
    counts, y = news
    rows = newsgroups.scaled(counts, np.arange(len(y)) % 2 == 0, kind).toarray()
    expected = {
        "counts": counts.toarray(),
        "log": np.log(counts.toarray() + 1),
        "frequencies": counts.toarray() / 50,
        "length": counts.toarray() / np.linalg.norm(counts.toarray(), axis=1, keepdims=True),
    }
    if kind == "tf-idf":
        assert not rows[:, COMMON].any(), "words of all documents say nothing"
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1)
    else:
        np.testing.assert_allclose(rows, expected[kind])


@pytest.mark.e2e
def test_a_run_has_an_error_for_every_published_model_and_pair(documents):
    config = table("newsgroups", alphas=[1e-2, 1.0], epsilon=1.0)
    errors = config.errors(documents, 10, seed=0)
    assert {(10, model) for model in errors} == {
        key for key in published(newsgroups.Newsgroups.NUMBERS) if key[0] == 10
    }
    for values in errors.values():
        assert len(values) == 3
        assert all(0 <= error < 30 for error in values)  # chance is 50
    means = config.run(documents, 10, seed=0)
    assert means == {model: pytest.approx(np.mean(values)) for model, values in errors.items()}


def test_the_first_pairs_are_the_same_ones_every_time():
    groups = np.arange(1, 21)
    few, more = (table("newsgroups", pairs=pairs).chosen_pairs(groups) for pairs in (5, 40))
    assert len(few) == 5 and len(more) == 40 and set(few) <= set(more)
    assert len(table("newsgroups", pairs=190).chosen_pairs(groups)) == 190


@pytest.mark.parametrize("epsilon", [0.1, 30.0])
def test_topics_have_the_weight_of_epsilon(documents, epsilon):
    rows, labels = documents.rows[80:120].toarray(), documents.y[80:120]
    topics, alpha = documents.topics[80:120], 0.01
    model = newsgroups.penalised(alpha, epsilon, rows.shape[1]).set_params(tol=1e-12)
    model.fit(newsgroups.appended(rows, topics, epsilon), labels)
    # alpha (|w|^2 + epsilon |v|^2) is alpha times the squared length of the coefficients of [x; z / epsilon^1/2]
    both = np.hstack([rows, topics / epsilon**0.5])
    plain = LogisticRegression(C=1 / (2 * alpha), tol=1e-10, max_iter=10_000).fit(both, labels)
    outputs = model.decision_function(newsgroups.appended(rows, topics, epsilon))
    # objectives within 1e-12 of their minima: coefficients to about its square root, over alpha
    np.testing.assert_allclose(outputs, plain.decision_function(both), atol=1e-4)


def test_appended_topics_are_those_of_a_frozen_reduction(news):
    counts, y = news
    topics = LatentDirichletAllocation(3, random_state=0).fit(counts)
    rows, labels = counts[80:120].toarray(), y[80:120]
    options = {"alpha": "auto", "alphas": (1e-2, 1.0, 1e2), "epsilon": 0.1}
    frozen = ProjectionPenaltyClassifier(FrozenEstimator(topics), **options).fit(rows, labels)
    both = newsgroups.appended(rows, topics.transform(rows), 0.1)
    appended = ProjectionPenaltyClassifier(np.eye(both.shape[1])[rows.shape[1] :], **options).fit(both, labels)
    assert frozen.alpha_ == appended.alpha_
    np.testing.assert_allclose(frozen.decision_function(rows), appended.decision_function(both), atol=0.02)


@pytest.mark.slow
def test_topics_with_the_penalty_err_less_than_words_and_less_than_topics_over_all_pairs(real_path):
    config = table("newsgroups", data=str(real_path("newsgroups20.npz")))
    assert config.pairs == 190
    errors = {model: np.asarray(values) for model, values in config.errors(config.load(), 5, config.seed).items()}
    for rival in ("L2-LGR", "LGR-Topic"):
        gain = Figure.of(errors[rival] - errors["Proj-Topic"])  # over pairs
        assert gain.mean > 2 * gain.error, rival
