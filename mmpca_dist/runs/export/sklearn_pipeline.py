"""A pipeline of scikit-learn: arrays, and the Python that makes the pipeline of them.

Nothing is pickled, so that loading runs no code but the file that one can read, and needs scikit-learn alone.
"""

from __future__ import annotations

from pathlib import Path

from mmpca_dist.runs.export import pipeline
from mmpca_dist.runs.export.model import ExportFormat
from mmpca_dist.runs.export.npz_arrays import npz_of

FORMAT = ExportFormat(
    "sklearn",
    ".py",
    lambda model: {".py": Path(pipeline.__file__).read_bytes(), **npz_of(model)},
    'pipeline = runpy.run_path("{file}")["load"]()',
)
