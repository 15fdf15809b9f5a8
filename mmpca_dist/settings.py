"""Settings: the base of sections of a configuration, and what messages call a setting."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    """A part of the configuration; unknown keys are refused."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, field_title_generator=lambda name, _: name
    )


def setting(default: Any = ..., *, values: str | None = None, example: Any = None, **more: Any) -> Any:
    """Return a field; ``values`` says in words what it may be, where its type does not."""
    extra: dict[str, Any] | None = None if values is None else {"values": values}
    return Field(default, json_schema_extra=extra, examples=[example], **more)


def as_list(value: Any) -> Any:
    """Return a list of one for a single value."""
    return value if isinstance(value, list | tuple) else [value]


def _as_key(setting: str, values: Sequence[str] | None) -> str:
    return f"dataset.{setting}" + ("" if values is None else f": [{', '.join(values)}]")


def _as_option(setting: str, values: Sequence[str] | None) -> str:
    option = f"--{setting.replace('_', '-')}"
    return option if values is None else " ".join(f"{option} {shlex.quote(value)}" for value in values)


def as_named(setting: str) -> Callable[[str, Sequence[str] | None], str]:
    """Return what calls every setting by one name."""
    return lambda *_: setting


_spelling: ContextVar[Callable[[str, Sequence[str] | None], str]] = ContextVar("spelling", default=_as_key)


def setting_name(setting: str, values: Sequence[str] | None = None) -> str:
    """Return what the user calls a setting of a data set, for messages; with ``values``, what to type.

    >>> setting_name("label"), setting_name("drop", ["id"])
    ('dataset.label', 'dataset.drop: [id]')
    """
    return _spelling.get()(setting, values)


@contextmanager
def settings_named(spelling: Callable[[str, Sequence[str] | None], str] = _as_option) -> Iterator[None]:
    """Let messages name settings in another way, by default as options of ``mmpca ingest``."""
    token = _spelling.set(spelling)
    try:
        yield
    finally:
        _spelling.reset(token)
