"""Validate settings by pydantic models; messages say what is wrong, where, and what would be right."""

from __future__ import annotations

from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from mmpca_dist.configuration.model_fields import keys_of, sections_of, settings_of
from mmpca_dist.configuration.yaml_limits import refuse_unbounded
from mmpca_dist.datasets.stores.credentials import refuse_secrets
from mmpca_dist.errors import ConfigError, InputError, did_you_mean

MOST_PROBLEMS = 20
"""So many keys a message names."""
Model = TypeVar("Model", bound=BaseModel)


def parse_model(model: type[Model], content: Any, where: str, places: dict[str, str] | None = None) -> Model:
    """Validate the settings of any model, with messages as of ``parse_config``."""
    refuse_unbounded(content, where)
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise ConfigError(_sentences(model, error, where, places or {})) from error


def _sentences(model: type[BaseModel], error: ValidationError, where: str, places: dict[str, str]) -> str:
    """Return what is wrong, by the places where it was said; of each key the first problem, and of many keys some."""
    by_key = {".".join(_path(model, one)): one for one in reversed(error.errors())}
    by_place: dict[str, list[str]] = {}
    for key, one in list(reversed(by_key.items()))[:MOST_PROBLEMS]:
        by_place.setdefault(place_of(key, where, places), []).append(_sentence(model, one))
    found = " ".join(f"{place}: {' '.join(sentences)}" for place, sentences in by_place.items())
    more = len(by_key) - MOST_PROBLEMS
    return f"{found} There are {more} more such problems." if more > 0 else found


def place_of(key: str, where: str, places: dict[str, str]) -> str:
    """Return where a key was set: by the change of it, or of a section it is in or that holds it."""
    for changed, place in places.items():
        if key == changed or key.startswith(f"{changed}.") or changed.startswith(f"{key}."):
            return place
    return where


def _path(model: type[BaseModel], error: Any) -> list[str]:
    """Return the keys that lead to an error, without positions in lists and the names of pydantic's alternatives."""
    path: list[str] = []
    sections = sections_of(model)
    for part in error["loc"]:
        known = keys_of(model, path) if not path or path[-1] in sections else []
        if part not in known and error["type"] != "extra_forbidden":
            break
        path.append(str(part))
    return path


def _sentence(model: type[BaseModel], error: Any) -> str:
    """Return one sentence for one of pydantic's errors."""
    path = _path(model, error)
    key, kind = ".".join(path), error["type"]
    if kind == "extra_forbidden":
        known = keys_of(model, path[:-1])
        hint = did_you_mean(path[-1], known) or f" There are {', '.join(known)}."
        return f"Unknown key {key!r}.{hint}"
    if kind == "missing" and key == ".".join(map(str, error["loc"])):
        return f"The key {key!r} is missing. Add it, such as {_example(model, key)}."
    if kind == "value_error":
        text = str(error["ctx"]["error"])
        return (f"{key}: " if key else "") + (text if text.endswith((".", "?")) else f"{text}.")
    if not key:
        return f"There must be keys and values (found {_shown(error['input'])})."
    if key in sections_of(model):
        return f"{key} must hold keys and values, such as {_example(model, key)} (found {_shown(error['input'])})."
    found = next(s for s in settings_of(model) if s.key == key)
    hint = did_you_mean(error["input"], found.values.split(" or ")) if kind == "literal_error" and isinstance(
        error["input"], str
    ) else ""  # fmt: skip
    return f"{key} must be {found.values}, such as {_example(model, key)} (found {_shown(error['input'])}).{hint}"


def _example(model: type[BaseModel], key: str) -> str:
    """Return how a key may be written in YAML."""
    for found in settings_of(model):
        if found.key == key:
            return f"'{key.rsplit('.', 1)[-1]}: {as_yaml(found.example)}'"
        if found.key.startswith(f"{key}."):
            return f"'{key}: {{{found.key.rsplit('.', 1)[-1]}: {as_yaml(found.example)}}}'"
    raise KeyError(key)


def as_yaml(value: Any) -> str:
    """Return a value as YAML writes it on one line."""
    return yaml.safe_dump(value, default_flow_style=True, width=10**6).removesuffix("...\n").strip()


def _shown(value: Any, most: int = 60) -> str:
    text = repr(value)
    try:
        refuse_secrets(text)
    except InputError:
        return "an address with credentials"
    return text if len(text) <= most else f"{text[:most]}..."
