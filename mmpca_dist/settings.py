"""Settings: the base of sections of a configuration, and what a setting may be in words."""

from __future__ import annotations

import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.fields import FieldInfo


class Section(BaseModel):
    """A part of the configuration; unknown keys are refused."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, field_title_generator=lambda name, _: name
    )


def setting(default: Any = ..., *, values: str | None = None, example: Any = None, **more: Any) -> Any:
    """Return a field; ``values`` says in words what it may be, where its type does not."""
    extra: dict[str, Any] | None = None if values is None else {"values": values}
    return Field(default, json_schema_extra=extra, examples=[example], **more)


_TYPES = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def values_of(field: FieldInfo) -> str:
    """Return in words what a field may be."""
    extra = field.json_schema_extra
    stated = extra.get("values") if isinstance(extra, dict) else None
    return str(stated) if stated else _described(field.annotation) + _bounds(field.metadata)


def _described(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " or ".join(str(value) for value in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(_described(kind) for kind in arguments if kind is not type(None))
    if origin is list:
        return f"{_described(arguments[0])}, one or several"
    return _TYPES[annotation]


def _bounds(metadata: list[Any]) -> str:
    words = {"ge": " of at least", "gt": " above", "le": " of at most", "lt": " below"}
    found = {name: getattr(bound, name) for bound in metadata for name in words if hasattr(bound, name)}
    if {"ge", "le"} <= found.keys():
        return f" from {found['ge']} to {found['le']}"
    return " and".join(f"{words[name]} {value}" for name, value in found.items())


def as_list(value: Any) -> Any:
    """Return a list of one for a single value."""
    return value if isinstance(value, list | tuple) else [value]


_PAIR = {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 2, "maxItems": 2}
_Side = Annotated[int, Field(ge=1)]
ImageShape = Annotated[tuple[_Side, _Side], WithJsonSchema(_PAIR)]
"""Height and width; forms know lists, but not pairs."""
ColumnNames = Annotated[list[str], BeforeValidator(as_list)]


def _as_word(value: Any) -> Any:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


Words = Annotated[list[Annotated[str, BeforeValidator(_as_word)]], BeforeValidator(as_list)]
