"""Options of the commands, and the configuration that they make."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from mmpca_dist.errors import ConfigError, InputError

if TYPE_CHECKING:  # reading it takes a second, and `mmpca --help` needs none of it
    from mmpca_dist.configuration.schema import RunConfig

SIDE = re.compile("[0-9]{1,9}")


def config_options(command: Callable) -> Callable:
    """Give a command the argument and the options of all that take a configuration."""
    output = "Replace the folder of the run: a path or fsspec URL, such as s3://bucket/run."
    settings = (
        "Replace a setting, such as compute.workers=4, 'n_components=[4,8]' or dataset.drop=id; may be repeated. For "
        "all of them: mmpca config."
    )
    command = click.option("--output", metavar="DIR", help=output)(command)
    command = click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help=settings)(command)
    return click.argument("config")(command)


prefect_option = click.option(
    "--prefect/--no-prefect",
    default=True,
    show_default=False,
    envvar="MMPCA_PREFECT",
    help="Do the work in a Prefect flow, which starts a temporary server where there is none, or without Prefect. "
    "MMPCA_PREFECT=off in the environment stands for the latter.",
)


def _shown(key: str, text: str) -> str:
    """Return an option as it was given, or its key alone where the value carries credentials."""
    from mmpca_dist.stores.addresses import refuse_secrets

    try:
        refuse_secrets(text)
    except InputError:
        return key
    return f"{key}={text}" if key else text


def load(
    config: str, settings: tuple[str, ...], output: str | None, defaults: dict[str, Any] | None = None
) -> RunConfig:
    """Read a configuration with the options of the command line; values are YAML."""
    from mmpca_dist.configuration.parsing import read_yaml
    from mmpca_dist.configuration.schema import load_config

    changes: dict[str, Any] = {}
    places: dict[str, str] = {}
    for word in settings:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise ConfigError(f"--set {word}: write it as key=value, such as --set n_components=4.")
        try:
            changes[key] = read_yaml(text)
        except ConfigError as error:
            raise ConfigError(f"--set {_shown(key, text)}: the value is not readable as YAML.") from error
        places[key] = f"--set {_shown(key, text)}"
    if output is not None:
        changes["output"], places["output"] = output, f"--output {_shown('', output)}".rstrip()
    return load_config(config, changes, places=places, defaults=defaults)


def image_shape_of(text: str | None) -> tuple[int, int] | None:
    """Return height and width, from HEIGHTxWIDTH."""
    if text is None:
        return None
    height, cross, width = text.lower().partition("x")
    if not cross or not SIDE.fullmatch(height) or not SIDE.fullmatch(width):
        raise ConfigError(f"--image-shape {text}: write it as HEIGHTxWIDTH, such as 28x28.")
    return int(height), int(width)
