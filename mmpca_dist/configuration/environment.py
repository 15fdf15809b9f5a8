"""Settings from environment variables: ``MMPCA_COMPUTE__WORKERS=4`` sets ``compute.workers``."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, create_model
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsError

from mmpca_dist.configuration.yaml_limits import read_yaml
from mmpca_dist.errors import ConfigError

PREFIX, NESTED = "MMPCA_", "__"


class _Source(EnvSettingsSource):
    """Reads lists and mappings as YAML, as they are in a file and after ``--set``."""

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        try:
            return read_yaml(value)
        except ConfigError as error:
            name = f"{PREFIX}{field_name.upper()}"
            raise ConfigError(f"The environment variable {name} is not readable as YAML.") from error


def settings_from_environment(model: type[BaseModel]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the settings that environment variables replace, by dotted key, and for messages where each comes from.

    Raises
    ------
    ConfigError
        For a value that is not YAML.
    """
    fields: dict[str, Any] = {name: (field.annotation, None) for name, field in model.model_fields.items()}
    settings = create_model("EnvironmentSettings", __base__=BaseSettings, **fields)
    try:
        found = _Source(settings, env_prefix=PREFIX, env_nested_delimiter=NESTED)()
    except SettingsError as error:
        raise ConfigError(str(error.__cause__)) from error
    changes: dict[str, Any] = {}
    for name, value in found.items():
        annotation = model.model_fields[name].annotation
        if isinstance(value, dict) and isinstance(annotation, type) and issubclass(annotation, BaseModel):
            changes |= {f"{name}.{key}": inner for key, inner in value.items()}
        else:
            changes[name] = value
    return changes, {key: f"the environment variable {_variable(key)}" for key in changes}


def _variable(key: str) -> str:
    return PREFIX + key.replace(".", NESTED).upper()
