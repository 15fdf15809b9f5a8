"""Scatter operators, blocks for them, and their bits."""

import naive
import numpy as np

from helpers.samples import even_edges
from mmpca_dist.eigen.block_passes import statistics_in_passes
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.eigen.options import SolverOptions
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.passes.units import BLOCK_ROWS
from mmpca_dist.statistics.precision import provisional_centre
from mmpca_dist.statistics.scatter_operator import Block, ScatterOperator, centre_type
from mmpca_dist.statistics.scatters import ClassWeighting
from mmpca_dist.tables.compose import open_dataset
from mmpca_dist.tables.readers.memory import rows_in_memory
from mmpca_dist.tables.spans import spans_of

WORK = {"single": np.dtype(np.float32), "double": np.dtype(np.float64)}


def make_operator(X, y, precision="double", *, edges=None, threads=1, dataset=None, **options):
    """Return the operator of rows, or of a data set of these rows, whose reading units begin at ``edges``."""
    dataset = dataset or rows_in_memory(np.asarray(X), np.asarray(y))
    spans = spans_of(np.asarray([0, len(X)] if edges is None else edges))
    rows = Rows.of(dataset, Threads(threads), spans=spans)
    centres = np.stack([provisional_centre(np.asarray(X), np.flatnonzero(y == label)) for label in rows.census.classes])
    return ScatterOperator(
        rows, centres.astype(centre_type(dataset.dtype, WORK[precision])), WORK[precision], **options
    )


def some_blocks(d, n_classes, seed=0, widths=(3, 1, 5)):
    """Return blocks of vectors with class weights that differ, one of them zero for a class."""
    rng = np.random.default_rng(seed)
    weights = [np.ones(n_classes), np.arange(n_classes) + 0.5, np.append(0.0, rng.random(n_classes - 1))]
    return [Block(w, rng.standard_normal((d, b))) for w, b in zip(weights, widths, strict=True)]


def bound_on(operator, X, y, block):
    """Return what entries of an image may be off by.

    Sums of m rounded products are within (m + 2) u sum |a_i b_i| (Higham 2002, section 3.1). Here the sum of d products
    in x^T v is multiplied by the rows of a panel and summed; |x^T v| is at most |x| |v|. Rows are taken about the
    provisional centre; centring them and taking away the offset of their mean at most doubles what is rounded, twice.
    """
    unit = max(np.finfo(operator.work).eps, np.finfo(operator.sums).eps)
    rows = np.asarray(X, np.float64) - operator.centres[np.searchsorted(operator.rows.census.classes, y)]
    weights = block.weights[np.searchsorted(operator.rows.census.classes, y)]
    spread, lengths = np.sqrt(weights @ rows**2), np.sqrt(weights @ np.sum(rows**2, axis=1))
    terms = X.shape[1] + min(len(X), BLOCK_ROWS) + len(X) // 64 + 8
    return 4 * terms * unit * lengths * np.outer(spread, np.linalg.norm(block.vectors, axis=0))


def assert_applied(operator, X, y, blocks):
    """Every pass gives what the twin gives: the first, which takes means and squares too, and a later one."""
    for _ in range(2):
        for image, block in zip(operator.apply(blocks), blocks, strict=True):
            weights = dict(zip(operator.rows.census.classes.tolist(), block.weights, strict=True))
            expected = naive.scatter_image(X, y, weights, block.vectors)
            assert image.dtype == operator.sums
            assert (np.abs(image - expected) <= bound_on(operator, X, y, block)).all()
            trace = sum(weights[label] * squares for label, squares in naive.class_squares(X, y).items())
            work = np.finfo(operator.work).eps
            assert abs(operator.trace(block.weights) - trace) <= 4 * (len(X) + 8) * work * (1 + trace) or not trace
    assert operator.passes == 2


URI = "synthetic:clusters?n=4000&d=30&k=6&classes=3&seed=7"


def bits(scheduler, dataset=None, precision="single", **options):
    """Return the bytes of all that passes leave."""
    dataset, spans = dataset or open_dataset(URI), spans_of(even_edges(4000, 211))
    found = statistics_in_passes(
        Rows.of(dataset, scheduler, spans=spans),
        Needs(frozenset(ClassWeighting), n_components=4),
        SolverOptions("krylov", tolerance=0),
        precision=precision,
        **options,
    )
    arrays = []
    for each in (found, found.weighted):
        known = each.approximation
        arrays += [each.basis, each.moments.means, each.moments.scatters, known.outside, known.probed]
    return b"".join(a.tobytes() for a in arrays)
