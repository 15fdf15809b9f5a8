"""Slow, obvious twins of the kernel methods: the features of a kernel are written out, and problems solved as printed.

Sources: Zhang & Schneider 2010, "Projection Penalties: Dimension Reduction without Loss"; Baudat & Anouar 2000,
"Generalized discriminant analysis using a kernel approach"; Cai, He, Han & Zhang 2006, "Orthogonal Laplacianfaces for
face recognition".
"""

import clarabel
import numpy as np
from scipy import sparse


def degree_two_features(X, gamma, coef0):
    """Features whose products are (gamma x^T y + coef0)^2: all products of two columns, the columns, and a constant."""
    rows = []
    for x in np.asarray(X, float):
        products = [gamma * a * b for a in x for b in x]
        rows.append([*products, *(np.sqrt(2 * gamma * coef0) * a for a in x), coef0])
    return np.asarray(rows)


def projection_penalty(F, Z, y, alpha, epsilon):
    """Minimise sum_i xi_i + alpha (||w||^2 + epsilon ||v||^2), xi_i >= 0 and >= 1 - y_i (w^T f_i + v^T z_i + b).

    Zhang & Schneider 2010, section 2.3, with w - P^T v for w, by an interior-point method for the primal problem.
    Returns w, v, b and the minimum.
    """
    n, p, K = len(y), F.shape[1], Z.shape[1]
    penalties = np.concatenate([np.full(p, 2 * alpha), np.full(K, 2 * alpha * epsilon), np.zeros(1 + n)])
    linear = np.concatenate([np.zeros(p + K + 1), np.ones(n)])
    rows = y[:, None] * np.column_stack([F, Z, np.ones(n)])
    constraints = np.block([[-rows, -np.eye(n)], [np.zeros((n, p + K + 1)), -np.eye(n)]])
    bounds = np.concatenate([-np.ones(n), np.zeros(n)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    settings.max_iter = 500
    solver = clarabel.DefaultSolver(
        sparse.diags_array(penalties).tocsc(), linear, sparse.csc_array(constraints), bounds,
        [clarabel.NonnegativeConeT(2 * n)], settings,
    )  # fmt: skip
    x = np.asarray(solver.solve().x)
    w, v, b = x[:p], x[p : p + K], x[p + K]
    hinges = [max(0.0, 1 - own * (w @ f + v @ z + b)) for f, z, own in zip(F, Z, y, strict=True)]
    return w, v, b, sum(hinges) + alpha * (w @ w + epsilon * v @ v)


def scatters(F, y):
    """Scatter between the classes and within them (Baudat & Anouar 2000, section 3, of centred features)."""
    mean = sum(F) / len(F)
    B, W = np.zeros((F.shape[1], F.shape[1])), np.zeros((F.shape[1], F.shape[1]))
    for label in sorted(set(y)):
        members = [f for f, own in zip(F, y, strict=True) if own == label]
        centre = sum(members) / len(members)
        B += len(members) * np.outer(centre - mean, centre - mean)
        for f in members:
            W += np.outer(f - centre, f - centre)
    return B, W


def span(F):
    """Orthonormal directions (p, r) in which rows differ, by decreasing variance."""
    _, lengths, directions = np.linalg.svd(F - sum(F) / len(F), full_matrices=False)
    return directions[lengths > 1e-6 * lengths[0]].T


def generalized_discriminants(F, y, shrinkage, n_components):
    """Criteria and unit directions (p, K) that maximise v^T B v over v^T (B + (1 - g) W + g tr(W) / r I) v."""
    B, W = scatters(F, y)
    basis = span(F)
    B, W = basis.T @ B @ basis, basis.T @ W @ basis
    total = B + (1 - shrinkage) * W + shrinkage * np.trace(W) / len(W) * np.eye(len(W))
    values, vectors = np.linalg.eig(np.linalg.inv(total) @ B)
    order = np.argsort(-values.real)[:n_components]
    vectors = basis @ vectors[:, order].real
    return values[order].real, vectors / np.linalg.norm(vectors, axis=0)


def class_graph(y):
    """Weights of rows: one of the same class, else zero (Cai et al. 2006, section IV, step 2)."""
    return np.asarray([[float(own == other) for other in y] for own in y])


def orthogonal_laplacian(F, S, n_components):
    """Orthonormal directions (p, K), one after the other (Cai et al. 2006, section IV, steps 1 to 4).

    a_1 is the eigenvector of (X D X^T)^-1 X L X^T of the smallest eigenvalue; a_k that of M^(k) = (I - (X D X^T)^-1 A
    B^-1 A^T) (X D X^T)^-1 X L X^T, with A = [a_1 ... a_(k-1)] and B = A^T (X D X^T)^-1 A.
    """
    basis = span(F)
    X = ((F - sum(F) / len(F)) @ basis).T
    D = np.diag(S.sum(axis=1))
    L = D - S
    inverse = np.linalg.inv(X @ D @ X.T)
    found = []
    for _ in range(n_components):
        M = inverse @ X @ L @ X.T
        if found:
            A = np.stack(found, axis=1)
            M = (np.eye(len(M)) - inverse @ A @ np.linalg.inv(A.T @ inverse @ A) @ A.T) @ M
        values, vectors = np.linalg.eig(M)
        values, vectors = values.real, vectors.real
        # M has an eigenvector of value 0 for every direction found, outside their complement
        outside = [np.linalg.norm([a @ v for a in found]) > 1e-6 if found else False for v in vectors.T]
        a = vectors[:, np.argmin(np.where(outside, np.inf, values))]
        found.append(a / np.linalg.norm(a))
    return basis @ np.stack(found, axis=1)
