"""Slow, obvious twins of what judges reductions: classifiers, margins, splits and tests of them."""

import itertools
from fractions import Fraction

import numpy as np
from naive import _mean, mean_outer_product
from scipy.stats import t as student


def gaussian_scores(Z, y, rows, kind, reg_param=0.0, ddof=0, var_smoothing=1e-9):
    """For each of ``rows`` and each class, log share + log density, less the same of the first class (STAT 841).

    ``kind`` is "lda" (one covariance for all), "qda" (one for each) or "naive-bayes" (no covariance between columns).
    """
    Z, labels = np.asarray(Z, dtype=float), sorted(set(y))
    members = {label: np.stack([z for z, own in zip(Z, y, strict=True) if own == label]) for label in labels}
    means = {label: _mean(members[label]) for label in labels}
    scatters = {c: sum(np.outer(z - means[c], z - means[c]) for z in members[c]) for c in labels}
    eye = np.eye(Z.shape[1])
    covariances = {}
    for label in labels:
        if kind == "lda":
            covariances[label] = sum(scatters.values()) / len(Z)
        elif kind == "qda":
            covariances[label] = (1 - reg_param) * scatters[label] / (len(members[label]) - ddof) + reg_param * eye
        else:
            largest = max(_mean((column - _mean(column)) ** 2) for column in Z.T)
            covariances[label] = eye * scatters[label] / (len(members[label]) - ddof) + var_smoothing * largest * eye
    scores = []
    for row in np.asarray(rows, dtype=float):
        of_row = []
        for label in labels:
            difference, covariance = row - means[label], covariances[label]
            square = difference @ np.linalg.solve(covariance, difference)
            of_row.append(np.log(len(members[label]) / len(Z)) - (np.linalg.slogdet(covariance)[1] + square) / 2)
        scores.append([score - of_row[0] for score in of_row])
    return np.asarray(scores)


def fisher_linear_scores(Z, y, rows, threshold="midway"):
    """For each of ``rows``, its nearness to each class mean in the metric W^+, less that of the first (STAT 841).

    For two classes, w = W^+ (m_1 - m_0) and the score is w^T z less the mean of w^T m_0 and w^T m_1; with "log-odds" w
    is divided by its length, and log(n_1 / n_0) added.
    """
    Z, labels = np.asarray(Z, dtype=float), sorted(set(y))
    means = {label: _mean([z for z, own in zip(Z, y, strict=True) if own == label]) for label in labels}
    within = mean_outer_product([z - means[own] for z, own in zip(Z, y, strict=True)])
    metric = np.linalg.pinv(within, rcond=1e-12, hermitian=True)
    first, scores = means[labels[0]], []
    for row in np.asarray(rows, dtype=float):
        directions = [metric @ (means[label] - first) for label in labels]
        midways = [(means[label] + first) / 2 for label in labels]
        scores.append([w @ (row - midway) for w, midway in zip(directions, midways, strict=True)])
        if threshold == "log-odds":
            n_0, n_1 = (sum(own == label for own in y) for label in labels)
            scores[-1][1] = scores[-1][1] / np.sqrt(directions[1] @ directions[1]) + np.log(n_1 / n_0)
    return np.asarray(scores)


def splitmix64(x):
    """The finisher of SplitMix64 in whole numbers (Steele, Lea & Flood 2014)."""
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return x ^ (x >> 31)


def parts_by_hash(y, sizes, seed, split):
    """The part of every row: the rows of a class sorted by the hash of their number, cut at the sizes of its parts.

    ``sizes`` gives the sizes of the parts by label.
    """
    key = splitmix64(2**63 + seed * 2**31 + split)
    parts = [None] * len(y)
    for label in sorted(set(y)):
        rows = [i for i in range(len(y)) if y[i] == label]
        rows.sort(key=lambda i: splitmix64(splitmix64(i + 1) ^ key))
        dealt = [part for part, size in enumerate(sizes[label]) for _ in range(size)]
        for row, part in zip(rows, dealt, strict=True):
            parts[row] = part
    return parts


def fold_sizes(y, n_folds):
    """Sizes of the folds by label: the rows, class by class, are dealt out one after the other."""
    sizes = {label: [0] * n_folds for label in sorted(set(y))}
    for i, label in enumerate(sorted(y)):
        sizes[label][i % n_folds] += 1
    return sizes


