"""Fetch the files of ionosphere and sonar from OpenML: ``python -m mmpca_paper.openml FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import fetch_openml

FILES = {"ionosphere_raw": (59, False), "ionosphere": (59, True), "sonar": (40, True)}
"""By name of the file: the number at OpenML, and whether columns run from -1 to 1 as in LIBSVM's collection."""


def table_of(features: pd.DataFrame, labels: pd.Series, scaled: bool) -> pd.DataFrame:
    """Return columns f0, f1, ... and label; constant columns become 0 where they are scaled."""
    X = features.to_numpy(np.float64)
    if scaled:
        low, width = X.min(axis=0), np.ptp(X, axis=0)
        X = np.where(width == 0, 0, 2 * (X - low) / np.where(width == 0, 1, width) - 1)
    return pd.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])]).assign(label=labels.astype(str).to_numpy())


def main(folder: Path) -> None:
    for name, (number, scaled) in FILES.items():
        data = fetch_openml(data_id=number, as_frame=True, parser="liac-arff")
        path = folder / f"{name}.parquet"
        table_of(data.data, data.target, scaled).to_parquet(path, index=False)
        print(f"{path}: {data.data.shape[0]} rows, {data.data.shape[1]} columns")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
