"""Contrasts of scatters, erasure of a concept, medians by weight: line by line, from the rows themselves."""

from fractions import Fraction

import numpy as np
from naive import eigenpairs, named_covariance


def contrast(A, B):
    """Solutions of A v = l B v with v^T B v = 1, as columns, the largest l first; B is not singular."""
    values, vectors = np.linalg.eig(np.linalg.inv(B) @ A)
    order = np.argsort(-values.real)
    vectors = vectors[:, order].real
    return values[order].real, vectors / [np.sqrt(v @ B @ v) for v in vectors.T]


def common_spatial_patterns(X, y, left, right):
    """Filters as columns and their shares of the left class, in two steps (Ramoser et al. 2000, section II).

    Whiten the sum of both covariances, then take eigenvectors of what is left of one of them.
    """
    one, other = (named_covariance(X, y, {"class": {label: 1}}) for label in (left, right))
    values, vectors = eigenpairs(one + other)
    P = np.diag(values**-0.5) @ vectors.T
    shares, turn = eigenpairs(P @ one @ P.T)
    return shares, P.T @ turn


def erased(X, y, w=None):
    """Return rows after LEACE: x - W^+ U U^T W (x - m), W = S^(-1/2), U the left singular vectors of W S_xz.

    Belrose et al. 2023, theorem 4.3; a row of weight w counts w times.
    """
    X, w = np.asarray(X, float), np.ones(len(X)) if w is None else np.asarray(w, float)
    Z = (y[:, None] == np.unique(y)).astype(float)
    mean, share = w @ X / w.sum(), w @ Z / w.sum()
    S = (X - mean).T @ ((X - mean) * w[:, None]) / w.sum()
    S_xz = (X - mean).T @ ((Z - share) * w[:, None]) / w.sum()
    values, vectors = np.linalg.eigh(S)
    kept = values > 1e-12 * values[-1]
    W = vectors[:, kept] / np.sqrt(values[kept]) @ vectors[:, kept].T
    inverse = vectors[:, kept] * np.sqrt(values[kept]) @ vectors[:, kept].T
    U, singular, _ = np.linalg.svd(W @ S_xz, full_matrices=False)
    U = U[:, singular > 1e-9 * singular[0]]
    return X - (X - mean) @ W.T @ U @ U.T @ inverse.T


def concept_covariance(X, y, w=None):
    """Return the covariance of columns with indicators of the classes, shape (d, C)."""
    w = np.ones(len(X)) if w is None else np.asarray(w, float)
    Z = (y[:, None] == np.unique(y)).astype(float)
    return (X - w @ X / w.sum()).T @ ((Z - w @ Z / w.sum()) * w[:, None]) / w.sum()


def fold_of_rows(y, n_folds=5):
    """Deal the rows of every class in turn."""
    return np.asarray([np.sum(y[:i] == y[i]) % n_folds for i in range(len(y))])


def best_shrinkage(X, y, folds, candidates, scatter=("within", None), w=None, standardize=False, reweight=None):
    """Return the g for which rows of each fold are most likely under Gaussians of the other folds, row by row.

    Gaps are filled by the means of the rows that train, whose standard deviations also ``standardize`` both. Rows that
    lie in fewer dimensions than there are columns, though they are more, have densities there.
    """
    kind, label = scatter
    w = np.ones(len(X)) if w is None else np.asarray(w, float)
    w = w if reweight is None else w * [reweight[c] for c in y]
    varying = X[:, np.nanstd(X, axis=0) > 0]
    d, n = X.shape[1], varying.shape[0]
    basis = np.eye(varying.shape[1])
    if n > d and not np.isnan(X).any():
        U, s, _ = np.linalg.svd((varying - varying.mean(axis=0)).T, full_matrices=False)
        basis = U[:, s > 1e-9 * s[0]]
    losses = np.zeros(len(candidates))
    for fold in np.unique(folds):
        train = folds != fold
        fills = np.asarray([np.average(c[train & ~np.isnan(c)], weights=w[train & ~np.isnan(c)]) for c in varying.T])
        rows = np.where(np.isnan(varying), fills, varying)
        mean = np.average(rows[train], axis=0, weights=w[train])
        scale = np.sqrt(np.average((rows[train] - mean) ** 2, axis=0, weights=w[train])) if standardize else 1
        rows = (rows / scale) @ basis
        centres = np.zeros_like(rows)
        for c in np.unique(y):
            of_class = y == c if kind != "total" else np.ones(len(y), bool)
            centres[y == c] = np.average(rows[train & of_class], axis=0, weights=w[train & of_class])
        among = y == label if kind == "class" else np.ones(len(y), bool)
        own, tested = train & among, ~train & among
        S = sum(w[i] * np.outer(rows[i] - centres[i], rows[i] - centres[i]) for i in np.flatnonzero(own)) / w[own].sum()
        for at, g in enumerate(candidates):
            W = (1 - g) * S + g * np.trace(S) / d * np.eye(len(S))
            inverse, logdet = np.linalg.inv(W), np.linalg.slogdet(W)[1]
            losses[at] += sum(
                w[i] * (logdet + (rows[i] - centres[i]) @ inverse @ (rows[i] - centres[i]))
                for i in np.flatnonzero(tested)
            )
    return candidates[np.argmin(losses)]


def weighted_median(rows, weights):
    """Where the cumulative weight passes half of the sum, by coordinate; the mean of two values where it meets it."""
    exact, middle = [Fraction(float(w)) for w in weights], []
    for values in zip(*rows, strict=True):
        below, previous = Fraction(0), None
        for value, weight in sorted((float(v), w) for v, w in zip(values, exact, strict=True) if w):
            if previous is not None:
                middle.append((previous + value) / 2)
                break
            below += weight
            if 2 * below > sum(exact):
                middle.append(value)
                break
            previous = value if 2 * below == sum(exact) else None
    return np.asarray(middle)
