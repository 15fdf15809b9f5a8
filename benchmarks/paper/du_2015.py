"""The accuracies of Du et al. 2015, tables 2 and 3, as test errors.

``data/du_2015.csv`` has the figures by the names of this project: 100 less the mean accuracy, in percent over 20
splits, and its deviation. FULL is ``all-columns``, LDA is ``fisher``. The other methods of these tables (SPPCA, MedLDA,
SDR-GLM, SEPCA) and table 4 (TRECVID2003) are left out: this project has neither these methods nor that data set.
"""

from __future__ import annotations

from functools import lru_cache

from mmpca_dist.evaluation.published import PublishedCell, PublishedFigures, Reason

from .data_files import read_cells, read_reasons

SOURCE = "Du et al. 2015"
SPLITS = 20


@lru_cache(maxsize=1)
def cells() -> tuple[PublishedCell, ...]:
    """Return the published cells, in the order of the paper."""
    return read_cells("du_2015.csv", SOURCE, SPLITS)


@lru_cache(maxsize=1)
def reasons() -> tuple[Reason, ...]:
    """Return the reasons for differences, as far as they were measured; docs/bm2pca.md says what else is likely."""
    return read_reasons("du_2015_reasons.yaml")


FIGURES = PublishedFigures("du-2015", cells, reasons)
