"""An ONNX model, in the precision of the run."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.runs.export.model import ExportFormat, LinearModel
from mmpca_dist.tables.levels import Levels

OPSET, IR = 19, 9
"""Equal takes text from operator set 19 on, which onnxruntime 1.16 knows."""


class _Graph:
    """Adds one operation after the other; values have names that no column has."""

    def __init__(self, onnx: Any, names: list[str]) -> None:
        self.onnx, self.nodes, self.constants, self.inputs = onnx, list[Any](), list[Any](), list[Any]()
        self._prefix = "value"
        while any(name.startswith(self._prefix) for name in names):
            self._prefix += "_"

    def _name(self) -> str:
        return f"{self._prefix}{len(self.nodes) + len(self.constants)}"

    def input(self, name: str, kind: Any, width: int) -> str:
        element = self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        self.inputs.append(self.onnx.helper.make_tensor_value_info(name, element, ["n", width]))
        return name

    def constant(self, values: NDArray) -> str:
        name = self._name()
        if values.dtype.kind == "U":
            values = values.astype(object)
        self.constants.append(self.onnx.numpy_helper.from_array(values, name))
        return name

    def add(self, operation: str, *values: str, **attributes: Any) -> str:
        name = self._name()
        self.nodes.append(self.onnx.helper.make_node(operation, values, [name], **attributes))
        return name

    def cast(self, value: str, kind: Any) -> str:
        return self.add("Cast", value, to=self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind)))


def _rows(graph: _Graph, model: LinearModel, kind: Any) -> str:
    """Return the rows: an input of shape (n, d), or one of shape (n, 1) for each column where some are text."""
    fills = None if model.fills is None else model.fills.astype(kind)
    if not model.text:
        rows = graph.input("X", kind, len(model.matrix))
        return rows if fills is None else graph.add("Where", graph.add("IsNaN", rows), graph.constant(fills), rows)
    parts, done = [], 0
    for column in model.columns or []:
        if isinstance(column, Levels):
            text = graph.input(column.name, np.object_, 1)
            found = [_among(graph, text, levels) for levels in column.by_indicator]
            rows = graph.cast(graph.add("Concat", *found, axis=1), kind)
            absent, width = _among(graph, text, ("",)), len(found)
        else:
            rows, width = graph.input(column, kind, 1), 1
            absent = graph.add("IsNaN", rows)
        if fills is not None:
            rows = graph.add("Where", absent, graph.constant(fills[done : done + width]), rows)
        parts.append(rows)
        done += width
    return graph.add("Concat", *parts, axis=1)


def _among(graph: _Graph, text: str, levels: tuple[str, ...]) -> str:
    """Return whether text (n, 1) is one of some levels, shape (n, 1)."""
    equal = graph.cast(graph.add("Equal", text, graph.constant(np.asarray([levels]))), np.int32)
    axes = graph.constant(np.asarray([1]))
    return graph.cast(graph.add("ReduceMax", equal, axes, keepdims=1), np.bool_)


def _files(model: LinearModel) -> dict[str, bytes]:
    try:
        import onnx
    except ImportError as error:
        raise InputError(f"Install 'mmpca-dist[onnx]' to export to ONNX ({error}).") from error
    for each in model.text:
        if "" in (*each.kept, *each.rare) and model.fills is not None:
            raise InputError(
                f"Column {each.name!r} has the empty text as a level, which stands for a gap in ONNX: export sql."
            )
    kind = np.float32 if model.precision == "single" else np.float64
    names = [each.name if isinstance(each, Levels) else each for each in model.columns or []]
    graph = _Graph(onnx, names)
    rows = _rows(graph, model, kind)
    if model.mean.any():  # subtracted in double precision, as transform does
        rows = graph.cast(graph.add("Sub", graph.cast(rows, np.float64), graph.constant(model.mean)), kind)
    rows = graph.add("MatMul", rows, graph.constant(model.matrix.astype(kind)))
    if model.offset.any():
        rows = graph.cast(graph.add("Sub", graph.cast(rows, np.float64), graph.constant(model.offset)), kind)
    helper, output = onnx.helper, "components"
    while output in names:
        output += "_"
    graph.nodes.append(helper.make_node("Identity", [rows], [output]))
    element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    outputs = [helper.make_tensor_value_info(output, element, ["n", len(model.names)])]
    made = helper.make_graph(graph.nodes, "mmpca", graph.inputs, outputs, graph.constants)
    opsets = [helper.make_opsetid("", OPSET)]
    whole = helper.make_model(made, producer_name="mmpca-dist", opset_imports=opsets, ir_version=IR)
    onnx.checker.check_model(whole, full_check=True)
    return {".onnx": whole.SerializeToString()}


FORMAT = ExportFormat(
    "onnx", ".onnx", "a model of ONNX, in the precision of the run", _files,
    'Z, = onnxruntime.InferenceSession("{file}").run(None, {{"X": X}})',
)  # fmt: skip
