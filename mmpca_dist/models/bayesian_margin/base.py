"""The base of estimators of BM2PCA: parameters, the posterior as attributes, and results that follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.methods.base.solution import Solution
from mmpca_dist.methods.base.swept_reducer import SweptReducer
from mmpca_dist.methods.base.traits import Fitted, Option, check_choice, check_number
from mmpca_dist.models.bayesian_margin.fit import MarginFit, MarginModels
from mmpca_dist.models.bayesian_margin.posterior import Array, Posterior, Prior, transposed
from mmpca_dist.passes.rows import Rows
from mmpca_dist.statistics.working_statistics import Statistics
from mmpca_dist.tables.covariates import BY_NAME

PRIOR_NAMES = tuple(field.name for field in fields(Prior))
KEPT = tuple(field.name for field in fields(Posterior) if field.name != "loadings")
"""Factors of the posterior that are attributes of estimators; the loadings are their components."""
DEFAULT_COMPONENTS = 10
"""Components that do not matter are switched off."""
SWITCHED_OFF = 1e-3
"""Components whose loadings have less than this share of the noise variance are reported as switched off."""
LARGEST_PRIOR = 1e12


class BayesianMargin(SweptReducer):
    """Base of the estimators of BM2PCA."""

    traits = SweptReducer.traits.extended({
        "tol": Option(
            ge=0,
            example=1e-5,
            description="Sweeps end when the evidence bounds rise by no more nats a value of the rows and model",
        ),
        "start": Option(
            example="random", description="Loadings before the first sweep: those of probabilistic PCA, or random"
        ),
        "seed": Option(ge=0, example=1, description="Seed of random loadings"),
        "prior": Option(
            values="a mapping of names and numbers",
            example={"noise_rate": 0.01},
            description=f"What replaces the paper's values among {', '.join(PRIOR_NAMES)}",
        ),
    }, stored=(
        "bounds_", "converged_", *(f"{name}_" for name in KEPT),
        "C_", "candidates_", "candidate_errors_", "n_unlabelled_",
    ))  # fmt: skip
    C: float | Literal["auto"] | None
    candidates: tuple[float, ...] | None = None
    unlabelled: str | int | None = None
    _per_column = 3.0
    """C for each column: where the rows follow the model, their likelihood costs half a nat a column; errors cost C."""

    def __init__(
        self, n_components: int | None, *, start: Literal["pca", "random"], seed: int,
        prior: Mapping[str, float] | None, **shared: Any,
    ) -> None:  # fmt: skip
        super().__init__(n_components, **shared)
        self.start, self.seed, self.prior = start, seed, prior

    def _fit(self) -> MarginFit:
        return MarginFit(
            C=self.C, per_column=self._per_column, candidates=() if self.candidates is None else tuple(self.candidates),
            start=self.start, seed=self.seed, tol=self.tol, max_iter=self.max_iter, unlabelled=self.unlabelled,
            prior=Prior(**dict(self.prior or {})),
        )  # fmt: skip

    def _count(self, rows: Rows) -> int:
        return self.n_components or min(DEFAULT_COMPONENTS, rows.dataset.n_features, max(rows.dataset.n_rows - 1, 1))

    def check_parameters(self) -> None:
        for name, value in dict(self.prior or {}).items():
            check_choice("a name in prior", name, PRIOR_NAMES)
            check_number(f"prior: {name}", value, {"ge": 1 / LARGEST_PRIOR, "le": LARGEST_PRIOR}, integral=False)
        super().check_parameters()
        check_choice("start", self.start, ("pca", "random"))

    def _solve(self, statistics: Statistics) -> Solution:
        models: MarginModels = self._swept(statistics)
        posterior = arranged(models.posterior)
        for name in KEPT:
            setattr(self, f"{name}_", getattr(posterior, name))
        self.bounds_, self.converged_, self.n_unlabelled_ = models.bounds, models.converged, models.n_unlabelled
        choice = models.choice
        self.C_, self.candidates_, self.candidate_errors_ = choice.value, choice.values, choice.errors.ravel()
        squares = np.einsum("mdk,mdk->mk", posterior.loadings, posterior.loadings)
        components = transposed(posterior.loadings)
        return Solution.of_models(
            components if len(components) > 1 else components[0], squares.ravel(), models.total,
            "the number of columns, and of rows less one",
        )  # fmt: skip

    def _refuse_too_few(self, solution: Solution, statistics: Statistics) -> None:
        n_rows, n_features = statistics.moments.n_rows, statistics.n_features
        most = min(n_features, n_rows - 1)
        if self.n_components is not None and self.n_components > most:
            raise InputError(
                f"n_components={self.n_components} is more than the {most} that {n_rows} rows of {n_features} features "
                "have: at most as many as columns, and as rows less one."
            )

    @property
    def n_iter_(self) -> int:
        """Sweeps that were made."""
        return len(self.bounds_)

    @property
    def _loadings(self) -> Array:
        """Mean of W, shape (m, d, k)."""
        components = self.components_ if self.components_.ndim == 3 else self.components_[None]
        return transposed(components)

    @property
    def posterior_(self) -> Posterior:
        """The factors of W, t, r, tau, eta and nu, of (standardised) rows less their mean."""
        return Posterior(loadings=self._loadings, **{name: getattr(self, f"{name}_") for name in KEPT})

    @property
    def latent_covariance_(self) -> Array:
        """Covariance of the latent coordinates of new rows, shape (k, k), or (C, k, k), the same for every row."""
        covariance = self.posterior_.latent_covariance(self.components_.shape[-1])
        return covariance if len(covariance) > 1 else covariance[0]

    @property
    def _n_features_out(self) -> int:
        return int(np.prod(self.components_.shape[:-1]))

    def projection(self, dtype: Any = np.float64) -> tuple[NDArray, NDArray | None, NDArray | None]:
        A = self.posterior_.projection(self.components_.shape[-1])
        matrix = np.moveaxis(A, 0, 1).reshape(A.shape[1], -1)
        matrix = matrix if self.scale_ is None else matrix / self.scale_[:, None]
        return matrix.astype(dtype), self.mean_, np.einsum("mdk,md->mk", A, self.location_).ravel()

    def rebuilding(self) -> tuple[NDArray, NDArray]:
        """Return what makes coordinates the rows that are expected: W z + t, averaged over the classes' models."""
        scale = 1 if self.scale_ is None else self.scale_
        back = self.fitted().directions / len(self.noise_)
        return back * scale, self.mean_ + self.location_.mean(axis=0) * scale

    def _outputs(self, X: Any, covariates: Any = BY_NAME) -> Any:
        """Return E[eta]^T [z; 1] of every variant, shape (n, m); lazy for rows that are read piece by piece."""
        latent = self._transformed(X, covariates)
        coef, intercept = self._classifier()
        return latent @ coef.T + intercept

    def _classifier(self) -> tuple[Array, Array]:
        """Return coefficients (m, m k) and intercepts (m,) of the outputs as functions of latent coordinates."""
        m, k = len(self.weights_), self.weights_.shape[1] - 1
        coef = np.zeros((m, m, k))
        coef[np.arange(m), np.arange(m)] = self.weights_[:, :k]
        return coef.reshape(m, m * k), self.weights_[:, k]

    @property
    def switched_off_(self) -> NDArray[np.bool_]:
        """Which components automatic relevance determination has switched off, shape (k,), or (C, k).

        The squared length of their loadings is below a thousandth of what the noise has over all columns.
        """
        squares = np.einsum("mdk,mdk->mk", self._loadings, self._loadings)
        off = squares < SWITCHED_OFF * self.components_.shape[-1] / self.noise_[:, None]
        return off if len(off) > 1 else off[0]

    def fitted(self) -> Fitted:
        active = ~np.ravel(self.switched_off_)
        rise = (
            f"the evidence bound still rose by more than {self.tol:g} nats a value in the last of {len(self.bounds_)} "
            "sweeps: raise max_iter."
        )
        off = f"{np.count_nonzero(~active)} of {len(active)} components are switched off: they load on no column."
        return replace(
            super().fitted(), used=self.components_.shape[-2], active=active, classifier=self._classifier(),
            unconverged=[] if self.converged_ else [rise], remarks=[] if active.all() else [off],
        )  # fmt: skip


