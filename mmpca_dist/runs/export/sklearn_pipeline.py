"""A pipeline of scikit-learn: arrays, and the Python that makes the pipeline of them.

Nothing is pickled, so that loading runs no code but the file that one can read, and needs scikit-learn alone.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mmpca_dist.errors import InputError
from mmpca_dist.runs.export import pipeline
from mmpca_dist.runs.export.model import ExportFormat, LinearModel
from mmpca_dist.runs.export.npz_arrays import npz_of


def _files(model: LinearModel) -> dict[str, bytes]:
    shift = np.linalg.lstsq(model.matrix.T, model.offset, rcond=None)[0]
    if not np.allclose(shift @ model.matrix, model.offset, rtol=1e-12, atol=0):
        raise InputError("The components have offsets that no step of scikit-learn has: export npy, or onnx.")
    return {".py": Path(pipeline.__file__).read_bytes(), ".npz": npz_of(model)}


FORMAT = ExportFormat(
    "sklearn", ".py", "a pipeline of scikit-learn: Python that makes it, and an .npz file beside that", _files,
    'pipeline = runpy.run_path("{file}")["load"]()',
)  # fmt: skip
