"""Options of the commands, and the configuration that they make."""

from __future__ import annotations

import gc
import os
import re
import shlex
from collections.abc import Callable, Sequence
from functools import partial
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import click

from mmpca_dist.errors import ConfigError, InputError

from .console import ConsoleCallback, console, print_text

if TYPE_CHECKING:  # reading it takes a second, and `mmpca --help` needs none of it
    from pydantic.fields import FieldInfo

    from mmpca_dist.configuration.schema import RunConfig
    from mmpca_dist.runs.checked_table import TableCheck

SIDE = re.compile("[0-9]{1,9}")
missing_value_option = click.option(
    "--missing-value", "missing_values", multiple=True, metavar="WORD",
    help="A word for missing values, such as ?, besides empty cells and those that pandas knows. May be repeated.",
)  # fmt: skip


def label_options(text: str | None = None) -> Callable:
    """Return what gives a command ``--label``, with this help, and ``--no-label``, which stands for the label none."""
    without = click.option("--no-label", "label", flag_value="none", help="Take rows as without labels.")
    return lambda command: click.option("--label", metavar="NAME", help=text)(without(command))


def config_options(command: Callable) -> Callable:
    """Give a command the argument and the options of all that take a configuration, or a table in its place."""
    label = "The column or array of the labels, in place of dataset.label; guessed where CONFIG is a table."
    output = "Replace the folder of the run: a path or fsspec URL, such as s3://bucket/run."
    settings = (
        "Replace a setting, such as compute.workers=4, 'n_components=[4,8]' or dataset.drop=id; may be repeated. For "
        "all of them: mmpca config."
    )
    command = missing_value_option(command)
    command = click.option("--output", metavar="DIR", help=output)(command)
    command = click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help=settings)(command)
    command = label_options(label)(command)
    return click.argument("config", type=click.Path())(command)


_prefect = partial(click.option, "--prefect/--no-prefect", show_default=False, envvar="MMPCA_PREFECT")
prefect_option = _prefect(
    default=True,
    help="Do the work in a Prefect flow, which starts a temporary server where there is none, or without Prefect. "
    "MMPCA_PREFECT=off in the environment stands for the latter.",
)
quick_prefect_option = _prefect(
    default=lambda: bool(os.environ.get("PREFECT_API_URL")),
    help="Do the work in a Prefect flow, or without; by default in a flow where PREFECT_API_URL names a server.",
)


def _note(_context: click.Context, option: click.Parameter, value: bool) -> bool:
    setattr(console, "verbose" if option.name == "verbose" else "quiet", value)
    return value


json_option = click.option("--json", "as_json", is_flag=True, callback=_note, help="Print JSON alone.")


def verbosity(command: Callable) -> Callable:
    """Return a command with the options ``--verbose`` and ``--quiet``."""
    options: dict[str, Any] = {"is_flag": True, "expose_value": False, "callback": _note}
    command = click.option("-v", "--verbose", help="Tell every pass.", **options)(command)
    return click.option("-q", "--quiet", help="Print errors alone.", **options)(command)


def _shown(key: str, text: str) -> str:
    """Return an option as it was given, or its key alone where the value carries credentials."""
    from mmpca_dist.stores.addresses import refuse_secrets

    try:
        refuse_secrets(text)
    except InputError:
        return key
    return f"{key}={text}" if key else text


