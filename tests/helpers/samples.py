"""Labelled rows for the tests, passes over them with chosen chunks, and error bounds."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import zarr

from mmpca_dist.neighbors.nearest import find_nearest, make_layout
from mmpca_dist.neighbors.options import Search
from mmpca_dist.passes.census import count_labels
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.passes.scratch import MemoryScratch
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.statistics.summary import take_moments
from mmpca_dist.tables.dataset import Dataset, spans_of
from mmpca_dist.tables.readers.memory import ArrayDataset

SCATTERS = ("pca", "m-pca0", "m-pca1a", "m-pca1b")
"""Variants of margin PCA that follow from class moments, and medians."""


def labelled(n, d, n_classes, seed, *, mean=3.0, separation=1.5):
    """Return rows with a spectrum that falls (so that eigenvectors are well separated) and unequal classes."""
    rng = np.random.default_rng(seed)
    shares = np.arange(1, n_classes + 1) / (n_classes * (n_classes + 1) / 2)
    y = rng.choice(n_classes, size=n, p=shares)
    y[:n_classes] = np.arange(n_classes)
    scales = 2.0 ** (-np.arange(d) / 2)
    rotation, _ = np.linalg.qr(rng.standard_normal((d, d)))
    X = rng.standard_normal((n, d)) * scales + separation * rng.standard_normal((n_classes, d))[y] * scales
    return X @ rotation + mean, y


def entangled(n, d, seed, n_classes=3):
    """Rows whose classes overlap, so that neighbours often lie in other cells."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) / np.sqrt(np.arange(1, d + 1)), rng.integers(0, n_classes, n)


def take(X, y, *, edges=None, classes=None, precision="double", threads=1, on_pass=None, **options):
    """Return (moments, medians) of one pass whose reading units begin at ``edges``."""
    dataset = ArrayDataset(np.asarray(X), np.asarray(y))
    spans = spans_of(np.asarray([0, len(X)] if edges is None else edges))
    census = count_labels(dataset, spans, Tasks(scheduler=Threads(threads)))
    if classes is not None:
        census = census.over(np.asarray(classes))
    rows = Rows(dataset=dataset, census=census, spans=spans, scheduler=Threads(threads), on_pass=on_pass)
    return take_moments(rows, precision=precision, **options)


def lay_out_rows(X, y=None, *, edges=None, scratch=None, scheduler=None, deviations=None):
    """Return (layout, scratch, census) of rows, or of a data set, whose reading units begin at ``edges``."""
    dataset = ArrayDataset(np.asarray(X), np.asarray(y)) if y is not None else X
    spans = spans_of(np.asarray([0, dataset.n_rows] if edges is None else edges))
    scratch, rows = scratch or MemoryScratch(), Rows.of(dataset, scheduler or Threads(1), spans=spans)
    return make_layout(rows, scratch, deviations=deviations), scratch, rows.census


def find(X, y=None, *, edges=None, scratch=None, scheduler=None, deviations=None, **search):
    """Return the neighbours found with these settings of the search."""
    layout, _, census = lay_out_rows(X, y, edges=edges, scratch=scratch, scheduler=scheduler, deviations=deviations)
    return find_nearest(layout, census.classes, Search(**search), Tasks(scheduler=scheduler or Threads(1)))


def even_edges(n, size):
    """Return the edges of chunks of ``size`` rows."""
    return np.append(np.arange(0, n, size), n)


@dataclass(frozen=True)
class Shuffled(Dataset):
    """Rows whose reading takes a random time, so that spans arrive in another order every time."""

    inner: Dataset
    seed: int

    def __getattr__(self, name):
        return getattr(object.__getattribute__(self, "inner"), name)

    @property
    def chunk_edges(self):
        return self.inner.chunk_edges

    def read_rows(self, start, stop, out=None):
        time.sleep(random.Random(self.seed + start).random() / 500)
        return self.inner.read_rows(start, stop, out)

    def read_labels(self, start, stop):
        return self.inner.read_labels(start, stop)

    def fingerprint(self):
        return self.inner.fingerprint()


