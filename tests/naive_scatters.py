"""Contrasts of scatters and erasure of a concept, line by line, from the rows themselves."""

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
