"""The sections of a configuration, with the meaning of every setting."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

import dask.utils
from pydantic import AfterValidator, BeforeValidator, field_validator, model_validator
from pydantic_core import PydanticCustomError

from mmpca_dist.eigen.options import SolverOptions, check_solver, solver_names
from mmpca_dist.errors import did_you_mean
from mmpca_dist.settings import Section, as_list, setting
from mmpca_dist.tables.memory_limits import MAX_BYTES

SECRETS = re.compile(r"passw|passphrase|secret|token|api_?key|access_?key|private_?key|credential|(^|_)auth($|_)", re.I)
MAX_SECONDS = 7 * 24 * 3600
ASSIGNED = re.compile(r"(\w+)\s*=")


def _names_within(value: Any) -> Iterator[str]:
    """Yield the names in nested options, and those that strings within assign to, as in ``export NAME=value``."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield str(name)
            yield from _names_within(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _names_within(inner)
    elif isinstance(value, str):
        yield from ASSIGNED.findall(value)


class SolverConfig(Section):
    """How leading eigenvectors are found."""

    kind: Annotated[str, AfterValidator(check_solver)] = setting(
        "auto",
        values=" or ".join(solver_names()),
        example="krylov",
        description="From d x d scatters (dense), in the span of fewer rows than columns (dual), or from passes that "
        "apply scatters to a block of vectors (krylov), for sparse rows in memory after ARPACK (arpack); auto chooses "
        "by the shape",
    )
    oversampling: int = setting(
        10, ge=0, le=10_000, example=20, description="In passes: vectors of a block beyond the components asked for"
    )
    passes: int = setting(4, ge=2, le=1_000, example=8, description="Passes over the rows, at most")
    tolerance: float = setting(
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


class ProjectConfig(Section):
    """Which methods' projected rows are written, and how."""

    methods: Literal["all"] | Annotated[list[str], BeforeValidator(as_list)] = setting(
        "all",
        values="all, or the labels of some of the methods, or [] for none",
        example=["m-pca0"],
        description="Methods whose projected rows are written",
    )
    format: Annotated[list[Literal["zarr", "parquet", "csv", "arrow"]], BeforeValidator(as_list)] = setting(
        ["zarr"], example=["zarr", "parquet"], description="Formats of the projected rows; pictures need zarr"
    )
    keep: Literal["all"] | Annotated[list[str], BeforeValidator(as_list)] = setting(
        "all",
        values="all, or names of columns, or [] for none",
        example=["id", "patient"],
        description="Columns that go with the projected rows, such as identifiers, groups and dates; all are those of "
        "the table that are neither features nor labels, or none if these are more than 50",
    )
    quote_formulas: bool = setting(
        False,
        example=True,
        description="Write an apostrophe before text in CSV that a spreadsheet takes for a formula, such as =1+1",
    )


class ReportConfig(Section):
    """Contents of the report of a run, which is made to be passed on."""

    columns: Literal["auto", "none", "all"] | Annotated[list[str], BeforeValidator(as_list)] = setting(
        "auto",
        values="auto, none, all, or names of columns",
        example=["age"],
        description="Columns beside the features whose values the page holds of the rows that it shows, at most 8: "
        "auto takes those of dataset.drop and evaluation.column but identifiers, groups of people, dates and text",
    )


class AdaptConfig(Section):
    """Between how many workers a cluster has, as there is work."""

    minimum: int = setting(1, ge=1, le=10_000, example=1, description="Workers that stay, and that a run waits for")
    maximum: int = setting(ge=1, le=10_000, example=16, description="Workers at most, which the plan counts on")

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        if self.minimum > self.maximum:
            raise ValueError(f"minimum is {self.minimum}, and maximum is {self.maximum}, which is less.")
        return self


class ComputeConfig(Section):
    """Where the work runs; results do not depend on it."""

    cluster: str = setting(
        "threads",
        values="threads, local, the address of a Dask scheduler, or a class of Dask clusters",
        example="tcp://host:8786",
        description="threads of this process, local worker processes, workers of a Dask scheduler, or a cluster that "
        "is started for the run, such as dask_jobqueue.SLURMCluster (see docs/operations.md for which)",
    )
    options: dict[str, Any] = setting(
        {},
        values="keys and values",
        example={"queue": "long", "cores": 4, "memory": "16GB"},
        description="For a class of clusters: what it is called with. No secrets: these come from the environment. No "
        "code: images, commands and the like belong into Dask's own configuration",
    )
    wait: float = setting(
        60,
        gt=0,
        le=MAX_SECONDS,
        values="a number of seconds, a week at most",
        example=600,
        description="How long to wait for workers",
    )
    tls_ca_file: str | None = setting(
        None,
        example="/etc/dask/ca.pem",
        description="For a scheduler at tls://: the file of the authority that signed its certificate; by default what "
        "Dask's own configuration says",
    )
    tls_cert: str | None = setting(None, example="/etc/dask/client.pem", description="The file of our certificate")
    tls_key: str | None = setting(None, example="/etc/dask/client.key", description="The file of our private key")
    workers: int = setting(
        2, ge=1, le=10_000, example=4, description="Workers to start; with a scheduler, how many the plan may count on"
    )
    adapt: AdaptConfig | None = setting(
        None,
        values="the numbers minimum and maximum",
        example={"minimum": 1, "maximum": 16},
        description="For local and a class of clusters: start and end workers as there is work, in place of workers",
    )
    performance_report: bool = setting(
        False,
        example=True,
        description="Keep Dask's performance report of a cluster in report/dask-performance.html of the run",
    )
    threads_per_worker: int = setting(1, ge=1, le=1_000, example=2, description="Tasks that a worker runs at a time")
    memory_limit: str | int = setting(
        "2GiB",
        values="a size, or a number of bytes",
        example="4GiB",
        description="Memory of a worker, which the plan must fit into; threads share that of all workers",
    )

    @field_validator("cluster")
    @classmethod
    def _known_cluster(cls, value: str) -> str:
        if value in ("threads", "local") or "://" in value:
            return value
        if "." in value and all(part.isidentifier() for part in value.split(".")):
            return value
        hint = did_you_mean(value, ["threads", "local"])
        raise ValueError(
            f"{value!r} is neither 'threads' nor 'local', nor an address like 'tcp://host:8786', nor a class like "
            f"'dask_jobqueue.SLURMCluster'.{hint}"
        )

    @field_validator("options")
    @classmethod
    def _no_secrets(cls, value: dict[str, Any]) -> dict[str, Any]:
        name = next(filter(SECRETS.search, _names_within(value)), None)
        if name is not None:
            raise ValueError(
                f"{name!r} may be a secret, and settings are stored and shown. Give it in the environment, or in "
                "Dask's configuration"
            )
        return value

    @field_validator("memory_limit", mode="before")
    @classmethod
    def _readable_size(cls, value: Any) -> Any:
        try:
            size = 0 if isinstance(value, bool) else dask.utils.parse_bytes(value)
        except (ValueError, TypeError, AttributeError, OverflowError):
            size = 0
        if size <= 0:
            raise PydanticCustomError("size", "not a size")
        if size > MAX_BYTES:
            raise ValueError(f"{str(value)[:60]} is more than 1 PiB. Give what a worker may use.")
        return value

    @property
    def memory_bytes(self) -> int:
        """Memory a worker may use."""
        return int(dask.utils.parse_bytes(self.memory_limit))

    @property
    def most_workers(self) -> int:
        """How many workers there may be at a time."""
        return self.workers if self.adapt is None else self.adapt.maximum

    @property
    def first_workers(self) -> int:
        """How many workers are there from the beginning."""
        return self.workers if self.adapt is None else self.adapt.minimum

    @property
    def n_threads(self) -> int:
        return self.most_workers * self.threads_per_worker
