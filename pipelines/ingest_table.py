"""Parameters and work of an ingest, with or without Prefect."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

from mmpca_dist.ingest.destination import Overwrite
from mmpca_dist.jobs.events import Callback
from mmpca_dist.settings import ColumnNames, ImageShape, Section, Words, setting

if TYPE_CHECKING:  # refusals of parameters need none of it
    from mmpca_dist.ingest.row_source import Selection

NUMBER = re.compile(r"-?[0-9]{1,9}")
"""Number of a column; longer ones are names."""


class IngestConfig(Section):
    """Which table becomes which Zarr group."""

    source: str = setting(
        example="table.csv", description="Path or fsspec URL of CSV, LIBSVM text, .npz, .npy, Parquet or Zarr"
    )
    destination: str = setting(example="table.zarr", description="Path or fsspec URL of the Zarr group to write")
    features: str | None = setting(
        None, example="X", description="Array or list column of the rows; by default X, or all columns but the label"
    )
    label: str | None = setting(
        None,
        example="species",
        description="Array or column of the labels, by default y or label; for CSV also its number (by default the "
        "last column); for .npy the labels' file",
    )
    drop: ColumnNames = setting(
        [],
        values="names of columns",
        example=["id"],
        description="Columns of CSV or Parquet that are no features; for CSV also their numbers",
    )
    keep: ColumnNames = setting(
        [],
        values="names of columns",
        example=["patient"],
        description="Columns of names that are no features and become arrays next to the labels, such as the parts of "
        "an evaluation",
    )
    unlabelled: bool = setting(
        False, example=True, description="Take no column of CSV for the labels: its rows are only to be projected"
    )
    dtype: Literal["float32", "float64"] | None = setting(
        None,
        example="float32",
        description="Convert the rows; by default text becomes float32, and numbers stay as they are",
    )
    image_shape: ImageShape | None = setting(
        None, values="two whole numbers", example=[28, 28], description="Where rows are images: height and width"
    )
    missing_chunks: Literal["refuse", "fill"] = setting(
        "refuse",
        example="fill",
        description="Whether chunks of a Zarr source that are not stored are an error or fill values",
    )
    missing_values: Words = setting(
        [],
        values="words",
        example=["?"],
        description="Words for missing values, besides empty cells and those that pandas knows",
    )
    decimal: Literal[".", ","] | None = setting(
        None,
        example=",",
        description="The decimal mark of numbers in text; by default that which the beginning of CSV shows",
    )
    layout: Literal["auto", "sparse", "dense"] = setting(
        "auto",
        example="sparse",
        description="Write CSR rows, or dense ones; by default CSR sources stay sparse, and LIBSVM text becomes so "
        "where that takes at most a quarter of the space",
    )
    overwrite: bool = setting(
        False, example=True, description="Replace the group at the destination, if an ingest has completed it"
    )
    overwrite_any: bool = setting(False, example=True, description="Replace any Zarr group at the destination")

    @property
    def selection(self) -> Selection:
        """The table that is read; a label that is a number is that of a column."""
        from mmpca_dist.ingest.row_source import Selection

        label = int(self.label) if self.label is not None and NUMBER.fullmatch(self.label) else self.label
        sparse = None if self.layout == "auto" else self.layout == "sparse"
        options = (
            self.unlabelled, self.dtype, self.missing_chunks, self.image_shape, None, sparse, self.missing_values,
            self.decimal,
        )  # fmt: skip
        return Selection(self.features, label, self.drop, self.keep, *options)

    @property
    def replaces(self) -> Overwrite:
        """The content that may be replaced at the destination."""
        return "any" if self.overwrite_any else self.overwrite


def ingest_table(config: IngestConfig, callback: Callback) -> dict[str, Any]:
    """Ingest a table, and return its manifest."""
    from mmpca_dist.ingest.job import ingest

    callback.on_stage_start("ingest")
    manifest = ingest(
        config.source,
        config.destination,
        **vars(config.selection),
        overwrite=config.replaces,
        progress=lambda done, total: callback.on_progress("ingest", done, total),
        note=callback.on_note,
    )
    callback.on_stage_end("ingest", manifest, False)
    return manifest


def ingested(config: IngestConfig, manifest: dict[str, Any]) -> str:
    """Return a finished ingest in words."""
    kind = "sparse rows" if manifest["sparse"] else "rows"
    return f"{manifest['rows']} {kind} of {manifest['columns']} columns written to {config.destination}"
