"""An ONNX model, in the precision of the run; limits of scores are in its metadata."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError, instead_of
from mmpca_dist.runs.export.model import ExportFormat, LinearModel, unused

OPSET, IR = 19, 9
"""Equal takes text from operator set 19 on, which onnxruntime 1.16 knows."""


class _Graph:
    """Adds one operation after the other; values have names that no column has."""

    def __init__(self, onnx: Any, names: list[str]) -> None:
        self.onnx, self.nodes, self.constants, self.inputs = onnx, list[Any](), list[Any](), list[Any]()
        self._prefix = max(names, default="") + "/"

    def element(self, kind: Any) -> int:
        return int(self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind)))

    def input(self, name: str, kind: Any, width: int) -> str:
        self.inputs.append(self.onnx.helper.make_tensor_value_info(name, self.element(kind), ["n", width]))
        return name

    def constant(self, values: Any, kind: Any) -> str:
        name = f"{self._prefix}constant{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.asarray(values, kind), name))
        return name

    def add(self, operation: str, *values: str, **attributes: Any) -> str:
        name = f"{self._prefix}{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operation, values, [name], **attributes))
        return name

    def cast(self, value: str, kind: Any) -> str:
        return self.add("Cast", value, to=self.element(kind))

    def less(self, rows: str, values: NDArray, kind: Any) -> str:
        """Return rows less some values, subtracted in double precision, as ``transform`` does."""
        difference = self.add("Sub", self.cast(rows, np.float64), self.constant(values, np.float64))
        return self.cast(difference if values.any() else rows, kind)

    def among(self, text: str, levels: tuple[str, ...]) -> str:
        """Return whether text (n, 1) is one of some levels, shape (n, 1)."""
        equal = self.cast(self.add("Equal", text, self.constant([levels], object)), np.int32)
        return self.cast(self.add("ReduceMax", equal, self.constant([1], np.int64), keepdims=1), np.bool_)


def _rows(graph: _Graph, model: LinearModel) -> str:
    """Return the rows: an input of shape (n, d), or one of shape (n, 1) for each column where some are text."""
    kind, parts, done = model.dtype, [], 0
    for name, text in model.columns.items() if model.text else [("X", None)]:
        if text is None:
            width = 1 if model.text else len(model.matrix)
            rows = graph.input(name, kind, width)
            absent = graph.add("IsNaN", rows)
        else:
            column, width = graph.input(name, object, 1), len(text.names)
            indicators = [graph.among(column, levels) for levels in text.by_indicator]
            rows = graph.cast(graph.add("Concat", *indicators, axis=1), kind)
            absent = graph.among(column, ("",))
        if model.fills is not None:
            rows = graph.add("Where", absent, graph.constant(model.fills[done : done + width], kind), rows)
        parts.append(rows)
        done += width
    return graph.add("Concat", *parts, axis=1)


def _scores(graph: _Graph, model: LinearModel, rows: str) -> Iterator[str]:
    """Yield T2 and Q, shape (n,); in double precision, since Q is a difference of sums of squares."""
    scores, kind, last = model.scores, np.float64, graph.constant([1], np.int64)
    rows = graph.add("Div", graph.less(rows, scores.centre, kind), graph.constant(model.scale, kind))
    for name, loadings in scores.loadings.items():
        part = graph.add("MatMul", rows, graph.constant(loadings, kind))
        score = graph.add("ReduceSumSquare", part, last, keepdims=0)
        if name == "q":
            rest = graph.add("Sub", graph.add("ReduceSumSquare", rows, last, keepdims=0), score)
            score = graph.add("Max", rest, graph.constant(0, kind))
        yield graph.cast(score, model.dtype)


def _files(model: LinearModel) -> dict[str, bytes]:
    with instead_of(ImportError, InputError, "Install 'mmpca-dist[onnx]' to export to ONNX ({reason})."):
        import onnx
    for text in model.text:
        if "" in (*text.kept, *text.rare):
            raise InputError(f"Column {text.name!r} has the empty text as a level, a gap in ONNX: export sql.")
    found, *scores = [unused(name, model.columns) for name in ("components", *model.scores.loadings)]
    graph, helper = _Graph(onnx, [*model.columns, found, *scores]), onnx.helper
    whole = _rows(graph, model)
    rows = graph.less(whole, model.mean, model.dtype)
    rows = graph.add("MatMul", rows, graph.constant(model.matrix, model.dtype))
    results, outputs = {found: graph.less(rows, model.offset, model.dtype)}, list[Any]()
    results |= zip(scores, _scores(graph, model, whole), strict=True) if scores else ()
    for name, result in results.items():
        graph.nodes.append(helper.make_node("Identity", [result], [name]))
        shape: list[Any] = ["n", len(model.names)] if name == found else ["n"]
        outputs.append(helper.make_tensor_value_info(name, graph.element(model.dtype), shape))
    made = helper.make_graph(graph.nodes, "mmpca", graph.inputs, outputs, graph.constants)
    opsets = [helper.make_opsetid("", OPSET)]
    file = helper.make_model(made, producer_name="mmpca-dist", opset_imports=opsets, ir_version=IR)
    helper.set_model_props(file, {f"{name}_limit": repr(limit) for name, limit in model.scores.limits.items()})
    with instead_of(onnx.checker.ValidationError, InputError, "This makes no valid ONNX model ({reason}): export sql."):
        onnx.checker.check_model(file, full_check=True)
    return {".onnx": file.SerializeToString()}


USAGE = '{Z} = onnxruntime.InferenceSession("{file}").run(None, {{"X": numpy.asarray(X, "{dtype}")}})'
OF_TEXT = """session = onnxruntime.InferenceSession("{file}")
inputs = {{one.name: X[[one.name]] for one in session.get_inputs()}}
kinds = {{one.name: one.type for one in session.get_inputs()}}
{Z} = session.run(None, {{name: column.astype(object).fillna("").to_numpy(object) if "string" in kinds[name]
    else column.to_numpy("{dtype}") for name, column in inputs.items()}})"""
FORMAT = ExportFormat("onnx", ".onnx", _files, USAGE, OF_TEXT)
