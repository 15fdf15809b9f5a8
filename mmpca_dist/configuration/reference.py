"""The reference of all settings and methods: a commented YAML file, a Markdown page, tables."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from mmpca_dist.configuration.parsing import Setting, as_yaml, settings_of
from mmpca_dist.configuration.schema import SECTIONS, RunConfig
from mmpca_dist.methods.base.registry import METHODS
from mmpca_dist.settings import as_list
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
    for setting in settings_of(RunConfig):
        section, dot, name = setting.key.rpartition(".")
        if dot and f"{section}:" not in lines:
            lines += ["", f"# {_section(section)}", f"{section}:"]
        indent = "  " if dot else ""
        if not dot:
            lines.append("")
        lines += [f"{indent}# {line}" for line in textwrap.wrap(_comment(setting), WIDTH - len(indent) - 2)]
        lines.append(f"{indent}{name}: {as_yaml(setting.example if setting.required else setting.default)}")
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
        lines += [f"## {section or 'The run'}", "", title, "", "| key | values | default | meaning |"]
        lines.append("| --- | --- | --- | --- |")
        for setting in settings_of(RunConfig):
            if setting.key.rpartition(".")[0] == section:
                default = "must be given" if setting.required else f"`{as_yaml(setting.default)}`"
                lines.append(f"| `{setting.key}` | {_with_example(setting)} | {default} | {setting.description} |")
        lines.append("")
    lines += ["## Methods", "", "For n rows with d features:", "", "| method | what its components keep | limit |"]
    lines.append("| --- | --- | --- |")
    lines += [f"| `{name}` | {keeps} | {limit} |" for name, keeps, limit in methods_rows()]
    lines += _option_lines("method", METHODS)
    lines += ["", "## Row maps", "", "| row map | what it does to a row |", "| --- | --- |"]
    lines += [f"| `{name}` | {kind.description} |" for name, kind in ROW_MAPS.items()]
    lines += _option_lines("row map", ROW_MAPS)
    return "\n".join(lines) + "\n"


def _option_lines(kind: str, registry: Mapping[str, Any]) -> list[str]:
    lines = ["", f"## Options of {kind}s", "", f"| {kind} | option | values | default | meaning |"]
    lines.append("| --- | --- | --- | --- | --- |")
    for name, one in registry.items():
        for option in settings_of(one.options):
            values, default = _with_example(option), as_yaml(option.default)
            lines.append(f"| `{name}` | `{option.key}` | {values} | `{default}` | {option.description} |")
    return lines


def _section(name: str) -> str:
    return (RunConfig.model_fields[name].annotation.__doc__ or "").strip()


def _comment(setting: Setting) -> str:
    stated = f"{setting.description}. Values: "
    return f"{stated}{setting.values if setting.required else _with_example(setting)}."


def _with_example(setting: Setting) -> str:
    example = as_yaml(setting.example)
    return setting.values if example in setting.values else f"{setting.values}, such as {example}"
