"""The settings of transforms, monitors and refreshes, which take all else from a finished run."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from mmpca_dist.settings import ColumnNames, Section, setting


class TransformConfig(Section):
    """Which rows go through which methods of which run, and where to."""

    output: str = setting(example="runs/mine", description="Folder of the finished run")
    dataset: str = setting(example="new_rows.parquet", description="The rows, as for a run; labels may be absent")
    destination: str | None = setting(
        None,
        example="runs/mine-new",
        description="New file that ends with .parquet, .csv, .arrow or .zarr, for all methods side by side; or new "
        "folder, for projected/METHOD.zarr, METHOD.parquet and so on, as project.format of the run says",
    )
    methods: ColumnNames = setting(
        [],
        values="labels of methods",
        example=["m-pca0"],
        description="Only these of the run's methods",
    )
    into: str | None = setting(
        None,
        pattern=r"^(obsm|layers)/[\w+-][^/\x00-\x1f]*$",
        values="obsm/NAME or layers/NAME",
        example="obsm/X_mpca",
        description="In the place of a destination: write the rows of one method into the dataset, which is AnnData "
        "(an .h5ad file or a Zarr group), and nothing else of it",
    )
    inverse: bool = setting(False, example=True, description="Write rows as components rebuild them, in all columns")
    features: str | None = setting(
        None, example="X", description="Array or column of the rows; by default that of the run"
    )
    label: str | None = setting(
        None,
        example="species",
        description="Array or column of the labels, or none; by default that of the run, y or label, if there is one",
    )
    quote_formulas: bool = setting(
        False,
        example=True,
        description="Write ' before text in CSV that spreadsheets would compute, even if the run does not",
    )

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.destination is None) == (self.into is None):
            raise ValueError("name a destination, or a place of the dataset by into (--into), and not both")
        return self

    @property
    def table(self) -> str:
        """The destination; for what goes into the dataset a table beside it, until it is there."""
        return (
            str(self.destination)
            if self.into is None
            else f"{self.dataset.rstrip('/')}.{self.into.replace('/', '-')}.zarr"
        )


class MonitorConfig(Section):
    """Which rows are compared with those of which run, and where the history is."""

    run: str = setting(example="runs/mine", description="Folder of the finished run, which keeps belonging")
    dataset: str = setting(example="tonight.parquet", description="The rows; with labels, classes are compared as well")
    output: str | None = setting(
        None, example="runs/mine-monitor", description="Folder of the history; by default that of the run with -monitor"
    )
    method: str | None = setting(None, example="pca", description="The method; by default the first of the run")
    alpha: float | None = setting(
        None,
        gt=0,
        lt=1,
        values="a number between 0 and 1",
        example=0.05,
        description="Share of false alarms; by default that of the run",
    )
    features: str | None = setting(
        None, example="X", description="Array or column of the rows; by default that of the run"
    )
    label: str | None = setting(
        None, example="species", description="Array or column of the labels; by default that of the run; or none"
    )


DriftAction = Literal["note", "refuse", "ignore"]


class RefreshSection(Section):
    """How a refresh treats new rows of which a class moved or is new."""

    drift: DriftAction = setting("note", example="refuse", description="Note it, refuse the rows, or do not compare")


class RefreshConfig(Section):
    """A run, new rows, and the folder of the refreshed run."""

    run: str = setting(
        example="runs/mine", description="Folder of the finished run whose statistics are extended; it does not change"
    )
    new: str = setting(
        example="inbox",
        description="The new rows, labelled as those of the run: a data set, or a folder (the inbox) of *.zarr, "
        "*.parquet, *.h5ad, *.npz, *.csv and folders of .npy, of which new ones are added, sorted by name",
    )
    output: str = setting(
        example="runs/live", description="Folder of the refreshed run, which the same command continues from"
    )
    features: str | None = setting(
        None, example="X", description="Array or column of the new rows; by default as for the run"
    )
    label: str | None = setting(
        None, example="species", description="Array or column of their labels; by default as for the run"
    )
    weight: str | None = setting(
        None, example="n", description="Array, column or .npy file of their weights; by default as for the run"
    )
    drift: DriftAction | None = setting(
        None,
        example="refuse",
        description="What to do where a class moved or is new; by default refresh.drift of the run",
    )
