"""The linear map of a run's method, and the registry of formats that it is exported to."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError, did_you_mean
from mmpca_dist.jobs.finished_runs import finished, levels_of, load_model, open_run
from mmpca_dist.jobs.records import COUNT
from mmpca_dist.registry import Registry
from mmpca_dist.stores import storage
from mmpca_dist.tables.levels import Levels


@dataclass(frozen=True)
class LinearModel:
    """A row x, with ``fills`` in the place of its gaps, becomes (x - mean) @ matrix - offset."""

    names: list[str]
    """Names of the components, as in projected tables."""
    matrix: NDArray[np.float64]
    """Shape (d, K); in the units of the columns."""
    mean: NDArray[np.float64]
    """Shape (d,); zeros where rows are not centred."""
    scale: NDArray[np.float64]
    """Standard deviations that the matrix is divided by, shape (d,); ones where columns are not standardised."""
    offset: NDArray[np.float64]
    """Shape (K,); zeros for most methods."""
    fills: NDArray[np.float64] | None
    """Shape (d,); None where rows must have no gaps."""
    columns: list[str | Levels] | None
    """The columns of the table that features are made of, those of text with their levels; None without names."""
    precision: str

    @property
    def text(self) -> list[Levels]:
        """The columns of text."""
        return [column for column in self.columns or [] if isinstance(column, Levels)]

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the features; indicators of text are called like ``colour=red``."""
        if self.columns is None:
            return None
        return [name for each in self.columns for name in (each.names if isinstance(each, Levels) else [each])]

    def arrays(self) -> dict[str, NDArray]:
        """Return the arrays of an ``.npz`` file, which docs/export.md describes; none needs a pickle."""
        text = {each.name: {"kept": each.kept, "rare": each.rare} for each in self.text}
        columns = [each.name if isinstance(each, Levels) else each for each in self.columns or []]
        optional: dict[str, NDArray] = {} if self.fills is None else {"fill": self.fills}
        if self.columns:
            optional |= {"feature_names": np.asarray(self.feature_names), "columns": np.asarray(columns)}
        if text:
            optional["levels"] = np.asarray(json.dumps(text))
        return {
            "components": (self.matrix * self.scale[:, None]).T, "mean": self.mean, "scale": self.scale,
            "offset": self.offset, "names": np.asarray(self.names),
            **optional,
        }  # fmt: skip


@dataclass(frozen=True)
class ExportFormat:
    """A format of other programs."""

    name: str
    suffix: str
    description: str
    files: Callable[[LinearModel], dict[str, bytes]]
    """Returns the content of files by their suffixes; raises InputError for what the format cannot express."""
    usage: str
    """How the file, ``{file}``, is used."""


EXPORTS = Registry(ExportFormat, "mmpca_dist.runs.export")


def linear_model(output: str, method: str, n_components: int | None = None) -> LinearModel:
    """Return the linear map of a method of a finished run; raise InputError where its rows go through more than that.

    Parameters
    ----------
    output : str
        Folder of the run.
    method : str
        Label of the method.
    n_components : int, optional
        The first so many components; by default all.
    """
    model, run = load_model(output, method, n_components), open_run(output)
    count, dataset = finished(run, COUNT), run.config.dataset
    if dataset.maps:
        maps = ", ".join(section.name for section in dataset.maps)
        raise InputError(
            f"The run in {run.uri} has row maps ({maps}), which exports do not express: use load_maps and load_model, "
            "or 'mmpca transform'."
        )
    if model.covariates_:
        covariates = ", ".join(covariate.name for covariate in model.covariates_)
        raise InputError(
            f"The run in {run.uri} removes what covariates ({covariates}) explain, which exports do not express: use "
            "load_model, or 'mmpca transform'."
        )
    matrix, mean = model.projection()
    by_name: dict[str, str | Levels] = {levels.name: levels for levels in levels_of(count)}
    names = count.get("columns", count["feature_names"])
    d, k = matrix.shape
    return LinearModel(
        names=[f"{method}_{j}" for j in range(k)],
        matrix=matrix,
        mean=np.zeros(d) if mean is None else mean,
        scale=np.ones(d) if model.scale_ is None else model.scale_,
        offset=np.zeros(k) if model._offset is None else model._offset,
        fills=model.mean_ if dataset.missing == "mean" else None,
        columns=None if names is None else [by_name.get(name, name) for name in names],
        precision=run.config.precision,
    )


def export(
    output: str, method: str, format: str, file: str | None = None, n_components: int | None = None
) -> tuple[list[str], str]:
    """Write the model of a run's method in a format of another program.

    Parameters
    ----------
    output, method, n_components
        As for ``linear_model``.
    format : str
        One of ``EXPORTS``.
    file : str, optional
        Where to; by default a file in this folder that is named after the method. It is replaced.

    Returns
    -------
    tuple of list of str and str
        The files, and how the first one is used.

    Raises
    ------
    InputError
        For a format that is not there or cannot express the model, and as ``load_model``.
    """
    if format not in EXPORTS:
        raise InputError(
            f"There is no format {format!r}; there are {', '.join(EXPORTS)}.{did_you_mean(format, EXPORTS)}"
        )
    chosen = EXPORTS[format]
    stem = storage.normalize(file or f"{method}{chosen.suffix}").removesuffix(chosen.suffix)
    contents = chosen.files(linear_model(output, method, n_components))
    for suffix, data in contents.items():
        storage.write_bytes(stem + suffix, data)
    return [stem + suffix for suffix in contents], chosen.usage.format(file=stem + chosen.suffix)


def refuse_text_and_gaps(model: LinearModel, what: str) -> None:
    """Raise InputError for a model of text or of rows with gaps, which ``what`` does not take."""
    reason = f"text ({model.text[0].name!r})" if model.text else "rows with gaps (dataset.missing: mean)"
    if model.text or model.fills is not None:
        raise InputError(f"{what} takes complete rows of numbers, and this run takes {reason}: export onnx, or sql.")
