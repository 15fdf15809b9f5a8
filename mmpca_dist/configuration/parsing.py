"""Read YAML and validate settings; messages say what is wrong, where, and what would be right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard, TypeVar, get_args

import yaml
from pydantic import BaseModel, GetJsonSchemaHandler, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema

from mmpca_dist.errors import ConfigError, InputError, did_you_mean, instead_of
from mmpca_dist.settings import values_of
from mmpca_dist.stores.addresses import refuse_secrets

MAX_BYTES = 1 << 20
PLAIN_TAGS = ("null", "bool", "int", "float", "str", "seq", "map")
"""Tags that settings are made of. Others make bytes, sets and dates, which checks of texts would pass over."""


class _Loader(yaml.SafeLoader):
    """Refuses aliases, which can stand for more than memory holds, and a key that is there twice.

    From such keys YAML takes the last without a word. Dates are text, as they are in JSON.
    """

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()
            raise yaml.YAMLError(f"the alias *{event.anchor}, of line {event.start_mark.line + 1}, is not read")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        times = Counter(key.value for key in keys)
        repeated = next((key for key in keys if times[key.value] > 1), None)
        if repeated is not None:
            line = repeated.start_mark.line + 1
            raise yaml.YAMLError(f"the key {repeated.value!r}, of line {line}, is there {times[repeated.value]} times")
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.yaml_constructors = {
    tag: constructor
    for tag, constructor in yaml.SafeLoader.yaml_constructors.items()
    if tag is None or tag.rpartition(":")[2] in PLAIN_TAGS
}


def read_yaml(text: str) -> Any:
    """Return the content of a YAML document; raise ConfigError if it is no YAML, too large, or has a key twice."""
    if len(text) > MAX_BYTES:
        raise ConfigError(f"it has {len(text):,} characters, and configurations at most {MAX_BYTES:,}.")
    with instead_of(Exception, ConfigError, "{reason}."):  # of scalars that PyYAML takes for numbers, and cannot read
        try:
            return yaml.load(text, _Loader)  # noqa: S506  (a SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
            raise ConfigError(f"{place}{error.problem}.") from error


def settings_of(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Yield the dotted key and the field of each setting of a model, and of the models within it, in order."""
    for name, field in model.model_fields.items():
        if is_section(field.annotation):
            yield from settings_of(field.annotation, f"{prefix}{name}.")
        else:
            yield prefix + name, field


def example_of(field: FieldInfo) -> str:
    """Return an example of a setting as YAML writes it."""
    return as_yaml((field.examples or [None])[0])


def is_section(annotation: Any) -> TypeGuard[type[BaseModel]]:
    """Tell whether a field is a model."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def sections_of(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the names of the fields that are models."""
    return tuple(name for name, field in model.model_fields.items() if is_section(field.annotation))


def fields_of(model: type[BaseModel], path: list[str]) -> dict[str, FieldInfo]:
    """Return the fields of the model, or of that within it at ``path``, which may be left out; none of other fields."""
    for part in path:
        annotation = model.model_fields[part].annotation
        inner = next(filter(is_section, (annotation, *get_args(annotation))), None)
        if inner is None:
            return {}
        model = inner
    return dict(model.model_fields)


MAX_PROBLEMS = 20
"""Number of keys that a message names."""
Model = TypeVar("Model", bound=BaseModel)


