"""Which columns of a table are its label and its features, by what is asked for, and which cannot be."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from mmpca_dist.errors import InputError, did_you_mean, some_names
from mmpca_dist.faults import Fault, Setting
from mmpca_dist.tables.chosen_columns import listed, positions_of
from mmpca_dist.tables.readers.formats import Request, refuse_missing_names
from mmpca_dist.tables.stored_types import is_list, is_number
from mmpca_dist.tables.times import remedy_for

LABEL_NAMES = ("label", "y")


def label_column(schema: pa.Schema, request: Request, index: Collection[str]) -> str | None:
    """Return the label column, by default none of ``request.names``; None where there is none and none is required."""
    names = [request.label] if request.label else [name for name in LABEL_NAMES if name not in (request.names or ())]
    for name in names:
        if name in schema.names and (request.label or name not in index):
            return name
    if not request.label_required and request.label is None:
        return None
    hint = did_you_mean(names[0], schema.names) or f" Its columns are {some_names(schema.names)}."
    if stored := [name for name in names if name in schema.names]:
        hint = f" The table has {stored[0]!r} as an index of pandas: name it if it holds the labels."
    listed = " or ".join(map(repr, names))
    raise InputError(f"{request.uri} has no column {listed} ({{label}}).{hint}", label=Setting("label"))


def feature_columns(
    schema: pa.Schema, request: Request, label: str | None, drop: list[str], index: Collection[str]
) -> tuple[tuple[str, ...], bool]:
    """Return the feature columns, and whether they are one fixed-size list."""
    uri, features = request.uri, request.features
    _refuse_unknown(drop, schema.names, label, uri)
    left_out = {label, *drop}
    if request.names == []:
        return (), False
    named = {request.features, *(request.names or ()), *map(str, listed(request.columns or []))}
    others = tuple(name for name in schema.names if name not in left_out and (name not in index or name in named))
    if request.names and features is None and not any(is_list(schema.field(name).type) for name in others):
        refuse_missing_names(uri, others, request.names)
        return tuple(request.names), False
    if features is not None and features not in others:
        hint = did_you_mean(features, others)
        raise InputError(f"{uri} has no feature column {features!r} ({{setting}}).{hint}", setting=Setting("features"))
    names = (features,) if features is not None else others
    if not names:
        beside = [*([f"the label {label!r}"] if label else []), *(["those dropped or kept"] if drop else [])]
        raise InputError(f"{uri} has no columns" + (" other than " + " and ".join(beside) if beside else "") + ".")
    lists = [name for name in names if is_list(schema.field(name).type)]
    if lists and len(names) > 1:
        raise InputError(
            f"{uri} has a list column {lists[0]!r} and others; name the one to use with {{features}}, or leave out the "
            "others with {drop}.",
            features=Setting("features"), drop=Setting("drop"),
        )  # fmt: skip
    if request.columns is not None and not lists:
        names = tuple(names[i] for i in positions_of(listed(request.columns), names, len(names), uri))
    return names, bool(lists)


def _refuse_unknown(drop: list[str], names: list[str], label: str | None, uri: str) -> None:
    existing = set(names)
    for name in drop:
        if name == label:
            raise InputError(f"{{drop}} names {name!r}, which is the label of {uri}.", drop=Setting("drop"))
        if name not in existing:
            hint = did_you_mean(name, names) or f" Its columns are {some_names(names)}."
            raise InputError(f"{{drop}} names {name!r}, which is no column of {uri}.{hint}", drop=Setting("drop"))


def other_types(fields: list[pa.Field]) -> list[Fault]:
    """Return which columns, or the values of their lists, are no numbers."""
    kinds = {field.name: field.type.value_type if is_list(field.type) else field.type for field in fields}
    remedies = {name: f" ({remedy})" if (remedy := remedy_for(kind)) else "" for name, kind in kinds.items()}
    return [
        Fault(f"type {kind}{remedies[name]}, where numbers belong", {"name": name}, "text")
        for name, kind in kinds.items()
        if not (is_number(kind) or pa.types.is_boolean(kind))
    ]
