"""A ``faiss.LinearTransform``, in single precision."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from mmpca_dist.errors import InputError
from mmpca_dist.runs.export.model import ExportFormat, LinearModel, refuse_text_and_gaps


def _files(model: LinearModel) -> dict[str, bytes]:
    refuse_text_and_gaps(model, "A faiss.LinearTransform")
    try:
        faiss: Any = import_module("faiss")
    except ImportError as error:
        raise InputError(f"Install 'mmpca-dist[faiss]' to export to faiss ({error}).") from error
    transform = faiss.LinearTransform(*model.matrix.shape, True)
    faiss.copy_array_to_vector(model.matrix.T.astype(np.float32).ravel(), transform.A)
    faiss.copy_array_to_vector((-model.mean @ model.matrix - model.offset).astype(np.float32), transform.b)
    transform.set_is_orthonormal()
    transform.is_trained = True
    writer = faiss.VectorIOWriter()
    faiss.write_VectorTransform(transform, writer)
    return {".faiss": faiss.vector_to_array(writer.data).tobytes()}


FORMAT = ExportFormat(
    "faiss", ".faiss", "a faiss.LinearTransform", _files, 'Z = faiss.read_VectorTransform("{file}").apply(X)'
)
