"""Describe the fields of pydantic models: keys, allowed values, defaults, explanations."""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

_TYPES = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


@dataclass(frozen=True)
class Setting:
    """A field by its dotted key.

    ``values`` says in words what it may be; ``default`` is None where it is ``required``, or where None is meant.
    """

    key: str
    values: str
    required: bool
    default: Any
    example: Any
    description: str


def settings_of(model: type[BaseModel], prefix: str = "") -> Iterator[Setting]:
    """Yield the settings of a model, and of the models within it, in order."""
    for name, field in model.model_fields.items():
        if is_section(field.annotation):
            yield from settings_of(field.annotation, f"{prefix}{name}.")
            continue
        yield Setting(
            key=prefix + name,
            values=_values(field),
            required=field.is_required(),
            default=None if field.is_required() else field.default,
            example=(field.examples or [None])[0],
            description=field.description or "",
        )


def is_section(annotation: Any) -> TypeGuard[type[BaseModel]]:
    """Tell whether a field is a model of its own."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def sections_of(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the names of the fields that are models of their own."""
    return tuple(name for name, field in model.model_fields.items() if is_section(field.annotation))


def keys_of(model: type[BaseModel], path: list[str]) -> list[str]:
    """Return the keys of the model, or of the model within it at ``path``."""
    for part in path:
        model = model.model_fields[part].annotation  # type: ignore[assignment]
    return list(model.model_fields)


def _values(field: FieldInfo) -> str:
    extra = field.json_schema_extra
    stated = extra.get("values") if isinstance(extra, dict) else None
    return str(stated) if stated else _described(field.annotation) + _bounds(field.metadata)


def _described(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " or ".join(str(value) for value in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(_described(one) for one in arguments if one is not type(None))
    if origin is list:
        return f"{_described(arguments[0])}, one or several"
    return _TYPES[annotation]


def _bounds(metadata: list[Any]) -> str:
    least = next((m.ge for m in metadata if hasattr(m, "ge")), None)
    most = next((m.le for m in metadata if hasattr(m, "le")), None)
    if least is not None and most is not None:
        return f" from {least} to {most}"
    return "" if least is None else f" of at least {least}"
