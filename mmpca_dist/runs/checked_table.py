"""A table that was checked: the use of each column, alerts, and all of it as JSON and as lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mmpca_dist.errors import some_names
from mmpca_dist.ingest.column_profiles import ColumnProfile
from mmpca_dist.results.forms import written
from mmpca_dist.runs.label_guess import MAX_CLASSES
from mmpca_dist.statistics.telling_columns import TELLING
from mmpca_dist.tables.column_scatter import dominant_columns, percent
from mmpca_dist.tables.levels import Levels, is_text
from mmpca_dist.tables.stored_types import is_number

LABEL, NUMBER, INDICATORS, LEFT_OUT, GROUPS = "label", "number", "indicators", "left out", "groups"
HEAVY = "holds the scatter"
MANY_GAPS = 0.05
"""Features that lack more than this share of the rows are named in alerts."""


@dataclass(frozen=True)
class ColumnRole:
    """The use of a column, and why; ``refused`` tells whether a run refuses it unless it is left out.

    ``counted`` is the profile of the rows that count, where others have no label.
    """

    column: ColumnProfile
    what: str
    reason: str = ""
    refused: bool = False
    counted: ColumnProfile | None = None

    @property
    def n_features(self) -> int:
        return len(self.levels.names) if self.what == INDICATORS else int(self.what == NUMBER)

    @property
    def levels(self) -> Levels:
        return Levels.of(self.column.name, (self.counted or self.column).levels)

    @property
    def squares(self) -> float:
        """The sum of squared deviations of its features from their means."""
        column = self.counted or self.column
        if self.what != INDICATORS:
            return column.n_known * column.deviation**2 if self.n_features else 0.0
        counts = column.levels
        n_rows = [sum(counts[text] for text in texts) for texts in self.levels.by_indicator]
        return float(sum(n * (1 - n / counts.total()) for n in n_rows))

    def row(self) -> dict[str, Any]:
        column = self.column
        values = ", ".join(text[:20] for text, _ in column.levels.most_common(2))
        if column.is_number and column.n_known:
            values = " to ".join(dict.fromkeys(written("value", end) for end in (column.smallest, column.largest)))
        return {
            "column": column.name, "type": in_words(column.kind), "missing": f"{column.n_missing:,}",
            "different": column.distinct, "values": values,
            "use": f"{self.what}: {self.reason}" if self.reason else self.what,
        }  # fmt: skip


@dataclass
class TableCheck:
    """The content of a table, and the use that a run makes of it.

    ``why`` is the reason for the label, which may stand for numbers to predict (``predicts``) rather than ``classes``,
    or for none (``classless``); ``features`` is the list column that holds the rows; ``squares`` are squared deviations
    of the columns of an array; ``telling`` is the share of what varies by class that columns tell, and how; ``refused``
    is what no setting mends.
    """

    uri: str
    layout: str
    n_rows: int = 0
    label: str | None = None
    why: str = ""
    predicts: bool = False
    classless: bool = False
    classes: Mapping[str, int] = field(default_factory=dict)
    n_unlabelled: int = 0
    n_gaps: int = 0
    uses: list[ColumnRole] = field(default_factory=list)
    features: str | None = None
    squares: NDArray[np.float64] | None = None
    telling: Mapping[str, tuple[float, str]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    missing_values: list[str] = field(default_factory=list)
    decimal: str | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def n_features(self) -> int:
        """Features of a run, indicators of texts among them."""
        return sum(use.n_features for use in self.uses) if self.squares is None else len(self.squares)

    def of_use(self, *whats: str) -> list[ColumnRole]:
        return [use for use in self.uses if use.what in whats]

    @property
    def remedies(self) -> list[str]:
        """Columns that a run refuses which is given no more than the label, and what becomes of them."""
        gaps = some_names([use.column.name for use in self.uses if use.n_features and use.column.n_missing])
        return [
            *(f"{use.column.name!r}: left out ({use.reason})" for use in self.uses if use.refused),
            *([f"{self.n_gaps:,} gaps ({gaps or 'in rows'}): means stand for them"] if self.n_gaps else []),
            *([f"{self.n_unlabelled:,} rows without a label: left out"] if self.n_unlabelled else []),
        ]

    @property
    def scatter(self) -> list[float]:
        """The share of each column in the scatter of the features, before columns are standardised."""
        squares = np.array([use.squares for use in self.uses]) if self.squares is None else self.squares
        with np.errstate(invalid="ignore", over="ignore"):  # of numbers near the largest
            return (squares / (float(squares.sum()) or 1.0)).tolist()

    @property
    def alerts(self) -> list[dict[str, str]]:
        """Alerts of single columns, with the reason and the use of each: the gravest first."""
        left, heavy = self.of_use(LEFT_OUT), dominant_columns(np.array(self.scatter))
        gaps = {use.column.name: use.column.n_missing / self.n_rows for use in self.uses if use.n_features}
        shares = {self.uses[i].column.name if self.uses else f"column {i}": share for i, share in heavy}
        telling = {name: how for name, (share, how) in self.telling.items() if share > TELLING}
        drop, same = "leave it out if it is known only with the label", "standardize: true gives all the same weight"
        alerts = [
            *((use.column.name, "refused", use.reason, LEFT_OUT) for use in left if use.refused),
            *((name, "tells the classes", how, f"kept: {drop}") for name, how in telling.items()),
            *((name, HEAVY, f"{percent(share)} of the scatter", f"kept: {same}")
              for name, share in shares.items()),
            *((use.column.name, LEFT_OUT, use.reason, LEFT_OUT) for use in left if not use.refused),
            *((name, "gaps", f"{percent(share)} is missing", "kept: means stand for gaps")
              for name, share in gaps.items() if share > MANY_GAPS),
        ]  # fmt: skip
        return [dict(zip(("column", "alert", "reason", "use"), alert, strict=True)) for alert in alerts]

    def to_json(self) -> dict[str, Any]:
        plain = {name: value for name, value in vars(self).items() if name not in ("uses", "squares", "telling")}
        rows = [
            {**use.row(), "missing": use.column.n_missing, "different": use.column.n_distinct, "bars": use.column.bars,
             "scatter": share if use.n_features else None, "tells": self.telling.get(use.column.name, (None,))[0]}
            for use, share in zip(self.uses, self.scatter if self.uses else (), strict=True)
        ]  # fmt: skip
        return {**plain, "remedies": self.remedies, "alerts": self.alerts, "columns": rows}

    def lines(self) -> list[str]:
        lines = [f"{self.uri}: {self.n_rows:,} rows, {len(self.uses) or self.n_features:,} columns ({self.layout})"]
        lines += [f"Label: {self.label} ({self.why})"] if self.label else []
        most = ", ".join(f"{name} {n:,}" for name, n in Counter(self.classes).most_common(MAX_CLASSES))
        lines += [f"{len(self.classes):,} classes: {most}"] if self.classes else []
        constant = 0 if self.squares is None else np.count_nonzero(self.squares == 0)
        return lines + ([f"Columns that are the same in all rows: {constant:,}"] if constant else []) + self.notes


def in_words(kind: pa.DataType) -> str:
    """Return what values of a type are, in a word or two."""
    words = {
        "text": is_text(kind),
        "date": pa.types.is_date(kind) or pa.types.is_timestamp(kind),
        "time of day": pa.types.is_time(kind),
        "length of time": pa.types.is_temporal(kind) and not pa.types.is_timestamp(kind),
        "whole number": pa.types.is_integer(kind),
        "number": is_number(kind),
        "yes or no": pa.types.is_boolean(kind),
    }
    return next((word for word, holds in words.items() if holds), str(kind))  # fmt: skip
