"""One schema for every run: YAML in, a validated ``RunConfig`` out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import dask.utils
import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError

from mmpca_dist.datasets import storage
from mmpca_dist.errors import ConfigError, InputError, did_you_mean
from mmpca_dist.neighbors.options import PairSearch, Search
from mmpca_dist.reducers.methods import METHODS
from mmpca_dist.runs.fields import is_section, keys_of, settings_of
from mmpca_dist.solvers.options import SolverOptions


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _setting(default: Any = ..., *, values: str | None = None, example: Any = None, **more: Any) -> Any:
    """Return a field; ``values`` says in words what it may be, where its type does not."""
    return Field(default, json_schema_extra={"values": values}, examples=[example], **more)


class DatasetConfig(_Section):
    """Where the labelled rows are."""

    uri: str = _setting(
        example="bundled:digits",
        description="The rows and labels: a path or fsspec URL (s3://, gs://, ...) of Zarr, Parquet, .npz or .npy, "
        "dense or sparse, bundled:NAME, or synthetic:KIND?option=value",
    )
    features: str | None = _setting(
        None, example="X", description="Array, list column or CSR group of the rows; by default X, or all columns"
    )
    label: str | None = _setting(
        None,
        example="species",
        description="Array or column of the labels, such as obs/cell_type of AnnData; by default y (in Parquet label "
        "or y); for .npy the labels' file",
    )
    drop: Annotated[list[str], BeforeValidator(_as_list)] = _setting(
        [], values="names of columns", example=["id"], description="Columns of Parquet that are no features"
    )
    missing_chunks: Literal["refuse", "fill"] = _setting(
        "refuse", example="fill", description="Whether Zarr chunks that are not stored are an error or fill values"
    )
    image_shape: tuple[int, int] | None = _setting(
        None,
        values="two whole numbers",
        example=[28, 28],
        description="Where rows are images: height and width; components are then drawn as images",
    )


class NeighborsConfig(_Section):
    """How m-pca2 finds the nearest rows of other classes."""

    mode: Literal["exact", "approximate"] = _setting(
        "exact", example="approximate", description="All nearest rows, proved, or most of them, measured, sooner"
    )
    recall: float = _setting(
        0.98,
        gt=0,
        lt=1,
        values="a number between 0 and 1",
        example=0.95,
        description="Share of nearest rows that an approximate search aims at",
    )
    max_queries: int | None = _setting(
        None, ge=2, example=100_000, description="Search for so many rows only, drawn with a fixed seed"
    )
    mutual: Literal["twice", "once"] = _setting(
        "twice", example="once", description="How often a pair counts whose rows are each other's nearest"
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        try:
            self.pair_search("one-vs-rest")
        except InputError as error:
            raise ValueError(str(error).removesuffix(".")) from error
        return self

    def pair_search(self, pairing: str) -> PairSearch:
        """Return these settings as the search takes them."""
        return PairSearch(Search(self.mode, self.recall, self.max_queries, pairing), self.mutual)


class SolverConfig(_Section):
    """How leading eigenvectors are found."""

    kind: Literal["auto", "dense", "dual", "krylov", "subspace", "nystroem"] = _setting(
        "auto",
        example="krylov",
        description="From d x d scatters (dense), in the span of fewer rows than columns (dual), or from passes that "
        "apply scatters to a block of vectors (krylov, subspace iteration, nystroem in one); auto goes by the shape",
    )
    oversampling: int = _setting(
        10, ge=0, example=20, description="In passes: vectors of a block beyond the components asked for"
    )
    passes: int = _setting(4, ge=2, example=8, description="Passes over the rows, at most; nystroem makes one")
    tolerance: float = _setting(
        1e-4,
        ge=0,
        lt=1,
        values="a number from 0 to 1",
        example=1e-6,
        description="Residual over eigenvalue of every component at which passes end before that",
    )

    def options(self) -> SolverOptions:
        """Return these settings as the solvers take them."""
        return SolverOptions(self.kind, self.oversampling, self.passes, self.tolerance)


class ProjectConfig(_Section):
    """Which methods' projected rows are written, and how."""

    methods: Literal["all"] | Annotated[list[str], BeforeValidator(_as_list)] = _setting(
        "all",
        values="all, or some of the methods, or [] for none",
        example=["m-pca0"],
        description="Methods whose projected rows are written",
    )
    format: Annotated[list[Literal["zarr", "parquet"]], BeforeValidator(_as_list)] = _setting(
        ["zarr"], example=["zarr", "parquet"], description="Formats of the projected rows; pictures need zarr"
    )


