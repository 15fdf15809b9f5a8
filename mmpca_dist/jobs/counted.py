"""``Counted``: the table that a run was fitted to, as its first record keeps it, and new rows of the same kind."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.configuration.dataset_section import DatasetConfig
from mmpca_dist.errors import InputError, some_names
from mmpca_dist.jobs.records import CountRecord, StoredColumns
from mmpca_dist.passes.census import Census
from mmpca_dist.passes.rows import Rows
from mmpca_dist.passes.tree_reduction import Tasks
from mmpca_dist.statistics.widened_rows import look_at_gaps, widened
from mmpca_dist.tables.compose import FILE, Play, compose, open_fitted, request_of
from mmpca_dist.tables.covariates import Covariate
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.levels import Levels
from mmpca_dist.tables.roles import COVARIATE, KNOWN, WEIGHT, Played, role_named


@dataclass(frozen=True)
class Counted:
    """The columns, classes and roles of the table that a run was fitted to."""

    record: CountRecord

    @staticmethod
    def of(rows: Dataset, census: Census) -> CountRecord:
        """Return what a record keeps of rows and their classes."""
        record: CountRecord = {  # type: ignore[typeddict-item]  # others add what settings decide
            "n_rows": rows.n_rows,
            "n_features": rows.n_features,
            "dtype": str(rows.dtype),
            "classes": census.classes.tolist(),
            "class_type": census.classes.dtype.str,
            "counts": census.sizes.tolist(),
            "feature_names": rows.feature_names,
            "named_columns": rows.named_columns,
            "played": [_plain(each, rows.stored.label) for each in rows.played if each.column is not None],
        }
        if census.totals is not None:
            record["weights"] = census.totals.tolist()
        if rows.stored.levels:
            record["columns"] = list(rows.stored.columns)
            record["levels"] = [[each.name, each.kept, each.rare] for each in rows.stored.levels]
        if getattr(rows.stored, "first_index", 1) == 0:
            record["first_index"] = 0
        if rows.targets:
            record["targets"] = list(rows.targets)
        if rows.mapped is not None and rows.mapped.own_columns:
            source = rows.unmapped
            record["stored"] = {
                "n_features": source.n_features,
                "feature_names": source.feature_names,
                "named_columns": source.named_columns,
            }
        return record

    @property
    def classes(self) -> NDArray:
        return np.asarray(self.record["classes"], dtype=self.record["class_type"])

    @property
    def stored_columns(self) -> StoredColumns:
        """The columns of the table before row maps."""
        return self.record.get("stored", self.record)

    @property
    def of_text(self) -> dict[str, Any]:
        """The number of columns and the index of the first, which LIBSVM text of new rows does not tell."""
        return {"n_features": self.stored_columns["n_features"], "first_index": self.record.get("first_index", 1)}

    @property
    def columns(self) -> list[str] | None:
        """Names of the stored columns that features are made of."""
        return self.record.get("columns", self.record["feature_names"])

    @property
    def levels(self) -> list[Levels]:
        """The levels of the columns of text."""
        return [Levels(name, tuple(kept), tuple(rare)) for name, kept, rare in self.record.get("levels", [])]

    @property
    def covariates(self) -> tuple[Covariate, ...]:
        return tuple(play.option for play in self._plays() if play.role is COVARIATE)

    def _plays(self) -> list[Play]:
        plays = []
        for name, label, column, look in self.record["played"]:
            role = role_named(name)
            plays.append(Play(role, label, column, role.from_json(look), knows=True))
        return plays

    def widened(self, rows: Dataset) -> Dataset:
        """Return the rows that were counted, with what stands beside their columns."""
        filled = (self.record["missing"], self.record["means"]) if "missing" in self.record else ()
        return widened(rows, *map(np.asarray, filled))

    def open_like(
        self, uri: str, section: DatasetConfig, *, features: str | None, label: str | None, fits: bool, labelled: bool,
        weight: str | None = None,
    ) -> Dataset:  # fmt: skip
        """Open rows whose columns play the roles that those of the run did, before row maps.

        Rows to fit to (``fits``) have weights and lack labels as those of the run did; others may have no labels unless
        they are to be ``labelled``. ``label`` and ``weight`` name other columns than those of the run.
        """
        needless = ("axes",) if fits else ("axes", "weight") if labelled else ("axes", "weight", "targets")
        plays = [play for play in self._plays() if play.column is None or play.role.into not in needless]
        unlabelled = section.unlabelled if fits else "refuse"
        known = (unlabelled, section.unlabelled_value)
        plays = [play._replace(option=known) if play.role is KNOWN else play for play in plays]
        plays = [play for play in plays if play.role is not KNOWN or known != ("refuse", None)]
        if weight is not None:
            plays = [play for play in plays if play.role is not WEIGHT]
            plays.insert(sum(play.column is None for play in plays), Play(WEIGHT, weight, weight))
        for play in plays:
            if play.column is not None and play.column.endswith(FILE) and play.column != weight:
                raise InputError(f"{play.role.setting}: {play.column} is of the run's own rows. Name that of new rows.")
        columns = self.stored_columns
        request = request_of(
            section, uri, features=features, label=label, label_required=labelled or label is not None, drop=(),
            names=self.record.get("columns", columns["feature_names"]), encode=bool(self.levels),
            levels=self.levels or None, unlabelled=unlabelled,
        )  # fmt: skip
        source = open_fitted(request)
        if source.n_features != columns["n_features"]:
            raise InputError(
                f"{source.uri} has {source.n_features} features, but the run was fitted to {columns['n_features']}."
                f"{_differences(source.feature_names, columns['feature_names'])}"
            )
        rows = compose(source, [play for play in plays if play.column is not None or source.label is not None])
        return rows.of_one_class() if fits and section.classless else rows

    def merged(self, rows: Rows, uri: str, notes: Sequence[str]) -> CountRecord:
        """Return the record with the rows of one more data set; ``uri`` names all of them."""
        count, census = self.record, rows.census
        classes = np.union1d(self.classes, census.classes)
        old, new = np.searchsorted(classes, self.classes), np.searchsorted(classes, census.classes)
        counts = np.bincount(old, count["counts"], len(classes)) + np.bincount(new, census.sizes, len(classes))
        merged: CountRecord = {
            **count,
            "n_rows": int(counts.sum()),
            "classes": classes.tolist(),
            "class_type": classes.dtype.str,
            "counts": counts.astype(np.int64).tolist(),
            "notes": [*count["notes"], *notes],
            "uri": uri,
        }
        if "weights" in count:
            weights = np.bincount(old, count["weights"], len(classes)) + np.bincount(new, census.counts, len(classes))
            merged["weights"] = weights.tolist()
        if "missing" in count:
            missing, _ = look_at_gaps(rows.dataset, rows.spans, Tasks(scheduler=rows.scheduler))
            merged["missing"] = (np.asarray(count["missing"]) + missing).tolist()
        merged.pop("key", None)
        merged.pop("seconds", None)
        return merged


def _plain(each: Played, label: str | None) -> list[Any]:
    """Return a role, its name, its column (None for that of the labels) and what a look at it has left."""
    assert each.column is not None  # noqa: S101
    column = None if not each.name or each.name == label else each.name
    return [each.role.name, each.name, column, each.role.to_json(each.look)]


def _differences(names: list[str] | None, fitted: list[str] | None) -> str:
    """Return sentences that name the features that are too many, or lacking, where there are names."""
    if names is None or fitted is None:
        return ""
    more, lacking = [name for name in names if name not in fitted], [name for name in fitted if name not in names]
    lack = f" It lacks {some_names(lacking)}." if lacking else ""
    if not more:
        return lack
    options = " ".join(f"--drop {shlex.quote(name)}" for name in more)
    return f"{lack} It has {some_names(more)} as well: leave them out as it is ingested, with {options}."
