"""A reduction as a pipeline of scikit-learn, from the .npz file that is called as this file."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import TruncatedSVD
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler


def indicators(column: Any, kept: list[str], rare: list[str]) -> Any:
    """Return an indicator of each level of a column of text, shape (n, k); NaN where there is no text."""
    absent = column.isna().to_numpy()
    text = column.astype(str).to_numpy(object)
    found = [text == level for level in kept] + ([np.isin(text, rare)] if rare else [])
    return np.where(absent, np.nan, np.concatenate(found[1:] if len(found) == 2 else found, axis=1))


def encoder(columns: list[str], levels: dict[str, dict[str, list[str]]]) -> Any:
    """Return what turns a data frame, whose columns may have any order, into numbers."""
    import pandas as pd

    parts = [
        (str(i), FunctionTransformer(indicators, kw_args=levels[name]) if name in levels else "passthrough", [name])
        for i, name in enumerate(columns)
    ]
    example = {name: ["" if name in levels else 0.0] for name in columns}
    return ColumnTransformer(parts, sparse_threshold=0).fit(pd.DataFrame(example))


def load(file: str | Path | None = None) -> Pipeline:
    """Return the fitted pipeline."""
    with np.load(file or Path(__file__).with_suffix(".npz"), allow_pickle=False) as stored:
        model = dict(stored)
    steps: list[Any] = []
    if "levels" in model:
        steps.append(encoder(model["columns"].tolist(), json.loads(str(model["levels"]))))
    if "fill" in model:
        steps.append(SimpleImputer(keep_empty_features=True).fit(model["fill"][None]))
    components = model["components"]
    scaler = StandardScaler()
    # An offset after the projection is one of the means before it.
    shift = np.linalg.lstsq(components, model["offset"], rcond=None)[0]
    scaler.mean_, scaler.scale_ = model["mean"] + model["scale"] * shift, model["scale"]
    scaler.var_, scaler.n_samples_seen_ = scaler.scale_**2, 1
    reduction = TruncatedSVD(len(components))
    reduction.components_ = components
    scaler.n_features_in_ = reduction.n_features_in_ = components.shape[1]
    if "feature_names" in model and "levels" not in model:
        first = steps[0] if steps else scaler
        first.feature_names_in_ = model["feature_names"].astype(object)
    return make_pipeline(*steps, scaler, reduction)
