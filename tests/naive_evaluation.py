"""The slow, obvious twin of an evaluation: every split fitted anew to its rows, every classifier called plainly."""

from fractions import Fraction
from statistics import NormalDist

import naive
import naive_judging
import numpy as np
from helpers.samples import batch_of
from naive_regressions import lasso, pls, ridge, targets
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

EXACT, ITERATED = 1e-8, 1e-3
"""Gaps between the best two scores, over the largest, below which a decision is a matter of rounding, or of where an
iteration ends."""


def standardise(train, rows):
    """Rows in units of the rows that train: less their mean, over their deviations; of constant columns over one."""
    mean = sum(train) / len(train)
    deviations = np.sqrt(sum((train - mean) ** 2) / len(train))
    return (rows - mean) / np.where([len(set(column.tolist())) == 1 for column in train.T], 1, deviations)


def directions(section, X, y, size):
    """The components of a method as columns, at most ``size``; uncentred rows times these are the reduced rows."""
    method, options = section.name, section.options
    d, n_classes = X.shape[1], len(set(y.tolist()))
    if method in naive.ROWS:
        values, vectors = naive.eigenpairs(
            naive.mean_outer_product(naive.ROWS[method](X, y, getattr(options, "pairing", "one-vs-rest")))
        )
        return vectors[:, : min(size, int(np.sum(values > 1e-10 * values[0])))]
    if method == "fisher":
        return naive.fisher(X, y, options.shrinkage, min(size, n_classes - 1))[1]
    if method == "hsic":
        return naive.eigenpairs(naive.hsic_matrix(X, y, lambda a, b: a == b))[1][:, : min(size, n_classes - 1)]
    if method == "lol":
        return naive.lol(X, y, size)
    if method == "pls":
        return pls(X, targets(y), size)[0]
    if method == "ridge":
        W, centred = ridge(X, targets(y), options.alpha), X - sum(X) / len(X)
        return W @ naive.eigenpairs(W.T @ centred.T @ centred @ W)[1][:, : min(size, n_classes - 1)]
    if method == "lasso":
        return np.eye(d)[:, lasso_columns(X, y, size)]
    if method == "all-columns":
        return np.eye(d)
    if method == "fisher-score":
        scores = [naive.fisher_score(column, y.tolist()) for column in X.T]
        return np.eye(d)[:, sorted(range(d), key=lambda j: -scores[j])[:size]]
    if method in naive.DIRECTIONS:
        return naive.DIRECTIONS[method](X, y, size)
    assert method == "random-projection"
    return naive.random_directions(size, d, options.seed).T * np.sqrt(d / size)


def lasso_columns(X, y, size):
    """The columns in use by the lasso of any class against the rest, at the first penalty from above with so many."""
    rows, Y = naive.standardised(X), targets(y)
    Y = Y if Y.shape[1] == 1 else 2 * Y - 1
    penalty, found = np.abs(rows.T @ (Y - sum(Y) / len(Y))).max() / len(rows), []
    coefficients = [None] * Y.shape[1]
    while len(found) < size:
        penalty *= 0.97
        coefficients = [lasso(rows, t, penalty, b) for t, b in zip(Y.T, coefficients, strict=True)]
        found = sorted({int(j) for b in coefficients for j in np.flatnonzero(b)})
    assert len(found) == size, "two columns came in between two penalties: choose other rows"
    return found


def scores_of(spec, Z, y, rows):
    """Scores of the classes for each of ``rows``, (n, C), less those of the first; and which gaps are none."""
    if spec.name == "fisher":
        return naive_judging.fisher_linear_scores(Z, y, rows, **spec.options), EXACT
    if spec.name in ("lda", "qda", "naive-bayes"):
        return naive_judging.gaussian_scores(Z, y, rows, spec.name, **spec.options), EXACT
    settings = {"C": spec.C or 1.0, "fit_intercept": spec.bias}
    if spec.name == "svm":
        model = LinearSVC(**settings, dual=False, tol=1e-10, max_iter=100_000).fit(Z, y)
    else:
        plain = LogisticRegression(**settings, solver="liblinear", tol=1e-10, max_iter=100_000)
        model = (OneVsRestClassifier(plain) if len(set(y)) > 2 else plain).fit(Z, y)
    scores = model.decision_function(rows)
    scores = np.stack([np.zeros(len(rows)), scores], axis=1) if scores.ndim == 1 else scores
    return scores - scores[:, :1], ITERATED


