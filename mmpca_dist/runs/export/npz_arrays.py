"""Components, means and scales as the arrays of an ``.npz`` file, alone or with the Python that reads them.

The latter makes a pipeline of scikit-learn. Nothing is pickled, so that loading runs no code but the file that one can
read, and needs scikit-learn alone.
"""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np

from mmpca_dist.runs.export import pipeline
from mmpca_dist.runs.export.model import ExportFormat, LinearModel

USAGE = 'm = numpy.load("{file}"); Z = (X - m["mean"]) / m["scale"] @ m["components"].T - m["offset"]'


def npz_of(model: LinearModel) -> dict[str, bytes]:
    """Return the content of an ``.npz`` file, which docs/export.md describes, by its suffix; none needs a pickle."""
    features = [one for name, text in model.columns.items() for one in (text.names if text else [name])]
    levels = {text.name: {"kept": text.kept, "rare": text.rare} for text in model.text}
    scores = {"centre": model.scores.centre} if model.scores.loadings else {}
    for name, loadings in model.scores.loadings.items():
        scores |= {f"{name}_loadings": loadings.T, f"{name}_limit": np.asarray(model.scores.limits[name])}
    named = {"names": model.names, "columns": list(model.columns), "feature_names": features}
    file = io.BytesIO()
    np.savez(
        file, components=(model.matrix * model.scale[:, None]).T, mean=model.mean, scale=model.scale,
        offset=model.offset, fill=np.zeros(0) if model.fills is None else model.fills,
        levels=np.asarray(json.dumps(levels)), allow_pickle=False, **scores,
        **{name: np.asarray(of, str) for name, of in named.items()},
    )  # fmt: skip
    return {".npz": file.getvalue()}


FORMATS = (
    ExportFormat("npy", ".npz", npz_of, USAGE),
    ExportFormat(
        "sklearn",
        ".py",
        lambda model: {".py": Path(pipeline.__file__).read_bytes(), **npz_of(model)},
        'pipeline = runpy.run_path("{file}")["load"]()',
    ),
)
