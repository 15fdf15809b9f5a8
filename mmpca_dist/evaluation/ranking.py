"""How well scores of two classes rank rows: the area under the ROC curve, and average precision."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.predictors.fits import FittedClassifier

RANKED_BYTES = 256 << 20
"""Scores of the rows held out that are kept, of all models together, where these are never in memory: of more rows
there are no measures of ranks."""


def ranking_scores(fitted: FittedClassifier, Z: Any) -> NDArray[np.float64] | None:
    """Return a score of each of the reduced rows ``Z``, the larger the more the second class; None without any."""
    model: Any = getattr(fitted, "model", fitted)
    with single_blas_thread():
        if hasattr(model, "decision_function"):
            return np.asarray(model.decision_function(Z), np.float64)
        return np.asarray(model.predict_proba(Z), np.float64)[:, 1] if hasattr(model, "predict_proba") else None


def ranks(
    scores: NDArray | None, positive: NDArray[np.bool_], weights: NDArray[np.float64] | None = None
) -> dict[str, float]:
    """Return ``auc`` and ``average_precision``, from 0 to 1; neither where all rows are of one class.

    ``scores`` (n,) are large for ``positive`` rows, (n,). A pair of rows with the same score counts half. Both equal
    ``roc_auc_score`` and ``average_precision_score`` of scikit-learn, with ``weights`` (n,) for ``sample_weight``.
    """
    if scores is None or positive.all() or not positive.any():
        return {}
    order = np.argsort(-scores, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True))
    counted = np.ones(len(scores)) if weights is None else weights
    above, below = (np.append(0.0, np.cumsum(np.where(own, counted, 0)[order])[ends]) for own in (positive, ~positive))
    area = np.diff(below) @ (above[1:] + above[:-1]) / (2 * above[-1] * below[-1])
    precision = np.diff(above) @ (above[1:] / (above[1:] + below[1:])) / above[-1]
    return {"auc": float(area), "average_precision": float(precision)}
