"""A slow, obvious twin of projection penalties: equation 4 of Zhang & Schneider 2010 as a cone program.

Variables are w, b and v as they stand in the paper, and a bound t_i on the loss of every row. A general convex solver
minimises sum_i t_i + alpha [J(w - P^T v) + epsilon |v|^2].
"""

from fractions import Fraction

import clarabel
import numpy as np
from scipy.sparse import csc_matrix


class Program:
    """min x^T H x / 2 + c^T x with A x + s = h, s in cones; rows are added cone by cone."""

    def __init__(self, n):
        self.H, self.c = np.zeros((n, n)), np.zeros(n)
        self.A, self.h, self.cones = [], [], []

    def at_least_zero(self, rows, constants):
        """Demand rows x + constants >= 0."""
        self._add(rows, constants, clarabel.NonnegativeConeT(len(rows)))

    def zero(self, rows):
        """Demand rows x = 0."""
        self._add(rows, np.zeros(len(rows)), clarabel.ZeroConeT(len(rows)))

    def exponential(self, rows, constants):
        """Demand y exp(x / y) <= z of the three values (x, y, z) = rows x + constants."""
        self._add(rows, constants, clarabel.ExponentialConeT())

    def _add(self, rows, constants, cone):
        self.A.append(-np.asarray(rows))
        self.h.append(np.asarray(constants, float))
        self.cones.append(cone)

    def solve(self):
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
        A = np.concatenate(self.A) if self.A else np.zeros((0, len(self.c)))
        h = np.concatenate(self.h) if self.h else np.zeros(0)
        solver = clarabel.DefaultSolver(csc_matrix(np.triu(self.H)), self.c, csc_matrix(A), h, self.cones, settings)
        solution = solver.solve()
        assert "Solved" in str(solution.status), solution.status
        return np.asarray(solution.x)


def penalized_model(X, y, P, alpha, epsilon, loss, penalty="l2", fit_intercept=True, appended=0):
    """Return w, b and the objective for labels -1 and +1 (or any numbers, for squared losses).

    The last columns may be ``appended`` features, which have no part outside (equation 17).
    """
    (n, d), K = X.shape, len(P)
    size = d + 1 + K + n + d  # w, b, v, bounds on losses, bounds on absolute values
    program = Program(size)
    eye = np.eye(size)
    w, b, v, t, u = eye[:d], eye[d], eye[d + 1 : d + 1 + K], eye[d + 1 + K :][:n], eye[-d:]
    outside = w - P.T @ v  # w~, as rows that x is multiplied by
    f = X @ w + (np.outer(np.ones(n), b) if fit_intercept else 0)
    program.H += 2 * alpha * epsilon * v.T @ v
    if penalty == "l2":
        program.H += 2 * alpha * outside.T @ outside
        program.H += 1e-9 * u.T @ u  # these are not used
    else:
        program.c += alpha * u.sum(axis=0)
        program.at_least_zero(np.concatenate([u - outside, u + outside]), np.zeros(2 * d))
    if appended:
        program.zero(outside[-appended:])
    if not fit_intercept:
        program.H += np.outer(b, b)
    add_losses(program, loss, y, f, t)
    x = program.solve()[:size]
    coef, intercept = w @ x, float(b @ x) if fit_intercept else 0.0
    return coef, intercept, objective(X, y, P, alpha, epsilon, loss, penalty, coef, intercept, v @ x)


def least_squares_exactly(X, y, P, alpha, epsilon):
    """Return the minimum of |y - X w - b|^2 + alpha (|w - P^T v|^2 + epsilon |v|^2), by elimination with fractions.

    The unknowns are w - P^T v, v and b, for numbers as the doubles stand.
    """
    rational = np.vectorize(Fraction, otypes=[object])
    X, y, P, d, K = rational(X), rational(y), rational(P), X.shape[1], len(P)
    rows = np.hstack([X, X @ P.T, np.full((len(X), 1), Fraction(1))])
    weights = [Fraction(alpha)] * d + [Fraction(alpha) * Fraction(epsilon)] * K + [Fraction(0)]
    A = np.hstack([rows.T @ rows + np.diag(weights), (rows.T @ y)[:, None]])
    least = y @ y
    for i in range(len(A)):
        least -= A[i, -1] ** 2 / A[i, i]
        A[i + 1 :] -= np.outer(A[i + 1 :, i] / A[i, i], A[i])
    return float(least)


