"""Orthonormal bases and sketches of matrices that are known, against their textbook twins."""

import naive
import numpy as np
import pytest
from helpers.samples import largest_angle, random_start

from mmpca_dist.eigen.blocks.krylov import KrylovBasis
from mmpca_dist.eigen.orthonormal import orthonormal

EPS = float(np.finfo(np.float64).eps)
D = 30


def symmetric(values, seed=0):
    """Return a matrix with these eigenvalues."""
    rotation = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(values), len(values))))[0]
    return rotation * values @ rotation.T


MATRICES = {
    "decay": symmetric(0.8 ** np.arange(D)),
    "rank 4": symmetric(np.append([3.0, 2, 1, 0.5], np.zeros(D - 4))),
    "one huge": symmetric(np.append(1e9, 0.9 ** np.arange(D - 1))),
    "flat": np.eye(D),
    "zero": np.zeros((D, D)),
    "tiny": 1e-100 * symmetric(0.8 ** np.arange(D)),
}


def grow(S, start, count, *, others=None, dtype=np.float64):
    """Return what is known of S after so many passes."""
    width = start.shape[1] + (0 if others is None else others.shape[1])
    growing = KrylovBasis(start.astype(dtype), width * count)
    growing.absorb(S @ growing.block.astype(np.float64))
    for number in range(2, count + 1):
        if not growing.grow(others if number == 2 else None):
            break
        growing.absorb(S @ growing.block.astype(np.float64))
    return growing.projected()


def assert_projected(found, S, unit):
    """The basis is orthonormal; what is said of S inside and outside is so, up to the rounding of the basis."""
    Q, size = found.basis.astype(np.float64), np.linalg.norm(S, 2)
    allowed = 20 * np.sqrt(len(S)) * unit
    assert np.linalg.norm(Q.T @ Q - np.eye(Q.shape[1]), 2) <= allowed
    assert np.linalg.norm(found.inside - Q.T @ S @ Q, 2) <= allowed * size
    np.testing.assert_array_equal(found.inside, found.inside.T)
    rest = S @ Q - Q @ (Q.T @ S @ Q)
    for v in naive.eigenpairs(found.inside)[1].T:
        assert abs(np.linalg.norm(rest @ v) - np.linalg.norm(found.outside @ v)) <= allowed * size
    assert abs(np.linalg.norm(rest, 2) - np.linalg.norm(found.outside, 2)) <= allowed * size


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", MATRICES)
def test_what_a_basis_says_of_a_matrix(name, dtype):
    rng = np.random.default_rng(3)
    others = np.column_stack([rng.standard_normal((D, 2)), np.zeros(D)])
    for count in (1, 2, 4):
        found = grow(MATRICES[name], random_start(D, 4), count, others=others, dtype=dtype)
        assert_projected(found, MATRICES[name], float(np.finfo(dtype).eps))
        if count > 1:  # what lies between the classes is in the basis
            Q = found.basis.astype(np.float64)
            outside = others - Q @ (Q.T @ others)
            assert np.linalg.norm(outside) <= 100 * np.finfo(dtype).eps * np.linalg.norm(others)


@pytest.mark.parametrize(("d", "b", "count"), [(5, 4, 4), (5, 5, 3), (3, 2, 6), (1, 1, 2)])
def test_fewer_dimensions_than_the_blocks_want(d, b, count):
    S = symmetric(0.7 ** np.arange(d))
    found = grow(S, random_start(d, b), count, others=np.ones((d, 2)))
    assert found.basis.shape[1] <= d
    assert_projected(found, S, EPS)
    np.testing.assert_allclose(naive.eigenpairs(found.inside)[0], 0.7 ** np.arange(d), atol=1e-13)


def test_a_start_that_spans_an_invariant_subspace_grows_no_further():
    S = symmetric(np.append(np.arange(1, 6), np.zeros(D - 5)))
    start = naive.eigenpairs(S)[1][:, :3]
    for others in (None, start[:, :2], np.zeros((D, 1))):
        growing = KrylovBasis(start, 12)
        growing.absorb(S @ growing.block)
        before = growing.projected()
        assert not growing.grow(others)
        assert growing.projected().basis.shape == before.basis.shape == (D, 3)
        assert np.linalg.norm(before.outside) <= 100 * EPS


def test_block_krylov_is_that_of_the_textbook():
    """Only while the blocks are far from dependent: the textbook loses them, the growing basis does not."""
    S, start = MATRICES["decay"], random_start(D, 4)
    for count in (1, 2, 3):
        found = grow(S, start, count)
        values, vectors, basis = naive.block_krylov(S, start, count)
        assert found.basis.shape == basis.shape
        assert largest_angle(found.basis.T, basis) <= 1e-10  # the condition of the blocks, below 1e4, times rounding
        ours, turn = naive.eigenpairs(found.inside)
        np.testing.assert_allclose(ours, values, atol=1e-12)
        assert largest_angle((found.basis @ turn[:, :3]).T, vectors[:, :3]) <= 1e-10


@pytest.mark.parametrize(
    ("tiny", "dtype"), [(1.0, "f8"), (1e-6, "f8"), (1e-10, "f8"), (1.0, "f4"), (1e-2, "f4"), (1e-4, "f4")]
)
def test_columns_that_nearly_lie_in_the_basis(tiny, dtype):
    """Once is not enough: what rounding leaves of the basis is as large as what is new."""
    rng, unit = np.random.default_rng(5), float(np.finfo(dtype).eps)
    basis = random_start(D, 6).astype(dtype)
    columns = (basis @ rng.standard_normal((6, 4)) + tiny * rng.standard_normal((D, 4))).astype(dtype)
    found = orthonormal(np.column_stack([columns, columns[:, :2], np.zeros(D)]), basis)
    # copies are dropped, unless what rounding makes of them stands out from what is new
    assert 4 <= found.shape[1] <= 6
    both = np.column_stack([basis, found]).astype(np.float64)
    np.testing.assert_allclose(both.T @ both, np.eye(both.shape[1]), atol=20 * unit)
    left = columns - both @ (both.T @ columns)
    assert np.linalg.norm(left) <= 100 * unit * np.linalg.norm(columns)


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_more_columns_than_directions_left_beside_the_basis(dtype):
    """Nearly in the basis, nearly dependent: what is found is orthonormal to the rounding all the same."""
    unit, rng = float(np.finfo(dtype).eps), np.random.default_rng(6)
    for seed in range(200):
        left, size = 2 + seed % 4, 10.0 ** -(seed % 14)
        basis = random_start(40, 40 - left, seed)
        inside = basis @ rng.standard_normal((40 - left, 8))
        beside = rng.standard_normal((40, 8)) * np.logspace(0, -(seed % 9), 8) * size
        basis = orthonormal(basis.astype(dtype), np.empty((40, 0), dtype))
        found = orthonormal(inside + beside, basis)
        assert (size > 100 * unit) <= found.shape[1] <= left
        both = np.column_stack([basis, found]).astype(np.float64)
        np.testing.assert_allclose(both.T @ both, np.eye(both.shape[1]), atol=20 * unit)


def test_columns_that_add_nothing():
    basis = random_start(D, 6)
    for columns in (basis[:, :3] * 7, np.zeros((D, 2)), np.empty((D, 0))):
        assert orthonormal(columns, basis).shape == (D, 0)
    assert orthonormal(np.random.default_rng(0).standard_normal((4, 9)), np.empty((4, 0))).shape == (4, 4)
