"""A SELECT that adds the components to the rows of a table."""

from __future__ import annotations

from mmpca_dist.errors import InputError
from mmpca_dist.runs.export.model import ExportFormat, LinearModel
from mmpca_dist.tables.levels import Levels

NAN = "CAST('NaN' AS DOUBLE PRECISION)"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _number(value: float) -> str:
    """Return a literal in double precision: without an exponent it would be a decimal number."""
    digits = repr(float(value))
    return digits if "e" in digits else f"{digits}e0"


def _features(model: LinearModel) -> list[str]:
    """Return an expression for each feature; NULL and NaN become the mean where the run fills gaps."""
    features: list[str] = []
    for column in model.columns or []:
        if not isinstance(column, Levels):
            value = f"CAST({_identifier(column)} AS DOUBLE PRECISION)"
            fill = None if model.fills is None else _number(model.fills[len(features)])
            features.append(value if fill is None else f"COALESCE(NULLIF({value}, {NAN}), {fill})")
            continue
        name = _identifier(column.name)
        for levels in column.by_indicator:
            fill = "NULL" if model.fills is None else _number(model.fills[len(features)])
            among = f"CAST({name} AS VARCHAR) IN ({', '.join(map(_text, levels))})"
            features.append(f"CASE WHEN {name} IS NULL THEN {fill} WHEN {among} THEN 1e0 ELSE 0e0 END")
    return features


def _sum(terms: list[str]) -> str:
    """Return a sum in pairs: databases bound how deeply expressions are nested."""
    if len(terms) < 2:
        return terms[0] if terms else "0e0"
    return f"({_sum(terms[: len(terms) // 2])} + {_sum(terms[len(terms) // 2 :])})"


def _files(model: LinearModel) -> dict[str, bytes]:
    names = [each.name if isinstance(each, Levels) else each for each in model.columns or []]
    if not names:
        raise InputError("The columns of the run's rows have no names, which SQL needs: export npy, or onnx.")
    lowered = [name.lower() for name in names]
    same = next((name for i, name in enumerate(names) if name.lower() in lowered[:i]), None)
    if same is not None:
        raise InputError(
            f"Two columns are called {same!r} but for upper and lower case, which are one in SQL: rename one."
        )
    centred = [
        f"({feature} - {_number(mean)})" if mean else feature
        for feature, mean in zip(_features(model), model.mean, strict=True)
    ]
    components = []
    for name, loadings, offset in zip(model.names, model.matrix.T, model.offset, strict=True):
        terms = [f"{_number(a)} * {x}" for a, x in zip(loadings, centred, strict=True) if a]
        components.append(f"{_sum(terms)} - {_number(offset)} AS {_identifier(name)}")
    select = ",\n  ".join(["SELECT source.*", *components])
    return {".sql": f"{select}\nFROM source\n".encode()}


FORMAT = ExportFormat(
    "sql", ".sql", "a SELECT over a table called source", _files,
    """duckdb.sql("WITH source AS (FROM 'rows.parquet') " + open("{file}").read())""",
)  # fmt: skip
