"""A slow, obvious twin of BM2PCA: every factor of every row is updated by itself, with an inverse of its own.

Source: Du et al. 2015, "Bayesian Maximum Margin Principal Component Analysis", AAAI-15, for the model. The updates are
derived from it. The paper prints E[1/lambda] (E[lambda] + C) in the mean of z, and a chi without variances; with these
the bound falls.
"""

import numpy as np
from scipy.special import digamma, gammaln

PAPER = {"r": (1e-3, 1e-3), "tau": (1e-2, 1e-5), "nu": (1e-1, 1e-5), "t": 1e-5}
"""Shape and rate of the priors of precisions, and the precision of the location."""
START_VARIANCE = 0.01


def labelled_terms(y, positive):
    """Return the terms (a, b) of each row: one for a label, none for None."""
    return [[] if label is None else [(1.0, 1.0 if label == positive else -1.0)] for label in y]


def target_terms(y, epsilon):
    """Return the two terms of each row for max(0, |y - f| - epsilon); none for NaN."""
    return [[] if np.isnan(v) else [(v - epsilon, 1.0), (-v - epsilon, -1.0)] for v in y]


class BayesianMargin:
    """Rows X (n, d) with terms, k latent coordinates, loadings W (d, k) and noise precision to start from.

    The location starts at the mean of the rows, or what is given.
    """

    def __init__(self, X, terms, C, W, noise, location=None, prior=PAPER):
        self.prior = prior
        self.X, self.terms, self.C = np.asarray(X, float), terms, C
        (self.n, self.d), self.k = self.X.shape, W.shape[1]
        self.t = self.X.mean(axis=0) if location is None else np.asarray(location, float)
        self.t_variance = 0.0
        self.M, self.S_W = W.copy(), np.zeros((self.k, self.k))
        self.tau, self.nu = noise, 1.0
        self.update_relevance()
        self.eta, self.eta_covariance = np.zeros(self.k + 1), START_VARIANCE * np.eye(self.k + 1)
        self.inverse = [[1 / C for _ in row] for row in terms]  # E[1/lambda]
        self.z, self.z_covariance = np.zeros((self.n, self.k)), [np.eye(self.k)] * self.n

    def loading_squares(self):
        return self.M.T @ self.M + self.d * self.S_W

    def eta_squares(self):
        return np.outer(self.eta, self.eta) + self.eta_covariance

    def latent(self, i):
        """Return E[z~] and E[z~ z~^T] of row i, z~ = [z; 1]."""
        z = np.append(self.z[i], 1.0)
        squares = np.outer(z, z)
        squares[: self.k, : self.k] += self.z_covariance[i]
        return z, squares

    def hinge(self, i, a, b):
        """Return E[u] and E[u^2], u = C (a - b f)."""
        z, squares = self.latent(i)
        f, f_squared = self.eta @ z, np.sum(self.eta_squares() * squares)
        return self.C * (a - b * f), self.C**2 * (a**2 - 2 * a * b * f + b**2 * f_squared)

    def update_z(self):
        k, squares = self.k, self.eta_squares()
        for i in range(self.n):
            precision = np.eye(k) + self.tau * self.loading_squares()
            pull = self.tau * self.M.T @ (self.X[i] - self.t)
            for (a, b), inverse in zip(self.terms[i], self.inverse[i], strict=True):
                precision = precision + self.C**2 * inverse * squares[:k, :k]
                pull = pull + self.C * b * (1 + self.C * inverse * a) * self.eta[:k]
                pull = pull - self.C**2 * inverse * squares[k, :k]
            self.z_covariance[i] = np.linalg.inv(precision)
            self.z[i] = self.z_covariance[i] @ pull

    def update_lambda(self):
        for i in range(self.n):
            self.inverse[i] = [1 / np.sqrt(self.hinge(i, a, b)[1]) for a, b in self.terms[i]]

    def update_weights(self):
        precision, pull = self.nu * np.eye(self.k + 1), np.zeros(self.k + 1)
        for i in range(self.n):
            z, squares = self.latent(i)
            for (a, b), inverse in zip(self.terms[i], self.inverse[i], strict=True):
                precision = precision + self.C**2 * inverse * squares
                pull = pull + self.C * b * (1 + self.C * inverse * a) * z
        self.eta_covariance = np.linalg.inv(precision)
        self.eta = self.eta_covariance @ pull

    def update_weight_precision(self):
        a, b = self.prior["nu"]
        self.nu = (a + (self.k + 1) / 2) / (b + np.trace(self.eta_squares()) / 2)

    def update_loadings(self):
        squares = sum(self.latent(i)[1][: self.k, : self.k] for i in range(self.n))
        self.S_W = np.linalg.inv(np.diag(self.r) + self.tau * squares)
        self.M = self.tau * sum(np.outer(x - self.t, z) for x, z in zip(self.X, self.z, strict=True)) @ self.S_W

    def update_location(self):
        self.t_variance = 1 / (self.prior["t"] + self.n * self.tau)
        self.t = self.t_variance * self.tau * sum(x - self.M @ z for x, z in zip(self.X, self.z, strict=True))

    def update_relevance(self):
        a, b = self.prior["r"]
        self.r = (a + self.d / 2) / (b + np.diag(self.loading_squares()) / 2)

    def residual_squares(self):
        total = 0.0
        for i, x in enumerate(self.X):
            squares = self.latent(i)[1][: self.k, : self.k]
            mean = x - self.M @ self.z[i] - self.t
            spread = np.sum(self.loading_squares() * squares) - self.z[i] @ self.M.T @ self.M @ self.z[i]
            total += mean @ mean + spread + self.d * self.t_variance
        return total

    def update_noise(self):
        a, b = self.prior["tau"]
        self.tau = (a + self.n * self.d / 2) / (b + self.residual_squares() / 2)

    ORDER = ("z", "lambda", "weights", "weight_precision", "loadings", "location", "relevance", "noise")

    def sweep(self, after_update=lambda name: None):
        for name in self.ORDER:
            getattr(self, f"update_{name}")()
            after_update(name)

    def bound(self):
        """Return the evidence lower bound."""
        k, d, n = self.k, self.d, self.n
        r = [_with_mean(self.prior["r"][0] + d / 2, mean) for mean in self.r]
        tau = _with_mean(self.prior["tau"][0] + n * d / 2, self.tau)
        nu = _with_mean(self.prior["nu"][0] + (k + 1) / 2, self.nu)
        bound = _gamma_gain(self.prior["tau"], tau) + _gamma_gain(self.prior["nu"], nu)
        bound += sum(_gamma_gain(self.prior["r"], each) for each in r)
        delta = self.prior["t"]
        bound += d / 2 * np.log(delta) - delta / 2 * (self.t @ self.t + d * self.t_variance)
        bound += d / 2 * np.log(self.t_variance) + d / 2
        bound += sum(d / 2 * _mean_log(each) for each in r) - self.r @ np.diag(self.loading_squares()) / 2
        bound += d / 2 * np.linalg.slogdet(self.S_W)[1] + d * k / 2
        bound += (k + 1) / 2 * _mean_log(nu) - self.nu / 2 * np.trace(self.eta_squares())
        bound += np.linalg.slogdet(self.eta_covariance)[1] / 2 + (k + 1) / 2
        for i in range(n):
            bound += -np.trace(self.latent(i)[1][:k, :k]) / 2 + np.linalg.slogdet(self.z_covariance[i])[1] / 2 + k / 2
            for (a, b), inverse in zip(self.terms[i], self.inverse[i], strict=True):
                u, u_squared = self.hinge(i, a, b)
                chi = inverse**-2
                bound += -u - np.sqrt(chi) + (chi - u_squared) / (2 * np.sqrt(chi))
        return bound + n * d / 2 * (_mean_log(tau) - np.log(2 * np.pi)) - self.tau * self.residual_squares() / 2

    def latent_of(self, x):
        """Return the mean of z of a row without terms."""
        precision = np.eye(self.k) + self.tau * self.loading_squares()
        return np.linalg.solve(precision, self.tau * self.M.T @ (x - self.t))

    def output(self, x):
        return self.eta @ np.append(self.latent_of(x), 1.0)


def _with_mean(shape, mean):
    return shape, shape / mean


def _mean_log(gamma):
    shape, rate = gamma
    return digamma(shape) - np.log(rate)


def _gamma_gain(prior, factor):
    """Return E[log p] - E[log q] of gamma distributions (shape, rate)."""
    (a, b), (shape, rate) = prior, factor
    log, mean = _mean_log(factor), shape / rate
    expected = a * np.log(b) - gammaln(a) + (a - 1) * log - b * mean
    return expected - (shape * np.log(rate) - gammaln(shape) + (shape - 1) * log - rate * mean)


def principal_start(X, k):
    """Return loadings (d, k) and noise precision of probabilistic PCA (Tipping & Bishop 1999), floors included."""
    n, d = X.shape
    rows = X - X.mean(axis=0)
    values, vectors = np.linalg.eigh(rows.T @ rows / n)
    values, vectors = values[::-1][:k], vectors[:, ::-1][:, :k]
    total = np.sum(rows**2) / n
    rank = min(d, n - 1)
    noise = max((total - values.sum()) / max(rank - k, 1), 1e-6 * total / d)
    return vectors * np.sqrt(np.maximum(values - noise, 0.01 * noise)), 1 / noise
