"""The test errors of Luo & Durrant 2017, tables 4 to 13, and why own ones differ.

``data/luo_durrant_2017.csv`` has the figures by the names of this project: means and deviations in percent over 50
splits, rounded to a tenth. The best cells of every column are missing from the copy they come from; ``certain`` is 0
where that leaves the column of a figure in doubt. ``data/reasons.yaml`` has the reasons.
"""

from __future__ import annotations

from functools import lru_cache

from mmpca_dist.evaluation.published import PublishedCell, PublishedFigures, Reason

from .data_files import read_cells, read_reasons

SOURCE = "Luo & Durrant 2017"
SPLITS = 50


@lru_cache(maxsize=1)
def cells() -> tuple[PublishedCell, ...]:
    """Return the published cells, in the order of the paper."""
    return read_cells("luo_durrant_2017.csv", SOURCE, SPLITS)


@lru_cache(maxsize=1)
def reasons() -> tuple[Reason, ...]:
    """Return the reasons for differences."""
    return read_reasons("reasons.yaml")


FIGURES = PublishedFigures("luo-durrant-2017", cells, reasons)
