"""Margins of an evaluation: signed distances to a hyperplane, before and after projection, over the splits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.evaluation.margins import QUANTILES
from mmpca_dist.evaluation.results import Evaluation
from mmpca_dist.evaluation.tables import Key
from mmpca_dist.methods.base.registry import title_of
from mmpca_dist.pictures.frame import Field, Heading, PrintedTable
from mmpca_dist.results.forms import DASH, written
from mmpca_dist.results.verdict import ALL_COLUMNS, label

MARGIN_WORDS = (
    "What the methods named after the margin seek to keep is the distance between the classes. Here it is measured: "
    "how far rows are from the hyperplane of a linear classifier, negative where they are on the wrong side.",
    "In the tables, the smallest signed distance, and below it the Wasserstein-1 distance between the signed distances "
    "after projection and those in the original columns; means over the splits.",
)


@dataclass(frozen=True)
class SignedMargins:
    """Margins of one method, number of components and classifier, over the splits."""

    n_components: int
    minimum: float  # here and below, means over the splits
    median: float
    wasserstein: float  # distance from the signed distances in the original columns
    records: list[dict[str, Any]]  # one for each split

    @classmethod
    def of(cls, records: list[dict[str, Any]]) -> SignedMargins:
        """Return the means over the splits."""
        return cls(
            records[0]["n_components"],
            minimum=float(np.mean([record["minimum"] for record in records])),
            median=float(np.mean([record["quantiles"][QUANTILES.index(50)] for record in records])),
            wasserstein=float(np.mean([record["wasserstein"] for record in records])),
            records=records,
        )

    def reach(self) -> tuple[float, float]:
        """Return the distances between which 98% of the rows are, in the splits where that is widest."""
        quantiles = np.array([record["quantiles"] for record in self.records])
        return float(quantiles[:, 0].min()), float(quantiles[:, -1].max())

    def shares(self, edges: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the share of all rows in each bar; within the bars of a record, rows count as spread evenly."""
        below, total = np.zeros(len(edges)), 0
        for record in self.records:
            counts = np.asarray(record["histogram"])
            low, high = record["edges"]
            # Equal distances make a bar without width.
            own = np.linspace(low, high if high > low else np.nextafter(low, np.inf), len(counts) + 1)
            below += np.interp(edges, own, np.concatenate([[0], np.cumsum(counts)]))
            total += int(counts.sum())
        return np.diff(below) / max(total, 1)


def signed_margins(evaluation: Evaluation) -> dict[Key, SignedMargins]:
    """Return the margins by method (``""`` for the original columns), number of components and classifier."""
    grouped: dict[Key, list[dict[str, Any]]] = {}
    for record in evaluation.margins:
        grouped.setdefault((record["method"], record["n_components"], record["classifier"]), []).append(record)
    return {key: SignedMargins.of(records) for key, records in grouped.items()}


def margin_tables(evaluation: Evaluation) -> list[PrintedTable]:
    """Return a table of margins for each classifier that has any."""
    margins_of = signed_margins(evaluation)
    classifiers = dict.fromkeys(name for _, _, name in margins_of)
    return [_margin_table(evaluation, margins_of, name, number) for number, name in enumerate(classifiers, 1)]


def _margin_table(
    evaluation: Evaluation, margins_of: dict[Key, SignedMargins], classifier: str, number: int
) -> PrintedTable:
    sizes = sorted({size for method, size, name in margins_of if method and name == classifier})
    rows = [
        [
            Field(ALL_COLUMNS, [f"{before.n_components} columns"]),
            *[Field(written("margin", before.minimum), [DASH])] * len(sizes),
        ]
        for (method, _, name), before in margins_of.items()
        if not method and name == classifier
    ]
    for method in evaluation.reducing:
        margins = [margins_of.get((method, size, classifier)) for size in sizes]
        if any(margins):
            cells = [
                Field(written("margin", m.minimum), [written("margin", m.wasserstein)]) if m else Field(DASH)
                for m in margins
            ]
            rows.append([Field(title_of(method), [method]), *cells])
    title = label(evaluation, classifier)
    return PrintedTable(
        [Heading("method", "head"), *(Heading(f"K = {size}", "error") for size in sizes)],
        rows,
        title,
        key=f"margins-{number}",
        about=f"Smallest margin and Wasserstein-1 distance from the original columns: {title}",
    )