class ComputeConfig(_Section):
    """Where the work runs; no matter for the results."""

    cluster: str = _setting(
        "threads",
        values="threads, local, or the address of a Dask scheduler",
        example="tcp://host:8786",
        description="threads of this process, local worker processes, or workers of a Dask scheduler",
    )
    workers: int = _setting(
        2, ge=1, example=4, description="Workers to start; with a scheduler, how many the plan may count on"
    )
    threads_per_worker: int = _setting(1, ge=1, example=2, description="Tasks that a worker runs at a time")
    memory_limit: str | int = _setting(
        "2GiB",
        values="a size, or a number of bytes",
        example="4GiB",
        description="What a worker may use, and the plan must fit; threads share that of all workers",
    )

    @field_validator("cluster")
    @classmethod
    def _known_cluster(cls, value: str) -> str:
        if value in ("threads", "local") or "://" in value:
            return value
        hint = did_you_mean(value, ["threads", "local"])
        raise ValueError(f"{value!r} is neither 'threads' nor 'local' nor an address like 'tcp://host:8786'.{hint}")

    @field_validator("memory_limit", mode="before")
    @classmethod
    def _readable_size(cls, value: Any) -> Any:
        try:
            size = dask.utils.parse_bytes(value)
        except (ValueError, TypeError, AttributeError) as error:
            raise PydanticCustomError("size", "not a size") from error
        if isinstance(value, bool) or size <= 0:
            raise PydanticCustomError("size", "not a size")
        return value

    @property
    def memory_bytes(self) -> int:
        """Memory a worker may use."""
        return int(dask.utils.parse_bytes(self.memory_limit))

    @property
    def n_threads(self) -> int:
        return self.workers * self.threads_per_worker


