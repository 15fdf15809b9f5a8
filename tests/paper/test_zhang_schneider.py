"""The experiments of Zhang & Schneider compare the models that the paper names, on other data."""

from typing import get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.zhang_schneider import table
from mmpca_paper.zhang_schneider import boston, newsgroups
from mmpca_paper.zhang_schneider.table import Figure, published
from mmpca_paper.zhang_schneider.yale import Faces, Yale
from scipy.sparse import csr_array
from sklearn.datasets import load_diabetes
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from mmpca_dist import ProjectionPenaltyClassifier
from mmpca_dist.errors import InputError

OPEN = {"columns": "standardised", "weight": "absolute", "epsilon": 1000, "reduced": "plain", "constant": "free"}
"""A reading of what the paper leaves open."""


@pytest.fixture
def file(tmp_path):
    """A Parquet file with the ten columns, and the target in the middle."""
    X, y = load_diabetes(return_X_y=True, scaled=False)
    columns = [*X.T[:5], y, *X.T[5:]]
    names = [f"f{i}" for i in range(5)] + ["target"] + [f"f{i}" for i in range(5, 10)]
    pq.write_table(pa.table(columns, names), tmp_path / "diabetes.parquet")
    return tmp_path / "diabetes.parquet"


def test_the_target_is_no_column_of_the_rows(file, capsys):
    X, y = table("boston", data=str(file)).load()
    expected = load_diabetes(return_X_y=True, scaled=False)
    np.testing.assert_array_equal(X, expected[0])
    np.testing.assert_array_equal(y, expected[1])
    assert "of other data: 506 rows of 13 columns" in capsys.readouterr().out


@pytest.mark.parametrize("changes", [{}, {"columns": "raw", "reduced": "ridge", "weight": "relative"}])
def test_a_run_has_a_score_for_every_published_model(file, changes):
    config = table("boston", data=str(file), **{**OPEN, "alphas": [1.0, 1e4], **changes})
    scores = config.run(config.load(), 50, seed=0)
    assert {(50, model) for model in scores} == set(published(config.NUMBERS))
    assert all(0 < score < 60 for score in scores.values())  # all 442 rows reach 52


