"""Labelled rows for the tests, passes over them with chosen chunks, and error bounds."""

import random
import time
from functools import partial

import numpy as np
import scipy.linalg
import scipy.sparse

from mmpca_dist.neighbors.nearest import find_nearest, make_layout
from mmpca_dist.neighbors.options import Search
from mmpca_dist.passes import units
from mmpca_dist.passes.census import count_labels
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.passes.scratch import MemoryScratch
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.statistics import widened_rows
from mmpca_dist.statistics.from_rows import take_moments
from mmpca_dist.tables import dataset as dataset_module
from mmpca_dist.tables.batch import Batch, dense
from mmpca_dist.tables.readers.memory import rows_in_memory, weighted
from mmpca_dist.tables.source import Source
from mmpca_dist.tables.spans import spans_of

SCATTERS = ("pca", "m-pca0", "m-pca1a", "m-pca1b")
"""Variants of margin PCA that follow from class moments, and medians."""


def take(X, y, *, edges=None, classes=None, precision="double", threads=1, on_pass=None, row_weights=None, **options):
    """Return (moments, medians) of one pass whose reading units begin at ``edges``."""
    dataset = rows_in_memory(X if scipy.sparse.issparse(X) else np.asarray(X), np.asarray(y))
    dataset = dataset if row_weights is None else weighted(dataset, row_weights)
    spans = spans_of(np.asarray([0, dataset.n_rows] if edges is None else edges))
    census = count_labels(dataset, spans, Tasks(scheduler=Threads(threads)))
    if classes is not None:
        census = census.over(np.asarray(classes))
    rows = Rows(dataset=dataset, census=census, spans=spans, scheduler=Threads(threads), on_pass=on_pass)
    return take_moments(rows, precision=precision, **options)


def assert_same_on_threads(X, y, **options):
    """The moments of rows are the same bits on any number of threads."""
    one, *others = (take(X, y, threads=threads, **options)[0] for threads in (1, 2, 5))
    for other in others:
        np.testing.assert_array_equal(other.means, one.means)
        np.testing.assert_array_equal(other.scatters, one.scatters)


def lay_out_rows(X, y=None, *, edges=None, scratch=None, scheduler=None, deviations=None):
    """Return (layout, scratch, census) of rows, or of a data set, whose reading units begin at ``edges``."""
    dataset = rows_in_memory(np.asarray(X), np.asarray(y)) if y is not None else X
    spans = spans_of(np.asarray([0, dataset.n_rows] if edges is None else edges))
    scratch, rows = scratch or MemoryScratch(), Rows.of(dataset, scheduler or Threads(1), spans=spans)
    return make_layout(rows, scratch, deviations=deviations), scratch, rows.census


def find(X, y=None, *, edges=None, scratch=None, scheduler=None, deviations=None, **search):
    """Return the neighbours found with these settings of the search."""
    layout, _, census = lay_out_rows(X, y, edges=edges, scratch=scratch, scheduler=scheduler, deviations=deviations)
    return find_nearest(layout, census.classes, Search(**search), Tasks(scheduler=scheduler or Threads(1)))


def batch_of(y, start=0):
    """Return a batch of rows with these labels, from row ``start`` on."""
    numbers = np.arange(start, start + len(y))
    return Batch(None, start, numbers, numbers, {"label": np.asarray(y)})


def even_edges(n, size):
    """Return the edges of chunks of ``size`` rows."""
    return np.append(np.arange(0, n, size), n)


class Watched(Source):
    """The rows of another source; a function is called before some are read, with the first, and the one after them."""

    def __init__(self, inner, before):
        self.inner, self.before, self.facts, self._edges = inner, before, inner.facts, inner.chunk_edges

    def read(self, start, stop, out=None):
        self.before(start, stop)
        return self.inner.read(start, stop, out)

    def column(self, name, setting):
        return self.inner.column(name, setting)

    def fingerprint(self):
        return self.inner.fingerprint()


def watched(dataset, before):
    """Return a data set that calls a function before it reads some of its rows."""
    return dataset.over(Watched(dataset.stored, before))


def shuffled(dataset, seed):
    """Return rows whose reading takes a random time, so that spans arrive in another order every time."""
    return watched(dataset, partial(_wait, seed))


def _wait(seed, start, stop):
    time.sleep(random.Random(seed + start).random() / 500)


def on_dense(monkeypatch, call):
    """Let a function be called with units of CSR rows before tasks make them dense."""

    def watched_dense(X, out=None):
        if scipy.sparse.issparse(X):
            call(X)
        return dense(X, out)

    for module in (dataset_module, units, widened_rows):
        monkeypatch.setattr(module, "dense", watched_dense)


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


def random_start(d, b, seed=1):
    """Return orthonormal columns, shape (d, b)."""
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((d, b)))[0]
