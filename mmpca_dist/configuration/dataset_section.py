"""The section of a configuration that says where the labelled rows are, and what their columns mean."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import unquote

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    model_serializer,
    model_validator,
)

from mmpca_dist.configuration.parsing import NameOrMapping, named_content, parse_model
from mmpca_dist.errors import InputError
from mmpca_dist.settings import ColumnNames, ImageShape, Section, Words, as_list, setting
from mmpca_dist.stores import storage
from mmpca_dist.tables.mapped_rows import stored_form
from mmpca_dist.tables.row_maps.specification import ROW_MAPS, RowMap

VARIABLE = re.compile(r"\$(?:\{(?P<braced>\w+)\}|(?P<plain>\w+))")
"""An environment variable at the beginning of a folder."""
KNOWN_VARIABLE = re.compile(r"MMPCA_DATA\w*|HOME")
"""A configuration may come from a stranger, and other variables may hold secrets."""


def _row_map(value: Any) -> RowMap:
    """Return a row map from its name alone, or a mapping with its options."""
    if isinstance(value, RowMap):
        return value
    options = dict(named_content(value, ROW_MAPS, "row map", "{name: nystroem, n_components: 300}"))
    name = options.pop("name")
    return parse_model(ROW_MAPS[name].options, options, name)


RowMapSetting = Annotated[RowMap, BeforeValidator(_row_map), PlainSerializer(stored_form), NameOrMapping(ROW_MAPS)]


class TargetSection(Section):
    """Columns of numbers, and into how many slices the first is cut."""

    column: Annotated[list[str], BeforeValidator(as_list)] = setting(
        min_length=1, example="price", description="Columns of numbers"
    )
    slices: int | None = setting(
        None,
        ge=2,
        le=100,
        strict=True,
        example=10,
        description="Into how many classes it is cut by quantiles; ties may leave fewer",
    )

    @model_validator(mode="before")
    @classmethod
    def _from_yaml(cls, value: Any) -> Any:
        return {"column": value} if isinstance(value, str | list) else value

    @model_validator(mode="after")
    def _one_column(self) -> TargetSection:
        if self.slices is not None and len(self.column) > 1:
            raise ValueError("slices cut a single column: name one, or leave slices out")
        if len(set(self.column)) < len(self.column):
            raise ValueError("a column is named twice")
        return self

    @model_serializer
    def _to_yaml(self) -> Any:
        if self.slices is not None:
            return {"column": self.column[0], "slices": self.slices}
        return self.column[0] if len(self.column) == 1 else self.column


Level = str | bool | int | float
Levels = Annotated[list[Level], Field(min_length=1), BeforeValidator(as_list)]


class QuestionSection(Section):
    """A question to the moments of a run, as `CellMoments` answers it; without any, about all of its rows."""

    where: dict[str, Levels] = setting(
        {}, values="levels by axis", example={"site": ["a", "b"]}, description="Rows with these levels alone; label is "
        "the axis of the classes, others are the run's dataset.groups"
    )  # fmt: skip
    merge: dict[Level, Levels] = setting(
        {}, values="lists of classes by a new name", example={"T": ["T1", "T2"]}, description="Classes to take as one"
    )
    balance: str | None = setting(
        None, example="batch", description="An axis whose levels count alike in each class that has them"
    )
    remove: ColumnNames = setting(
        [], values="names of axes", example=["batch"], description="Axes whose effects within classes are removed"
    )
    drop: Annotated[list[str | Annotated[int, Field(ge=0, strict=True)]], BeforeValidator(as_list)] = setting(
        [],
        values="names or numbers of columns",
        example=["f7"],
        description="Features to leave out, by name or number from 0",
    )


class DatasetConfig(Section):
    """Where the labelled rows are."""

    uri: str = setting(
        example="bundled:digits",
        description="The rows and labels: a path or fsspec URL (s3://, gs://, ...) of Zarr, Parquet, .h5ad, .npz or "
        ".npy, dense or sparse, bundled:NAME, or synthetic:KIND?option=value",
    )
    data_dir: str | None = setting(
        None,
        example="$MMPCA_DATA",
        description="Folder of a relative uri; it may begin with $HOME or the name of an environment variable "
        "that begins with MMPCA_DATA",
    )
    features: str | None = setting(
        None, example="X", description="Array, list column or CSR group of the rows; by default X, or all columns"
    )
    label: str | None = setting(
        None,
        example="species",
        description="Array or column of the labels, such as obs/cell_type of AnnData; by default y (in Parquet and "
        ".h5ad label or y); for .npy the labels' file; none (or --no-label) where rows have no labels, for pca, "
        "random-projection and all-columns",
    )
    target: TargetSection | None = setting(
        None,
        values="a column, several, or a column and slices: 2 to 100",
        example={"column": "price", "slices": 10},
        description="Numbers to predict in the place of a label: for pca, hsic, pls, ridge, lasso, random-projection, "
        "all-columns, and projection-penalty with the squared loss. slices cuts one column into classes by quantiles, "
        "for all methods. Both imply double precision",
    )
    drop: ColumnNames = setting(
        [], values="names of columns", example=["id"], description="Columns of Parquet that are no features"
    )
    columns: str | list[str | Annotated[int, Field(ge=0, strict=True)]] | None = setting(
        None,
        values="a file with one name or number a line, or a list of names or numbers of columns",
        example="genes.txt",
        description="The features to take, in this order, by name or by number from 0; by default all",
    )
    missing: Literal["refuse", "mean"] = setting(
        "refuse",
        example="mean",
        description="Whether missing values of features (null, NaN) are an error, or the mean of their column in the "
        "rows that are fitted to stands for them; that shrinks its variance by the share that is missing",
    )
    missing_values: Words = setting(
        [],
        values="words",
        example=["?"],
        description="Words for missing values, of Zarr and AnnData in text alone, besides empty cells and those pandas "
        "knows, such as NA and null. A column of text whose other cells are numbers is then one of numbers",
    )
    decimal: Literal[".", ","] | None = setting(
        None,
        example=",",
        description="The decimal mark of numbers in text; by default that which the beginning of CSV shows",
    )
    unlabelled: Literal["refuse", "skip"] = setting(
        "refuse", example="skip", description="Whether rows without a label are an error, or left out and counted"
    )
    unlabelled_value: int | str | None = setting(
        None, example=0, description="A label that says that a row has none, such as that of pixels without a class"
    )
    covariates: ColumnNames = setting(
        [],
        values="names of columns",
        example=["batch", "age"],
        description="Arrays, columns or .npy files of numbers or names whose influence within classes is removed, in "
        "double precision. They are no features",
    )
    weight: str | None = setting(
        None,
        example="n",
        description="The array, column or .npy file that says how often each row counts: a row of weight 2 is that row "
        "twice, one of weight 0 is left out first. It is no feature",
    )
    balance: str | None = setting(
        None,
        example="batch",
        description="A column of names, such as batches, that are to count alike: rows get weights, over those of "
        "weight. It is no feature",
    )
    groups: ColumnNames = setting(
        [],
        values="names of columns",
        example=["batch", "site"],
        description="Columns of names, such as batches, by which a run keeps moments of every crossed cell of classes "
        "and groups, for further questions (see docs/cells.md). They are no features",
    )
    moments: QuestionSection | None = setting(
        None,
        values="a run's folder, with keys of a question beside it, or these keys where uri is the folder",
        example={"where": {"site": ["a"]}},
        description="Solve methods from the moments that a run keeps, without its rows (see docs/cells.md)",
    )
    missing_chunks: Literal["refuse", "fill"] | None = setting(
        None,
        example="fill",
        description="Whether Zarr chunks that are not stored are an error or fill values; by default those of rows are "
        "an error, and those of labels the fill value, with a note, where it is also the label of other rows",
    )
    image_shape: ImageShape | None = setting(
        None,
        values="two whole numbers",
        example=[28, 28],
        description="Where rows are images: height and width; components are then drawn as images",
    )
    maps: Annotated[list[RowMapSetting], BeforeValidator(as_list)] = setting(
        [],
        values=f"names of row maps ({', '.join(ROW_MAPS)}), or mappings such as {{name: nystroem, n_components: 300}}",
        example=["unit-length"],
        description="What is done to every row as it is read, one after the other, also to rows that are transformed; "
        "nystroem and fourier make kernel methods of all methods",
    )

    @model_validator(mode="before")
    @classmethod
    def _of_a_run(cls, content: Any) -> Any:
        """Take ``moments: runs/x`` for the address, and all beside it for the question."""
        if isinstance(content, dict) and isinstance(content.get("moments"), str):
            return {"uri": content["moments"], "moments": {k: v for k, v in content.items() if k != "moments"}}
        return content

    @model_validator(mode="after")
    def _label_or_target(self) -> DatasetConfig:
        if self.label is not None and self.target is not None:
            raise ValueError("give a label or a target, not both: drop leaves a column out")
        if self.unlabelled_value is not None and self.target is not None:
            raise ValueError("unlabelled_value is for labels; a number that is not known is NaN, or missing")
        if self.classless and (self.unlabelled_value is not None or self.unlabelled == "skip"):
            raise ValueError("label: none takes all rows: leave out unlabelled and unlabelled_value")
        if "label" in self.groups or len(set(self.groups)) < len(self.groups):
            raise ValueError("groups need names of their own, other than label, which is the axis of the classes")
        return self

    @property
    def weighted(self) -> bool:
        """Whether rows have weights."""
        return self.weight is not None or self.balance is not None

    @property
    def classless(self) -> bool:
        """Whether rows have no labels: they are of one class."""
        return self.label == "none"

    @property
    def outcome(self) -> str | None:
        """The column of the labels, or the first of numbers to predict; None also of rows without labels."""
        if self.target is not None:
            return self.target.column[0]
        return None if self.classless else self.label

    @property
    def predicts(self) -> bool:
        """Whether there are numbers to predict in the place of classes."""
        return self.target is not None and self.target.slices is None

    def splitting(self) -> dict[str, Any]:
        """Return the settings that splits and errors depend on, next to the content of the table."""
        names = {"label", "target", "unlabelled", "unlabelled_value", "weight", "balance"}
        return self.model_dump(mode="json", include=names)


def located(section: DatasetConfig) -> str:
    """Return the address of a data set; raise InputError where its folder is not known, or the file is not in it."""
    if section.data_dir is None or ":" in section.uri or Path(section.uri).is_absolute():  # an address, or a name
        return section.uri
    if ".." in re.split(r"[/\\]", unquote(section.uri)):
        raise InputError(
            f"dataset.uri is {section.uri}, which leaves the folder of dataset.data_dir. Name a file within it."
        )
    uri = storage.join(_expanded(section.data_dir), section.uri)
    if not storage.exists(uri):
        raise InputError(
            f"There is no {uri}, in the folder of dataset.data_dir. Put it there, or name another folder (--set "
            "dataset.data_dir=DIR)."
        )
    return uri


def _expanded(folder: str) -> str:
    variable = VARIABLE.match(folder)
    if variable is None:
        return storage.normalize(folder)
    name = variable["braced"] or variable["plain"]
    if not KNOWN_VARIABLE.fullmatch(name):
        raise InputError(
            f"dataset.data_dir is {folder}, and of environment variables only HOME and those that begin with "
            "MMPCA_DATA stand for folders. Rename it, or give the folder itself (--set dataset.data_dir=DIR)."
        )
    if not os.environ.get(name):
        raise InputError(
            f"dataset.data_dir is {folder}, and the environment variable {name} is not set. Set it to the folder of "
            "the data sets, or give the folder itself (--set dataset.data_dir=DIR)."
        )
    return storage.normalize(os.environ[name] + folder[variable.end() :])
