"""BM2PCA by updates of every row's own covariance, in the derived form and in those printed by Du et al. 2015.

For small tables: all covariances of the rows are in memory. ``bm2pca_settings.py`` compares the forms with it.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

A_R, B_R, A_TAU, B_TAU, A_NU, B_NU, DELTA = 1e-3, 1e-3, 1e-2, 1e-5, 1e-1, 1e-5, 1e-5
START_VARIANCE, GROUND = 0.01, 0.01
LEAST_CHI = 1e-12
"""Without variances chi may be zero."""


class PrintedMarginPCA:
    """One model for each class against the rest, by so many sweeps from the loadings of probabilistic PCA.

    ``form`` is ``derived``; ``printed mean``, with E[1/lambda] (E[lambda] + C) for 1 + C E[1/lambda] in the mean of z;
    or ``printed``, which has chi without variances as well. E[lambda] is sqrt(chi) + 1.
    """

    def __init__(self, k: int, C: float, sweeps: int, form: str) -> None:
        self.k, self.C, self.sweeps, self.form = k, C, sweeps, form

    def fit(self, X: NDArray, y: NDArray) -> Self:
        self.d = X.shape[1]
        _, _, basis = np.linalg.svd(X, full_matrices=False)  # every factor stays in the span of the rows
        self.basis, rows = basis.T, X @ basis.T
        self.classes = np.unique(y)
        M, tau = self._start(rows)
        self.models = [self._fit_one(rows, np.where(y == label, 1.0, -1.0), M, tau) for label in self.classes]
        return self

    def predict(self, X: NDArray) -> NDArray:
        rows, scores = X @ self.basis, []
        for M, squares, t, tau, eta in self.models:
            precision = np.eye(self.k) + tau * squares
            scores.append(np.linalg.solve(precision, tau * M.T @ (rows - t).T).T @ eta[:-1] + eta[-1])
        return self.classes[np.argmax(scores, axis=0)]

    def _start(self, rows: NDArray) -> tuple[NDArray, float]:
        centred, k = rows - rows.mean(axis=0), self.k
        _, lengths, vectors = np.linalg.svd(centred, full_matrices=False)
        values = lengths**2 / len(rows)
        noise = values[k:].sum() / max(min(self.d, len(rows) - 1) - k, 1)
        return vectors[:k].T * np.sqrt(np.maximum(values[:k] - noise, GROUND * noise)), 1 / noise

    def _fit_one(self, rows: NDArray, y: NDArray, M: NDArray, tau: float) -> tuple[Any, ...]:
        (n, _), d, k, C = rows.shape, self.d, self.k, self.C
        t, t_variance, S_W, nu = rows.mean(axis=0), 0.0, np.zeros((k, k)), 1.0
        r = (A_R + d / 2) / (B_R + np.sum(M**2, axis=0) / 2)
        eta, S_eta = np.zeros(k + 1), START_VARIANCE * np.eye(k + 1)
        chi = np.full(n, C**2)
        latent = np.ones((n, k + 1))
        for _ in range(self.sweeps):
            inverse, squares, weights = chi**-0.5, M.T @ M + d * S_W, np.outer(eta, eta) + S_eta
            factor = 1 + C * inverse if self.form == "derived" else inverse * (np.sqrt(chi) + 1 + C)
            precision = np.eye(k) + tau * squares + (C**2 * inverse)[:, None, None] * weights[:k, :k]
            pull = tau * (rows - t) @ M + (C * y * factor)[:, None] * eta[:k]
            pull -= (C**2 * inverse)[:, None] * weights[k, :k]
            covariance = np.linalg.inv(precision)
            latent[:, :k] = np.einsum("nij,nj->ni", covariance, pull)
            second = latent[:, :, None] * latent[:, None, :]
            second[:, :k, :k] += covariance
            if self.form == "printed":
                chi = np.maximum(C**2 * (1 - y * (latent @ eta)) ** 2, LEAST_CHI)
            else:
                chi = C**2 * (1 - 2 * y * (latent @ eta) + np.einsum("nij,ij->n", second, weights))
            inverse = chi**-0.5
            S_eta = np.linalg.inv(C**2 * np.einsum("n,nij->ij", inverse, second) + nu * np.eye(k + 1))
            eta = S_eta @ (latent.T @ (C * y * (1 + C * inverse)))
            nu = (A_NU + (k + 1) / 2) / (B_NU + (eta @ eta + np.trace(S_eta)) / 2)
            z_squares = second[:, :k, :k].sum(axis=0)
            S_W = np.linalg.inv(np.diag(r) + tau * z_squares)
            M = tau * (rows - t).T @ latent[:, :k] @ S_W
            t_variance = 1 / (DELTA + n * tau)
            t = t_variance * tau * (rows - latent[:, :k] @ M.T).sum(axis=0)
            squares = M.T @ M + d * S_W
            r = (A_R + d / 2) / (B_R + np.diag(squares) / 2)
            residuals = rows - latent[:, :k] @ M.T - t
            spread = np.sum(squares * z_squares) - np.sum((latent[:, :k] @ M.T) ** 2)
            tau = (A_TAU + n * d / 2) / (B_TAU + (np.sum(residuals**2) + spread + n * d * t_variance) / 2)
        return M, M.T @ M + d * S_W, t, tau, eta
