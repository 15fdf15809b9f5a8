"""Slow, obvious twins of the methods that regress targets on rows."""

from fractions import Fraction

import numpy as np


def exact_cross_scatter(X, Y):
    """X^T H Y, and the sums of squares of the centred columns of X and Y, rounded once from exact arithmetic."""
    columns = [[[Fraction(float(value)) for value in column] for column in np.asarray(A).T] for A in (X, Y)]
    centred = [[[v - sum(column) / len(column) for v in column] for column in table] for table in columns]
    cross = [[float(sum(a * b for a, b in zip(x, y, strict=True))) for y in centred[1]] for x in centred[0]]
    return np.asarray(cross), *(np.asarray([float(sum(v * v for v in c)) for c in table]) for table in centred)


def targets(y):
    """Labels -1 and +1 of two classes, as one column; an indicator column of each of several."""
    labels = sorted(set(y))
    if len(labels) == 2:
        return np.asarray([[1.0 if own == labels[1] else -1.0] for own in y])
    return np.asarray([[1.0 if own == label else 0.0 for label in labels] for own in y])


def pls(X, Y, n_components):
    """Partial least squares, every score taken out of rows and targets before the next weight; R = W (P^T W)^-1.

    Returns R as columns, and how much of the squares of the centred targets each score explains.
    """
    W, P, explained = _pls_steps(X, Y, n_components)
    return W @ np.linalg.inv(P.T @ W), explained


def vip(X, Y, n_components):
    """Variable importance in projection: sqrt(d sum_k s_k w_jk^2 / sum_k s_k), column by column."""
    W, _, explained = _pls_steps(X, Y, n_components)
    return np.asarray([np.sqrt(len(W) * sum(explained * w**2) / sum(explained)) for w in W])


def _pls_steps(X, Y, n_components):
    """Weights and loadings, as columns, and squares explained."""
    X, Y = X - sum(X) / len(X), Y - sum(Y) / len(Y)
    weights, loadings, explained = [], [], []
    for _ in range(n_components):
        w = np.linalg.svd(X.T @ Y)[0][:, 0]
        t = X @ w
        p, q = X.T @ t / (t @ t), Y.T @ t / (t @ t)
        X, Y = X - np.outer(t, p), Y - np.outer(t, q)
        weights.append(w)
        loadings.append(p)
        explained.append(float(np.sum(np.outer(t, q) ** 2)))
    return np.stack(weights, axis=1), np.stack(loadings, axis=1), np.asarray(explained)


def opls(X, Y, n_components, orthogonal):
    """PLS of rows from which scores orthogonal to all targets are taken first; rotations of the rows as they are."""
    rows, Y = X - sum(X) / len(X), Y - sum(Y) / len(Y)
    U, s, _ = np.linalg.svd(rows.T @ Y, full_matrices=False)
    W, E, taken = U[:, s > 1e-10 * s[0]], rows.copy(), np.eye(rows.shape[1])
    for _ in range(orthogonal):
        P = E.T @ (E @ W)
        w = np.linalg.svd(P - W @ (W.T @ P))[0][:, 0]
        t = E @ w
        p = E.T @ t / (t @ t)
        E, taken = E - np.outer(t, p), taken @ (np.eye(len(w)) - np.outer(w, p))
    R, explained = pls(E, Y, n_components)
    return taken @ R, explained


def ridge(X, Y, alpha):
    """The W that minimises |Y - X W|^2 + alpha |W|^2 of centred X and Y: least squares with rows for the penalty."""
    d = X.shape[1]
    X, Y = X - sum(X) / len(X), Y - sum(Y) / len(Y)
    rows = np.concatenate([X, np.sqrt(alpha) * np.eye(d)])
    return np.linalg.lstsq(rows, np.concatenate([Y, np.zeros((d, Y.shape[1]))]), rcond=None)[0]


def lasso(X, y, penalty, start=None):
    """The b that minimises |y - X b|^2 / (2 n) + penalty |b|_1 of centred X and y, one coefficient after the other."""
    n, d = X.shape
    X, y = X - sum(X) / n, y - sum(y) / n
    b, squares = np.zeros(d) if start is None else start.copy(), [float(column @ column) / n for column in X.T]
    for _ in range(100_000):
        before = b.copy()
        for j in range(d):
            if squares[j] == 0:
                continue
            rest = float(X[:, j] @ (y - X @ b + X[:, j] * b[j])) / n
            b[j] = np.sign(rest) * max(abs(rest) - penalty, 0) / squares[j]
        if np.abs(b - before).max() <= 1e-14:
            return b
    raise AssertionError("the lasso did not converge")
