"""The schema of configurations: ``RunConfig``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from mmpca_dist.configuration import bundled
from mmpca_dist.configuration.dataset_section import DatasetConfig
from mmpca_dist.configuration.held_out_sections import SPLITS_OF, BelongingConfig, EvaluationConfig
from mmpca_dist.configuration.method_section import MethodSection, MethodSetting
from mmpca_dist.configuration.parsing import parse_model, read_yaml, replaced, sections_of, source_of
from mmpca_dist.configuration.requests import RefreshSection
from mmpca_dist.configuration.sections import ComputeConfig, ProjectConfig, ReportConfig, SolverConfig
from mmpca_dist.eigen.needs import Needs
from mmpca_dist.errors import ConfigError, did_you_mean
from mmpca_dist.evaluation.component_rule import COMPONENT_COUNTS, candidates, fewest_training
from mmpca_dist.methods.base.reducer import MomentReducer
from mmpca_dist.settings import Section, as_list, setting
from mmpca_dist.stores import storage

Purpose = Literal["run", "evaluation", "transform"]
"""The use of a configuration; that of a transform is the one of its run, with other rows."""


def _refuse_bool(value: Any) -> Any:
    """Refuse true and false, which count as numbers in Python."""
    if isinstance(value, bool):
        raise ValueError(f"it must be a whole number, not {str(value).lower()}")
    return value


Size = Annotated[int, Field(ge=1), BeforeValidator(_refuse_bool)]
_LISTED = Field(min_length=1), BeforeValidator(as_list), AfterValidator(lambda sizes: sorted(set(sizes)))
Sizes = Annotated[list[Size], *_LISTED]
Shares = Annotated[list[Annotated[float, Field(gt=0, lt=1)]], *_LISTED]


class RunConfig(Section):
    """A run: which data, which methods, how many components, where to.

    Attributes are the keys and sections of a configuration; docs/settings.md has all of them, with their defaults.

    Attributes
    ----------
    dataset : DatasetConfig
        The table, and what its columns mean.
    methods : list of MethodSection
        Methods with their options and labels.
    n_components : list of int, list of float, or "auto"
        Numbers of components, or shares that they are to hold.
    standardize : bool, optional
        Whether columns are divided by their standard deviations.
    precision : "single" or "double"
        Of products of rows.
    class_weight : "balanced" or dict, optional
        Factors of the classes.
    solver, project, evaluation, report, refresh, compute : sections
        How eigenvectors are computed, what is projected, how methods are compared, the page, drift, who computes.
    output : str
        The folder of the run: a path or fsspec URL.

    Examples
    --------
    >>> from mmpca_dist import load_config
    >>> config = load_config("quickstart", {"output": "runs/mine"})
    >>> config.dataset.uri, config.labels[:2], config.n_components
    ('bundled:digits', ['pca', 'm-pca0'], [8, 16])
    """

    # Forms and editors show the first sentence alone.
    model_config = ConfigDict(
        json_schema_extra={"description": "A run: which data, which methods, how many components, where to."}
    )

    dataset: DatasetConfig
    methods: Annotated[list[MethodSetting], BeforeValidator(as_list)] = setting(
        min_length=1,
        values="names of methods (see `mmpca methods`), or mappings such as {name: ridge, alpha: 10, label: ridge-10}",
        example=["pca", "m-pca0"],
        description="Methods to fit, with their options; all of them share the passes over the rows. A method may come "
        "several times with other options, and a label for each",
    )
    n_components: Literal["auto"] | Sizes | Shares = setting(
        values="whole numbers of at least 1, shares between 0 and 1, or auto",
        example=[8, 16],
        description="Numbers of components; the largest is computed, the others are its first ones. 0.95: as many as "
        "hold this share of the scatter that a method is about. auto chooses one for each method, by cross-validation "
        "and the one-standard-error rule",
    )
    standardize: bool | None = setting(
        None,
        example=True,
        description="Divide columns by their standard deviations, after subtracting means; by default where indicators "
        "of text stand beside numbers",
    )
    precision: Literal["single", "double"] = setting(
        "single", example="double", description="Precision of products of rows. Class moments add them up in double"
    )
    class_weight: Literal["balanced"] | dict[str | int | bool, float] | None = setting(
        None,
        values="balanced or weights by label",
        example={"rare": 4},
        description="How much classes count: balanced makes all count alike; those that are not named count once, and "
        "those of weight 0 are left out. Errors of evaluations are of all rows",
    )
    solver: SolverConfig = SolverConfig()
    project: ProjectConfig = ProjectConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    belonging: BelongingConfig | None = setting(
        None,
        values="scores, alpha and shrinkage",
        example={"scores": ["t2", "q"], "alpha": 0.01},
        description="Keep what tells of new rows whether they belong to those that trained; {} for all scores",
    )
    report: ReportConfig = ReportConfig()
    refresh: RefreshSection = RefreshSection()
    compute: ComputeConfig = ComputeConfig()
    output: Annotated[str, AfterValidator(storage.normalize)] = setting(
        example="runs/mine",
        description="Folder of the run: a path or fsspec URL; same settings go on where it stopped. Evaluations "
        "go to the folder evaluation below it",
    )

    @model_validator(mode="before")
    @classmethod
    def _precise_enough(cls, content: Any) -> Any:
        dataset = content.get("dataset") if isinstance(content, dict) else None
        doubled = [key for key in ("covariates", "target") if isinstance(dataset, dict) and dataset.get(key)]
        if not doubled:
            return content
        if content.get("precision", "double") == "single":
            raise ValueError(f"dataset.{doubled[0]} implies double precision: leave out precision.")
        return {**content, "precision": "double"}

    @model_validator(mode="before")
    @classmethod
    def _by_groups(cls, content: Any) -> Any:
        belonging = content.get("belonging") if isinstance(content, dict) else None
        column = belonging.get("groups") if isinstance(belonging, dict) else None
        evaluation = (content.get("evaluation") or {}) if column else None
        if not isinstance(evaluation, dict):
            return content
        if evaluation.get("splits", "groups") != "groups" or evaluation.get("column", column) != column:
            raise ValueError("belonging.groups and evaluation hold out other rows: leave out one of them.")
        return {**content, "evaluation": {**evaluation, "splits": "groups", "column": column}}

    @field_validator("methods")
    @classmethod
    def _distinct_labels(cls, sections: list[MethodSection]) -> list[MethodSection]:
        distinct = [section for number, section in enumerate(sections) if section not in sections[:number]]
        names = [section.label.lower() for section in distinct]  # of files, whose case some systems ignore
        repeated = next((section.label for section in distinct if names.count(section.label.lower()) > 1), None)
        if repeated is not None:
            raise ValueError(f"two methods are called {repeated!r}; give one of them another label")
        return distinct

    @model_validator(mode="after")
    def _known_shares(self) -> Self:
        for section in self.methods if self.by_share else []:
            section.reducer(self.sizes[-1]).check_parameters()
        return self

    @property
    def labels(self) -> list[str]:
        """The names of the methods in results."""
        return [section.label for section in self.methods]

    @property
    def unreduced(self) -> frozenset[str]:
        """The names of methods that keep all columns."""
        return frozenset(section.label for section in self.methods if not section.method.reduces)

    @property
    def erasing(self) -> list[str]:
        """The names of methods that erase the classes."""
        return [section.label for section in self.methods if section.method.name == "erase"]

    def method(self, label: str) -> MethodSection:
        """Return the method of this label."""
        return next(section for section in self.methods if section.label == label)

    def reducer(self, label: str, n_components: float | None) -> MomentReducer:
        """Return the estimator of a method."""
        reducer = self.method(label).reducer(n_components, **self.shared)
        return reducer.for_numbers() if self.dataset.predicts else reducer

    @property
    def standardizes(self) -> bool:
        """Whether columns are standardised; where that is not said, `resolved` tells."""
        return bool(self.standardize)

    @property
    def shared(self) -> dict[str, Any]:
        """The parameters of estimators that all methods share."""
        by_class = {} if self.class_weight is None else {"class_weight": self.class_weight}
        filled = {} if self.dataset.missing == "refuse" else {"missing": self.dataset.missing}
        return {"standardize": self.standardizes, "precision": self.precision, **by_class, **filled}

    def needs(self, n_components: int | None = None) -> Needs:
        """Return what the methods need to know of the rows, for so many components; by default the largest number."""
        each = (self.reducer(label, None).needs() for label in self.labels)
        return Needs.of_all(each, n_components or self.largest)

    @property
    def chooses(self) -> bool:
        """Whether the numbers of components are yet to be chosen."""
        return self.n_components == "auto"

    @property
    def sizes(self) -> Sequence[float]:
        """The numbers of components, or their shares, ascending; with ``auto`` all that may be tried."""
        return candidates(COMPONENT_COUNTS[-1]) if self.n_components == "auto" else self.n_components

    @property
    def by_share(self) -> bool:
        """Whether the numbers of components are those that hold shares."""
        return isinstance(self.sizes[-1], float)

    @property
    def largest(self) -> int | None:
        """The largest number of components, of which the others are prefixes; None for all there are."""
        return None if self.by_share else int(self.sizes[-1])

    def resolved(self, n_rows: int, n_features: int, purpose: Purpose = "run", mixed: bool = False) -> RunConfig:
        """Return the same with the numbers of components that are tried on so many rows and columns, for ``auto``.

        A run tries no more than there are columns, and one less than rows train; so does an evaluation in folds. Where
        nothing is said of it, columns are standardised if they are ``mixed``: indicators next to numbers.
        """
        if self.standardize is None:
            return self.model_copy(update={"standardize": mixed}).resolved(n_rows, n_features, purpose)
        if not self.chooses:
            return self
        in_folds = purpose == "run" or self.evaluation.splits in ("folds", "blocks")
        training = fewest_training(n_rows, self.evaluation.folds) if in_folds else n_rows
        return self.model_copy(update={"n_components": candidates(min(n_features, training - 1))})

    @property
    def projected(self) -> list[str]:
        """The methods whose rows are written."""
        return self.labels if self.project.methods == "all" else list(dict.fromkeys(self.project.methods))

    @property
    def reference(self) -> str:
        """The method that others are tested against in an evaluation."""
        defaults = (section.label for section in self.methods if section.method.reference)
        return self.evaluation.reference or next(defaults, self.labels[0])

    def settings(self, purpose: Purpose = "run") -> dict[str, Any]:
        """Return the settings that results depend on: not where work runs and results go, nor those of other jobs."""
        others = {"project", "belonging"} if purpose == "evaluation" else {"evaluation"}
        settings = self.model_dump(mode="json", exclude={"compute", "output", "report", "refresh", *others})
        if purpose == "run" and (self.chooses or self.belonging or self.erasing):
            settings["evaluation"] = self.evaluation.choosing()
        return settings


SECTIONS = sections_of(RunConfig)
PREFIX, NESTED = "MMPCA_", "__"


def _settings_from_environment() -> tuple[dict[str, Any], dict[str, str]]:
    """Return settings of environment variables by dotted key, and their sources; raise ConfigError if not YAML.

    ``MMPCA_COMPUTE__WORKERS=4`` sets ``compute.workers``.
    """
    changes: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for variable, text in os.environ.items():
        key = variable.removeprefix(PREFIX).lower().replace(NESTED, ".")
        if variable.startswith(PREFIX) and key.partition(".")[0] in RunConfig.model_fields:
            try:
                changes[key], sources[key] = read_yaml(text), f"the environment variable {variable}"
            except ConfigError as error:
                raise ConfigError(f"The environment variable {variable} is not readable as YAML.") from error
    return changes, sources


def load_config(
    path: str | os.PathLike,
    changes: dict[str, Any] | None = None,
    *,
    places: dict[str, str] | None = None,
    defaults: dict[str, Any] | None = None,
    content: str | None = None,
) -> RunConfig:
    """Read a YAML file, or a configuration that comes with the package.

    Parameters
    ----------
    path : str or path
        Path of a file; or, where no file is there, the name of a bundled configuration, such as ``quickstart``.
    changes : dict, optional
        Values by dotted keys, which replace those of the file, and of environment variables such as
        ``MMPCA_COMPUTE__WORKERS``.
    places : dict, optional
        Where each of the changes comes from, for messages: ``{"n_components": "--set n_components=x"}``.
    defaults : dict, optional
        Values for keys of the first level that the file may lack.
    content : str, optional
        YAML in the place of that of the file; ``path`` then only names it in messages.

    Raises
    ------
    ConfigError
        For a file that is missing or not YAML, unknown keys and values that do not fit; one sentence each.
    """
    file = _file_of(path) if content is None else None
    try:
        settings = read_yaml(str(content) if file is None else file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        beside = [each.name for each in Path(path).parent.glob("*.y*ml")]
        hint = did_you_mean(Path(path).name, [*bundled.run_names(), *beside])
        raise ConfigError(
            f"There is no configuration {path}; 'mmpca config > {path}' writes one to fill in.{hint}"
        ) from error
    except (ConfigError, ValueError, OSError) as error:
        more = "" if os.fspath(path).endswith((".yaml", ".yml")) else " Names of tables end with .csv or the like."
        reason = " ".join(str(error).split()).rstrip(".")
        raise ConfigError(f"{path} is not readable as YAML: {reason}.{more}") from error
    if not isinstance(settings, dict):
        raise ConfigError(f"{path} must hold keys and values, such as 'dataset:' and 'methods:'.")
    if "table" in settings:
        raise ConfigError(
            f"{path} is the configuration of a table, not of a run. Compute it with "
            f"'python -m mmpca_paper.zhang_schneider {path}'."
        )
    from_environment, variables = _settings_from_environment()
    changes = changes or {}
    sources = variables | {key: f"the change of {key}" for key in changes} | (places or {})
    changed = replaced({**(defaults or {}), **settings}, from_environment | changes, sources)
    return parse_config(changed, os.fspath(path), sources)


def _file_of(path: str | os.PathLike) -> Path:
    """Return the path of a configuration, which may go by the name of a bundled one where no file is called so."""
    file, name = Path(path), os.fspath(path)
    if file.exists() and not file.is_dir():  # a folder may be the output of an earlier run
        return file
    if name in bundled.OPERATIONS:
        raise ConfigError(f"{name} is a file for Prefect, not the configuration of a run: see 'mmpca config {name}'.")
    return bundled.path_of(name) or file


def as_config(config: RunConfig | str | os.PathLike | dict[str, Any]) -> RunConfig:
    """Return a configuration from itself, a dict of its keys, or the path of a YAML file.

    Raises ConfigError where it is not valid.
    """
    if isinstance(config, dict):
        return parse_config(config, "the configuration")
    if not isinstance(config, RunConfig | str | os.PathLike):
        raise ConfigError(
            f"A configuration is a path or a dict, and this is {type(config).__name__}. For rows in memory say "
            "MarginPCA(2).fit(X, y) or evaluate(X, y); a run reads files: run({'dataset': {'uri': 'rows.parquet', "
            "'label': 'y'}, 'output': 'runs/mine'})."
        )
    return config if isinstance(config, RunConfig) else load_config(config)


def parse_config(content: dict[str, Any], where: str, sources: dict[str, str] | None = None) -> RunConfig:
    """Validate a configuration; messages name ``where``, or the source of a dotted key."""
    config = stored_config(content, where, sources)
    for name in config.evaluation.idle:
        if name == "folds" and config.chooses:  # the choice makes as many folds
            continue
        key, kinds, splits = f"evaluation.{name}", " or ".join(SPLITS_OF[name]), config.evaluation.splits
        raise ConfigError(
            f"{source_of(key, where, sources or {})}: {key} is of splits: {kinds}, and has no effect on splits: "
            f"{splits}. Leave it out, or set evaluation.splits to {kinds}."
        )
    return config


def stored_config(content: dict[str, Any], where: str, sources: dict[str, str] | None = None) -> RunConfig:
    """Validate the configuration of a stored run, as ``parse_config`` does, but allow settings without effect."""
    config = parse_model(RunConfig, content, where, sources)
    reference = config.evaluation.reference
    named = {"project.methods": config.projected, "evaluation.reference": [] if reference is None else [reference]}
    for key, names in named.items():
        unknown = next((name for name in names if name not in config.labels), None)
        if unknown is not None:
            raise ConfigError(
                f"{source_of(key, where, sources or {})}: {key} names {unknown!r}, which is not among "
                f"{', '.join(config.labels)}.{did_you_mean(unknown, config.labels)}"
            )
    return config