def chosen_penalty(spec, rows, y, seed, parts=None):
    """The smallest C with the fewest errors over five stratified folds of all rows, or other parts."""
    grid, errors = [10.0**power for power in range(-3, 3)], []
    parts = parts or list(StratifiedKFold(5, shuffle=True, random_state=seed).split(rows, y))
    for C in grid:
        fixed = spec.model_copy(update={"C": C})
        found = [errors_of(fixed, rows[a], y[a], rows[b], y[b]) for a, b in parts]
        errors.append(sum(wrong for wrong, _ in found))
    return grid[errors.index(min(errors))]


def with_penalties(specs, rows, y, seed, asked="auto"):
    """Classifiers with a number for each C that is auto, or nested."""
    return [
        spec.model_copy(update={"C": chosen_penalty(spec, rows, y, seed)}) if asked == spec.C else spec
        for spec in specs
    ]


def errors_of(spec, Z, y, rows, true):
    """How many of ``rows`` a classifier gets wrong, and for how many that is a matter of rounding."""
    if "." in spec.name:
        return int(np.sum(KNeighborsClassifier(**spec.options).fit(Z, y).predict(rows) != true)), 0
    wrong, close = wrong_rows(spec, Z, y, rows, true)
    return int(np.sum(wrong)), int(np.sum(close))


def wrong_rows(spec, Z, y, rows, true):
    """Which of ``rows`` a classifier gets wrong, and for which that is a matter of rounding."""
    scores, least = scores_of(spec, Z, y.tolist(), rows)
    ordered = np.sort(scores, axis=1)
    close = ordered[:, -1] - ordered[:, -2] <= least * np.abs(scores).max()
    labels = np.asarray(sorted(set(y.tolist())))
    return labels[np.argmax(scores, axis=1)] != true, close


def interval(X, y, weights, splits, section, size, spec):
    """The interval of one error by algorithm 1 of Bates, Hastie & Tibshirani 2023, in percent, and decisions in doubt.

    A row of whole weight w trains as w rows, and its loss counts w times in means, but once in what these vary by.
    """

    def losses(train, test):
        nonlocal doubtful
        rows, labels = np.repeat(X[train], weights[train], axis=0), np.repeat(y[train], weights[train])
        A = directions(section, rows, labels, size)
        wrong, close = wrong_rows(spec, rows @ A, labels, X[test] @ A, y[test])
        doubtful += int(np.sum(close))
        return list(zip(wrong.tolist(), weights[test].tolist(), strict=True))

    a_list, b_list, es, of_folds, doubtful = [], [], [], [], 0
    for own in splits.codes(batch_of(y)):
        folds = sorted(set(own.tolist()))
        for k in folds:
            e_in = [e for j in folds if j != k for e in losses((own != j) & (own != k), own == j)]
            e_out = losses(own != k, own == k)
            a_list.append((mean_loss(e_in) - mean_loss(e_out)) ** 2)
            b_list.append(variance_of_mean(e_out, [w for _, w in e_out]))
            es, of_folds = es + e_in, of_folds + e_out
    K, z = len(folds), NormalDist().inv_cdf(0.95)
    mse = sum(a_list) / len(a_list) - sum(b_list) / len(b_list)
    naive = np.sqrt(variance_of_mean(of_folds, weights))
    error = min(max(np.sqrt((K - 1) / K * max(mse, 0)), naive), np.sqrt(K) * naive)
    bias = (1 + (K - 2) / K) * (mean_loss(es) - mean_loss(of_folds))
    ends = [mean_loss(es) - bias + sign * z * error for sign in (-1, 1)]
    return [100 * min(max(end, 0), 1) for end in ends], doubtful


def mean_loss(losses):
    """The mean of pairs of a loss and its weight."""
    return sum(e * w for e, w in losses) / sum(w for _, w in losses)


def variance_of_mean(losses, weights):
    """The variance of the losses over as many rows as these weights are worth, of which one is the mean's."""
    worth = sum(weights) ** 2 / sum(w**2 for w in weights)
    mean = mean_loss(losses)
    spread = mean_loss([((e - mean) ** 2, w) for e, w in losses])
    return spread * worth / (worth - 1) / worth


def ranks(scores, positive, weights):
    """The chance that a positive row is above another, ties half; and the mean precision at each positive row."""
    rows = list(zip(scores, positive, weights, strict=True))
    pairs = [(a - b, v * w) for a, p, v in rows if p for b, q, w in rows if not q]
    area = sum(weight * ((gap > 0) + (gap == 0) / 2) for gap, weight in pairs) / sum(weight for _, weight in pairs)
    precision = {
        a: sum(w for b, p, w in rows if p and b >= a) / sum(w for b, _, w in rows if b >= a) for a, _, _ in rows
    }
    of_class = sum(w for _, p, w in rows if p)
    return area, sum(w * precision[a] for a, p, w in rows if p) / of_class


