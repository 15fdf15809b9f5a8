"""Questions to moments of cells, asked of the rows: select, merge, weight, residualise, drop; then take moments."""

import numpy as np


def answered(X, y, groups, weights, *, where=None, merge=None, balance=None, remove=(), drop=()):
    """Return rows (n, d), labels and weights of the rows that a question is about."""
    X, y = np.asarray(X, float), np.asarray(y, object)
    weights = np.ones(len(y)) if weights is None else np.asarray(weights, float)
    axes = {"label": y, **{name: np.asarray(levels, object) for name, levels in groups.items()}}
    kept = weights > 0
    for name, levels in (where or {}).items():
        kept &= np.array([level in levels for level in axes[name]])
    X, y, weights = X[kept], y[kept].copy(), weights[kept]
    axes = {name: levels[kept] for name, levels in axes.items()}
    for new, members in (merge or {}).items():
        y[np.array([label in members for label in axes["label"]])] = new
    if balance is not None:
        factors = np.ones(len(y))
        for label in set(y):
            present = set(axes[balance][y == label])
            for level in present:
                rows = (y == label) & (axes[balance] == level)
                factors[rows] = weights[y == label].sum() / len(present) / weights[rows].sum()
        weights = weights * factors
    Z = [levels == level for name in remove for levels in [axes[name]] for level in sorted(set(levels))[1:]]
    if Z:
        Z = np.column_stack(Z).astype(float)
        apart_z, apart_x = Z.copy(), X.copy()
        for label in set(y):
            apart_z[y == label] -= np.average(Z[y == label], axis=0, weights=weights[y == label])
            apart_x[y == label] -= np.average(X[y == label], axis=0, weights=weights[y == label])
        roots = np.sqrt(weights)[:, None]
        slopes = np.linalg.lstsq(roots * apart_z, roots * apart_x, rcond=None)[0]
        X = X - (Z - np.average(Z, axis=0, weights=weights)) @ slopes
    return np.delete(X, list(drop), axis=1), y, weights


def moments(X, y, weights):
    """Return labels, counts, means and scatters of the classes, from the rows."""
    labels = sorted(set(y))
    counts = np.array([weights[y == label].sum() for label in labels])
    means = np.array([np.average(X[y == label], axis=0, weights=weights[y == label]) for label in labels])
    apart = [X[y == label] - mean for label, mean in zip(labels, means, strict=True)]
    scatters = [(weights[y == label][:, None] * own).T @ own for label, own in zip(labels, apart, strict=True)]
    return labels, counts, means, np.array(scatters)
