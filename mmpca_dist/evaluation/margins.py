"""Margins: signed distances to the hyperplane of a linear classifier, before and after reduction.

That they survive the projection is what Luo & Durrant 2017 build their methods for (sections 1 and 3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.stats import wasserstein_distance

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.evaluation.reductions import Reduction
from mmpca_dist.evaluation.request import Classifiers, EvaluationRequest
from mmpca_dist.evaluation.scores import Fitted
from mmpca_dist.passes.rows import Rows
from mmpca_dist.predictors.classifiers import ClassifierSection, fit_from_moments, is_from_moments
from mmpca_dist.predictors.fits import FittedClassifier, linear_parts
from mmpca_dist.predictors.linear import LinearRule
from mmpca_dist.predictors.reduced_moments import ReducedMoments
from mmpca_dist.predictors.specification import scored_rows
from mmpca_dist.statistics.chunk_adder import ChunkAdder
from mmpca_dist.statistics.row_space import wide_statistics
from mmpca_dist.statistics.working_statistics import Statistics, tall_statistics
from mmpca_dist.tables.batch import Batch
from mmpca_dist.tables.labels import encode
from mmpca_dist.tables.readers.memory import rows_in_memory

LDA = "sklearn.discriminant_analysis.LinearDiscriminantAnalysis"

QUANTILES = (1, 5, 25, 50, 75, 95, 99)
BARS = 40
TAIL = 0.5
"""Percent of the distances at either end that may lie beyond the edges of a histogram; the last bars count them."""


def signed_distances(fitted: FittedClassifier, Z: Any, y: NDArray) -> NDArray[np.float64] | None:
    """Return how far rows are from the hyperplane of a linear classifier, negative where they are on the wrong side.

    For two classes it is s (w^T z + b) / ||w||, s = 1 for the second and -1 for the first; for more, the smallest over
    the other classes b of ((w_a - w_b)^T z + b_a - b_b) / ||w_a - w_b||, a the row's own class. It is None where there
    is no hyperplane: the classifier is not linear, or its coefficients are the same for all classes. Raises InputError
    for labels that the classifier does not know.

    Distances are in the unit of ``Z`` (n, K), dense or CSR. Rows reduced by orthonormal components have the unit of the
    original columns, so that distances before and after compare. Otherwise they have a unit of their own: ``fisher``
    standard deviations within classes; ``random-projection`` the original one times sqrt(d / K), so that lengths are
    kept on average; ``pls`` and ``ridge`` that of their scaled, oblique directions. Rows of a standardised reduction
    have that of standardised columns, in which distances before it are then measured too.

    Source: Luo & Durrant 2017, section 3, where the margin is what projections are to keep.
    """
    parts = linear_parts(fitted)
    if parts is None or not (np.any(parts[0]) if len(parts[0]) == 1 else np.ptp(parts[0], axis=0).any()):
        return None
    coef, codes = parts[0], encode(y, fitted.classes, "the labels")
    if len(coef) == 1:
        scores = _scores(fitted, Z, parts)[:, 0]
        return np.where(codes == 1, scores, -scores) / np.linalg.norm(coef)
    distances = np.empty(len(codes))
    for block in _blocks(codes, len(coef)):
        distances[block] = _smallest_distances(_scores(fitted, Z[block], parts), codes[block], coef)
    return distances


def _blocks(codes: NDArray[np.intp], n_classes: int) -> list[Any]:
    """Return rows whose scores fit in memory together: all, or a few in the order of their classes."""
    size = scored_rows(n_classes)
    if len(codes) <= size:
        return [slice(None)]
    return np.split(np.argsort(codes, kind="stable"), range(size, len(codes), size))


def _smallest_distances(
    scores: NDArray[np.float64], codes: NDArray[np.intp], coef: NDArray[np.float64]
) -> NDArray[np.float64]:
    distances = np.empty(len(codes))
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        lengths = np.linalg.norm(coef[code] - coef, axis=1)
        # Classes with the same coefficients have no hyperplane between them.
        others = np.flatnonzero(lengths > 0)
        distances[rows] = ((scores[rows, code][:, None] - scores[rows][:, others]) / lengths[others]).min(axis=1)
    return distances


def _scores(
    fitted: FittedClassifier, Z: Any, parts: tuple[NDArray[np.float64], NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Return scores of the classes, shape (n, C), or (n, 1) for two; near the centre of a rule that has one."""
    model = getattr(fitted, "model", fitted)
    if isinstance(model, LinearRule):
        return model.decision_function(Z).reshape(Z.shape[0], -1)
    with single_blas_thread():
        return np.asarray(Z @ parts[0].T) + parts[1]


