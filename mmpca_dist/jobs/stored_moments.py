"""``StoredMoments``: what a run keeps of its rows, as the table of another run, which asks a question about it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mmpca_dist.configuration.dataset_section import QuestionSection
from mmpca_dist.configuration.schema import RunConfig
from mmpca_dist.errors import InputError, did_you_mean
from mmpca_dist.jobs.finished_runs import counted, load_moments, open_run
from mmpca_dist.jobs.records import CountRecord
from mmpca_dist.statistics.cells import LABEL, CellMoments
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.tables.facts import Facts, Table


class StoredMoments(Table):
    """A table of which moments alone are there: the ``question`` about those of a run, and the answer."""

    def __init__(self, config: RunConfig) -> None:
        """Ask the run that ``config`` names; raise InputError where there is none, or it does not know."""
        question = config.dataset.moments or QuestionSection()
        self.run = open_run(config.dataset.uri)
        self.base, self.count, self.question = self.run.config, counted(self.run), question
        cells = _as_cells(load_moments(self.run.uri))
        stored = self.count.record["feature_names"]
        names = stored or [str(number) for number in range(cells.cells.n_features)]
        cells = cells.where(**question.where).merge(question.merge)
        if question.balance is not None:
            cells = cells.balance(question.balance)
        dropped = {_position(name, names) for name in question.drop}
        made = self.count.of_text["n_features"] != self.count.record["n_features"] or self.count.levels
        if dropped and made:
            raise InputError("Features that are made of others cannot be dropped: leave out drop.")
        if dropped and stored is None:
            raise InputError("The features of the run have no names, by which new rows could lack one: leave out drop.")
        if dropped and not all(one.by_value for one in self.base.dataset.maps):
            raise InputError("dataset.maps of the run change rows by all of their features: none can be dropped.")
        cells = cells.drop(sorted(dropped)) if dropped else cells
        self.moments: ClassMoments = cells.remove(*question.remove).by_class()
        if self.moments.sizes.sum() < 2:
            raise InputError("The question leaves a single row; there must be at least two.")
        kept = [name for place, name in enumerate(names) if place not in dropped]
        self.facts = Facts(
            config.dataset.uri, int(self.moments.sizes.sum()), len(kept), np.dtype(self.count.record["dtype"]), kept
        )

    def fingerprint(self) -> str:
        return str(self.run.header()["key"])

    @property
    def asking(self) -> str:
        """The question, in words."""
        question = self.question
        said = [f"where {axis} is {_listed(levels)}" for axis, levels in question.where.items()]
        said += [f"{_listed(members)} merged as {name}" for name, members in question.merge.items()]
        said += [f"balanced by {question.balance}"] * (question.balance is not None)
        said += [f"without the effects of {_listed(question.remove)}"] * bool(question.remove)
        said += [f"without {_listed(question.drop)}"] * bool(question.drop)
        return "; ".join(said) or "all rows"

    def counted(self) -> CountRecord:
        """Return the record of the run, with the rows, classes and columns that the question is about."""
        record, moments = self.count.record, self.moments
        found: CountRecord = {
            **record,
            "n_rows": self.n_rows,
            "n_features": self.n_features,
            "classes": moments.classes.tolist(),
            "class_type": moments.classes.dtype.str,
            "counts": moments.sizes.tolist(),
            "uri": f"{self.uri} ({self.asking})",
        }
        for name in ("key", "seconds", "weights"):
            found.pop(name, None)  # type: ignore[misc]
        if not np.array_equal(moments.counts, moments.sizes):
            found["weights"] = moments.counts.tolist()
        if self.question.drop:  # of images, single pixels are left
            found["image_shape"] = None
            if record["feature_names"] is not None:
                found["feature_names"] = self.feature_names
        return found


def _as_cells(moments: ClassMoments | CellMoments) -> CellMoments:
    if isinstance(moments, CellMoments):
        return moments
    codes = np.arange(len(moments.classes))[:, None]
    return CellMoments(replace(moments, classes=codes[:, 0]), (LABEL,), (moments.classes,), codes, np.ones(len(codes)))


def _position(name: str | int, names: list[str]) -> int:
    if isinstance(name, int) and name < len(names):
        return name
    if name in names:
        return names.index(str(name))
    raise InputError(f"drop: there is no feature {name!r}.{did_you_mean(str(name), names)}")


def _listed(values: object) -> str:
    return ", ".join(map(str, values)) if isinstance(values, (list, tuple)) else str(values)