@pytest.mark.parametrize(("weight", "inside"), [("absolute", 1000.0), ("relative", 10.0 * 1000)])
def test_the_penalty_in_the_reduced_space_is_that_of_the_configuration(file, weight, inside):
    config = table("boston", data=str(file), **{**OPEN, "weight": weight})
    X, y = config.load()
    X, alpha = config.scaled(X, X)[0], 10.0
    model = config.models(X, y)["Proj-PCR"](alpha).fit(X, y)
    directions = np.linalg.svd(X, full_matrices=False)[2][: boston.COMPONENTS["Proj-PCR"]]
    # least over v of alpha |w - P^T v|^2 + inside |v|^2: the weight of w^2 inside of the subspace
    least = alpha * inside / (alpha + inside)
    penalty = alpha * np.eye(X.shape[1]) + (least - alpha) * directions.T @ directions
    expected = np.linalg.solve(X.T @ X + penalty, X.T @ (y - y.mean()))
    # its solver adds up squares in another order: rounding times the condition, about 1000
    np.testing.assert_allclose(model.coef_, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_a_penalised_constant_is_the_coefficient_of_ones(file):
    config = table("boston", data=str(file), **{**OPEN, "constant": "penalised"})
    X, y = config.load()
    ones, alpha = np.column_stack([np.ones(len(X)), X]), 10.0
    coefficients = np.linalg.solve(ones.T @ ones + alpha * np.eye(ones.shape[1]), ones.T @ y)
    # the condition of the normal equations is about 1e6, and solvers differ by rounding times as much
    np.testing.assert_allclose(config.models(X, y)["Ridge"](alpha).fit(X, y).predict(X), ones @ coefficients, rtol=1e-8)


def test_a_file_without_a_target_is_refused(tmp_path):
    pq.write_table(pa.table({"crim": [0.1]}), tmp_path / "rows.parquet")
    with pytest.raises(InputError, match="no column target, only crim"):
        table("boston", data=str(tmp_path / "rows.parquet")).load()
    (tmp_path / "text.parquet").write_text("no Parquet")
    with pytest.raises(InputError, match="not readable as Parquet"):
        table("boston", data=str(tmp_path / "text.parquet")).load()


@pytest.mark.slow
def test_all_runs_of_the_paper_have_its_figures_within_three_standard_errors(real_path):
    config = table("boston", data=str(real_path("boston.parquet")))
    config = config.model_copy(update={"runs": config.FULL})
    figures = published(config.NUMBERS)
    for model, values in config.values(config.load(), boston.TRAINING).items():
        own, stated = Figure.of(values), figures[boston.TRAINING, model]
        assert abs(own.mean - stated.mean) < 3 * np.hypot(own.error, stated.error), model


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


@pytest.fixture
def images():
    """Four subjects, six images each, of 30 pixels from 0 to 1."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 6)
    return np.clip(rng.uniform(size=(4, 30))[y] + 0.1 * rng.standard_normal((24, 30)), 0, 1), y


def test_the_published_figures_of_faces_are_those_of_three_tables():
    figures = published(Yale.NUMBERS)
    assert len(figures) == 21
    assert figures[3, "SVM-Kernel"] == (16.17, 0.26)
    assert figures[7, "Proj-OLap"] == (3.4, 0.17)


@pytest.mark.parametrize("changes", [{}, {"scaling": "scatter", "share": 0.9, "laplacian": "poly"}])
def test_a_run_has_an_error_for_every_published_model(images, changes):
    errors = table("yale", alphas=[1e-4, 1e8], **changes).run(Faces(*images), 3, seed=0)
    assert {(3, model) for model in errors} == {key for key in published(Yale.NUMBERS) if key[0] == 3}
    assert all(0 <= error < 30 for error in errors.values())  # chance is 50


def test_components_are_scaled_as_the_configuration_says(images):
    X, y = images
    reduction = table("yale", scaling="scatter", share=1.0).reductions(X, y)["GDA"]
    np.testing.assert_allclose((reduction.transform(X) ** 2).sum(axis=0), 1)
    few = table("yale", scaling="length", share=0.9).reductions(X, y)["GDA"]
    assert few[0].eigenvalues_.min() < 1 - 1e-6, "classes overlap in the principal directions that are kept"


def test_of_alphas_that_err_equally_the_smallest_is_chosen(images):
    X, y = images
    matrix = (X @ X.T + 1)[:12, :12] ** 2
    assert table("yale").chosen_alpha(matrix, y[:12], seed=0) == 1e-8


@pytest.mark.parametrize(("pixels", "expected"), [("range", 1.0), ("length", 30**-0.5)])
def test_pixels_are_scaled_as_the_configuration_says(tmp_path, pixels, expected):
    np.savez(tmp_path / "faces.npz", X=np.full((2, 30), 255, np.uint8), y=np.arange(2))
    X, y = table("yale", data=str(tmp_path / "faces.npz"), pixels=pixels).load()
    np.testing.assert_allclose(X, expected)
    np.testing.assert_array_equal(y, [0, 1])


def test_a_file_without_the_arrays_is_refused(tmp_path):
    np.savez(tmp_path / "faces.npz", images=np.ones((2, 30)))
    (tmp_path / "text.npz").write_text("no archive")
    for name in ("faces.npz", "text.npz"):
        with pytest.raises(InputError, match=f"{name} is not an .npz file with the arrays X, y"):
            table("yale", data=str(tmp_path / name)).load()


@pytest.mark.slow
def test_labels_of_all_subjects_help_to_tell_two_apart(real_path):
    """The reduction by labels errs less than the plain machine, and the penalty keeps what it gains."""
    config = table("yale", data=str(real_path("yale_32x32.npz")), runs=3)
    errors = config.values(config.load(), 3)
    for model in ("SVM-OLap", "Proj-OLap"):
        gain = Figure.of(errors["SVM-Kernel"] - errors[model])
        assert gain.mean > 2 * gain.error, model
        assert abs(errors[model].mean() - published(Yale.NUMBERS)[3, model].mean) < 4, model