def margin_record(
    distances: NDArray[np.float64],
    before: NDArray[np.float64],
    *,
    method: str,
    n_components: float,
    classifier: str,
) -> dict[str, Any]:
    """Return a summary of signed distances as plain values.

    ``distances`` and ``before``, of shape (n,), are of the same rows in the reduced and in the original columns, whose
    ``method`` is "". The record has ``method``, ``n_components``, ``classifier``, ``minimum``, ``quantiles`` (1, 5, 25,
    50, 75, 95 and 99%), ``histogram`` (counts of bars of equal width; the first and the last one count what is beyond),
    ``edges`` of the first and last bar, and ``wasserstein``: the Wasserstein-1 distance from ``before``, in the unit of
    the distances.
    """
    low, high = robust_edges(distances)
    return {
        "method": method,
        "n_components": n_components,
        "classifier": classifier,
        "minimum": float(distances.min()),
        "quantiles": np.percentile(distances, QUANTILES).tolist(),
        "histogram": np.histogram(np.clip(distances, low, high), BARS, (low, high))[0].tolist(),
        "edges": [low, high],
        "wasserstein": float(wasserstein_distance(before, distances)),
    }


def robust_edges(distances: NDArray[np.float64]) -> tuple[float, float]:
    """Return the least and the largest distance, or what is a tenth of the spread beyond all but half a percent."""
    low, high = np.percentile(distances, [TAIL, 100 - TAIL])
    room = 0.1 * (high - low)
    return float(max(distances.min(), low - room)), float(min(distances.max(), high + room))


def records_of_rows(
    specs: Sequence[ClassifierSection],
    before: Mapping[str, FittedClassifier],
    after: Fitted,
    X: Any,
    Z: NDArray,
    items: Sequence[Reduction],
    y: NDArray,
) -> list[dict[str, Any]]:
    """Return the margins of rows held out under some classifiers.

    ``before`` are the classifiers in the original columns, by label, ``after`` those of each of ``items``, by position
    and label. The rows are ``X`` (m, d) in the (standardised) original columns, and ``Z`` (m, M) reduced.
    """
    records: list[dict[str, Any]] = []
    for label in (spec.label for spec in specs):
        original = signed_distances(before[label], X, y)
        if original is None:
            continue
        reduced = [
            (item.method, item.n_components, signed_distances(after[position, label], Z[:, item.columns], y))
            for position, item in enumerate(items)
            if not item.sizes  # what reduces nothing has the margins of the original columns
        ]
        records += [
            margin_record(distances, original, method=method, n_components=size, classifier=label)
            for method, size, distances in [("", X.shape[1], original), *reduced]
            if distances is not None
        ]
    return records


def margin_classifiers(
    classifiers: Classifiers, fitted: Fitted, n_items: int, sparse: bool = False
) -> Sequence[ClassifierSection]:
    """Return the classifiers to measure margins with: all linear ones that are fitted to rows, else `linear_rules`.

    ``fitted`` are the classifiers of ``n_items`` methods and sizes. The scatter of sparse columns is not formed, so
    that there are no rules.
    """
    linear = [
        spec
        for spec in classifiers.from_rows
        if all(linear_parts(fitted.get((position, spec.label))) is not None for position in range(n_items))
    ]
    return linear if linear or sparse else classifiers.linear_rules