def sign_test(errors, reference):
    """P(as many wins or more) over all ways that the untied splits could fall, each as likely (Luo & Durrant 2017)."""
    pairs = [(a, b) for a, b in zip(errors, reference, strict=True) if a != b]
    wins = sum(a < b for a, b in pairs)
    outcomes = [bin(outcome).count("1") for outcome in range(2 ** len(pairs))]
    return sum(heads >= wins for heads in outcomes) / len(outcomes)


def variance_over_tables(values, held_out, training, row_variance):
    """The variance of a mean over splits, from one table of rows to the next, in exact arithmetic.

    That of Nadeau & Bengio (2003). Where fewer rows train than are held out, it is at most what the rows held out
    cause, those of one model, and those that train.
    """
    J = len(values)
    mean = sum(values) / J
    variance = sum((v - mean) ** 2 for v in values) / (J - 1)
    ratio = sum(Fraction(n, m) for n, m in zip(held_out, training, strict=True)) / J
    if ratio <= 1:
        return variance / J + ratio * variance
    return min(variance / J + ratio * variance, variance / J + variance / ratio + row_variance)


def row_variance(errors, held_out, training):
    """The variance of the share of errors of one model on as many rows as the table has."""
    shares = [Fraction(e, n) for e, n in zip(errors, held_out, strict=True)]
    share = sum(shares) / len(shares)
    rows = Fraction(sum(held_out) + sum(training), len(shares))
    return share * (1 - share) / rows


def corrected_t_test(errors, reference, held_out, training):
    """Mean difference, its standard error and the two-sided p-value, in exact arithmetic."""
    shares = [Fraction(a - b, n) for a, b, n in zip(errors, reference, held_out, strict=True)]
    of_rows = sum(row_variance(counts, held_out, training) for counts in (errors, reference))
    mean = 100 * float(sum(shares) / len(shares))
    error = 100 * float(variance_over_tables(shares, held_out, training, of_rows)) ** 0.5
    return mean, error, 2 * student.sf(abs(mean) / error, len(shares) - 1)


def holm(p_values):
    """The largest Bonferroni p-value of all sets of tests that a test is in: closed testing (Holm 1979)."""
    tests = range(len(p_values))
    sets = [s for size in tests for s in itertools.combinations(tests, size + 1)]
    return [min(1.0, max(len(s) * min(p_values[j] for j in s) for s in sets if i in s)) for i in tests]


def signed_distance(row, label, coef, intercept, labels):
    """How far a row is on its side of the hyperplane of a linear classifier; of many classes, of the nearest one.

    Two classes have one row of coefficients, positive scores for the second.
    """
    scores = [
        float(sum(w * z for w, z in zip(ws, row, strict=True))) + b for ws, b in zip(coef, intercept, strict=True)
    ]
    own = list(labels).index(label)
    if len(labels) == 2:
        return (1 if own else -1) * scores[0] / sum(w * w for w in coef[0]) ** 0.5
    distances = []
    for other in range(len(labels)):
        if other != own:
            normal = [a - b for a, b in zip(coef[own], coef[other], strict=True)]
            distances.append((scores[own] - scores[other]) / sum(w * w for w in normal) ** 0.5)
    return min(distances)


def wasserstein(a, b):
    """Wasserstein-1 distance of two samples: the area between their distribution functions."""
    points = sorted([*a, *b])
    area = 0.0
    for low, high in itertools.pairwise(points):
        area += (high - low) * abs(sum(x <= low for x in a) / len(a) - sum(x <= low for x in b) / len(b))
    return area


def penalised_loss(kind, w, Z, signs, C):
    """||w||^2 / 2 + C sum of losses: "svm" max(0, 1 - s w^T z)^2, "logistic" log(1 + exp(-s w^T z)); its gradient."""
    loss, gradient = float(w @ w) / 2, np.array(w, dtype=float)
    for z, s in zip(Z, signs, strict=True):
        margin = s * float(w @ z)
        loss += C * (max(0.0, 1 - margin) ** 2 if kind == "svm" else np.logaddexp(0, -margin))
        slope = -2 * max(0.0, 1 - margin) if kind == "svm" else -1 / (1 + np.exp(margin))
        gradient = gradient + C * slope * s * z
    return loss, gradient
