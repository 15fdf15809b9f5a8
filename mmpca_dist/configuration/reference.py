"""The reference of all settings and methods: a commented YAML file, a Markdown page, tables."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from mmpca_dist.configuration.parsing import as_yaml, example_of, settings_of
from mmpca_dist.configuration.schema import SECTIONS, RunConfig
from mmpca_dist.methods.base.registry import METHODS
from mmpca_dist.settings import as_list, values_of
from mmpca_dist.tables.row_maps.specification import ROW_MAPS

WIDTH = 80


def methods_rows() -> list[tuple[str, str, str]]:
    """Return (method, what its components keep, limit) for every method."""
    return [(name, method.keeps, method.limit) for name, method in METHODS.items()]


def commented_yaml() -> str:
    """Return a configuration of all settings at their defaults, with what they mean; examples where none is."""
    lines = [
        "# All settings of a run. The four without a default (dataset.uri, methods,",
        "# n_components, output) hold examples; any other may be left out.",
    ]
    for key, field in settings_of(RunConfig):
        section, dot, name = key.rpartition(".")
        if dot and f"{section}:" not in lines:
            lines += ["", f"# {_section(section)}", f"{section}:"]
        indent = "  " if dot else ""
        if not dot:
            lines.append("")
        comment = f"{field.description}. Values: {values_of(field) if field.is_required() else _with_example(field)}."
        lines += [f"{indent}# {line}" for line in textwrap.wrap(comment, WIDTH - len(indent) - 2)]
        lines.append(f"{indent}{name}: {example_of(field) if field.is_required() else as_yaml(field.default)}")
    return "\n".join(lines) + "\n"


class _ConfigSchema(GenerateJsonSchema):
    """Lets a single value stand for a list of one, as configurations do; forms always make lists."""

    def function_before_schema(self, schema: core_schema.BeforeValidatorFunctionSchema) -> JsonSchemaValue:
        inner = super().function_before_schema(schema)
        return {"anyOf": [inner["items"], inner]} if schema["function"]["function"] is as_list else inner


def schema_text() -> str:
    """Return the JSON Schema of configurations, for editors and other programs."""
    schema = RunConfig.model_json_schema(schema_generator=_ConfigSchema)
    return json.dumps({"$schema": GenerateJsonSchema.schema_dialect, **schema}, indent=2) + "\n"


def page() -> str:
    """Return the page of all settings in Markdown."""
    lines = [
        "# Settings",
        "",
        "Every key that a configuration may hold, with dots for keys within a section. This page is printed by",
        "`mmpca config --markdown`; `mmpca config > my.yaml` writes a file with all of them to start from, and",
        "`--set KEY=VALUE` replaces one for a single command.",
        "",
    ]
    sections = {"": "A run: which data, which methods, how many components, where to."}
    sections |= {name: _section(name) for name in SECTIONS}
    for section, title in sections.items():
        rows = [_row(key, field) for key, field in settings_of(RunConfig) if key.rpartition(".")[0] == section]
        lines += [f"## {section or 'The run'}", "", title, "", *_table("key | values | default | meaning", rows), ""]
    methods = [(f"`{name}`", keeps, limit) for name, keeps, limit in methods_rows()]
    lines += ["## Methods", "", "For n rows with d features:", ""]
    lines += _table("method | what its components keep | limit", methods)
    lines += _option_lines("method", METHODS)
    kinds = [(f"`{name}`", kind.description) for name, kind in ROW_MAPS.items()]
    lines += ["", "## Row maps", "", *_table("row map | what it does to a row", kinds)]
    lines += _option_lines("row map", ROW_MAPS)
    return "\n".join(lines) + "\n"


def _option_lines(kind: str, registry: Mapping[str, Any]) -> list[str]:
    rows = [(f"`{name}`", *_row(*option)) for name, one in registry.items() for option in settings_of(one.options)]
    return ["", f"## Options of {kind}s", "", *_table(f"{kind} | option | values | default | meaning", rows)]


def _table(head: str, rows: Iterable[Sequence[str | None]]) -> list[str]:
    separator = " | ".join("---" for _ in head.split(" | "))
    return [f"| {line} |" for line in (head, separator, *(" | ".join(map(str, row)) for row in rows))]


def _section(name: str) -> str:
    return (RunConfig.model_fields[name].annotation.__doc__ or "").strip()


def _row(key: str, field: FieldInfo) -> tuple[str | None, ...]:
    default = "must be given" if field.is_required() else f"`{as_yaml(field.default)}`"
    return f"`{key}`", _with_example(field), default, field.description


def _with_example(field: FieldInfo) -> str:
    values, example = values_of(field), example_of(field)
    return values if example in values else f"{values}, such as {example}"
