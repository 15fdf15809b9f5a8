"""Scores of rows against those that trained, line by line, from the rows themselves."""

import numpy as np


def scores(X, y, new, components, *, scale=None, shrinkage=1e-3):
    """Return T2, Q, the nearest class and its distance of new rows, for components (K, d) in (standardised) columns.

    Hotelling 1931 for T2; Jackson & Mudholkar 1979 for Q; Mahalanobis 1936 for distances, with Fisher's shrinkage.
    """
    scale = np.ones(X.shape[1]) if scale is None else scale
    mean = X.mean(axis=0)
    X, new = (X - mean) / scale, (new - mean) / scale
    A = components.T
    Z, projection = X @ A, A @ np.linalg.pinv(A)
    inverse = np.linalg.pinv(Z.T @ Z / (len(X) - 1), hermitian=True)
    classes = np.unique(y)
    means = [Z[y == c].mean(axis=0) for c in classes]
    within = sum((Z[y == c] - m).T @ (Z[y == c] - m) for c, m in zip(classes, means, strict=True)) / len(X)
    size = len(within)
    within = (1 - shrinkage) * within + shrinkage * np.trace(within) / size * np.eye(size)
    found = []
    for x in new:
        z = A.T @ x
        distances = [(z - m) @ np.linalg.solve(within, z - m) for m in means]
        nearest = int(np.argmin(distances))
        residual = x - projection @ x
        found.append((z @ inverse @ z, residual @ residual, classes[nearest], distances[nearest]))
    t2, q, nearest, distance = zip(*found, strict=True)
    return {"t2": np.array(t2), "q": np.array(q), "nearest_class": np.array(nearest), "distance": np.array(distance)}


def contributions(X, x, components, score):
    """Return what each column adds to T2 or Q of a row x, for orthonormal components (K, d)."""
    mean = X.mean(axis=0)
    z = components @ (x - mean)
    if score == "q":
        return (x - mean - components.T @ z) ** 2
    Z = (X - mean) @ components.T
    return (x - mean) * (components.T @ np.linalg.pinv(np.cov(Z, rowvar=False)) @ z)


def p_values(held_out, scores):
    """Return (1 + number of held-out scores at least as large) / (n + 1)."""
    return np.array([(1 + np.sum(held_out >= score)) / (len(held_out) + 1) for score in scores])


def q_limit(X, size, normal):
    """Return the limit of Q by Jackson & Mudholkar 1979, for so many principal components and a normal quantile."""
    rest = np.sort(np.linalg.eigvalsh(np.cov(X, rowvar=False)))[::-1][size:]
    first, second, third = (np.sum(rest**power) for power in (1, 2, 3))
    h = 1 - 2 * first * third / (3 * second**2)
    return first * (normal * np.sqrt(2 * second * h**2) / first + 1 + second * h * (h - 1) / first**2) ** (1 / h)


def reconstruction_left(X, new, components, *, weights=None, new_weights=None, standardize=False):
    """The share of the squares of new rows, less the mean of X, that their shadows on the components (K, d) leave."""
    weights = np.ones(len(X)) if weights is None else weights
    new_weights = np.ones(len(new)) if new_weights is None else new_weights
    mean = sum(w * x for w, x in zip(weights, X, strict=True)) / sum(weights)
    scale = np.ones(X.shape[1])
    if standardize:
        scale = np.sqrt(sum(w * (x - mean) ** 2 for w, x in zip(weights, X, strict=True)) / sum(weights))
    left = total = 0.0
    for w, x in zip(new_weights, new, strict=True):
        x = (x - mean) / scale
        coordinates = np.linalg.lstsq(components.T, x)[0]
        left += w * np.sum((x - components.T @ coordinates) ** 2)
        total += w * np.sum(x**2)
    return left / total


def left_out_columns(X, new, components, *, weights=None, new_weights=None, standardize=False):
    """The share of the squares of new rows, less the mean of X, that is left when others predict each column."""
    weights = np.ones(len(X)) if weights is None else weights
    new_weights = np.ones(len(new)) if new_weights is None else new_weights
    mean = sum(w * x for w, x in zip(weights, X, strict=True)) / sum(weights)
    scale = np.ones(X.shape[1])
    if standardize:
        scale = np.sqrt(sum(w * (x - mean) ** 2 for w, x in zip(weights, X, strict=True)) / sum(weights))
    U = np.linalg.qr(components.T)[0]
    S = sum(w * np.outer(x, x) for w, x in zip(weights, (X - mean) / scale, strict=True)) / sum(weights)
    beside = (np.trace(S) - np.trace(U.T @ S @ U)) / (len(S) - U.shape[1])
    C = U @ U.T @ S @ U @ U.T + beside * (np.eye(len(S)) - U @ U.T)
    left = total = 0.0
    for w, x in zip(new_weights, new, strict=True):
        x = (x - mean) / scale
        for j in range(len(x)):
            others = np.arange(len(x)) != j
            expected = C[j, others] @ np.linalg.solve(C[np.ix_(others, others)], x[others])
            left += w * (x[j] - expected) ** 2
        total += w * np.sum(x**2)
    return left / total
