"""Table 1 of Zhang & Schneider 2010: projection penalties on the Boston housing data.

In every run 50 rows drawn at random are training rows, and all others test rows. Figures are R^2 in percent. Models are
ridge regression, least squares on 11 principal components ("PCR") or 11 components of partial least squares ("PLS"),
and regressions with a projection penalty on 4 principal components or one component of partial least squares ("Proj").
Ridge and Proj choose their alpha by 5-fold cross-validation. Reductions and scales are learned anew for each fold.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from mmpca_dist import PLS, ProjectionPenaltyRegressor
from mmpca_dist.errors import InputError
from mmpca_dist.settings import setting

from .table import Array, Table

TRAINING = 50
SHAPE = (506, 13)
"""Rows and columns of the Boston housing data."""
COMPONENTS = {"PCR": 11, "PLS": 11, "Proj-PCR": 4, "Proj-PLS": 1}
Model = Callable[[float], Any]
"""A function of alpha that returns an estimator."""


class Houses(NamedTuple):
    """Rows of shape (n, d), and their target of shape (n,)."""

    X: Array
    y: Array


class Boston(Table):
    """Table 1, and what the paper leaves open about it."""

    NUMBERS = (1,)
    TRAINING = "rows"
    FULL = 500
    RIVALS = {"Proj-PCR": ("Ridge", "PCR"), "Proj-PLS": ("Ridge", "PLS")}  # noqa: RUF012

    table: Literal["boston"]
    weight: Literal["absolute", "relative"] = setting(
        example="relative", description="The penalty in the reduced space: epsilon |v|^2, or alpha epsilon |v|^2"
    )
    constant: Literal["free", "penalised"] = setting(
        example="free", description="The constant of ridge regression costs nothing, or as a coefficient of ones does"
    )
    columns: Literal["standardised", "raw"] = setting(
        example="raw", description="Columns with the mean 0 and deviation 1 of training rows, or as they are"
    )
    reduced: Literal["plain", "ridge"] = setting(
        example="plain", description="PCR and PLS by least squares, or with a ridge penalty of their own"
    )

    @property
    def amounts(self) -> tuple[int, ...]:
        """The number of training rows."""
        return (TRAINING,)

    def load(self) -> Houses:
        """Return rows and target of the Parquet file; raise InputError where it cannot have them."""
        try:
            table = pq.ParquetFile(self.path).read(use_threads=False)
        except (OSError, ValueError) as error:
            raise InputError(f"{self.path} is not readable as Parquet: {error}") from error
        if "target" not in table.column_names:
            raise InputError(f"{self.path} has no column target, only {', '.join(table.column_names)}.")
        columns = [table[name].to_numpy() for name in table.column_names if name != "target"]
        houses = Houses(np.column_stack(columns).astype(np.float64), table["target"].to_numpy().astype(np.float64))
        if houses.X.shape != SHAPE:
            print(f"The published figures are of other data: {SHAPE[0]} rows of {SHAPE[1]} columns.")
        return houses

    def run(self, data: Houses, amount: int, seed: int) -> dict[str, float]:
        """Return R^2 in percent of every model on the rows that are not among those drawn at random."""
        X, y = data
        order = np.random.default_rng(seed).permutation(len(X))
        train, test = order[:amount], order[amount:]
        alphas = self.chosen_alphas(X[train], y[train], seed)
        own, others = self.scaled(X[train], X[test])
        return {
            name: 100 * r2_score(y[test], np.ravel(model(alphas.get(name, 1.0)).fit(own, y[train]).predict(others)))
            for name, model in self.models(own, y[train]).items()
        }

    def models(self, X: Array, y: Array) -> dict[str, Model]:
        """Return the models of the paper for these training rows, to which reductions are fitted, by name."""
        most = min(X.shape[1], len(X) - 1)
        size = {name: min(count, most) for name, count in COMPONENTS.items()}

        def on(reduction: Any) -> Model:
            if self.reduced == "ridge":
                return lambda alpha: make_pipeline(reduction, Ridge(alpha))
            return lambda _: make_pipeline(reduction, LinearRegression())

        def penalised(P: NDArray) -> Model:
            def model(alpha: float) -> Any:
                options: dict[str, Any] = {"epsilon": self.epsilon / (alpha if self.weight == "absolute" else 1)}
                return ProjectionPenaltyRegressor(P, alpha=alpha, **options)

            return model

        def ridge(alpha: float) -> Any:
            if self.constant == "penalised":
                return make_pipeline(PolynomialFeatures(1), Ridge(alpha, fit_intercept=False))
            return Ridge(alpha)

        latent = PLS(target="continuous", n_components=size["Proj-PLS"])
        return {
            "Ridge": ridge,
            "PCR": on(PCA(size["PCR"])),
            "PLS": on(PLS(target="continuous", n_components=size["PLS"])),
            "Proj-PCR": penalised(PCA(size["Proj-PCR"]).fit(X).components_),
            "Proj-PLS": penalised(latent.fit(X, y).components_),
        }

    def scaled(self, train: Array, test: Array) -> tuple[Array, Array]:
        """Return both, scaled as the training rows are where columns are standardised."""
        if self.columns == "raw":
            return train, test
        scaler = StandardScaler().fit(train)
        return scaler.transform(train), scaler.transform(test)

    def chosen_alphas(self, X: Array, y: Array, seed: int) -> dict[str, float]:
        """Return the alpha of every model whose squared errors in 5-fold cross-validation are least."""
        errors: dict[str, Array] = defaultdict(lambda: np.zeros(len(self.alphas)))
        for train, test in KFold(5, shuffle=True, random_state=seed).split(X):
            own, held_out = self.scaled(X[train], X[test])
            for name, model in self.models(own, y[train]).items():
                if self.reduced == "plain" and name in ("PCR", "PLS"):
                    continue
                for i, alpha in enumerate(self.alphas):
                    fitted = model(alpha).fit(own, y[train])
                    errors[name][i] += np.sum(np.square(np.ravel(fitted.predict(held_out)) - y[test]))
        return {name: self.alphas[int(np.argmin(values))] for name, values in errors.items()}
