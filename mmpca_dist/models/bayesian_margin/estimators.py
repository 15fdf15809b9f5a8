"""BM2PCA, Bayesian maximum margin PCA, as scikit-learn estimators: of classes, and of continuous targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.methods.base.choice_by_folds import edge_remark
from mmpca_dist.methods.base.registry import OF_COMPONENTS, Method
from mmpca_dist.methods.base.swept_reducer import ClassifiesByScores, SweptRegressor
from mmpca_dist.methods.base.traits import Fitted, Option, check_numbers
from mmpca_dist.models.bayesian_margin.base import BayesianMargin
from mmpca_dist.models.bayesian_margin.fit import LARGEST_C, MarginFit, is_label
from mmpca_dist.passes.schedulers import Scheduler
from mmpca_dist.tables.covariates import BY_NAME
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.readers.memory import with_targets


class BayesianMarginPCA(ClassifiesByScores, BayesianMargin):
    """Probabilistic PCA and a maximum-margin classifier in one Bayesian model, fitted by variational sweeps.

    A sweep is one pass over the rows. Two classes have one model; more have one for each class against the rest,
    which share the passes. Parameters that are not listed are as in ``MarginPCA``.

    Parameters
    ----------
    n_components : int, optional
        Latent coordinates k of each model, by default at most 10. Fits of fewer are no parts of it.
    C : float or "auto", optional
        Weight of the hinge loss, by default three times the number of columns. ``auto`` chooses by errors on held-out
        rows of up to five folds, in sweeps that all folds, candidates and classes share.
    candidates : tuple of float, optional
        Values that ``auto`` tries; of equal errors the first. The paper's are 10, 20, 30 and 40. By default ``auto``
        tries the default, a tenth of it and ten times as much, and goes on by factors of ten beyond the value that errs
        least, up to six more, as long as they err less.
    unlabelled : str or int, optional
        The label of rows whose class is not known: they take part without label terms.
    tol, max_iter : float, int
        Sweeps end when the evidence bounds rise by no more nats a value (row and column) and model, or after so many.
    start, seed : {"pca", "random"}, int
        Loadings before the first sweep: those of probabilistic PCA, or random ones.
    prior : dict, optional
        What replaces the paper's values: ``relevance_shape``, ``relevance_rate``, ``noise_shape``, ``noise_rate``,
        ``weight_shape`` and ``weight_rate`` of the gamma priors of the precisions of each component's loadings, of the
        noise, and of the weights; ``location_precision`` of the prior of the location.
    scratch : str, optional
        Folder (path or fsspec URL) for the states of rows where they do not fit in memory, or that workers of a cluster
        share; by default a temporary folder of this machine.

    Attributes
    ----------
    components_ : array of shape (k, n_features), or (C, k, n_features) for C > 2 classes
        Mean of the loadings W, in (standardised) columns. ``loading_covariance_`` is the covariance that all columns
        share.
    eigenvalues_ : array of shape (k,), or (C k,)
        Squared lengths of the loadings, decreasing for each class.
    bounds_ : array of shape (n_iter_, m)
        The evidence lower bound of every model after every sweep, in nats; it never falls, up to rounding.
    converged_ : bool
        Whether the last sweep met the tolerance.
    C_ : float
    candidates_, candidate_errors_ : arrays
        The values of C that were tried, in this order, and the held-out rows that each of them got wrong. Where the
        choice ends on an edge of these, ``fit`` warns.
    location_, noise_, relevance_, weights_, weight_covariance_ : arrays
        Means of t (of rows less ``mean_``), tau, r and eta (the constant last), and the covariance of eta.
    latent_covariance_ : array of shape (k, k), or (C, k, k)
        Covariance of the latent coordinates of a new row; ``transform`` returns their mean, the models side by side.
    switched_off_ : bool array
        Components without influence.
    classes_ : array of shape (C,)

    References
    ----------
    Du et al. 2015, "Bayesian Maximum Margin Principal Component Analysis", AAAI-15. The updates are derived from its
    model; those printed differ, and let the bound fall.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from mmpca_dist import BayesianMarginPCA
    >>> X, y = load_wine(return_X_y=True)
    >>> model = BayesianMarginPCA(n_components=2, standardize=True).fit(X, y)
    >>> model.components_.shape, model.transform(X).shape, round(model.score(X, y), 2)
    ((3, 2, 13), (178, 6), 0.98)
    """

    traits = BayesianMargin.traits.extended({
        "C": Option(
            words=("auto",),
            gt=0,
            le=LARGEST_C,
            values="a number above 0, or auto",
            example="auto",
            description="Weight of the hinge loss, by default three times the number of columns; auto chooses among "
            "candidates by errors on rows held out",
        ),
        "candidates": Option(
            values="numbers above 0",
            example=[10, 20, 30, 40],
            description="Values of C that auto chooses among; by default by factors of ten about the default of C, and "
            "on as long as an edge errs least",
        ),
        "unlabelled": Option(
            example=-1, description="The label of rows whose class is not known; they take part without label terms"
        ),
    })  # fmt: skip

    def __init__(
        self, n_components: int | None = None, *, C: float | Literal["auto"] | None = None,
        candidates: tuple[float, ...] | None = None, unlabelled: str | int | None = None,
        prior: Mapping[str, float] | None = None, tol: float = 1e-3, max_iter: int = 100,
        start: Literal["pca", "random"] = "pca", seed: int = 0, scratch: str | None = None,
        standardize: bool = False, center: bool = False, precision: str = "single", solver: str = "auto",
        missing: str = "refuse",
    ) -> None:  # fmt: skip
        super().__init__(
            n_components, tol=tol, max_iter=max_iter, start=start, seed=seed, prior=prior,
            scratch=scratch, standardize=standardize, center=center, precision=precision, solver=solver,
            missing=missing,
        )  # fmt: skip
        self.C, self.candidates, self.unlabelled = C, candidates, unlabelled

    def check_parameters(self) -> None:
        if self.candidates is not None:
            check_numbers(
                "candidates", self.candidates, "a candidate for C", {"gt": 0, "le": LARGEST_C}, integral=False
            )
        if not isinstance(self.unlabelled, str | int | None) or isinstance(self.unlabelled, bool):
            raise InputError(f"unlabelled={self.unlabelled!r} must be a label: text or a whole number.")
        super().check_parameters()

    def _classes_among(self, labels: NDArray) -> NDArray:
        return labels if self.unlabelled is None else labels[~is_label(labels, self.unlabelled)]

    def fitted(self) -> Fitted:
        fitted, remarks = super().fitted(), []
        if self.unlabelled is not None:
            count = self.n_unlabelled_ or "no"
            remarks.append(f"{count} rows have the label {self.unlabelled!r}, which stands for no label.")
        errors = dict(zip(self.candidates_.tolist(), self.candidate_errors_.tolist(), strict=True))
        edges = edge_remark("C", self.C_, errors, "candidates")
        return replace(fitted, remarks=[*fitted.remarks, *remarks], edges=edges)

    @property
    def unevaluable_reason(self) -> str | None:
        if self.unlabelled is None:
            return None
        return "rows without a class (unlabelled) cannot be scored; evaluate on a table without them"


class BayesianMarginRegressor(SweptRegressor, BayesianMargin):
    """The same model for continuous targets: the epsilon-insensitive loss 2 C max(0, |y - f| - epsilon) of f.

    Parameters and attributes are as in ``BayesianMarginPCA`` unless listed. For q targets there are q models, in place
    of those of classes. Targets that are NaN are not known: their rows take part without label terms.

    Parameters
    ----------
    C : float, optional
        As for targets of standard deviation 1; by default the number of columns.
    epsilon : float
        In standard deviations of a target.

    Attributes
    ----------
    target_mean_, target_scale_ : arrays of shape (q,)
        Units of the targets: the models are of targets less their mean, over their standard deviation.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from mmpca_dist import BayesianMarginRegressor
    >>> X, progression = load_diabetes(return_X_y=True)
    >>> model = BayesianMarginRegressor(standardize=True).fit(X, progression)
    >>> round(model.score(X, progression), 2)
    0.51
    """

    traits = BayesianMargin.traits.extended(
        {"C": Option(gt=0, le=LARGEST_C), "epsilon": Option(ge=0)}, takes_targets=True
    )
    _per_column = 1.0

    def __init__(
        self, n_components: int | None = None, *, C: float | None = None, epsilon: float = 0.1,
        prior: Mapping[str, float] | None = None, tol: float = 1e-3, max_iter: int = 100,
        start: Literal["pca", "random"] = "pca", seed: int = 0, scratch: str | None = None,
        standardize: bool = False, center: bool = False, precision: str = "single", solver: str = "auto",
    ) -> None:  # fmt: skip
        super().__init__(
            n_components, tol=tol, max_iter=max_iter, start=start, seed=seed, prior=prior,
            scratch=scratch, standardize=standardize, center=center, precision=precision, solver=solver,
        )  # fmt: skip
        self.C, self.epsilon = C, epsilon

    def _fit(self) -> MarginFit:
        return replace(super()._fit(), epsilon=self.epsilon, targets=self._units)

    def _check_rows(self, X: Any, y: Any, reset: bool, least: int = 2) -> Dataset:
        given = np.asarray(y, dtype=object if y is None else None)
        if given.dtype.kind != "f" or not np.isnan(given).any():
            return super()._check_rows(X, y, reset, least)
        rows = super()._check_rows(X, np.where(np.isnan(given), 0, given), reset, least)
        return with_targets(rows, given)

    def _widened(
        self, dataset: Dataset, scheduler: Scheduler, covariates: Any = None, *others: Any
    ) -> tuple[Dataset, Scheduler]:
        if covariates is not None:
            raise InputError("BayesianMarginRegressor takes no covariates.")
        return dataset, scheduler  # targets may be unknown, so that moments cannot hold them

    @property
    def target_mean_(self) -> NDArray[np.float64]:
        """Means of the targets, shape (q,)."""
        return np.array([mean for mean, _ in self._units])

    @property
    def target_scale_(self) -> NDArray[np.float64]:
        """Standard deviations of the targets, shape (q,)."""
        return np.array([scale for _, scale in self._units])

    def _outputs(self, X: Any, covariates: Any = BY_NAME) -> Any:
        return super()._outputs(X, covariates) * self.target_scale_ + self.target_mean_


METHOD = Method(
    "bm2pca",
    "BM2PCA",
    "bayesian",
    "what a maximum-margin classifier of latent coordinates needs, and what varies most",
    "min(d, n - 1) for each class",
    BayesianMarginPCA,
    settable=("C", "candidates", "unlabelled", "tol", "max_iter", "start", "seed", "prior"),
    orthonormal=False,
    ordered=False,
    values="squared lengths of the loadings",
    shares="variance",
    blocks=lambda n_components, n_classes, n_features: n_classes if n_classes > 2 else 1,
    rebuilds="the row that the model expects",
    sections=(*OF_COMPONENTS, "evidence"),
)
