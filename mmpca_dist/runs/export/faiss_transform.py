"""A ``faiss.LinearTransform``, in single precision."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from mmpca_dist.errors import InputError, instead_of
from mmpca_dist.runs.export.model import ExportFormat, LinearModel


def _files(model: LinearModel) -> dict[str, bytes]:
    if model.text or model.fills is not None:
        reason = f"text ({model.text[0].name!r})" if model.text else "rows with gaps (dataset.missing: mean)"
        raise InputError(f"faiss takes complete rows of numbers, and this run takes {reason}: export onnx, or sql.")
    with instead_of(ImportError, InputError, "Install 'mmpca-dist[faiss]' to export to faiss ({reason})."):
        faiss: Any = import_module("faiss")
    transform, writer = faiss.LinearTransform(*model.matrix.shape, True), faiss.VectorIOWriter()
    faiss.copy_array_to_vector(model.matrix.T.astype(np.float32).ravel(), transform.A)
    faiss.copy_array_to_vector((-model.mean @ model.matrix - model.offset).astype(np.float32), transform.b)
    transform.is_trained = True
    faiss.write_VectorTransform(transform, writer)
    return {".faiss": faiss.vector_to_array(writer.data).tobytes()}


FORMAT = ExportFormat("faiss", ".faiss", _files, 'Z = faiss.read_VectorTransform("{file}").apply(X)')