def distances_of(spec, Z, y, rows, true):
    """Signed distances of ``rows`` to the hyperplane of a classifier whose scores are linear."""
    scores = scores_of(spec, Z, y.tolist(), np.vstack([np.zeros(Z.shape[1]), np.eye(Z.shape[1])]))[0]
    coef, intercept, labels = (scores[1:] - scores[0]).T, scores[0], sorted(set(y.tolist()))
    own = slice(1 if len(labels) == 2 else 0, None)  # of two classes the second's scores are all
    plane = (coef[own], intercept[own], labels)
    return [naive_judging.signed_distance(row, label, *plane) for row, label in zip(rows, true, strict=True)]


def sides(own, part, settings):
    """Which rows train and which are held out, given the part of each."""
    return (own < part if settings.evaluation.splits == "time" else own != part), own == part


def margins(spec, X, y, splits, settings):
    """By split, method ("" for the original columns) and size: signed distances of the rows held out."""
    found, parts = {}, splits.codes(batch_of(y))
    for number, (own, part) in enumerate([(own, part) for own in parts for part in splits.held_out]):
        train, test = sides(own, part, settings)
        rows = standardise(X[train], X) if settings.standardize else X
        tables = {("", X.shape[1]): rows}
        for method in settings.methods:
            for size in settings.n_components:
                tables[method.label, size] = rows @ directions(method, rows[train], y[train], size)
        for key, Z in tables.items():
            found[number, *key] = distances_of(spec, Z[train], y[train], Z[test], y[test])
    return found


def evaluate(X, y, splits, settings):
    """By split, method, size and classifier: components used, errors, and how many of these are in doubt."""
    found, parts = {}, splits.codes(batch_of(y))
    wanted, units = settings.evaluation, standardise(X, X) if settings.standardize else X
    specs = with_penalties(wanted.classifiers, units, y, wanted.seed)
    pairs = [(own, part) for own in parts for part in splits.held_out]
    for number, (own, part) in enumerate(pairs):
        train, test = sides(own, part, settings)
        rows = standardise(X[train], X) if settings.standardize else X
        for method in settings.methods:
            for size in settings.n_components:
                A = directions(method, rows[train], y[train], size)
                Z = rows @ A
                for spec in with_penalties(specs, Z[train], y[train], wanted.seed, "nested"):
                    errors, close = errors_of(spec, Z[train], y[train], Z[test], y[test])
                    found[number, method.label, size, spec.label] = (A.shape[1], errors, close)
    return found


def one_standard_error(errors, rows):
    """The number of components that the rule takes, in exact arithmetic, by the corrected standard error.

    ``errors`` has, for each number of components, the rows misclassified in every fold of ``rows`` rows.
    """
    shares = {size: [Fraction(e, n) for e, n in zip(found, rows, strict=True)] for size, found in errors.items()}
    means = {size: sum(found) / len(found) for size, found in shares.items()}
    best = min(sorted(means), key=lambda size: means[size])
    training = [sum(rows) - n for n in rows]
    of_rows = naive_judging.row_variance(errors[best], rows, training)
    allowed = naive_judging.variance_over_tables(shares[best], rows, training, of_rows)
    return min(size for size in means if (means[size] - means[best]) ** 2 <= allowed)


def assert_dealt(table, n_folds, order, folds):
    """Assert that each group, the largest first, went to the fold where shares of folds are then most even.

    ``table`` has the rows of each class in each group, ``order`` that of groups of the same size. A fold that would
    have all rows of a class, or all rows, is taken only where every fold would.
    """
    columns = [*zip(*table, strict=True), [sum(rows) for rows in table]]
    held = [[0] * n_folds for _ in columns]
    for group in sorted(order, key=lambda group: (-sum(table[group]), order.index(group))):

        def unevenness(fold, group=group):
            after = [[n + column[group] * (f == fold) for f, n in enumerate(of_column)]
                     for column, of_column in zip(columns, held, strict=True)]  # fmt: skip
            full = any(row[fold] == sum(column) and column[group] for row, column in zip(after, columns, strict=True))
            shares = (
                Fraction(n, sum(column)) ** 2
                for row, column in zip(after, columns, strict=True) if any(column) for n in row
            )  # fmt: skip
            return full, sum(shares)

        costs = [unevenness(fold) for fold in range(n_folds)]
        full, least = min(costs)
        assert costs[folds[group]][0] == full
        assert full or costs[folds[group]][1] - least < Fraction(1, 10**12)
        for column, of_column in zip(columns, held, strict=True):
            of_column[folds[group]] += column[group]


def time_parts(times, windows):
    """The part of each row: as many rows in each as can be, where those at equal times are in the same part."""
    ranked, n = sorted(times), len(times)
    last = [ranked[n * (w + 1) // (windows + 1) - 1] for w in range(windows)]
    return [sum(time > t for t in last) for time in times]
