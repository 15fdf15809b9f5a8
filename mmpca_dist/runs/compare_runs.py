"""Differences between runs, or between evaluations: settings and results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

import numpy as np
from scipy.linalg import subspace_angles

from mmpca_dist.errors import InputError, plural
from mmpca_dist.evaluation.comparisons import corrected_t_test
from mmpca_dist.evaluation.tables import REGRESSION, Cell, Counts, ErrorTable
from mmpca_dist.finite import or_none
from mmpca_dist.jobs.directory import EVALUATION, RunDirectory
from mmpca_dist.jobs.finished_runs import finished, load_model, open_run, solved_methods
from mmpca_dist.jobs.records import COMPARE, COUNT, SOLVE
from mmpca_dist.methods.base.reducer import MomentReducer
from mmpca_dist.methods.base.registry import METHODS
from mmpca_dist.results.evaluation_result import stored_table
from mmpca_dist.results.figures import figures
from mmpca_dist.results.forms import written
from mmpca_dist.statistics.drift import holm
from mmpca_dist.stores import storage

NOT_SPLITTING = {"classifiers", "reference", "margins", "published"}
"""Settings of an evaluation that splits do not depend on."""
ANGLES = (
    "Angles are principal angles, in degrees and from the largest, between the subspaces of the columns that a method "
    "projects to here and in A: as many as the one with fewer components has. There are none where features differ."
)
IMPLIED = "Double precision is implied by dataset.covariates or dataset.target."


@dataclass(frozen=True)
class Comparison:
    """Differences between runs; others are compared with the first, A."""

    content: str
    """``"run"`` or ``"evaluation"``."""
    runs: dict[str, str]
    """The folder of each, by letter."""
    settings: list[dict[str, Any]]
    """``setting``, and its value in each run."""
    results: list[dict[str, Any]]
    """A row for each method, or for each cell of evaluations in percent; None for what a run lacks."""
    notes: list[str]

    def tables(self) -> dict[str, list[dict[str, str]]]:
        """Return the rows of what differs as texts, by title; of runs a row for each method of each run."""
        if self.content == "evaluation":
            results = {
                "Errors in percent": [{name: _text("error", x) for name, x in row.items()} for row in self.results]
            }
        else:
            results = {"Methods": [self._of_run(row, letter) for row in self.results for letter in self.runs]}
        settings = [{name: _text("setting", value) for name, value in row.items()} for row in self.settings]
        return {"Settings that differ": settings, **results}

    def _of_run(self, row: Mapping[str, Any], letter: str) -> dict[str, str]:
        kinds = {"components": "count", "share": "share", "eigenvalues": "eigenvalue", "angles": "principal angle"}
        numbers = {name: _text(kind, row.get(f"{name} {letter}")) for name, kind in kinds.items()}
        return {"method": row["method"], "run": letter, **numbers}


def _text(kind: str, value: Any) -> str:
    """Return a value in words, a list of such, or a number as its kind is written; a dash for what there is not."""
    if isinstance(value, list):
        return ", ".join(_text(kind, each) for each in value)
    if isinstance(value, dict):
        options = ", ".join(f"{name}: {each}" for name, each in value.items() if name != "name")
        return f"{value['name']} ({options})" if "name" in value else options
    return written(kind, value) if value is None or isinstance(value, float) else str(value)


def compare_runs(outputs: Sequence[str]) -> list[Comparison]:
    """Return the comparison of runs, and that of the evaluations below them, as far as all of them have these."""
    if not 2 <= len(set(outputs)) == len(outputs) <= len(ascii_uppercase):
        raise InputError("Name at least two runs, and each once: mmpca compare runs/a runs/b")
    found = {letter: _contents(name) for letter, name in zip(ascii_uppercase, outputs, strict=False)}
    comparisons = []
    for content, compare in (("run", _of_runs), ("evaluation", _of_evaluations)):
        if all(content in each for each in found.values()):
            runs = {letter: each[content] for letter, each in found.items()}
            names = dict(zip(runs, outputs, strict=True))
            results, notes = compare(runs)
            comparisons.append(Comparison(content, names, _differing(runs), results, _on_precision(runs) + notes))
    if not comparisons:
        held = ", ".join(
            f"{name} holds {' and '.join(found[letter])}" for letter, name in zip(found, outputs, strict=True)
        )
        raise InputError(f"Compare runs with runs, and evaluations with evaluations: {held}.")
    return comparisons


def _contents(name: str) -> dict[str, RunDirectory]:
    below = RunDirectory(storage.join(storage.normalize(name), EVALUATION))
    found = {str(each.purpose): each for each in (open_run(name), below) if each.exists}
    if not found:
        raise InputError(f"There is no run in {name}: it holds no run.json.")
    return found


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _differing(runs: Mapping[str, RunDirectory]) -> list[dict[str, Any]]:
    """Return the settings, and facts of the data, that differ."""
    facts = {}
    for letter, run in runs.items():
        count, settings = finished(run, COUNT), dict(_flat(run.config.settings(run.purpose)))
        of_data = {"fingerprint of the data": run.header()["fingerprint"][:12]}
        facts[letter] = settings | of_data | {"rows": count["n_rows"], "features": count["n_features"]}
    keys = dict.fromkeys(key for each in facts.values() for key in each)
    rows = [{"setting": key, **{letter: each.get(key) for letter, each in facts.items()}} for key in keys]
    return [row for row in rows if any(row[letter] != row["A"] for letter in runs)]


def _on_precision(runs: Mapping[str, RunDirectory]) -> list[str]:
    """Return a note where precision differs, and only because other settings do."""
    configs = [run.config for run in runs.values()]
    doubled = [bool(config.dataset.covariates or config.dataset.target) for config in configs]
    follows = [config.precision == "double" for config in configs] == doubled
    return [IMPLIED] if follows and len(set(doubled)) > 1 else []


def _of_runs(runs: Mapping[str, RunDirectory]) -> tuple[list[dict[str, Any]], list[str]]:
    """Compare shares, eigenvalues, and the subspaces of the methods of the same label."""
    labels = {
        letter: sorted(solved_methods(run, finished(run, SOLVE)["models"]), key=run.config.labels.index)
        for letter, run in runs.items()
    }
    sections = {(letter, one.label): one for letter, run in runs.items() for one in run.config.methods}
    rows = []
    for label in dict.fromkeys(label for each in labels.values() for label in each):
        models = {letter: load_model(run.uri, label) for letter, run in runs.items() if label in labels[letter]}
        found = {letter: figures(model, sections[letter, label]) for letter, model in models.items()}
        row: dict[str, Any] = {"method": label}
        row |= {f"components {letter}": found[letter].n_components if letter in found else None for letter in runs}
        for letter in runs:
            values = found[letter].leading_eigenvalues if letter in found else []
            row[f"share {letter}"] = or_none(found[letter].share) if letter in found else None
            row[f"eigenvalues {letter}"] = list(map(or_none, values)) or None
        row |= {f"angles {letter}": _angles(models.get("A"), models.get(letter)) for letter in runs if letter != "A"}
        rows.append(row)
    return rows, [ANGLES]


def _angles(first: MomentReducer | None, other: MomentReducer | None) -> list[float] | None:
    """Return the principal angles in degrees, the largest first; None where columns differ or there are no two."""
    if first is None or other is None or first.n_features_in_ != other.n_features_in_:
        return None
    names = [list(getattr(model, "feature_names_in_", [])) for model in (first, other)]
    if names[0] != names[1]:
        return None
    angles = np.rad2deg(subspace_angles(first.projection()[0], other.projection()[0]))
    return [float(angle) for angle in angles]


def _of_evaluations(runs: Mapping[str, RunDirectory]) -> tuple[list[dict[str, Any]], list[str]]:
    """Compare mean errors; where splits are the same, by the corrected t-test with Holm's correction for all tests."""
    lines = {letter: finished(run, COMPARE) and stored_table(run, "errors").to_pylist() for letter, run in runs.items()}
    tables = {letter: ErrorTable(each) for letter, each in lines.items()}
    cells = {letter: {_asked(cell): cell for cell in table.cells("")} for letter, table in tables.items()}
    splits = {letter: _splits_of(run, lines[letter]) for letter, run in runs.items()}
    same = [letter for letter in runs if letter != "A" and splits[letter] == splits["A"]]
    p_values = {
        (letter, cell.models, cells["A"][key].models): _p_value(
            tables["A"].counts[cells["A"][key].key], tables[letter].counts[cell.key], key[2]
        )
        for letter in same
        for key, cell in cells[letter].items()
        if key in cells["A"]
    }
    known = {models: p_value for models, p_value in p_values.items() if p_value is not None}
    adjusted = dict(zip(known, holm(list(known.values())), strict=True))
    rows: dict[Any, dict[str, Any]] = {}
    n_common = len(cells["A"].keys() & set().union(*(cells[letter] for letter in list(runs)[1:])))
    for key in dict.fromkeys(key for each in cells.values() for key in each):
        found = {letter: each[key] for letter, each in cells.items() if key in each}
        if len(found) == 1 and n_common:
            continue
        means = {letter: cell.summary.mean for letter, cell in found.items()}
        models = {letter: cell.models for letter, cell in found.items()}
        used = dict.fromkeys(cell.used for cell in found.values())
        row: dict[str, Any] = {"method": key[0], "components": ", ".join(map(str, used)), "classifier": key[2]}
        row |= {f"error {letter}": means.get(letter) for letter in runs}
        for letter in list(runs)[1:]:
            both = {"A", letter} <= means.keys()
            row[f"{letter} - A"] = means[letter] - means["A"] if both else None
            row[f"p {letter}"] = adjusted.get((letter, models[letter], models["A"])) if both else None
        rows.setdefault(tuple(models.items()), row)
    tests = plural(len(known), "test")
    tested = f"p: corrected resampled t-test of the difference from A, after Holm's correction for {tests}."
    other = [letter for letter in runs if letter not in ("A", *same)]
    untested = [f"{letter} has other splits than A: their differences are not tested." for letter in other]
    alone = sum(key not in cells["A"] for each in cells.values() for key in each) + len(cells["A"]) - n_common
    left_out = [f"Not shown, as only one evaluation has them: {alone} errors."] if alone and n_common else []
    return list(rows.values()), [*([tested] if known else []), *untested, *left_out]


def _asked(cell: Cell) -> tuple[str, float, str]:
    """Return what a cell is of; all columns are the same for every number of components."""
    reduces = cell.method not in METHODS or METHODS[cell.method].reduces
    return cell.method, cell.n_components if reduces else 0, cell.classifier


def _p_value(first: Counts, other: Counts, classifier: str) -> float | None:
    of_counts = classifier != REGRESSION
    return corrected_t_test(other.errors, first.errors, first.rows, first.training, of_counts=of_counts).p_value


def _splits_of(run: RunDirectory, lines: list[dict[str, Any]]) -> Any:
    """Return what tells splits: the table, its classes, the settings that they follow from, and their sizes.

    Columns that are left out or corrected do not change them.
    """
    config, count = run.config, finished(run, COUNT)
    splitting = config.dataset.splitting(), config.evaluation.model_dump(mode="json", exclude=NOT_SPLITTING)
    table = config.dataset.uri, count["classes"], count["counts"]
    return table, splitting, sorted({(x["split"], x["rows"], x["training"]) for x in lines})
