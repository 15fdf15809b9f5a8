"""Projection penalties on the Boston housing data: table 1 of Zhang & Schneider 2010, beside own figures.

``python -m mmpca_paper.zhang_schneider_boston --data boston.parquet`` takes about a second a run. The file has the 13
columns of numbers and a column ``target``. Without ``--data`` it is looked for in the folder MMPCA_DATA, by default
``../shared/data``. The authors of this script had no copy of the data: it ran on other data only.

In every run 50 rows drawn at random are training rows, and all others test rows. Figures are R^2 in percent. Models are
ridge regression, least squares on 11 principal components ("PCR") or 11 components of partial least squares ("PLS"),
and regressions with a projection penalty on 4 principal components or one component of partial least squares ("Proj").
Ridge and Proj choose their alpha by 5-fold cross-validation. Reductions and scales are learned anew for each fold.

The options are what the paper leaves open: whether columns are scaled, whether PCR and PLS have a ridge penalty, too,
and what its penalty 1000 |v|^2 in the reduced space is: 1000 |v|^2 (``absolute``) or 1000 alpha |v|^2 (``relative``).
The latter cannot be meant: it lowers the penalty in the reduced space by a thousandth only, so that "Proj" would be
ridge regression, from which it is 4 points away in the paper.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mmpca_dist import PLS, ProjectionPenaltyRegressor

from .zhang_schneider import ALPHAS, Array, Comparison, argument_parser, data_path, published

TABLES = (1,)
TRAINING = 50
SHAPE = (506, 13)
"""Of the Boston housing data."""
WEIGHT = 1000.0
"""Of |v|^2, the penalty in the reduced space."""
COMPONENTS = {"PCR": 11, "PLS": 11, "Proj-PCR": 4, "Proj-PLS": 1}
Model = Callable[[float], Any]
"""A function of alpha that returns an estimator."""


class Reading(NamedTuple):
    """What the paper leaves open."""

    columns: str = "standardised"
    reduced: str = "plain"
    weight: str = "absolute"


def load_rows(path: Path) -> tuple[Array, Array]:
    """Return the columns of numbers, shape (n, d), and the target, shape (n,), of a Parquet file.

    Raises
    ------
    SystemExit
        For a file that does not exist, or has no column ``target``.
    """
    if not path.exists():
        raise SystemExit(f"There is no {path}: give --data the path of a Parquet file with a column target.")
    table = pq.ParquetFile(path).read(use_threads=False)
    if "target" not in table.column_names:
        raise SystemExit(f"{path} has no column target, only {', '.join(table.column_names)}.")
    columns = [table[name].to_numpy() for name in table.column_names if name != "target"]
    return np.column_stack(columns).astype(np.float64), table["target"].to_numpy().astype(np.float64)


def models_for(X: Array, y: Array, reading: Reading) -> dict[str, Model]:
    """Return the models of the paper for these training rows, to which reductions are fitted, by name."""
    most = min(X.shape[1], len(X) - 1)
    size = {name: min(count, most) for name, count in COMPONENTS.items()}

    def on(reduction: Any) -> Model:
        if reading.reduced == "ridge":
            return lambda alpha: make_pipeline(reduction, Ridge(alpha))
        return lambda _: make_pipeline(reduction, LinearRegression())

    def penalised(P: NDArray) -> Model:
        def model(alpha: float) -> Any:
            options: dict[str, Any] = {"epsilon": WEIGHT if reading.weight == "relative" else WEIGHT / alpha}
            return ProjectionPenaltyRegressor(P, alpha=alpha, **options)

        return model

    latent = PLS(target="continuous", n_components=size["Proj-PLS"])
    return {
        "Ridge": Ridge,
        "PCR": on(PCA(size["PCR"])),
        "PLS": on(PLS(target="continuous", n_components=size["PLS"])),
        "Proj-PCR": penalised(PCA(size["Proj-PCR"]).fit(X).components_),
        "Proj-PLS": penalised(latent.fit(X, y).components_),
    }


def scaled(train: Array, test: Array, reading: Reading) -> tuple[Array, Array]:
    """Return both, scaled as the training rows are where the reading says so."""
    if reading.columns == "raw":
        return train, test
    scaler = StandardScaler().fit(train)
    return scaler.transform(train), scaler.transform(test)


def chosen_alphas(X: Array, y: Array, reading: Reading, seed: int) -> dict[str, float]:
    """Return the alpha of every model whose squared errors in 5-fold cross-validation are least."""
    errors: dict[str, Array] = defaultdict(lambda: np.zeros(len(ALPHAS)))
    for train, test in KFold(5, shuffle=True, random_state=seed).split(X):
        own, held_out = scaled(X[train], X[test], reading)
        for name, model in models_for(own, y[train], reading).items():
            if reading.reduced == "plain" and name in ("PCR", "PLS"):
                continue
            for i, alpha in enumerate(ALPHAS):
                fitted = model(float(alpha)).fit(own, y[train])
                errors[name][i] += np.sum(np.square(np.ravel(fitted.predict(held_out)) - y[test]))
    return {name: float(ALPHAS[int(np.argmin(values))]) for name, values in errors.items()}


def run_scores(X: Array, y: Array, reading: Reading, seed: int) -> dict[str, float]:
    """Return R^2 in percent of every model on the rows that are not among 50 drawn at random."""
    order = np.random.default_rng(seed).permutation(len(X))
    train, test = order[:TRAINING], order[TRAINING:]
    alphas = chosen_alphas(X[train], y[train], reading, seed)
    own, others = scaled(X[train], X[test], reading)
    return {
        name: 100 * r2_score(y[test], np.ravel(model(alphas.get(name, 1.0)).fit(own, y[train]).predict(others)))
        for name, model in models_for(own, y[train], reading).items()
    }


def main() -> None:
    """Print own and published values of R^2, and their root mean squared difference."""
    parser = argument_parser(__doc__, runs=20, repeated="random choices of training rows (the paper: 500)")
    parser.add_argument("--data", type=Path, help="a Parquet file with a column target")
    parser.add_argument("--columns", choices=("standardised", "raw"), default="standardised")
    parser.add_argument("--reduced", choices=("plain", "ridge"), default="plain", help="how PCR and PLS fit")
    parser.add_argument("--weight", choices=("absolute", "relative"), default="absolute", help="of |v|^2")
    options = parser.parse_args()
    reading = Reading(options.columns, options.reduced, options.weight)
    X, y = load_rows(options.data or data_path("boston.parquet", or_option="--data"))
    print(f"{reading}, {options.runs} runs, {X.shape[0]} rows of {X.shape[1]} columns; standard errors over runs")
    if X.shape != SHAPE:
        print(f"The published figures are of other data: {SHAPE[0]} rows of {SHAPE[1]} columns.")
    runs = [run_scores(X, y, reading, seed) for seed in range(options.runs)]
    comparison = Comparison(published(TABLES), "rows")
    for model in runs[0]:
        comparison.add(TRAINING, model, [run[model] for run in runs])
    print(f"root mean squared difference {comparison.difference():.2f}")


if __name__ == "__main__":
    main()
