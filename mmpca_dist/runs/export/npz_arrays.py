"""Components, means and scales as the arrays of an ``.npz`` file."""

from __future__ import annotations

import io

import numpy as np

from mmpca_dist.runs.export.model import ExportFormat, LinearModel


def npz_of(model: LinearModel) -> bytes:
    """Return the content of an ``.npz`` file with the arrays of a model."""
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **model.arrays())
    return file.getvalue()


FORMAT = ExportFormat(
    "npy",
    ".npz",
    "arrays of NumPy: components, mean, scale",
    lambda model: {".npz": npz_of(model)},
    'm = numpy.load("{file}"); Z = (X - m["mean"]) / m["scale"] @ m["components"].T - m["offset"]',
)
