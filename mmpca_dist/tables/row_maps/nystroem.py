"""``nystroem``: features of any kernel from landmarks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from pydantic import model_validator
from scipy.sparse import csr_array, issparse

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.errors import InputError
from mmpca_dist.settings import setting
from mmpca_dist.tables.row_maps.kernel_width import Gamma, gamma_of, gamma_option, width_remarks, width_rows
from mmpca_dist.tables.row_maps.sampling import evenly_drawn
from mmpca_dist.tables.row_maps.specification import Arrays, RowMap, RowMapKind

MAX_LANDMARKS = 20_000
"""Their kernel matrix takes 3.2 GB in double precision, and its eigenvectors minutes."""
PARAMETERS: dict[str, tuple[str, ...]] = {
    "rbf": ("gamma",),
    "laplacian": ("gamma",),
    "poly": ("gamma", "degree", "coef0"),
    "cosine": (),
    "linear": (),
}
"""By kernel: its parameters. All of these kernels are positive semidefinite, poly for coef0 of at least 0."""
INVARIANT = ("rbf", "laplacian")
"""Kernels of differences: rows less a centre have the same, with smaller rounding errors."""


class Nystroem(RowMap):
    """Maps rows to K_mm^(-1/2) k(landmarks, x), of m landmarks among the rows."""

    own_columns: ClassVar[bool] = True
    n_components: int = setting(
        300, ge=1, le=MAX_LANDMARKS, example=1000, description="Landmarks, and columns of the mapped rows"
    )
    kernel: Literal["rbf", "laplacian", "poly", "cosine", "linear"] = setting(
        "rbf",
        example="poly",
        description="rbf is exp(-gamma r^2) of the distance r, laplacian exp(-gamma s) of the sum s of absolute "
        "differences, poly (gamma x.x' + coef0)^degree",
    )
    gamma: Gamma = gamma_option()
    degree: int = setting(3, ge=1, le=100, example=2, description="Degree of poly")
    coef0: float = setting(1, ge=0, values="a number of at least 0", example=0, description="Constant of poly")
    seed: int = setting(0, ge=0, example=1, description="Another number draws other landmarks")

    @model_validator(mode="after")
    def _takes_effect(self) -> Self:
        own = PARAMETERS[self.kernel]
        for name in ("gamma", "degree", "coef0"):
            if name not in own and getattr(self, name) != type(self).model_fields[name].default:
                kernels = " and ".join(kernel for kernel, names in PARAMETERS.items() if name in names)
                raise ValueError(
                    f"{name} is a parameter of {kernels}, and has no effect on {self.kernel}. Leave it out"
                )
        return self

    def check(self, n_rows: int, where: str) -> None:
        if self.n_components > n_rows:
            raise InputError(
                f"nystroem takes {self.n_components} landmarks among the rows, and {where} has {n_rows} rows. Lower "
                "its n_components."
            )

    def sample_rows(self, row_bytes: int) -> int:
        return max(self.n_components, width_rows(self._width, row_bytes))

    @property
    def _width(self) -> Any:
        """``gamma``, or 1 where the kernel has none."""
        return self.gamma if "gamma" in PARAMETERS[self.kernel] else 1

    def fit(self, sample: Any, n_features: int) -> dict[str, NDArray]:
        gamma = gamma_of(self._width, sample, n_features)
        rng = np.random.default_rng(self.seed)
        landmarks = sample[evenly_drawn(sample.shape[0], self.n_components, rng)]
        centre = None
        if not issparse(landmarks) and self.kernel in INVARIANT:
            centre = landmarks.mean(axis=0)
            landmarks = landmarks - centre
        with single_blas_thread():
            weights, rank = inverse_root(kernel_values(landmarks, landmarks, self.kernel, self._parameters(gamma)))
        arrays = {"weights": weights, "gamma": np.asarray([gamma]), "rank": np.asarray([float(rank)])}
        if issparse(landmarks):
            parts = {name: np.asarray(getattr(landmarks, name), np.float64) for name in ("data", "indices", "indptr")}
            return {**arrays, **parts, "shape": np.asarray(landmarks.shape, np.float64)}
        return {**arrays, "landmarks": landmarks, **({} if centre is None else {"centre": centre})}

    def fitted(self, arrays: Arrays) -> Callable[[Any], NDArray[np.float64]]:
        return partial(
            nystroem_features, kernel=self.kernel, parameters=self._parameters(float(arrays["gamma"][0])),
            landmarks=_landmarks(arrays), weights=arrays["weights"], centre=arrays.get("centre"),
        )  # fmt: skip

    def _parameters(self, gamma: float) -> dict[str, float]:
        values = {"gamma": gamma, "degree": self.degree, "coef0": self.coef0}
        return {name: values[name] for name in PARAMETERS[self.kernel]}

    def remarks(self, arrays: Arrays) -> list[str]:
        remarks = width_remarks(self._width, arrays)
        rank = int(arrays["rank"][0])
        if rank < self.n_components:
            remarks.append(f"the kernel of its {self.n_components} landmarks has rank {rank}, and so have mapped rows")
        return remarks

    def fitted_bytes(self, n_features: int) -> int:
        return 8 * self.n_components * (n_features + self.n_components)


def _landmarks(arrays: Arrays) -> Any:
    if "landmarks" in arrays:
        return arrays["landmarks"]
    indices, indptr, shape = (np.asarray(arrays[name], np.int64) for name in ("indices", "indptr", "shape"))
    return csr_array((arrays["data"], indices, indptr), shape=tuple(shape.tolist()))


def kernel_values(X: Any, landmarks: Any, kernel: str, parameters: dict[str, float]) -> NDArray[np.float64]:
    """Return k(x, landmark) of a kernel by its name, for rows in double precision."""
    from sklearn.metrics.pairwise import pairwise_kernels  # slow to import

    rows, landmarks = (_short(part) if issparse(part) else part for part in (X, landmarks))
    with np.errstate(over="ignore"):  # infinite values are refused, by row
        return np.asarray(pairwise_kernels(rows, landmarks, metric=kernel, **parameters))


def _short(X: csr_array) -> csr_array:
    """Return CSR rows with positions of 32 bits, which is all that scikit-learn's Manhattan distances take."""
    return csr_array((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)


def nystroem_features(
    X: Any,
    *,
    kernel: str,
    parameters: dict[str, float],
    landmarks: Any,
    weights: NDArray[np.float64],
    centre: NDArray[np.float64] | None,
) -> NDArray[np.float64]:
    """Return K_mm^(-1/2) k(landmarks, x) of rows x (n, d), dense or CSR, in double precision, shape (n, m).

    ``weights`` are K_mm^(-1/2), and ``centre``, shape (d,), is what landmarks and rows are taken less.
    """
    return kernel_values(X if centre is None else X - centre, landmarks, kernel, parameters) @ weights


def inverse_root(kernel: NDArray[np.float64]) -> tuple[NDArray[np.float64], int]:
    """Return the symmetric K^(-1/2) of a positive semidefinite matrix, and its rank.

    For a singular matrix it is that of its range, and 0 outside. Eigenvalues up to m x eps times the largest are
    rounding (m is the order): their inverse roots would be noise. Raises InputError for a kernel of zeros, or one that
    is not finite.
    """
    if not np.isfinite(kernel).all():
        raise InputError(
            "The kernel of the landmarks of nystroem is not finite: its values are too large. Lower gamma or degree, "
            "or map rows to unit-length before."
        )
    values, vectors = scipy.linalg.eigh((kernel + kernel.T) / 2, check_finite=False)
    kept = values > len(values) * np.finfo(np.float64).eps * max(values[-1], 0)
    if not kept.any():
        raise InputError("The kernel of every landmark of nystroem is zero: rows of zeros have no features.")
    vectors = vectors[:, kept]
    return (vectors / np.sqrt(values[kept])) @ vectors.T, int(np.count_nonzero(kept))


MAP = RowMapKind("nystroem", "features of a kernel from landmarks among the rows (Williams & Seeger 2001)", Nystroem)
