"""The settings of an ingest."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator

from mmpca_dist.errors import InputError
from mmpca_dist.ingest.destination import Overwrite
from mmpca_dist.settings import ImageShape, Section, Words, setting


class IngestConfig(Section):
    """Which columns of which table become which Zarr group, and the form of the rows."""

    source: str = setting(
        example="table.csv", description="Path or fsspec URL of CSV, LIBSVM text, .npz, .npy, Parquet or Zarr"
    )
    destination: str = setting(example="table.zarr", description="Path or fsspec URL of the Zarr group to write")
    features: str | None = setting(
        None, example="X", description="Array or list column of the rows; by default X, or all columns but the label"
    )
    label: str | int | None = setting(
        None,
        example="species",
        description="Array or column of the labels, by default y or label; for CSV also its number (by default the "
        "last column); for .npy the labels' file",
    )
    drop: Words = setting(
        [],
        values="names of columns",
        example=["id"],
        description="Leave out columns of CSV or Parquet, such as an identifier; for CSV also their numbers",
    )
    keep: Annotated[Words, AfterValidator(lambda names: list(dict.fromkeys(names)))] = setting(
        [],
        values="names of columns",
        example=["patient"],
        description="Columns of names or whole numbers, such as the patient of a row, that become arrays next to the "
        "labels, for evaluation.column",
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
    sparse: bool | None = setting(
        None,
        example=True,
        description="Write CSR rows, or dense ones; by default CSR sources stay sparse, and LIBSVM text becomes so "
        "where that takes at most a quarter of the space",
    )
    numbers: bool = setting(
        False, example=True, description="The labels of LIBSVM text are numbers to predict, which may have fractions"
    )
    n_features: int = setting(
        0, ge=0, example=1000, description="Columns of LIBSVM text at least; those that no line has are 0"
    )
    first_index: int | None = setting(
        None, example=0, description="Index of the first column of LIBSVM text; by default 0 where that occurs, else 1"
    )
    overwrite: bool = setting(
        False, example=True, description="Replace the group at the destination, if an ingest has completed it"
    )
    overwrite_any: bool = setting(False, example=True, description="Replace any Zarr group at the destination")

    @property
    def replaces(self) -> Overwrite:
        """The content that may be replaced at the destination."""
        return "any" if self.overwrite_any else self.overwrite

    def check(self) -> None:
        """Raise an ``InputError`` for columns that no source can keep."""
        for name in self.keep:
            if name in self.drop:
                raise InputError(f"--keep and --drop both name {name!r}: leave out one.")
            if not name or name in ("X", "y") or "/" in name or name.startswith((".", "__", "zarr.")):
                raise InputError(f"--keep names {name!r}, which cannot be an array next to X and y: rename it first.")