def add_losses(program, loss, y, f, t):
    """Demand t_i >= L(y_i, f_i), and add what is to be minimised of t; f and t are rows that x is multiplied by."""
    n, margins = len(y), y[:, None] * f
    if loss == "squared":  # |y - f|^2 itself
        program.H += 2 * f.T @ f + 1e-9 * t.T @ t
        program.c += -2 * y @ f
        return
    if loss in ("hinge", "squared hinge"):
        program.at_least_zero(t, np.zeros(n))
        program.at_least_zero(t + margins, -np.ones(n))
        if loss == "hinge":
            program.c += t.sum(axis=0)
        else:
            program.H += 2 * t.T @ t
        return
    program.c += t.sum(axis=0)  # exp(-m - t) + exp(-t) <= 1
    wide = program.H.shape[0]
    more = np.zeros((wide + 2 * n, wide + 2 * n))
    more[:wide, :wide] = program.H
    program.H, program.c = more, np.append(program.c, np.zeros(2 * n))
    program.A = [np.pad(rows, ((0, 0), (0, 2 * n))) for rows in program.A]
    margins, t = (np.pad(rows, ((0, 0), (0, 2 * n))) for rows in (margins, t))
    for i in range(n):
        first, second = (np.eye(wide + 2 * n)[wide + 2 * i + k] for k in range(2))
        zero = np.zeros(wide + 2 * n)
        program.exponential([-margins[i] - t[i], zero, first], [0, 1, 0])
        program.exponential([-t[i], zero, second], [0, 1, 0])
        program.at_least_zero([-first - second], [1])


def losses(loss, y, f):
    """Return the loss of every row."""
    m = y * f
    return {
        "squared": lambda: (y - f) ** 2,
        "logistic": lambda: np.logaddexp(0, -m),
        "hinge": lambda: np.maximum(1 - m, 0),
        "squared hinge": lambda: np.maximum(1 - m, 0) ** 2,
    }[loss]()


def objective(X, y, P, alpha, epsilon, loss, penalty, w, b, v):
    """Return the value of equation 4."""
    outside = w - P.T @ v
    J = outside @ outside if penalty == "l2" else np.abs(outside).sum()
    return losses(loss, y, X @ w + b).sum() + alpha * (J + epsilon * v @ v)


def errors_in_folds(model, X, y, sizes, alphas):
    """Return the errors of ``model(K, alpha)``, fitted without one fold after the other, in the rows held out.

    Folds are of classes dealt in turn, or, for continuous targets, of rows in turn. Errors are wrong rows, or squares.
    """
    is_continuous = y.ndim > 1
    codes = np.zeros(len(y), int) if is_continuous else np.unique(y, return_inverse=True)[1]
    n_folds = min(5, np.bincount(codes).min())
    folds, seen = np.empty(len(y), int), {}
    for i, code in enumerate(codes):
        folds[i] = seen.get(code, 0) % n_folds
        seen[code] = seen.get(code, 0) + 1
    errors = np.zeros((len(sizes), len(alphas)))
    for i, K in enumerate(sizes):
        for j, alpha in enumerate(alphas):
            for fold in range(n_folds):
                train = folds != fold
                predicted = model(int(K), alpha).fit(X[train], y[train]).predict(X[~train])
                wrong = (predicted - y[~train]) ** 2 if is_continuous else predicted != y[~train]
                errors[i, j] += wrong.sum()
    return errors
