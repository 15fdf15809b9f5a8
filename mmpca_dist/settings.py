"""The base of sections of a configuration, and of options."""

from __future__ import annotations

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