def margin_notes(records: Sequence[dict[str, Any]], classifiers: Classifiers, off_centre: bool = False) -> list[str]:
    """Return why there are no margins, where there are none; and that columns before are divided but not centred."""
    if records and off_centre:
        return [
            "For the margins in the original columns, sparse rows are divided by the deviations of the columns. Their "
            "means are not subtracted, as they are from reduced rows."
        ]
    if records:
        return []
    labels = ", ".join(spec.label for spec in classifiers.specs)
    return [
        "Margins could not be measured: they are distances to the hyperplane of a linear classifier, such as svm or "
        f"logistic, and there was none from {labels}."
    ]


def rules_before(statistics: Statistics, rows: Rows, request: EvaluationRequest) -> dict[str, LinearRule]:
    """Return the classifiers that measure margins of all columns, by label; none where moments do not determine them.

    The scatter of sparse columns is not formed, so that there are no rules. What lda leaves out depends on the columns,
    whose scatter few rows do not form: scikit-learn does without, but takes no weights.
    """
    specs = [spec for spec in request.measuring if is_from_moments(spec)]
    in_basis = statistics.basis is not None
    weighted_away = (in_basis or statistics.moments.pooled) and request.class_weight is not None
    if not specs or rows.dataset.sparse or statistics.approximation is not None or weighted_away:
        return {}
    if in_basis and rows.census.totals is None and any(spec.name == "lda" for spec in specs):
        return {}
    return rules_of_columns(statistics.unweighted, specs)


def classifiers_before(
    specs: Sequence[ClassifierSection], rows: Batch, classifiers: Classifiers
) -> dict[str, FittedClassifier]:
    """Return classifiers in the (standardised) original columns, by label, that are fitted to rows."""
    few = len(rows) < rows.X.shape[1] and rows.weight is None
    if specs and all(is_from_moments(spec) and not (few and spec.name == "lda") for spec in specs):
        return dict(rules_of_columns(_columns_of(rows), specs))
    named = (
        ClassifierSection(name=LDA, options=spec.options, label=spec.label) if spec.name == "lda" else spec
        for spec in specs
    )
    return {spec.label: classifiers.fit_rows(spec, rows) for spec in named}


def _columns_of(rows: Batch) -> Statistics:
    """Return statistics of rows in the original columns with one scatter within all classes, in double precision."""
    batch, classes = replace(rows, table=rows_in_memory(rows.X, uri="rows that train")), np.unique(rows.label)
    n_rows, n_features = rows.X.shape
    if n_rows < n_features:
        return wide_statistics(batch, classes)
    adder = ChunkAdder(len(classes), n_features, rows.X.dtype, "double", np.ones((1, len(classes))))
    adder.add(batch, batch.codes(classes))
    return tall_statistics(replace(adder.moments(), classes=classes), None, precision="double")


def rules_of_columns(statistics: Statistics, specs: Sequence[ClassifierSection]) -> dict[str, LinearRule]:
    """Return linear classifiers from moments in the (standardised) original columns, by label; one scatter serves all.

    Raises InputError for rows of each class that are all equal.
    """
    mean = statistics.mean if statistics.scale is None else np.zeros(statistics.n_features)
    subtracted = None if statistics.scale is None else statistics.mean / statistics.scale
    moments, basis = statistics.moments, statistics.basis
    reduced = ReducedMoments.of_columns(moments, subtracted if basis is None else None, precision=statistics.precision)
    rules = {spec.label: cast(LinearRule, fit_from_moments(spec, reduced)) for spec in specs}
    if basis is None:
        return rules
    # Coordinates of few rows in an orthonormal basis of their span: what is orthogonal to it no rule looks at.
    return {
        label: replace(rule, centre=mean + basis @ rule.centre, coef=rule.coef @ basis.T)
        for label, rule in rules.items()
    }
