"""One schema for every run: YAML in, a validated ``RunConfig`` out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, Field, ValidationError, field_validator

from mmpca_dist.datasets import storage
from mmpca_dist.datasets.credentials import refuse_secrets
from mmpca_dist.errors import ConfigError, InputError, did_you_mean
from mmpca_dist.evaluation.choosing import CANDIDATES, candidates, fewest_training
from mmpca_dist.reducers.methods import METHODS
from mmpca_dist.reducers.regressing import DEFAULT_ALPHA
from mmpca_dist.runs import bundled_configs
from mmpca_dist.runs.bounded import read_yaml, refuse_unbounded
from mmpca_dist.runs.fields import keys_of, sections_of, settings_of
from mmpca_dist.runs.sections import (
    SPLITS_OF,
    ComputeConfig,
    DatasetConfig,
    EvaluationConfig,
    MethodName,
    NeighborsConfig,
    ProjectConfig,
    Section,
    SolverConfig,
    as_list,
    setting,
)

Purpose = Literal["run", "evaluation"]
"""What a configuration is used for: the same one serves both."""


def _no_truth(value: Any) -> Any:
    """Refuse what YAML reads as true or false, which counts as a number in Python."""
    if isinstance(value, bool):
        raise ValueError(f"it must be a whole number, not {str(value).lower()}")
    return value


Size = Annotated[int, Field(ge=1), BeforeValidator(_no_truth)]
Sizes = Annotated[list[Size], Field(min_length=1), BeforeValidator(as_list)]


class RunConfig(Section):
    """A run: which data, which methods, how many components, where to."""

    dataset: DatasetConfig
    methods: Annotated[list[MethodName], BeforeValidator(as_list)] = setting(
        min_length=1,
        values="names of methods (see `mmpca methods`)",
        example=["pca", "m-pca0"],
        description="Methods to fit; all of them share the passes over the rows",
    )
    n_components: Literal["auto"] | Sizes = setting(
        values="whole numbers of at least 1, or auto",
        example=[8, 16],
        description="Numbers of components; the largest is computed, the others are its first ones. auto chooses one "
        "for each method, by cross-validation and the one-standard-error rule",
    )
    pairing: Literal["one-vs-rest", "one-vs-one"] = setting(
        "one-vs-rest",
        example="one-vs-one",
        description="What m-pca1a, m-pca1b and m-pca2 compare a row with: all rows of other classes together, or each "
        "other class separately",
    )
    shrinkage: float = setting(
        1e-3, ge=0, le=1, example=0.01, description="Share of the identity in fisher's scatter within classes"
    )
    alpha: float = setting(
        DEFAULT_ALPHA, ge=0, example=0.1, description="Penalty on the squared coefficients of ridge, as in scikit-learn"
    )
    seed: int = setting(0, ge=0, example=1, description="Of the directions of random-projection")
    standardize: bool = setting(
        False, example=True, description="Divide columns by their standard deviations, after subtracting means"
    )
    precision: Literal["single", "double"] = setting(
        "single", example="double", description="Of products of rows; sums are double in any case"
    )
    neighbors: NeighborsConfig = NeighborsConfig()
    solver: SolverConfig = SolverConfig()
    project: ProjectConfig = ProjectConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    compute: ComputeConfig = ComputeConfig()
    output: str = setting(
        example="runs/mine",
        description="Folder of the run: a path or fsspec URL; same settings go on where it stopped. Evaluations "
        "go to the folder evaluation below it",
    )

    @field_validator("methods")
    @classmethod
    def _known_methods(cls, names: list[str]) -> list[str]:
        for name in names:
            if name not in METHODS:
                raise ValueError(
                    f"unknown method {name!r}; there are {', '.join(METHODS)}.{did_you_mean(name, METHODS)}"
                )
        return list(dict.fromkeys(names))

    @field_validator("n_components")
    @classmethod
    def _sorted_sizes(cls, sizes: Literal["auto"] | list[int]) -> Literal["auto"] | list[int]:
        return "auto" if sizes == "auto" else sorted(set(sizes))

    @field_validator("output")
    @classmethod
    def _plain_path(cls, uri: str) -> str:
        return storage.normalize(uri)

    @property
    def search(self) -> str:
        """As the estimator calls it."""
        return self.neighbors.mode

    @property
    def recall(self) -> float:
        """As the estimator calls it."""
        return self.neighbors.recall

    @property
    def max_queries(self) -> int | None:
        """As the estimator calls it."""
        return self.neighbors.max_queries

    @property
    def mutual(self) -> str:
        """As the estimator calls it."""
        return self.neighbors.mutual

    @property
    def chooses(self) -> bool:
        """Whether the numbers of components are yet to be chosen."""
        return self.n_components == "auto"

    @property
    def sizes(self) -> list[int]:
        """The numbers of components, ascending; where they are to be chosen, all that may be tried."""
        return candidates(CANDIDATES[-1]) if self.n_components == "auto" else self.n_components

    @property
    def largest(self) -> int:
        """The largest number of components; the others are prefixes."""
        return self.sizes[-1]

    def resolved(self, n_rows: int, n_features: int, purpose: Purpose = "run") -> RunConfig:
        """Return the same with the numbers of components that are tried on so many rows and columns, for ``auto``.

        A run tries no more than there are columns, and one less than rows train; so does an evaluation in folds.
        """
        if not self.chooses:
            return self
        in_folds = purpose == "run" or self.evaluation.splits == "folds"
        training = fewest_training(n_rows, self.evaluation.folds) if in_folds else n_rows
        return self.model_copy(update={"n_components": candidates(min(n_features, training - 1))})

    @property
    def projected(self) -> list[str]:
        """The methods whose rows are written."""
        return self.methods if self.project.methods == "all" else list(dict.fromkeys(self.project.methods))

    @property
    def reference(self) -> str:
        """The method that others are tested against in an evaluation."""
        return self.evaluation.reference or ("pca" if "pca" in self.methods else self.methods[0])

    def settings(self, purpose: Purpose = "run") -> dict[str, Any]:
        """Return what the results depend on: not where the work runs and where results go, nor what is for others."""
        foreign = {"run": "evaluation", "evaluation": "project"}[purpose]
        found = self.model_dump(mode="json", exclude={"compute", "output", foreign})
        if purpose == "run" and self.chooses:
            found["evaluation"] = self.evaluation.choosing()
        return found


SECTIONS = sections_of(RunConfig)
MOST_PROBLEMS = 20
"""So many keys a message names."""
Model = TypeVar("Model", bound=BaseModel)


def load_config(
    path: str | os.PathLike,
    changes: dict[str, Any] | None = None,
    *,
    places: dict[str, str] | None = None,
    defaults: dict[str, Any] | None = None,
) -> RunConfig:
    """Read a YAML file, or a configuration that comes with the package.

    Parameters
    ----------
    path : str or path
        Path of a file; or, where no file is there, the name of a bundled configuration, such as ``quickstart``.
    changes : dict, optional
        Values by dotted keys, which replace those of the file.
    places : dict, optional
        Where each of the changes comes from, for messages: ``{"n_components": "--set n_components=x"}``.
    defaults : dict, optional
        Values for keys of the first level that the file may lack.

    Raises
    ------
    ConfigError
        For a file that is missing or not YAML, unknown keys and values that do not fit; one sentence each.
    """
    file = _file_of(path)
    try:
        content = read_yaml(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        hint = did_you_mean(os.fspath(path), bundled_configs.run_names())
        raise ConfigError(
            f"There is no configuration {path}; 'mmpca config > {path}' writes one to fill in.{hint}"
        ) from error
    except (ConfigError, ValueError, OSError) as error:
        raise ConfigError(f"{path} is not readable as YAML: {' '.join(str(error).split()).rstrip('.')}.") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must hold keys and values, such as 'dataset:' and 'methods:'.")
    changes = changes or {}
    named = {key: f"the change of {key}" for key in changes} | (places or {})
    return parse_config(_replaced({**(defaults or {}), **content}, changes, named), os.fspath(path), named)


def _file_of(path: str | os.PathLike) -> Path:
    """Return the path of a configuration, which may go by the name of a bundled one where no file is called so."""
    file, name = Path(path), os.fspath(path)
    if file.exists() and not file.is_dir():  # a folder may be the output of an earlier run
        return file
    if name in bundled_configs.OPERATIONS:
        raise ConfigError(f"{name} is a file for Prefect, not the configuration of a run: see 'mmpca config {name}'.")
    return bundled_configs.path_of(name) or file


def as_config(given: RunConfig | str | os.PathLike | dict[str, Any]) -> RunConfig:
    """Return settings given as such, as a dict of the same keys, or as the path of a YAML file.

    Raises
    ------
    ConfigError
        For settings that do not fit; the message names them.
    """
    if isinstance(given, dict):
        return parse_config(given, "the configuration")
    return given if isinstance(given, RunConfig) else load_config(given)


def parse_config(content: dict[str, Any], where: str, places: dict[str, str] | None = None) -> RunConfig:
    """Validate a configuration given as a dictionary.

    ``where`` is named in messages, or one of ``places`` for the dotted keys that come from there.
    """
    config = stored_config(content, where, places)
    for name in config.evaluation.idle:
        if name == "folds" and config.chooses:  # which goes by as many
            continue
        key, kinds, splits = f"evaluation.{name}", " or ".join(SPLITS_OF[name]), config.evaluation.splits
        raise ConfigError(
            f"{_place(key, where, places or {})}: {key} is of splits: {kinds}, and has no effect on splits: {splits}. "
            f"Leave it out, or set evaluation.splits to {kinds}."
        )
    return config


def stored_config(content: dict[str, Any], where: str, places: dict[str, str] | None = None) -> RunConfig:
    """Validate a configuration that a run has left, as ``parse_config``; settings without effect are let pass."""
    config = parse_model(RunConfig, content, where, places)
    reference = config.evaluation.reference
    named = {"project.methods": config.projected, "evaluation.reference": [] if reference is None else [reference]}
    for key, names in named.items():
        unknown = next((name for name in names if name not in config.methods), None)
        if unknown is not None:
            raise ConfigError(
                f"{_place(key, where, places or {})}: {key} names {unknown!r}, which is not among "
                f"{', '.join(config.methods)}.{did_you_mean(unknown, config.methods)}"
            )
    return config


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
        by_place.setdefault(_place(key, where, places), []).append(_sentence(model, one))
    found = " ".join(f"{place}: {' '.join(sentences)}" for place, sentences in by_place.items())
    more = len(by_key) - MOST_PROBLEMS
    return f"{found} There are {more} more such problems." if more > 0 else found


def _place(key: str, where: str, places: dict[str, str]) -> str:
    """Return where a key was set: by the change of it, or of a section it is in or that holds it."""
    for changed, place in places.items():
        if key == changed or key.startswith(f"{changed}.") or changed.startswith(f"{key}."):
            return place
    return where


def _replaced(content: dict[str, Any], changes: dict[str, Any], places: dict[str, str]) -> dict[str, Any]:
    content = {**content}
    for key, value in changes.items():
        *sections, last = key.split(".")
        inner = content
        for section in sections:
            below = inner.get(section)
            if below is not None and not isinstance(below, dict):
                raise ConfigError(f"{places[key]}: {section} has no keys within, so there is no {key}.")
            inner[section] = {**(below or {})}
            inner = inner[section]
        inner[last] = value
    return content


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
        return f"{key}: {error['ctx']['error']}"
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