def parse_model(model: type[Model], content: Any, where: str, sources: dict[str, str] | None = None) -> Model:
    """Validate the settings of any model, with messages as of ``parse_config``."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise ConfigError(_sentences(model, error, where, sources or {})) from error


def named_content(value: Any, registry: Mapping[str, Any], kind: str, example: str) -> dict[str, Any]:
    """Return the mapping of name and options that a setting is: a name in a registry alone, or such a mapping."""
    content = {"name": value} if isinstance(value, str) else value
    if not isinstance(content, dict) or not isinstance(content.get("name"), str):
        raise ValueError(f"a {kind} is a name, or a mapping such as {example} (found {value!r})")
    name = content["name"]
    if name not in registry:
        raise ValueError(f"unknown {kind} {name!r}; there are {', '.join(registry)}.{did_you_mean(name, registry)}")
    return content


@dataclass(frozen=True, eq=False)
class NameOrMapping:
    """The choices that forms offer for such a setting: the names of a registry, or a mapping."""

    registry: Mapping[str, Any]

    def __get_pydantic_json_schema__(self, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [{"type": "string", "enum": list(self.registry)}, {"type": "object", "required": ["name"]}]}


def _sentences(model: type[BaseModel], error: ValidationError, where: str, sources: dict[str, str]) -> str:
    """Return what is wrong, by the source of the settings; the first problem of each key, and some of many keys."""
    by_key = {".".join(_path(model, problem)): problem for problem in reversed(error.errors())}
    by_source: dict[str, list[str]] = {}
    for key, problem in list(reversed(by_key.items()))[:MAX_PROBLEMS]:
        by_source.setdefault(source_of(key, where, sources), []).append(_sentence(model, problem))
    text = " ".join(f"{source}: {' '.join(sentences)}" for source, sentences in by_source.items())
    n_more = len(by_key) - MAX_PROBLEMS
    return f"{text} There are {n_more} more such problems." if n_more > 0 else text


def source_of(key: str, where: str, sources: dict[str, str]) -> str:
    """Return where a key was set: the source of its change, or of a section that it is in or that it holds."""
    for changed, source in sources.items():
        if key == changed or key.startswith(f"{changed}.") or changed.startswith(f"{key}."):
            return source
    return where


def _path(model: type[BaseModel], error: Any) -> list[str]:
    """Return the keys that lead to an error, without positions in lists and the names of pydantic's alternatives."""
    path: list[str] = []
    for part in error["loc"]:
        if error["type"] != "extra_forbidden" and part not in fields_of(model, path):
            break
        path.append(str(part))
    return path


def _sentence(model: type[BaseModel], error: Any) -> str:
    path = _path(model, error)
    key, kind = ".".join(path), error["type"]
    if kind == "extra_forbidden":
        keys = list(fields_of(model, path[:-1]))
        elsewhere = [other for other, _ in settings_of(model) if other.rpartition(".")[2] == path[-1]]
        hint = f" There is {' and '.join(elsewhere)}." if elsewhere else did_you_mean(path[-1], keys)
        return f"Unknown key {key!r}." + (hint or f" There are {', '.join(keys) or 'none'}.")
    if kind == "missing" and key == ".".join(map(str, error["loc"])):
        return f"The key {key!r} is missing. Add it, such as {_example(model, path)}."
    if kind == "value_error":
        text = str(error["ctx"]["error"])
        return (f"{key}: " if key else "") + (text if text.endswith((".", "?")) else f"{text}.")
    found = f"(found {_shown(error['input'])})."
    if not key:
        return f"There must be keys and values {found}"
    if key in sections_of(model):
        return f"{key} must hold keys and values, such as {_example(model, path)} {found}"
    values, hint = values_of(fields_of(model, path[:-1])[path[-1]]), ""
    if kind == "literal_error" and isinstance(error["input"], str):
        hint = did_you_mean(error["input"], values.split(" or "))
    return f"{key} must be {values}, such as {_example(model, path)} {found}{hint}"


def _example(model: type[BaseModel], path: list[str]) -> str:
    """Return how a key may be written in YAML."""
    if ".".join(path) in sections_of(model):
        name, field = next(iter(fields_of(model, path).items()))
        return f"'{'.'.join(path)}: {{{name}: {example_of(field)}}}'"
    return f"'{path[-1]}: {example_of(fields_of(model, path[:-1])[path[-1]])}'"


def as_yaml(value: Any) -> str:
    """Return a value as YAML writes it on one line."""
    return yaml.safe_dump(value, default_flow_style=True, width=10**6).removesuffix("...\n").strip()


def _shown(value: Any) -> str:
    text = repr(value)
    try:
        refuse_secrets(text)
    except InputError:
        return "an address with credentials"
    return text if len(text) <= 60 else f"{text[:60]}..."


def on_one_line(value: Any) -> str:
    """Return a value on one line: names that YAML would fold are quoted and escaped."""
    text = as_yaml(value)
    return yaml.safe_dump(value, default_style='"', width=10**6).strip() if "\n" in text else text


def comment(text: str) -> str:
    """Return a comment of one line, whatever is in names of columns."""
    words = "".join(letter if letter.isprintable() else " " for letter in text).split()
    return f"  # {' '.join(words)}" if words else ""


def replaced(content: dict[str, Any], changes: dict[str, Any], sources: dict[str, str]) -> dict[str, Any]:
    """Return settings with changes by dotted keys; raise ConfigError, with ``sources``, for keys of no section."""
    content = {**content}
    for key, value in changes.items():
        *sections, last = key.split(".")
        inner = content
        for section in sections:
            below = inner.get(section)
            if below is not None and not isinstance(below, dict):
                raise ConfigError(f"{sources[key]}: {section} has no keys within, so there is no {key}.")
            inner[section] = {**(below or {})}
            inner = inner[section]
        inner[last] = value
    return content
