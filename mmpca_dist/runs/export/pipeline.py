"""A reduction as a pipeline of scikit-learn, from the .npz file that is called as this file."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler


def numbers(frame: Any, columns: list[str], levels: dict[str, Any]) -> Any:
    """Return columns of a data frame as numbers: of text an indicator of each level; NaN stands for gaps."""
    parts = []
    for name in columns:
        column = frame[name].astype(object)
        found = [column] if name not in levels else [column == level for level in levels[name]["kept"]]
        if name in levels and levels[name]["rare"]:
            found.append(column.isin(levels[name]["rare"]))
        parts += [one.mask(column.isna(), np.nan).astype(float) for one in (found[1:] if len(found) == 2 else found)]
    return np.column_stack(parts)


def chosen(X: Any, columns: list[str]) -> Any:
    """Return the columns of the model of a data frame, which may have more; of an array all."""
    return X[columns] if hasattr(X, "columns") else X


def scaler(mean: Any, scale: Any) -> StandardScaler:
    """Return a fitted step that subtracts a mean and divides by a scale."""
    step = StandardScaler()
    step.mean_, step.scale_, step.var_, step.n_samples_seen_, step.n_features_in_ = mean, scale, scale**2, 1, len(mean)
    return step


def load(file: str | Path | None = None) -> Pipeline:
    """Return the fitted pipeline."""
    with np.load(file or Path(__file__).with_suffix(".npz"), allow_pickle=False) as stored:
        model = dict(stored)
    levels, reduction, steps = json.loads(str(model["levels"])), TruncatedSVD(len(model["components"])), list[Any]()
    columns = {"columns": model["columns"].tolist()}
    if levels:
        steps.append(FunctionTransformer(numbers, kw_args={**columns, "levels": levels}))
    elif columns["columns"]:
        steps.append(FunctionTransformer(chosen, kw_args=columns))
    if len(model["fill"]):
        steps.append(SimpleImputer(keep_empty_features=True).fit(model["fill"][None]))
    reduction.components_, reduction.n_features_in_ = model["components"], len(model["mean"])
    steps += [scaler(model["mean"], model["scale"]), reduction]
    if model["offset"].any():
        steps.append(scaler(model["offset"], np.ones(len(model["offset"]))))
    return make_pipeline(*steps)
