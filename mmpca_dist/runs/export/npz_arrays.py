"""Components, means and scales as the arrays of an ``.npz`` file."""

from __future__ import annotations

import io

import numpy as np

from mmpca_dist.runs.export.model import ExportFormat, LinearModel

USAGE = 'm = numpy.load("{file}"); Z = (X - m["mean"]) / m["scale"] @ m["components"].T - m["offset"]'


def npz_of(model: LinearModel) -> dict[str, bytes]:
    """Return the content of an ``.npz`` file with the arrays of a model, by its suffix."""
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **model.arrays())
    return {".npz": file.getvalue()}


FORMAT = ExportFormat("npy", ".npz", npz_of, USAGE)
