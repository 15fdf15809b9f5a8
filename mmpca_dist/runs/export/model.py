"""The linear map of a run's method, and the registry of formats that it is exported to."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError, did_you_mean
from mmpca_dist.jobs.directory import RunDirectory
from mmpca_dist.jobs.finished_runs import counted, load_model, open_run
from mmpca_dist.methods.concept_eraser import ConceptEraser
from mmpca_dist.registry import Registry
from mmpca_dist.runs.scored_rows import RowScores
from mmpca_dist.stores import storage
from mmpca_dist.tables.levels import Levels
from mmpca_dist.tables.mapped_rows import name_of


@dataclass(frozen=True)
class LinearScores:
    """Of y = (x - centre) / scale with loadings of its own T2 is |y @ loadings|^2, and Q |y|^2 - |y @ loadings|^2."""

    centre: NDArray[np.float64]  # (d,): the mean row
    loadings: dict[str, NDArray[np.float64]]  # (d, r) of t2, of q, or of both, as the run keeps them
    limits: dict[str, float]  # of the same scores, at the run's alpha


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
    columns: dict[str, Levels | None]
    """The columns of the table by name, with the levels of those of text; empty where they have no names."""
    dtype: np.dtype
    """The type of projected rows."""
    scores: LinearScores

    @property
    def text(self) -> list[Levels]:
        return [levels for levels in self.columns.values() if levels is not None]


@dataclass(frozen=True)
class ExportFormat:
    """A format of other programs."""

    name: str
    suffix: str
    files: Callable[[LinearModel], dict[str, bytes]]
    """Returns the content of files by their suffixes; raises InputError for what the format cannot express."""
    usage: str
    """How the file, ``{file}``, is used on rows X that are of ``{dtype}``; ``{Z}`` are Z and the scores."""
    usage_of_text: str = ""
    """The same of a data frame X with columns of text, where that differs."""


EXPORTS = Registry(ExportFormat, "mmpca_dist.runs.export", order=lambda format: format.name)


def unused(name: str, names: Container[str]) -> str:
    """Return a name with as many underscores after it as make it differ from others."""
    while name in names:
        name += "_"
    return name


def _scores(run: RunDirectory, method: str, matrix: NDArray[np.float64]) -> LinearScores:
    """Return the scores that a run keeps of a method; none for fewer components, as its limits are for all."""
    kept = RowScores.of(run, [method])
    if (scorer := kept.scorer) is None or scorer.matrix.shape != matrix.shape:
        return LinearScores(np.zeros(len(matrix)), {}, {})
    reference, counts = scorer.references[method][1], kept.counts[method]
    own = scorer.matrix if scorer.scale is None else scorer.matrix * scorer.scale[:, None]
    roots = {"t2": reference.spread, "q": reference.span}
    loadings = {name: own @ root for name, root in roots.items() if name in counts}
    return LinearScores(scorer.mean, loadings, {name: counts[name].limit(kept.alpha) for name in loadings})


def linear_model(output: str, method: str, n_components: int | None = None) -> LinearModel:
    """Return the linear map of a run's method; raise InputError where its rows go through more than that."""
    model, run = load_model(output, method, n_components), open_run(output)
    table, dataset = counted(run), run.config.dataset
    more = [f"the row map {name_of(row_map)!r}" for row_map in dataset.maps]
    more += [f"the covariate {covariate.name!r}" for covariate in model.covariates_]
    if more:
        raise InputError(
            f"The run in {run.uri} has {' and '.join(more)}, which exports do not express: use load_model, or "
            "'mmpca transform'."
        )
    matrix, mean, offset = model.whole_map() if isinstance(model, ConceptEraser) else model.projection()
    levels = {text.name: text for text in table.levels}
    d, k = matrix.shape
    return LinearModel(
        names=[f"{method}_{j}" for j in range(k)],
        matrix=matrix,
        mean=np.zeros(d) if mean is None else mean,
        scale=np.ones(d) if model.scale_ is None else model.scale_,
        offset=np.zeros(k) if offset is None else offset,
        fills=model.mean_ if dataset.missing == "mean" else None,
        columns={name: levels.get(name) for name in table.columns or []},
        dtype=np.dtype(np.float32 if run.config.precision == "single" else np.float64),
        scores=_scores(run, method, matrix),
    )


def export(
    output: str, method: str, format: str, file: str | None = None, n_components: int | None = None
) -> tuple[list[str], str]:
    """Write the model of a run's method for another program; return the files, and how the first one is used.

    Parameters
    ----------
    output, method, n_components
        As for ``load_model``.
    format : str
        One of ``EXPORTS``.
    file : str, optional
        Where to; by default a file in this folder that is named after the method. It is replaced.

    Raises
    ------
    InputError
        For a format that is not there or cannot express the model, and as ``load_model``.
    """
    if format not in EXPORTS:
        hint = did_you_mean(format, EXPORTS)
        raise InputError(f"There is no format {format!r}; there are {', '.join(EXPORTS)}.{hint}")
    chosen = EXPORTS[format]
    stem = storage.normalize(file or method).removesuffix(chosen.suffix)
    model = linear_model(output, method, n_components)
    contents, usage = chosen.files(model), (model.text and chosen.usage_of_text) or chosen.usage
    for suffix, data in contents.items():
        storage.write_bytes(stem + suffix, data)
    Z = f"Z, {', '.join(model.scores.loadings)}".rstrip()
    return [stem + suffix for suffix in contents], usage.format(file=stem + chosen.suffix, dtype=model.dtype, Z=Z)
