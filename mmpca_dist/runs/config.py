"""One schema for every run: YAML in, a validated ``RunConfig`` out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import dask.utils
import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from mmpca_dist.datasets import storage
from mmpca_dist.errors import ConfigError, did_you_mean
from mmpca_dist.reducers.methods import METHODS


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DatasetConfig(_Section):
    """Where the labelled rows are."""

    uri: str = Field(description="Path, fsspec URL, bundled:NAME or synthetic:KIND?option=value")
    features: str | None = Field(None, description="Array (or list column) of the rows; default X, or all columns")
    label: str | None = Field(None, description="Array or column of the labels; default y, or label")
    missing_chunks: Literal["refuse", "fill"] = Field("refuse", description="Zarr chunks that are not stored")
    image_shape: tuple[int, int] | None = Field(None, description="Where rows are images: height and width")


class ProjectConfig(_Section):
    """Which methods' projected rows are written, and how."""

    methods: Literal["all"] | Annotated[list[str], BeforeValidator(_as_list)] = "all"
    format: Annotated[list[Literal["zarr", "parquet"]], BeforeValidator(_as_list)] = ["zarr"]


class ComputeConfig(_Section):
    """Where the work runs; no matter for the results."""

    cluster: str = Field("threads", description="threads, local, or the address of a Dask scheduler")
    workers: int = Field(2, ge=1)
    threads_per_worker: int = Field(1, ge=1)
    memory_limit: str | int = Field("2GiB", description="Of a worker; threads share that of all workers")

    @field_validator("cluster")
    @classmethod
    def _known_cluster(cls, value: str) -> str:
        if value in ("threads", "local") or "://" in value:
            return value
        hint = did_you_mean(value, ["threads", "local"])
        raise ValueError(f"{value!r} is neither 'threads' nor 'local' nor an address like tcp://host:8786.{hint}")

    @field_validator("memory_limit")
    @classmethod
    def _readable_size(cls, value: str | int) -> str | int:
        dask.utils.parse_bytes(value)
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
    methods: Annotated[list[str], BeforeValidator(_as_list)] = Field(min_length=1)
    n_components: Annotated[list[Annotated[int, Field(ge=1)]], BeforeValidator(_as_list)] = Field(min_length=1)
    pairing: Literal["one-vs-rest", "one-vs-one"] = "one-vs-rest"
    shrinkage: float = Field(1e-3, ge=0, le=1, description="Of Fisher's scatter within the classes")
    standardize: bool = False
    precision: Literal["single", "double"] = "single"
    project: ProjectConfig = ProjectConfig()
    compute: ComputeConfig = ComputeConfig()
    output: str = Field(description="Folder of the run: a path or fsspec URL")

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

    def with_settings(self, changes: dict[str, Any]) -> Self:
        """Return the configuration with dotted keys replaced."""
        return parse_config(_replaced(self.model_dump(mode="json"), changes), "the changed configuration")  # type: ignore[return-value]


def load_config(path: str | os.PathLike, changes: dict[str, Any] | None = None) -> RunConfig:
    """Read a YAML file, with dotted keys in ``changes`` replaced.

    Raises
    ------
    ConfigError
        For a file that is missing or not YAML, unknown keys and values that do not fit; one line each.
    """
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"There is no configuration {path}.") from error
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"{path} is not readable as YAML: {' '.join(str(error).split())}.") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must hold keys and values, such as 'dataset:' and 'methods:'.")
    return parse_config(_replaced(content, changes or {}), os.fspath(path))


def parse_config(content: dict[str, Any], where: str) -> RunConfig:
    """Validate a configuration given as a dictionary."""
    try:
        config = RunConfig.model_validate(content)
    except ValidationError as error:
        raise ConfigError(f"{where}: " + " ".join(_sentence(e) for e in error.errors())) from error
    unknown = [name for name in config.projected if name not in config.methods]
    if unknown:
        raise ConfigError(f"{where}: project.methods names {unknown[0]!r}, which is not among the methods.")
    return config


def _replaced(content: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    content = {**content}
    for key, value in changes.items():
        head, _, rest = key.partition(".")
        if rest:
            inner = content.get(head) or {}
            if not isinstance(inner, dict):
                raise ConfigError(f"{head} has no key {rest!r}.")
            content[head] = _replaced(inner, {rest: value})
        else:
            content[head] = value
    return content


def _sentence(error: Any) -> str:
    """Return one sentence for one of pydantic's errors."""
    path = [str(part) for part in error["loc"] if not str(part).startswith(("function-", "list[", "literal["))]
    key = ".".join(path)
    if error["type"] == "extra_forbidden":
        known = _keys_of(path[:-1])
        return f"Unknown key {key!r}.{did_you_mean(path[-1], known)}"
    if error["type"] == "missing":
        return f"The key {key!r} is missing."
    message = error["msg"].removeprefix("Value error, ").rstrip(".")
    return f"{key}: {message} (found {error['input']!r})." if "found" not in message else f"{key}: {message}."


def _keys_of(path: list[str]) -> list[str]:
    model: Any = RunConfig
    for part in path:
        model = model.model_fields[part].annotation
    return list(model.model_fields)
