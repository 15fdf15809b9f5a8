"""Rows that are made to hide an eigenvector from the solver and from its probes."""

import dask.array as da
import numpy as np
import pytest
import scipy.linalg
from helpers.tables import config_of

from mmpca_dist import MarginPCA
from mmpca_dist.eigen import block_passes
from mmpca_dist.eigen import certificate as ritz
from mmpca_dist.eigen.block_passes import leading_start, statistics_in_passes
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.eigen.options import SolverOptions
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.stored_arrays import load_statistics, save_statistics
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.schedulers import Threads
from mmpca_dist.statistics.approximation import probe_seed, probes
from mmpca_dist.tables.readers.memory import rows_in_memory
from mmpca_dist.tables.spans import spans_of

D, K, OVERSAMPLING = 70, 4, 4
SHOWN, HIDDEN = (300.0, 250.0, 50.0, 50.0), 280.0
"""Eigenvalues that the solver finds, and one that hides."""
KNOWN_SEED = 2011


def hiding_rows(noise):
    """Return rows with an eigenvector that is orthogonal to the start, and to probes of a known seed.

    Every eigenvector has two rows, of either sign: the scatter has it exactly, and no power of the scatter leads from
    the start to the one that hides. All others have the eigenvalue ``noise``.
    """
    rng = np.random.default_rng(0)
    shown = np.linalg.qr(rng.standard_normal((D, K)))[0]
    sample = np.concatenate([shown.T, -shown.T]) * np.sqrt(D * np.tile(SHOWN, 2))[:, None]
    start = leading_start(sample, None, K + OVERSAMPLING, np.dtype(np.float64))
    away = scipy.linalg.null_space(np.concatenate([shown, start, probes(D, KNOWN_SEED)], axis=1).T)
    vectors = np.linalg.qr(np.concatenate([shown, away[:, :1], rng.standard_normal((D, D - K - 1))], axis=1))[0]
    values = np.full(D, noise)
    values[:K], values[K] = SHOWN, HIDDEN
    half = np.sqrt(D * values)[:, None] * vectors.T
    X = np.concatenate([half, -half])
    return X, np.tile(np.arange(D) % 2, 2), sample


def attacked(X, y, sample, monkeypatch):
    """Return statistics in passes whose sample hides a component."""
    monkeypatch.setattr(block_passes, "draw_sample", lambda *_: (sample, np.arange(len(sample)) % 2))
    dataset, spans = rows_in_memory(X, y), spans_of(np.asarray([0, len(X)]))
    return statistics_in_passes(
        Rows.of(dataset, Threads(1), spans=spans),
        Needs(n_components=K),
        SolverOptions("krylov", OVERSAMPLING, 2, 0.0),
        precision="double",
    )


def certificate_of(X, y, sample, monkeypatch):
    found = MarginPCA(K, variant="pca")._solve(attacked(X, y, sample, monkeypatch))
    np.testing.assert_allclose(found.eigenvalues, SHOWN, rtol=1e-6, err_msg="the attack failed: it was found")
    return found.certificate


def test_the_trace_contradicts_probes_that_see_nothing(monkeypatch):
    """Were the probes known in advance, the trace of what they do not see would still be there."""
    data = hiding_rows(0.0)
    monkeypatch.setattr(block_passes, "probe_seed", lambda *_: KNOWN_SEED)
    assert_true(certificate_of(*data, monkeypatch))
    monkeypatch.setattr(ritz, "is_contradicted", lambda *_: False)
    fooled = certificate_of(*data, monkeypatch)
    assert fooled["leading"] == K and fooled["beyond"] < 1e-3, "the attack proves nothing"


def assert_true(certificate):
    """Only the first is among the leading ones, in its order; nothing is said of an angle, as one is missed."""
    following = np.append(np.sort([*SHOWN, HIDDEN])[::-1], np.ones(D))[certificate["within"]]
    assert certificate["leading"] <= 1 and certificate["angle"] is None
    assert certificate["beyond"] >= following * (1 - 1e-9) or certificate["within"] > K


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_probes_of_a_seed_from_the_data_are_not_known_in_advance(noise, monkeypatch):
    """With noise beside it what hides is no more than its trace allows: only probes of their own tell."""
    data = hiding_rows(noise)
    assert_true(certificate_of(*data, monkeypatch))
    if noise:
        monkeypatch.setattr(block_passes, "probe_seed", lambda *_: KNOWN_SEED)
        assert certificate_of(*data, monkeypatch)["leading"] == K, "the attack proves nothing"


def test_the_seed_follows_from_the_content_and_from_nothing_else():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((60, 5)), np.arange(60) % 2
    counts, sample = np.asarray([30, 30]), X[:4]
    seed = probe_seed(rows_in_memory(X, y), counts, sample)
    assert seed == probe_seed(rows_in_memory(np.asfortranarray(X), y.copy()), counts, sample.copy()) == int(float(seed))
    other = X.copy()
    other[50, 3] += 1e-9
    distinct = [(other, y, counts, sample), (X, y[::-1], counts, sample), (X, y, counts[::-1] + 1, sample)]
    assert len({seed, *(probe_seed(rows_in_memory(a, b), c, s) for a, b, c, s in distinct)}) == 4


def test_the_same_certificate_again_and_for_a_dask_array():
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((300, 40)) * 0.8 ** np.arange(40), np.arange(300) % 3
    for rows in (X, da.from_array(X, chunks=(50, 40))):
        labels = y if rows is X else da.from_array(y, chunks=50)
        fits = [MarginPCA(3, solver="krylov").fit(rows.copy(), labels) for _ in range(2)]
        assert fits[0].certificate_ == fits[1].certificate_


def test_the_seed_is_stored(tmp_path, monkeypatch):
    statistics, folder = attacked(*hiding_rows(1.0), monkeypatch), RunDirectory(str(tmp_path))
    save_statistics(folder, statistics)
    config = config_of(tmp_path, "bundled:iris", methods=["pca"], n_components=K, precision="double")
    loaded = load_statistics(folder, {"objects": {}}, config)
    assert loaded.approximation.seed == statistics.approximation.seed
