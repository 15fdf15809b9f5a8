"""Slow, obvious twins of the library's methods: every difference row is made, every product written out.

Nothing here knows of moments, merging or weights; everything is double precision. Short names of the sources: Luo &
Durrant 2017 is "Maximum Margin Principal Components" (arXiv 1705.06371); STAT 841 is the course "Classification",
Fall 2010; Vogelstein et al. 2021 is "Supervised dimensionality reduction for big data".
"""

import operator
from fractions import Fraction

import numpy as np


def exact_class_moments(X, y, classes, w=None):
    """Return counts, means and centred scatters of the classes, rounded once from exact arithmetic.

    A row of weight w is counted w times, also where w is no whole number. Numbers are whole ones over a power of two,
    so that no sum is rounded, and sum w (x - m)(z - k) is sum w x z - (sum w x)(sum w z) / sum w.
    """
    y, d = np.asarray(y).tolist(), np.asarray(X).shape[1]
    columns, units = zip(*(_whole(column) for column in np.asarray(X).T), strict=True)
    weights, unit = _whole(np.ones(len(y)) if w is None else w)
    members = {label: [] for label in np.asarray(classes).tolist()}
    for i, own in enumerate(y):
        members.get(own, []).append(i)
    counts, means, scatters = [], np.zeros((len(members), d)), np.zeros((len(members), d, d))
    for c, rows in enumerate(members.values()):
        own = [weights[i] for i in rows]
        total = sum(own)
        counts.append(total / unit)
        if not rows:
            continue
        values = [[column[i] for i in rows] for column in columns]
        weighted = [[weight * value for weight, value in zip(own, column, strict=True)] for column in values]
        sums = [sum(column) for column in weighted]
        for i in range(d):
            means[c, i] = sums[i] / (total * units[i])
            for j in range(i + 1):
                products = sum(map(operator.mul, weighted[i], values[j]))
                scatter = products * total - sums[i] * sums[j]
                scatters[c, i, j] = scatters[c, j, i] = scatter / (total * unit * units[i] * units[j])
    return np.asarray(counts), means, scatters