def product_bound(scatter, n_rows, precision, mean=0.0):
    """Return what entry (i, j) of a computed centred scatter may be off by, shape (d, d).

    A sum of m rounded products is within (m + 2) u sum |a_i b_i| of the true one (Higham 2002, section 3.1), and the
    Cauchy-Schwarz inequality bounds that sum by sqrt(S_ii S_jj), S being taken about the provisional centre: at most
    twice the centred scatter. Blocks have 2,048 rows, above that sums are double. Entries are themselves rounded
    once (twice u), and the expected value is rounded too. A chunk's mean is stored to u |mean|, which a merge
    multiplies by the distance between two means: at most 2 u |mean_i| sqrt(n S_jj) over all merges of a tree.
    """
    unit = np.finfo(np.float32 if precision == "single" else np.float64).eps
    spread = np.sqrt(np.maximum(np.diagonal(scatter), 0))
    terms = min(n_rows, 2048) if precision == "single" else n_rows
    merging = 2 * np.finfo(np.float64).eps * np.sqrt(n_rows) * np.outer(np.abs(mean) * np.ones_like(spread), spread)
    return 2 * (terms + 8) * unit * np.outer(spread, spread) + merging + merging.T


def angle_bound(S, n_components, error):
    """Return how far (radians) ``error`` in S, a norm, can turn the leading eigenspace (Davis & Kahan 1970)."""
    values = scipy.linalg.eigvalsh(S)[::-1]
    gap = values[n_components - 1] - (values[n_components] if n_components < len(values) else 0)
    assert 0 < 2 * error / gap < 0.05, "the sample is too ill-conditioned for this test to say anything"
    return 2 * error / gap


def largest_angle(components, vectors):
    """Return the largest angle between the spans of rows (K, d) and columns (d, K)."""
    assert components.shape[0] == vectors.shape[1] > 0
    return float(np.max(scipy.linalg.subspace_angles(np.asarray(components).T, vectors)))


def counts_like_text(n, d, n_classes, seed, *, dtype="float32", share=0.2):
    """Return CSR rows as (data, indices, indptr), dense, and labels; columns of different weight, so that spectra fall.

    The columns of a row are in no order, some of the values are zeros, and the first, a middle and the last row have
    none.
    """
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n)
    y[:n_classes] = np.arange(n_classes)
    rates = rng.uniform(0.2, 1, (n_classes, d))[y] * share * 2
    present = rng.random((n, d)) < rates
    present[[0, n // 2, n - 1]] = False
    values = rng.integers(0, 5, (n, d)) * (1 + 2 * (np.arange(d) % 5))
    kept = [rng.permutation(np.flatnonzero(row)) for row in present]
    indices = np.concatenate(kept)
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in kept])])
    data = values[np.repeat(np.arange(n), np.diff(indptr)), indices].astype(dtype)
    return (data, indices.astype(np.int32), indptr.astype(np.int32)), np.where(present, values, 0).astype(dtype), y


def write_csr(path, parts, shape, *, v2=False, chunks=50, name="X", form="csr_matrix", labels=None, **options):
    """Write a CSR matrix by hand as AnnData lays it out, and labels ``y`` where there are any."""
    group = zarr.open_group(str(path), mode="w", zarr_format=2 if v2 else 3)
    matrix = group.create_group(name)
    matrix.attrs.update({"encoding-type": form, "encoding-version": "0.1.0", "shape": [int(size) for size in shape]})
    for part, values in zip(("data", "indices", "indptr"), parts, strict=True):
        values = np.asarray(values)
        whole = {"config": {"write_empty_chunks": True}, **options}
        matrix.create_array(part, data=values, chunks=(min(chunks, max(len(values), 1)),), **whole)
    if labels is not None:
        group.create_array("y", data=np.asarray(labels), chunks=(30,))
    return str(path)


def random_start(d, b, seed=1):
    """Return orthonormal columns, shape (d, b)."""
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((d, b)))[0]


def mixed(n, d, n_classes, seed):
    """Return rows of few directions and noise, whose path lets columns leave, with unequal scales and a far mean."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n)
    y[:n_classes] = np.arange(n_classes)
    hidden = rng.standard_normal((n, 3)) + y[:, None] * rng.standard_normal(3)
    X = hidden @ rng.standard_normal((3, d)) + 0.5 * rng.standard_normal((n, d))
    return X * np.logspace(-1, 1, d) + 7, y


def with_targets(n, d, q, seed, mean=3.0):
    """Return rows, and targets that follow them with noise."""
    X, _ = labelled(n, d, 2, seed, mean=mean)
    rng = np.random.default_rng(seed)
    Y = (X - mean) @ rng.standard_normal((d, q)) + 0.5 * rng.standard_normal((n, q)) + mean
    return X, Y
