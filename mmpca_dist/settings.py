"""Settings: the base of sections of a configuration, and what messages call a setting."""

from __future__ import annotations

import shlex
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field
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


Values = str | Sequence[str] | None
"""Values of a setting, in a message: one, several, or none named."""


def _as_key(setting: str, values: Values) -> str:
    named = values if values is None or isinstance(values, str) else f"[{', '.join(values)}]"
    return f"dataset.{setting}" + ("" if named is None else f": {named}")


def _as_option(setting: str, values: Values) -> str:
    option = f"--{setting.replace('_', '-')}"
    return option if values is None else " ".join(f"{option} {shlex.quote(value)}" for value in as_list(values))


def as_keyword(setting: str, values: Values) -> str:
    """Return a setting as the functions of Python take it: ``drop=['id']``."""
    return setting if values is None else f"{setting}={values!r}"


def as_named(setting: str) -> Callable[[str, Values], str]:
    """Return what calls by one name every setting that names an array or column."""
    spelled = _spelling.get()
    return lambda name, values: spelled(name, values) if name == "missing_chunks" else setting


def renamed(setting: str, other: str) -> Callable[[str, Values], str]:
    """Return what calls a setting as another that stands in its place."""
    spelled = _spelling.get()
    return lambda name, values: spelled(other if name == setting else name, values)


_spelling: ContextVar[Callable[[str, Values], str]] = ContextVar("spelling", default=_as_key)


def setting_name(setting: str, values: Values = None) -> str:
    """Return what the user calls a setting of a data set, for messages; with ``values``, what to type.

    >>> setting_name("label"), setting_name("drop", ["id"]), setting_name("missing_chunks", "fill")
    ('dataset.label', 'dataset.drop: [id]', 'dataset.missing_chunks: fill')
    """
    return _spelling.get()(setting, values)


@contextmanager
def settings_named(spelling: Callable[[str, Values], str] = _as_option) -> Iterator[None]:
    """Let messages name settings in another way, by default as options of ``mmpca ingest``."""
    token = _spelling.set(spelling)
    try:
        yield
    finally:
        _spelling.reset(token)
