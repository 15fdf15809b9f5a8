"""Scores of classifiers beside those of their twins and of scikit-learn's."""

import numpy as np
from sklearn.naive_bayes import GaussianNB

from mmpca_dist import class_moments
from mmpca_dist.predictors.reduced_moments import ReducedMoments


def relative(scores):
    """Return scores less those of the first class; of two classes, the decisions are that already."""
    return scores if scores.ndim == 1 else scores - scores[:, :1]


def assert_scores(rule, expected, rows, rtol=1e-8):
    found = relative(rule.decision_function(rows))
    expected = expected[:, 1] if found.ndim == 1 else expected
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * np.abs(expected).max())
    by_score = (expected > 0).astype(int) if expected.ndim == 1 else expected.argmax(axis=1)
    clear = np.abs(expected) > 1e-6 if expected.ndim == 1 else np.ptp(np.sort(expected)[:, -2:], axis=1) > 1e-6
    np.testing.assert_array_equal(rule.predict(rows)[clear], rule.classes[by_score][clear])


def sklearn_scores(model, rows):
    """Return the scores of scikit-learn's classifier in the form of the twins'."""
    scores = model.predict_joint_log_proba(rows) if isinstance(model, GaussianNB) else model.decision_function(rows)
    return np.stack([np.zeros(len(rows)), scores], axis=1) if scores.ndim == 1 else relative(scores)


def moments_of(Z, y):
    """Return the moments of rows that are reduced already."""
    return ReducedMoments.of(class_moments(Z, y, precision="double"), np.eye(Z.shape[1]), precision="double")