class RunConfig(_Section):
    """A run: which data, which methods, how many components, where to."""

    dataset: DatasetConfig
    methods: Annotated[list[str], BeforeValidator(_as_list)] = _setting(
        min_length=1,
        values="names of methods (see `mmpca methods`)",
        example=["pca", "m-pca0"],
        description="Methods to fit; all of them share the passes over the rows",
    )
    n_components: Annotated[list[Annotated[int, Field(ge=1)]], BeforeValidator(_as_list)] = _setting(
        min_length=1,
        values="whole numbers of at least 1",
        example=[8, 16],
        description="Numbers of components; the largest is computed, the others are its first ones",
    )
    pairing: Literal["one-vs-rest", "one-vs-one"] = _setting(
        "one-vs-rest",
        example="one-vs-one",
        description="What m-pca1a, m-pca1b and m-pca2 compare a row with: all rows of other classes together, or each "
        "other class separately",
    )
    shrinkage: float = _setting(
        1e-3, ge=0, le=1, example=0.01, description="Share of the identity in fisher's scatter within classes"
    )
    standardize: bool = _setting(
        False, example=True, description="Divide columns by their standard deviations, after subtracting means"
    )
    precision: Literal["single", "double"] = _setting(
        "single", example="double", description="Of products of rows; sums are double in any case"
    )
    neighbors: NeighborsConfig = NeighborsConfig()
    solver: SolverConfig = SolverConfig()
    project: ProjectConfig = ProjectConfig()
    compute: ComputeConfig = ComputeConfig()
    output: str = _setting(
        example="runs/mine", description="Folder of the run: a path or fsspec URL; same settings go on where it stopped"
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
    def _sorted_sizes(cls, sizes: list[int]) -> list[int]:
        return sorted(set(sizes))

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
    def largest(self) -> int:
        """The largest number of components; the others are prefixes."""
        return self.n_components[-1]

    @property
    def projected(self) -> list[str]:
        """The methods whose rows are written."""
        return self.methods if self.project.methods == "all" else list(dict.fromkeys(self.project.methods))

    def settings(self) -> dict[str, Any]:
        """Return what the results depend on: everything but where the work runs and where results go."""
        return self.model_dump(mode="json", exclude={"compute", "output"})


SECTIONS = tuple(name for name, field in RunConfig.model_fields.items() if is_section(field.annotation))


def load_config(
    path: str | os.PathLike,
    changes: dict[str, Any] | None = None,
    *,
    places: dict[str, str] | None = None,
    defaults: dict[str, Any] | None = None,
) -> RunConfig:
    """Read a YAML file.

    Parameters
    ----------
    path : str or path
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
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(
            f"There is no configuration {path}; 'mmpca config > {path}' writes one to fill in."
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"{path} is not readable as YAML: {' '.join(str(error).split())}.") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must hold keys and values, such as 'dataset:' and 'methods:'.")
    changes = changes or {}
    named = {key: f"the change of {key}" for key in changes} | (places or {})
    return parse_config(_replaced({**(defaults or {}), **content}, changes, named), os.fspath(path), named)


def parse_config(content: dict[str, Any], where: str, places: dict[str, str] | None = None) -> RunConfig:
    """Validate a configuration given as a dictionary.

    ``where`` is named in messages, or one of ``places`` for the dotted keys that come from there.
    """
    try:
        config = RunConfig.model_validate(content)
    except ValidationError as error:
        raise ConfigError(_sentences(error, where, places or {})) from error
    unknown = [name for name in config.projected if name not in config.methods]
    if unknown:
        place = _place("project.methods", where, places or {})
        raise ConfigError(
            f"{place}: project.methods names {unknown[0]!r}, which is not among {', '.join(config.methods)}."
            f"{did_you_mean(unknown[0], config.methods)}"
        )
    return config


def _sentences(error: ValidationError, where: str, places: dict[str, str]) -> str:
    """Return what is wrong, by the places where it was said; of each key the first problem only."""
    by_key: dict[str, str] = {}
    for one in error.errors():
        by_key.setdefault(".".join(_path(one)), _sentence(one))
    by_place: dict[str, list[str]] = {}
    for key, sentence in by_key.items():
        by_place.setdefault(_place(key, where, places), []).append(sentence)
    return " ".join(f"{place}: {' '.join(sentences)}" for place, sentences in by_place.items())


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


def _path(error: Any) -> list[str]:
    """Return the keys that lead to an error, without positions in lists and the names of pydantic's alternatives."""
    path: list[str] = []
    for part in error["loc"]:
        known = keys_of(RunConfig, path) if not path or path[-1] in SECTIONS else []
        if part not in known and error["type"] != "extra_forbidden":
            break
        path.append(str(part))
    return path


def _sentence(error: Any) -> str:
    """Return one sentence for one of pydantic's errors."""
    path = _path(error)
    key, kind = ".".join(path), error["type"]
    if kind == "extra_forbidden":
        known = keys_of(RunConfig, path[:-1])
        hint = did_you_mean(path[-1], known) or f" There are {', '.join(known)}."
        return f"Unknown key {key!r}.{hint}"
    if kind == "missing" and key == ".".join(map(str, error["loc"])):
        return f"The key {key!r} is missing. Add it, such as {_example(key)}."
    if kind == "value_error":
        return f"{key}: {error['ctx']['error']}"
    if key in SECTIONS:
        return f"{key} must hold keys and values, such as {_example(key)} (found {_shown(error['input'])})."
    setting = next(s for s in settings_of(RunConfig) if s.key == key)
    hint = did_you_mean(error["input"], setting.values.split(" or ")) if kind == "literal_error" and isinstance(
        error["input"], str
    ) else ""  # fmt: skip
    return f"{key} must be {setting.values}, such as {_example(key)} (found {_shown(error['input'])}).{hint}"


def _example(key: str) -> str:
    """Return how a key may be written in YAML."""
    for setting in settings_of(RunConfig):
        if setting.key == key:
            return f"'{key.rsplit('.', 1)[-1]}: {as_yaml(setting.example)}'"
        if setting.key.startswith(f"{key}."):
            return f"'{key}: {{{setting.key.rsplit('.', 1)[-1]}: {as_yaml(setting.example)}}}'"
    raise KeyError(key)


def as_yaml(value: Any) -> str:
    """Return a value as YAML writes it on one line."""
    return yaml.safe_dump(value, default_flow_style=True, width=10**6).removesuffix("...\n").strip()


def _shown(value: Any, most: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}..."
