"""A SELECT that adds the components, and the scores that the run keeps, to the rows of a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mmpca_dist.errors import InputError
from mmpca_dist.runs.export.model import ExportFormat, LinearModel, unused


def _quoted(text: str, mark: str) -> str:
    return mark + text.replace(mark, 2 * mark) + mark


def _number(value: float) -> str:
    """Return a literal in double precision: without an exponent it would be a decimal number."""
    digits = repr(float(value))
    return digits if "e" in digits else f"{digits}e0"


def _features(model: LinearModel) -> Iterator[str]:
    """Yield an expression for each feature; NULL and NaN become the mean where the run fills gaps."""
    fills = iter(["NULL"] * len(model.matrix) if model.fills is None else map(_number, model.fills))
    for name, text in model.columns.items():
        column = _quoted(name, '"')
        if text is None:
            value = f"CAST({column} AS DOUBLE PRECISION)"
            yield f"COALESCE(NULLIF({value}, CAST('NaN' AS DOUBLE PRECISION)), {next(fills)})"
            continue
        for levels in text.by_indicator:
            among = f"CAST({column} AS VARCHAR) IN ({', '.join(_quoted(level, chr(39)) for level in levels)})"
            yield f"CASE WHEN {column} IS NULL THEN {next(fills)} WHEN {among} THEN 1e0 ELSE 0e0 END"


def _sum(terms: list[str]) -> str:
    """Return a sum in pairs: databases bound how deeply expressions are nested."""
    if len(terms) < 2:
        return terms[0] if terms else "0e0"
    return f"({_sum(terms[: len(terms) // 2])} + {_sum(terms[len(terms) // 2 :])})"


def _product(rows: list[str], loadings: Iterable[float]) -> str:
    return _sum([f"{_number(a)} * {x}" for x, a in zip(rows, loadings, strict=True) if a])


def _scores(model: LinearModel) -> Iterator[tuple[str, str]]:
    """Yield names and expressions of scores and limits."""
    centred = zip(_features(model), model.scores.centre, model.scale, strict=True)
    rows = [f"({x} - {_number(mean)}){'' if scale == 1 else f' / {_number(scale)}'}" for x, mean, scale in centred]
    whole = _sum([f"POWER({x}, 2)" for x in rows])
    for name, loadings in model.scores.loadings.items():
        part = _sum([f"POWER({_product(rows, own)}, 2)" for own in loadings.T])
        # GREATEST(..., 0) would skip NULL, so that rows with gaps had a Q of 0.
        yield name, part if name == "t2" else f"{whole} - LEAST({whole}, {part})"
        yield f"{name}_limit", _number(model.scores.limits[name])


def _files(model: LinearModel) -> dict[str, bytes]:
    if not model.columns:
        raise InputError("The columns of the run's rows have no names, which SQL needs: export npy, or onnx.")
    lowered = [name.lower() for name in model.columns]
    for i, name in enumerate(model.columns):
        if lowered[i] in lowered[:i]:
            raise InputError(f"Another column is called {name!r} but for case, which is the same in SQL: rename one.")
    centred = [f"({x} - {_number(mean)})" for x, mean in zip(_features(model), model.mean, strict=True)]
    select = ["SELECT source.*"]
    for name, loadings, offset in zip(model.names, model.matrix.T, model.offset, strict=True):
        select.append(f"{_product(centred, loadings)} - {_number(offset)} AS {_quoted(name, chr(34))}")
    select += [f"{value} AS {_quoted(unused(name, lowered), chr(34))}" for name, value in _scores(model)]
    return {".sql": (",\n  ".join(select) + "\nFROM source\n").encode()}


USAGE = """duckdb.sql("WITH source AS (FROM 'rows.parquet') " + open("{file}").read())"""
FORMAT = ExportFormat("sql", ".sql", _files, USAGE)