def arranged(q: Posterior) -> Posterior:
    """Return the same posterior with components by decreasing length, their largest loadings positive."""
    k = q.n_components
    order = np.argsort(-np.einsum("mdk,mdk->mk", q.loadings, q.loadings), axis=1, kind="stable")
    loadings = np.take_along_axis(q.loadings, order[:, None], axis=2)
    largest = np.take_along_axis(loadings, np.abs(loadings).argmax(axis=1)[:, None], axis=1)[:, 0]
    signs = np.where(largest < 0, -1.0, 1.0)
    every = np.concatenate([order, np.full((len(order), 1), k)], axis=1)  # the constant stays last
    all_signs = np.concatenate([signs, np.ones((len(order), 1))], axis=1)

    def turned(covariance: Array, order: NDArray[np.intp], signs: Array) -> Array:
        rows = np.take_along_axis(covariance, order[:, :, None], axis=1)
        return np.take_along_axis(rows, order[:, None], axis=2) * signs[:, :, None] * signs[:, None]

    return replace(
        q,
        loadings=loadings * signs[:, None],
        loading_covariance=turned(q.loading_covariance, order, signs),
        relevance=np.take_along_axis(q.relevance, order, axis=1),
        weights=np.take_along_axis(q.weights, every, axis=1) * all_signs,
        weight_covariance=turned(q.weight_covariance, every, all_signs),
    )
