"""``fourier``: random Fourier features of the Gaussian kernel."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mmpca_dist.blas import single_blas_thread
from mmpca_dist.settings import setting
from mmpca_dist.tables.row_maps.kernel_width import Gamma, gamma_of, gamma_option, width_remarks, width_rows
from mmpca_dist.tables.row_maps.specification import Arrays, RowMap, RowMapKind

MAX_COLUMNS = 100_000


class Fourier(RowMap):
    """Maps rows to D cosines, whose dot products approximate exp(-gamma ||x - x'||^2)."""

    own_columns: ClassVar[bool] = True
    n_components: int = setting(
        300,
        ge=1,
        le=MAX_COLUMNS,
        example=1000,
        description="Columns of the mapped rows; four times as many halve the error of the kernel",
    )
    gamma: Gamma = gamma_option()
    orthogonal: bool = setting(
        True,
        example=False,
        description="Whether frequencies are orthogonal in blocks of d, which lowers the error, or independent",
    )
    seed: int = setting(0, ge=0, example=1, description="Another number gives other frequencies")

    def sample_rows(self, row_bytes: int) -> int:
        return width_rows(self.gamma, row_bytes)

    def fit(self, sample: Any, n_features: int) -> dict[str, NDArray]:
        gamma = gamma_of(self.gamma, sample, n_features)
        frequencies, phases = draw_frequencies(
            n_features, self.n_components, gamma, self.seed, orthogonal=self.orthogonal
        )
        return {"frequencies": frequencies, "phases": phases, "gamma": np.asarray([gamma])}

    def fitted(self, arrays: Arrays) -> Callable[[Any], NDArray[np.float64]]:
        return partial(fourier_features, frequencies=arrays["frequencies"], phases=arrays["phases"])

    def remarks(self, arrays: Arrays) -> list[str]:
        return width_remarks(self.gamma, arrays)

    def fitted_bytes(self, n_features: int) -> int:
        return 8 * self.n_components * (n_features + 1)


def fourier_features(X: Any, *, frequencies: NDArray, phases: NDArray) -> NDArray[np.float64]:
    """Return sqrt(2/D) cos(Omega^T x + b) of rows x (n, d), dense or CSR, in double precision, shape (n, D).

    ``frequencies``, shape (d, D), are Omega, and ``phases``, shape (D,), are b.
    """
    angles = np.asarray(X @ frequencies)
    angles += phases
    # Vectorised cosines of large angles depend on neighbouring values in the last bit; those of small ones do not.
    angles -= 2 * math.pi * np.rint(angles / (2 * math.pi))
    np.cos(angles, out=angles)
    angles *= math.sqrt(2 / len(phases))
    return angles


def draw_frequencies(
    n_features: int, n_components: int, gamma: float, seed: int, *, orthogonal: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return frequencies (d, D) and phases (D,) of random Fourier features of exp(-gamma ||x - x'||^2).

    Columns are from N(0, 2 gamma I): independent (Rahimi & Recht 2007, algorithm 1), or orthogonal in blocks of d (Yu,
    Suresh, Choromanski, Holtmann-Rice & Kumar 2016, section 3), which are uniformly distributed directions times
    lengths from the chi distribution.
    """
    rng = np.random.default_rng(seed)
    phases = rng.uniform(0, 2 * math.pi, n_components)
    if not orthogonal:
        return math.sqrt(2 * gamma) * rng.standard_normal((n_features, n_components)), phases
    frequencies = np.empty((n_features, n_components))
    with single_blas_thread():
        for start in range(0, n_components, n_features):
            block = frequencies[:, start : start + n_features]
            width = block.shape[1]
            directions, triangle = scipy.linalg.qr(rng.standard_normal((n_features, width)), mode="economic")
            directions *= np.where(np.diagonal(triangle) < 0, -1, 1)  # LAPACK's signs are not uniform
            block[...] = directions * np.sqrt(rng.chisquare(n_features, width))
    frequencies *= math.sqrt(2 * gamma)
    return frequencies, phases


MAP = RowMapKind(
    "fourier", "random Fourier features of the Gaussian kernel (Rahimi & Recht 2007; Yu et al. 2016)", Fourier
)