def _whole(values):
    """Return numbers as whole numbers over a power of two, and that power."""
    ratios = [value.item().as_integer_ratio() for value in np.asarray(values)]
    unit = max(denominator for _, denominator in ratios)
    return [numerator * (unit // denominator) for numerator, denominator in ratios], unit


def pca_rows(X, y, pairing=None):
    """Rows minus the mean of all rows (STAT 841, principal component analysis)."""
    mean = sum(X) / len(X)
    return [x - mean for x in X]


def mpca0_rows(X, y, pairing=None):
    """Differences of all pairs of rows of different classes (Luo & Durrant 2017, section 3, M-PCA0)."""
    later, earlier = np.nonzero(np.tri(len(X), k=-1, dtype=bool) & (np.asarray(y)[:, None] != np.asarray(y)))
    return X[later] - X[earlier]


def mpca1a_rows(X, y, pairing="one-vs-rest"):
    """Rows minus the mean of the rows of the other class (Luo & Durrant 2017, section 3, M-PCA1a).

    With many classes "the other class" is all the others together, or each of them in turn.
    """
    return _rows_minus_centres(X, y, pairing, _mean)


def mpca1b_rows(X, y, pairing="one-vs-rest"):
    """As M-PCA1a with the coordinate-wise median (Luo & Durrant 2017, section 3, M-PCA1b)."""
    return _rows_minus_centres(X, y, pairing, coordinatewise_median)


def _rows_minus_centres(X, y, pairing, centre):
    centres = {}
    for own in sorted(set(y)):
        others = [[label] for label in sorted(set(y)) if label != own]
        if pairing == "one-vs-rest":
            others = [[label for group in others for label in group]]
        centres[own] = [centre([x for x, label in zip(X, y, strict=True) if label in group]) for group in others]
    return [x - c for x, own in zip(X, y, strict=True) for c in centres[own]]


def _mean(rows):
    return sum(rows) / len(rows)


def coordinatewise_median(rows):
    """The middle value of every coordinate, or the mean of the middle two."""
    middle = []
    for values in zip(*rows, strict=True):
        ordered, half = sorted(float(v) for v in values), len(values) // 2
        middle.append(ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2)
    return np.asarray(middle)


def mean_outer_product(rows):
    """S = (1/m) sum of r r^T over the m difference rows (Luo & Durrant 2017, section 3)."""
    return np.einsum("mi,mj->ij", rows, rows, dtype=np.float64) / len(rows)


def components_holding(rows, share):
    """The fewest leading eigenvectors of rows that hold a share of their squares, taken out one after the other."""
    rows, count = np.asarray(rows, np.float64), 0
    total, (_, vectors) = np.sum(rows**2), eigenpairs(rows.T @ rows)
    while np.sum(rows**2) > (1 - share) * total:
        rows = rows - np.outer(rows @ vectors[:, count], vectors[:, count])
        count += 1
    return count


def eigenpairs(S):
    """All eigenvalues, largest first, and the eigenvectors as columns."""
    values, vectors = np.linalg.eigh(S)
    return values[::-1], vectors[:, ::-1]


def _class_differences(X, y):
    """Every row minus the mean of its class, with its class; in extended precision."""
    X = np.asarray(X).astype(np.longdouble)
    means = {label: _mean([x for x, own in zip(X, y, strict=True) if own == label]) for label in sorted(set(y))}
    return [(x - means[own], own) for x, own in zip(X, y, strict=True)]


def scatter_image(X, y, weights, V):
    """sum_c w_c G_c V, G_c the sum of (x - m_c)(x - m_c)^T over the rows of class c; w by label."""
    image = np.zeros(V.shape, np.longdouble)
    for difference, own in _class_differences(X, y):
        image += weights[own] * np.outer(difference, difference @ V.astype(np.longdouble))
    return image.astype(np.float64)


def class_squares(X, y):
    """By label, the sum of squared distances of a class's rows from their mean: the trace of G_c."""
    squares = dict.fromkeys(y, 0.0)
    for difference, own in _class_differences(X, y):
        squares[own] += float(difference @ difference)
    return squares


def block_krylov(S, Q, passes):
    """Leading eigenpairs of S from the space of [Q, S Q, S^2 Q ...] (Musco & Musco 2015, algorithm 2).

    Returns Ritz values, largest first, the Ritz vectors, and an orthonormal basis of the whole space.
    """
    block, basis = np.linalg.qr(Q)[0], np.zeros((len(S), 0))
    for _ in range(passes):
        for column in block.T:
            for _ in range(2):
                column = column - basis @ (basis.T @ column)
            if np.linalg.norm(column) > 1e-10:
                basis = np.column_stack([basis, column / np.linalg.norm(column)])
        block = S @ block
        sizes = np.linalg.norm(block, axis=0)
        block = block / np.where(sizes > 0, sizes, 1)
    values, turn = eigenpairs(basis.T @ S @ basis)
    return values, basis @ turn, basis


def nystroem(S, W):
    """S W (W^T S W)^+ W^T S (Tropp, Yurtsever, Udell & Cevher 2017)."""
    return S @ W @ np.linalg.pinv(W.T @ S @ W, rcond=1e-12, hermitian=True) @ W.T @ S


def fisher_matrices(X, y, shrinkage):
    """B / n and W_g = (1 - g) W / n + g tr(W) / (n d) I (STAT 841, Fisher discriminant analysis, many classes)."""
    n, d = X.shape
    mean, B, W = sum(X) / n, np.zeros((d, d)), np.zeros((d, d))
    for label in sorted(set(y)):
        members = [x for x, own in zip(X, y, strict=True) if own == label]
        centre = _mean(members)
        B += len(members) * np.outer(centre - mean, centre - mean)
        for x in members:
            W += np.outer(x - centre, x - centre)
    return B / n, (1 - shrinkage) * W / n + shrinkage * np.trace(W) / (n * d) * np.eye(d)


def fisher(X, y, shrinkage, n_components):
    """Solutions of B v = l W_g v with v^T W_g v = 1, as columns, by W_g^-1 B (STAT 841)."""
    B, W = fisher_matrices(X, y, shrinkage)
    values, vectors = np.linalg.eig(np.linalg.inv(W) @ B)
    order = np.argsort(-values.real)[:n_components]
    vectors = vectors[:, order].real
    lengths = [np.sqrt(v @ W @ v) for v in vectors.T]
    return values[order].real, vectors / lengths


def hsic_matrix(X, y, kernel):
    """X^T H L H X with H = I - 1 1^T / n and L_ij = kernel(y_i, y_j) (STAT 841, supervised PCA)."""
    n = len(X)
    H = np.eye(n) - np.ones((n, n)) / n
    L = np.asarray([[float(kernel(a, b)) for b in y] for a in y])
    return X.T @ H @ L @ H @ X


def lol(X, y, n_components):
    """Class means less that of the largest class, then eigenvectors of the pooled scatter, orthonormalised in order.

    Source: Vogelstein et al. 2021, methods.
    """
    sizes = {label: sum(1 for own in y if own == label) for label in sorted(set(y))}
    by_size = sorted(sizes, key=lambda label: -sizes[label])
    means = {c: _mean([x for x, own in zip(X, y, strict=True) if own == c]) for c in by_size}
    directions = [means[c] - means[by_size[0]] for c in by_size[1:]]
    within = mean_outer_product([x - means[own] for x, own in zip(X, y, strict=True)])
    directions += list(eigenpairs(within)[1].T)
    basis = []
    for v in directions:
        for b in basis:
            v = v - (v @ b) * b
        basis.append(v / np.linalg.norm(v))
        if len(basis) == n_components:
            break
    return np.stack(basis, axis=1)


def squared_distance(a, b):
    """The sum of squared differences of two rows, in the one order that defines the distance.

    Eight running sums, column j to sum j mod 8; the columns beyond the last multiple of eight are a sum of their own.
    A row is a sequence of its columns; where they are arrays, so many rows are compared at once, number by number.
    """
    whole, sums, rest = len(a) - len(a) % 8, [0.0] * 8, 0.0
    for j in range(len(a)):
        difference = a[j] - b[j]
        if j < whole:
            sums[j % 8] = sums[j % 8] + difference * difference
        else:
            rest = rest + difference * difference
    s = sums
    return (((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))) + rest


def nearest_opposite(X, y, pairing="one-vs-rest", queries=None):
    """For every query the nearest row of another class, or of each other class; ties go to the lowest row number.

    Returns row numbers and distances, (q, 1), or (q, C) with -1 and infinity in the slot of a query's own class.
    """
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y)
    labels, columns = sorted(set(y.tolist())), np.ascontiguousarray(X.T)
    queries, rows, distances = np.asarray(range(len(X)) if queries is None else queries, dtype=int), [], []
    for start in range(0, len(queries), 32):  # so many queries at once, number by number
        some = queries[start : start + 32]
        for i, squared in zip(some, squared_distance(columns[:, some, None], columns[:, None, :]), strict=True):
            others = [y == label for label in labels] if pairing == "one-vs-one" else [y != y[i]]
            found = []
            for candidates in others:
                if candidates[i]:
                    found.append((-1, np.inf))
                    continue
                best = np.min(squared[candidates])
                found.append((int(np.flatnonzero(candidates & (squared == best))[0]), float(np.sqrt(best))))
            rows.append([row for row, _ in found])
            distances.append([distance for _, distance in found])
    return np.asarray(rows), np.asarray(distances)


def mpca2_rows(X, y, pairing="one-vs-rest", mutual="twice"):
    """Rows minus their nearest row of another class (Luo & Durrant 2017, section 3, M-PCA2).

    With ``mutual="once"`` two rows that are each other's nearest make one difference, not two.
    """
    nearest, _ = nearest_opposite(X, y, pairing)
    pairs = [(i, j) for i, found in enumerate(nearest.tolist()) for j in found if j >= 0]
    if mutual == "once":
        pairs = sorted({(min(pair), max(pair)) for pair in pairs})
    return [X[i] - X[j] for i, j in pairs]


def nearest_training(X, y, parts, held_out, pairing="one-vs-rest"):
    """For every row that is not in the part held out, the nearest row of another class that is not in it either.

    Returns the rows' numbers, and what `nearest_opposite` does, in numbers of all rows.
    """
    rows = np.asarray([i for i in range(len(X)) if parts[i] != held_out])
    nearest, distances = nearest_opposite(np.asarray(X)[rows], np.asarray(y)[rows], pairing)
    return rows, np.where(nearest >= 0, rows[nearest], -1), distances


def dense_rows(data, indices, indptr, shape):
    """Return CSR rows value by value, zero where none is stored."""
    rows = np.zeros(shape)
    for row in range(shape[0]):
        for at in range(indptr[row], indptr[row + 1]):
            rows[row, indices[at]] += data[at]
    return rows


def standardised(X):
    """Columns less their mean, divided by their standard deviation; constant ones are zero."""
    found = np.zeros(X.shape)
    for j in range(X.shape[1]):
        if len(set(X[:, j].tolist())) > 1:
            centred = X[:, j] - sum(X[:, j]) / len(X)
            found[:, j] = centred / np.sqrt(sum(centred**2) / len(X))
    return found


def fisher_score(column, y):
    """((m_1 - m)^2 + (m_2 - m)^2) / (s_1^2 + s_2^2), or sum n_c (m_c - m)^2 / sum n_c s_c^2, exactly (STAT 841)."""
    values, _ = _whole(column)  # the unit has no influence
    mean, between, within = Fraction(sum(values), len(values)), Fraction(0), Fraction(0)
    labels = sorted(set(y))
    for label in labels:
        own = [value for value, other in zip(values, y, strict=True) if other == label]
        centre = Fraction(sum(own), len(own))
        variance = Fraction(sum(value**2 for value in own), len(own)) - centre**2
        weight = 1 if len(labels) == 2 else len(own)
        between, within = between + weight * (centre - mean) ** 2, within + weight * variance
    if between == 0:
        return 0.0
    return float(between / within) if within else np.inf


def random_directions(n_components, n_features, seed):
    """Gaussian rows, made orthonormal one after the other, the loading of largest magnitude positive."""
    basis = []
    for v in np.random.default_rng(seed).standard_normal((n_components, n_features)):
        for _ in range(2):
            for b in basis:
                v = v - (v @ b) * b
        basis.append(v / np.linalg.norm(v))
    return np.stack([b * np.sign(b[np.argmax(np.abs(b))]) for b in basis])


ROWS = {
    "pca": pca_rows, "m-pca0": mpca0_rows, "m-pca1a": mpca1a_rows, "m-pca1b": mpca1b_rows, "m-pca2": mpca2_rows,
}  # fmt: skip
"""The difference rows of every margin structure."""


DIRECTIONS = {}
"""Twins of further methods without options, by name: components as columns from (X, y, most components)."""


def maximum_margin_criterion(X, y):
    """S_b - S_w of Li, Jiang & Zhang 2006, section II: every class by its share of the rows."""
    n, d = X.shape
    mean, criterion = sum(X) / n, np.zeros((d, d))
    for label in sorted(set(y)):
        rows = [x for x, own in zip(X, y, strict=True) if own == label]
        centre = sum(rows) / len(rows)
        criterion += len(rows) / n * np.outer(centre - mean, centre - mean)
        criterion -= sum(np.outer(x - centre, x - centre) for x in rows) / n
    return criterion


def maximum_margin_directions(X, y, size):
    """Eigenvectors of the positive eigenvalues of S_b - S_w, or of the largest one that is not zero."""
    values, vectors = eigenpairs(maximum_margin_criterion(X, y))
    room = 1e-10 * np.abs(values).sum()
    count = np.sum(values > room)
    if not count:
        return vectors[:, [np.argmax(values < -room)]]
    return vectors[:, : min(size, count)]


DIRECTIONS["mmc"] = maximum_margin_directions


def named_covariance(X, y, terms, w=None):
    """A sum of covariances by name, such as {"total": 1, "class": {"left": -1}}; a row of weight w counts w times."""
    y, w = np.asarray(y), np.ones(len(X)) if w is None else np.asarray(w, float)
    d = X.shape[1]
    total, within, alone = np.zeros((d, d)), np.zeros((d, d)), {}
    mean = sum(v * x for v, x in zip(w, X, strict=True)) / sum(w)
    for label in sorted(set(y.tolist())):
        own = [(v, x) for v, x, other in zip(w, X, y, strict=True) if other == label]
        size = sum(v for v, _ in own)
        centre = sum(v * x for v, x in own) / size if size else mean
        scatter = sum(v * np.outer(x - centre, x - centre) for v, x in own)
        total += sum(v * np.outer(x - mean, x - mean) for v, x in own) / sum(w)
        within += scatter / sum(w)
        alone[label] = scatter / size if size else scatter
    parts = {"total": total, "within": within, "between": total - within}
    named = sum(number * parts[name] for name, number in terms.items() if name != "class")
    return named + sum(number * alone[label] for label, number in terms.get("class", {}).items())


def whitening_directions(X, y, size):
    """Principal axes of the scatter within classes over the roots of their variances, whatever the size."""
    values, vectors = eigenpairs(named_covariance(X, y, {"within": 1}))
    kept = values > 1e-10 * values[0]
    return vectors[:, kept] / np.sqrt(values[kept])


DIRECTIONS["contrast"] = lambda X, y, size: fisher(X, y, 0.0, min(size, len(set(y.tolist())) - 1))[1]
DIRECTIONS["whitening"] = whitening_directions
