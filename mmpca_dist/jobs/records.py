"""Records of stages: small JSON objects, typed by the name of their stage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, NotRequired, TypedDict, TypeVar, cast

Objects = Mapping[str, Any]
"""Size and checksum of objects, by their paths."""


class StageRecord(TypedDict, total=False):
    """The record of any stage: the run's key, the time that the stage took, and its outputs."""

    key: str
    seconds: float
    outputs: list[str]
    """Files, Zarr groups (by their ``zarr.json``) and folders, below the folder of the run."""
    objects: Objects
    """Size and checksum of each object of the outputs."""


class StoredColumns(TypedDict):
    """The columns of the stored table, where row maps make others."""

    n_features: int
    feature_names: list[str] | None
    named_columns: bool


class CountRecord(StageRecord):
    """The table after row maps, its classes, and notes; ``uri`` where a refreshed run has several data sets."""

    n_rows: int
    n_features: int
    dtype: str
    classes: list[Any]
    class_type: str
    counts: list[int]
    weights: NotRequired[list[float]]
    """Sums of the weights of the rows of each class, where rows have weights."""
    columns: NotRequired[list[str]]
    """The stored columns, where some are text, and become indicators."""
    levels: NotRequired[list[list[Any]]]
    """Of each of them its name, and the levels that are kept and joined."""
    first_index: NotRequired[int]
    """That of the first column of LIBSVM text, where it is 0."""
    standardize: bool
    """Whether columns are standardised: as asked for, or as indicators stand beside numbers."""
    targets: NotRequired[list[str]]
    """Names of the numbers to predict, where there are any in the place of classes."""
    played: list[list[Any]]
    """Of each column in a role: the role, its name, the column (None for the labels), and what a look has left."""
    missing: NotRequired[list[int]]
    """How many values each column lacks, where these are filled."""
    means: NotRequired[list[float]]
    """Of the values that are there."""
    feature_names: list[str] | None
    named_columns: bool
    image_shape: list[int] | tuple[int, int] | None
    notes: list[str]
    uri: NotRequired[str]
    stored: NotRequired[StoredColumns]


class PlanRecord(StageRecord):
    """Every field of the ``Plan``, of which others need these."""

    choice: dict[str, Any]
    rows: list[tuple[str, str]]


class PassesRecord(StageRecord, total=False):
    """The costs of a stage that is measured; ``memory`` is the peak of a worker in bytes."""

    passes: list[str]
    bytes: int
    memory: int


class MethodChoice(TypedDict):
    """The numbers of components that were tried for a method, their errors in percent, and the one that is chosen."""

    candidates: list[float]
    used: list[int]
    means: list[float]
    standard_errors: list[float]
    candidate: float
    chosen: int
    words: str


class ChoiceRecord(PassesRecord):
    """How numbers of components were chosen; a refreshed run keeps the choice, and made no passes for it."""

    rule: str
    classifier: str
    folds: int
    methods: dict[str, MethodChoice]
    how: str
    found: list[str]
    overlap: float
    n_splits: NotRequired[int]
    planned: NotRequired[int]


class ReduceRecord(PassesRecord):
    """The pass over the rows; ``taken`` are the data sets of a refreshed run."""

    taken: NotRequired[list[dict[str, Any]]]
    shrinkages: NotRequired[list[list[Any]]]
    """Names of scatters, and what rows held out choose for each."""


class SearchRecord(PassesRecord):
    """A search for nearest rows of other classes, and what is proved of it."""

    certificate: dict[str, Any]
    in_memory: bool


class MapsRecord(PassesRecord):
    """The fits of row maps, and notes on them."""

    notes: list[str]


class ModelRecord(TypedDict):
    """A fitted method; ``None`` stands for numbers that are not finite. ``scalars`` are its attributes but arrays."""

    scalars: dict[str, bool | int | float]
    n_components: int
    leading: list[float | None]
    total: float | None
    limit: str
    certificate: dict[str, Any] | None


class SolveRecord(StageRecord):
    """The fitted methods, and notes on them."""

    models: dict[str, ModelRecord]
    precision: str
    dominant_columns: list[tuple[int, float]]
    notes: list[str]


class BelongingRecord(PassesRecord):
    """The limits of scores by method and score, and notes on them."""

    limits: dict[str, dict[str, float]]
    notes: list[str]


class ErasureRecord(PassesRecord):
    """The shares of rows that probes name rightly, by method, and rows of a probe at least; or why there is none."""

    right: dict[str, dict[str, float]]
    why: str


class ProjectRecord(PassesRecord):
    """Bytes read and written."""

    written: int


class ReportRecord(StageRecord):
    """The address of the report, its pictures, and its notes."""

    html: str
    figures: list[dict[str, str]]
    """Of each picture ``name``, ``title``, ``caption``, and ``svg``, its address."""
    notes: NotRequired[list[str]]
    carried: NotRequired[Any]
    """The setting ``report.columns`` that the page was written with."""


class TuneRecord(StageRecord):
    """Penalties by classifier, the same for all methods and splits; and why all columns are left out, if they are."""

    penalties: dict[str, float]
    left_out: str


class ScoreRecord(PassesRecord):
    """How many splits were scored, and the passes that this took."""

    n_splits: int
    planned: NotRequired[int]
    """Memory that the splits take, by the first one."""


class CompareRecord(ReportRecord):
    """The answer of an evaluation, the commands that come next, its verdict in words, and its tables."""

    answer: list[str]
    next: list[str]
    recommended: NotRequired[dict[str, Any] | None]
    verdict: str
    tables: Any


class GenerationRecord(StageRecord):
    """A generation of a refreshed run: the newest with statistics, or the one whose models are read.

    The latter has its ``folder`` and the generation that was read ``before``.
    """

    generation: int
    folder: NotRequired[str]
    before: NotRequired[int]


R = TypeVar("R", bound=StageRecord)


class StageName(str, Generic[R]):
    """The name of a stage, which says what its record holds."""

    __slots__ = ()


COUNT = StageName[CountRecord]("count")
PLAN = StageName[PlanRecord]("plan")
MAPS = StageName[MapsRecord]("maps")
CHOOSE = StageName[ChoiceRecord]("choose")
REDUCE = StageName[ReduceRecord]("reduce")
SOLVE = StageName[SolveRecord]("solve")
BELONGING = StageName[BelongingRecord]("belonging")
ERASURE = StageName[ErasureRecord]("erasure")
PROJECT = StageName[ProjectRecord]("project")
REPORT = StageName[ReportRecord]("report")
TUNE = StageName[TuneRecord]("tune")
SCORE = StageName[ScoreRecord]("score")
COMPARE = StageName[CompareRecord]("compare")
TAKE = StageName[GenerationRecord]("take")
PUBLISH = StageName[GenerationRecord]("refresh")


class Results(dict[str, StageRecord]):
    """The records of the stages of a run, by name."""

    def of(self, stage: StageName[R]) -> R:
        return cast(R, self[stage])

    def find(self, stage: StageName[R]) -> R | None:
        """Return what a stage left; None where it is not done."""
        return cast("R | None", self.get(stage))
