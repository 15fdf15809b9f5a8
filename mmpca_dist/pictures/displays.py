"""Displays in scikit-learn's style, which import matplotlib as they draw."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mmpca_dist.errors import InputError
from mmpca_dist.pictures import palette
from mmpca_dist.pictures.chart import distinct, words
from mmpca_dist.tables.foreign import labels_of
from mmpca_dist.tables.labels import normalize_labels

MARKERS = {"circle": "o", "triangle": "^", "square": "s", "diamond": "D"}
MAX_COLOURS = 20
"""Classes with a colour, the largest."""


def literal(text: str) -> str:
    """Return text that matplotlib does not take for a formula."""
    return text.replace("$", r"\$")


class _Display:
    """Base of the displays: ``plot`` draws on ``ax_``, which belongs to ``figure_``."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def _axes(self, ax: Any, xlabel: str, ylabel: str = "") -> Any:
        from matplotlib import pyplot

        self.ax_ = pyplot.subplots(layout="constrained")[1] if ax is None else ax
        self.ax_.set(xlabel=xlabel, ylabel=ylabel)
        self.figure_ = self.ax_.figure
        return self.ax_


@dataclass(repr=False)
class ReductionDisplay(_Display):
    """Rows on two components: points (n, 2), coloured by y (n,), and what the axes are called.

    Text and whole numbers in y are classes, of which the 20 largest have colours; floats have a colour bar.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mmpca_dist import MarginPCA, ReductionDisplay
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> ReductionDisplay.from_estimator(MarginPCA(2).fit(X, y), X, y).ax_.get_xlabel()
    'marginpca0'
    """

    points: NDArray
    y: Any = None
    names: Sequence[str] = ("component 1", "component 2")

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any = None, *,
        components: tuple[int, int] = (0, 1), covariates: Any = None, ax: Any = None, **kwargs: Any,
    ) -> Self:  # fmt: skip
        """Transform rows by a fitted reducer, or a pipeline that ends in one, and draw them all by ``Axes.scatter``.

        Components count from 0; InputError where there is none. ``y`` may name a column of AnnData's ``obs``.
        """
        last, y = _last_step(estimator), None if y is None else np.asarray(labels_of(y, X))
        Z = np.asarray(estimator.transform(X, **({} if covariates is None else {"covariates": covariates})))
        if y is not None and len(y) != len(Z):
            raise InputError(f"X has {len(Z):,} rows, and y {len(y):,} labels.")
        if len(components) != 2:
            raise InputError(f"components={components} must be two numbers of components: a point has two coordinates.")
        points = np.stack([_component(Z.T, component) for component in components], axis=1)
        names = _output_names(last, Z.shape[1])
        return cls(points, y, [names[component] for component in components]).plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the rows; keywords go to ``Axes.scatter``."""
        flat = {} if "marker" in kwargs else {"linewidths": 0}  # markers of lines need a width
        ax, look = self._axes(ax, *self.names), {"s": 14, "alpha": 0.8} | flat | kwargs
        values = np.zeros(len(self.points), int) if self.y is None else np.asarray(self.y)
        if kwargs.keys() & {"c", "color", "cmap"}:
            ax.scatter(*self.points.T, **{"c": self.y} | look if "color" not in kwargs else look)
            return self
        if values.dtype.kind == "f":
            self.figure_.colorbar(ax.scatter(*self.points.T, c=values, **look), ax=ax, label="y")
            return self
        codes, known = np.full(len(values), -1), ~pd.isna(values)
        labels = normalize_labels(values[known], "y")
        classes, codes[known], sizes = np.unique(labels, return_inverse=True, return_counts=True)
        coloured = np.sort(np.argsort(-sizes, kind="stable")[:MAX_COLOURS])
        others = f"{len(classes) - len(coloured)} others"
        for name, marker, which in (others, ".", known & ~np.isin(codes, coloured)), ("no label", "s", ~known):
            if which.any():
                ax.scatter(
                    *self.points[which].T, **{"color": palette.LIGHT["before"], "marker": marker, "label": name} | look
                )
        for place, code in enumerate(coloured):
            colour, mark = palette.place_look(place)
            own = {"color": palette.LIGHT[colour], "marker": MARKERS[mark], "label": literal(words(classes[code]))}
            ax.scatter(*self.points[codes == code].T, **own | look)
        if self.y is not None:  # beside the axes where there is a layout that makes room for it
            beside = {"loc": "upper left", "bbox_to_anchor": (1, 1)} if self.figure_.get_layout_engine() else {}
            ax.legend(fontsize="small", **beside)
        return self


@dataclass(repr=False)
class SpectrumDisplay(_Display):
    """The eigenvalues (K,) of a reducer, or their shares of the scatter that it is about."""

    values: NDArray
    ylabel: str = "eigenvalue"

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the spectrum of a fitted reducer, or of the last step of a pipeline, by ``Axes.plot``."""
        reducer = _last_step(estimator)
        if not hasattr(reducer, "total_"):  # scikit-learn's
            return cls(reducer.explained_variance_ratio_, "share of the variance").plot(ax, **kwargs)
        if not reducer.total_ > 0:  # NaN where it is unknown
            return cls(reducer.eigenvalues_).plot(ax, **kwargs)
        return cls(reducer.eigenvalues_ / reducer.total_, "share of its scatter").plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the spectrum; keywords go to ``Axes.plot``."""
        ax = self._axes(ax, "component", self.ylabel)
        ax.plot(np.arange(1, len(self.values) + 1), self.values, **{"marker": "o"} | kwargs)
        ax.xaxis.get_major_locator().set_params(integer=True)
        return self


@dataclass(repr=False)
class LoadingsDisplay(_Display):
    """The columns that make a component: loadings (m,) as bars, the first at the top, and their names."""

    loadings: NDArray
    names: Sequence[str]
    xlabel: str = "loading"

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, component: int = 0, n_features: int = 20, feature_names: Sequence[str] | None = None,
        ax: Any = None, **kwargs: Any,
    ) -> Self:  # fmt: skip
        """Draw the largest loadings of a fitted reducer, or of the last step of a pipeline, by ``Axes.barh``.

        Components count from 0. Names are by default ``feature_names_in_``, those that the steps before give their
        columns, or numbers of columns. Raises InputError where there is no such component.
        """
        reducer, names = _last_step(estimator), feature_names
        rows = reducer.components_.reshape(-1, reducer.components_.shape[-1])  # of several models one below the other
        row = _component(rows, component)
        if names is None:
            names = getattr(reducer, "feature_names_in_", [f"column {j}" for j in range(len(row))])
            if not hasattr(reducer, "feature_names_in_") and len(getattr(estimator, "steps", ())) > 1:
                with suppress(AttributeError, ValueError):  # a step has no names to give
                    names = estimator[:-1].get_feature_names_out()
        largest = np.argsort(-np.abs(row), kind="stable")[:n_features]
        texts = [str(names[j]) for j in largest]
        return cls(row[largest], texts, f"loading on {_output_names(reducer, len(rows))[component]}").plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> Self:
        """Draw the bars; keywords go to ``Axes.barh``."""
        ax, places = self._axes(ax, self.xlabel), np.arange(len(self.loadings))
        ax.barh(places, self.loadings, **kwargs)
        ax.set_yticks(places, map(literal, distinct(self.names)))
        ax.invert_yaxis()
        return self


def _last_step(estimator: Any) -> Any:
    """Return the last step of a pipeline, or the estimator itself, which is fitted and transforms."""
    last = estimator[-1] if hasattr(estimator, "steps") else estimator
    if not hasattr(last, "transform"):
        hint = "" if last is estimator else ": leave it out, as model[:-1] does"
        raise InputError(f"{type(last).__name__} does not transform rows{hint}.")
    check_is_fitted(last)
    return last


def _output_names(reducer: Any, count: int) -> Sequence[str]:
    """Return what a reducer calls its components in data frames, or numbers from 1 where it does not."""
    with suppress(AttributeError, ValueError):
        names: Sequence[str] = reducer.get_feature_names_out().tolist()
        if len(names) == count:
            return names
    return [f"component {number + 1}" for number in range(count)]


def _component(rows: NDArray, number: int) -> NDArray:
    if not 0 <= number < len(rows):
        raise InputError(f"There is no component {number}: there are {len(rows)}, counted from 0.")
    return rows[number]
