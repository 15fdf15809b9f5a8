"""Slow, obvious twins of row maps, line by line after the papers."""

import math

import numpy as np


def kernel(x, z, name, gamma=None, degree=None, coef0=None):
    """k(x, z) of two rows."""
    if name == "rbf":
        return math.exp(-gamma * sum((a - b) ** 2 for a, b in zip(x, z, strict=True)))
    if name == "laplacian":
        return math.exp(-gamma * sum(abs(a - b) for a, b in zip(x, z, strict=True)))
    product = sum(a * b for a, b in zip(x, z, strict=True))
    if name == "poly":
        return (gamma * product + coef0) ** degree
    if name == "cosine":
        lengths = math.sqrt(sum(a * a for a in x)) * math.sqrt(sum(b * b for b in z))
        return product / lengths if lengths else 0.0
    assert name == "linear"
    return product


def fourier(x, frequencies, phases):
    """Rahimi & Recht 2007, algorithm 1: z(x) = sqrt(2/D) [cos(w_1' x + b_1), ..., cos(w_D' x + b_D)]'."""
    count = len(phases)
    return [
        math.sqrt(2 / count) * math.cos(sum(w * a for w, a in zip(frequencies[:, j], x, strict=True)) + phases[j])
        for j in range(count)
    ]


def nystroem(x, landmarks, **of_kernel):
    """Williams & Seeger 2001: K_mm^(-1/2) k(landmarks, x), without the null space of K_mm."""
    gram = np.array([[kernel(a, b, **of_kernel) for b in landmarks] for a in landmarks])
    values, vectors = np.linalg.eigh(gram)
    root = np.zeros_like(gram)
    for value, vector in zip(values, vectors.T, strict=True):
        if value > len(gram) * 2.3e-16 * values.max():
            root += np.outer(vector, vector) / math.sqrt(value)
    return root @ np.array([kernel(a, x, **of_kernel) for a in landmarks])


def scale(X):
    """1 / (d x variance of the values)."""
    values = [value for row in X for value in row]
    mean = sum(values) / len(values)
    return 1 / (len(X[0]) * (sum((value - mean) ** 2 for value in values) / len(values)))