def load(
    config: str,
    settings: tuple[str, ...],
    output: str | None,
    label: str | None,
    missing_values: tuple[str, ...] = (),
    defaults: Any = None,
) -> RunConfig:
    """Read a configuration with the options of the command line, whose values are YAML; choose that of a table."""
    if console.is_terminal:  # whose reader waits; in a script, a refusal prints its sentence alone
        print_text(console, f"Reading {config}")
    gc.disable()  # in a million objects of modules, of which none is garbage, it would look for some again and again
    from mmpca_dist.configuration.parsing import read_yaml
    from mmpca_dist.configuration.schema import load_config
    from mmpca_dist.tables.readers.formats import is_table

    gc.freeze()
    gc.enable()
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
    if missing_values:
        changes["dataset.missing_values"], places["dataset.missing_values"] = list(missing_values), "--missing-value"
    if is_table(config):
        chosen = chosen_yaml(checked(config, label, changes.get("dataset.missing_values") or ()))
        print_text(console, f"{chosen}# mmpca check {shlex.quote(config)} -o my.yaml writes these settings to a file.")
        return load_config(config, changes, places=places, content=chosen)
    if label is not None:
        changes["dataset.label"], places["dataset.label"] = label, f"--label {label}"
    return load_config(config, changes, places=places, defaults=defaults)


def checked(table: str, label: str | None, missing_values: Sequence[str] = ()) -> TableCheck:
    """Check a table, and show how far it is read."""
    from mmpca_dist.runs.check import check

    callback = ConsoleCallback(console)
    callback.on_stage_start("check")
    try:
        return check(table, label, partial(callback.on_progress, "check"), missing_values)
    finally:
        callback.close()


def chosen_yaml(checked: TableCheck) -> str:
    """Return a configuration for a table; raise InputError where no settings make it one for a run."""
    from mmpca_dist.runs.draft import suggested_yaml

    if checked.refused:
        raise InputError(f"{checked.uri} cannot be run as it is. {' '.join(checked.refused)}")
    return suggested_yaml(checked)


class RequestCommand(click.Command):
    """A command called with a model, such as ``module:Model``, whose fields are its arguments and options."""

    def __init__(self, *args: Any, model: str, **more: Any) -> None:
        super().__init__(*args, **more)
        self.own, self.model = self.params, model

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the fields, read only now, as the command declares them or by their type; then its other options."""
        if self.params is self.own:
            fields, made = resolve_name(self.model).model_fields, []
            for name, field in fields.items():
                declared = [each for each in self.own if each.name == name] or [_parameter(name, field)]
                for each in declared:
                    if isinstance(each, click.Option) and each.help is None:
                        each.help = f"{field.description}.{' May be repeated.' * each.multiple}"
                made += declared
            self.params = [*made, *(each for each in self.own if each.name not in fields)]
        return super().get_params(ctx)

    def invoke(self, ctx: click.Context) -> Any:
        """Call the function with the model that the arguments and options make."""
        from mmpca_dist.configuration.parsing import parse_model

        model = resolve_name(self.model)
        given = {name: ctx.params.pop(name) for name in model.model_fields}
        ctx.params["config"] = parse_model(model, given, "The options")
        return super().invoke(ctx)


def _parameter(name: str, field: FieldInfo) -> click.Parameter:
    """Return the argument or the option that a field is: by its name, of a list that of one value."""
    if field.is_required():
        return click.Argument([name])
    kinds = [field.annotation, *get_args(field.annotation)]
    choices = next((get_args(kind) for kind in kinds if get_origin(kind) is Literal), None)
    number = next((kind for kind in (float, int) if kind in kinds and str not in kinds), str)
    several, option = isinstance(field.default, list), name.replace("_", "-")
    more: dict[str, Any] = {"multiple": True} if several else {"default": field.default}
    if isinstance(field.default, bool):
        more["is_flag"] = True
    else:
        more["type"] = click.Choice(choices) if choices else number
    return click.Option([f"--{option.removesuffix('s') if several else option}", name], **more)


def image_shape_of(_context: click.Context, _option: click.Parameter, text: str | None) -> tuple[int, int] | None:
    """Return height and width of a text such as ``28x28``."""
    if text is None:
        return None
    height, cross, width = text.lower().partition("x")
    if not cross or not SIDE.fullmatch(height) or not SIDE.fullmatch(width):
        raise ConfigError(f"--image-shape {text}: write it as HEIGHTxWIDTH, such as 28x28.")
    return int(height), int(width)
