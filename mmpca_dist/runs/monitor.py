"""Tell of new rows, such as a night's or those of a refresh, which do not belong, and which classes moved."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.belonging.limits import refuse_few
from mmpca_dist.configuration.requests import MonitorConfig, TransformConfig
from mmpca_dist.errors import InputError, OutageError, plural, some_names
from mmpca_dist.finite import or_none
from mmpca_dist.jobs.directory import RunDirectory, transform_folder
from mmpca_dist.jobs.events import Callback, told
from mmpca_dist.jobs.finished_runs import counted, load_model, open_run, solved_methods
from mmpca_dist.jobs.stored_belonging import load_belonging, load_reduced
from mmpca_dist.methods.base.reducer import MomentReducer
from mmpca_dist.methods.base.registry import title_of
from mmpca_dist.results.forms import written
from mmpca_dist.runs.monitor_page import NAMED, bar_lines, monitor_page, reasons, scored_rows
from mmpca_dist.runs.transform import transform
from mmpca_dist.statistics.drift import ClassDrift, Drift
from mmpca_dist.statistics.from_rows import moments_of
from mmpca_dist.statistics.moments import ClassMoments
from mmpca_dist.stores import storage
from mmpca_dist.stores.zarr_stores import open_group
from mmpca_dist.tables.compose import open_dataset

LISTED = 20
"""Rows that are told, those farthest out."""
ALPHA, APART, SHARE = 0.01, 0.2, 0.1
"""Of a refresh: the level of tests; the least distance of a class that moved, which Cohen 1988 calls small; and share
of rows that changed class, as of many rows every difference is significant."""
HISTORY, PAGE, ALL_ROWS = "history.json", "monitor.html", "all rows"


def monitor(config: MonitorConfig, callbacks: list[Callback] | None = None, client: Any = None) -> dict[str, Any]:
    """Transform a batch of rows, and return the record of what stands out in it, which the history keeps.

    Raises InputError where the run keeps no belonging.
    """
    run, output = open_run(config.run), storage.normalize(config.output or f"{config.run.rstrip('/')}-monitor")
    method = config.method or solved_methods(run, run.config.labels)[0]
    belonging = load_belonging(run, method)
    alpha = belonging.alpha if config.alpha is None else config.alpha
    refuse_few(belonging.n_held_out, alpha, len(belonging.counts))
    uri = storage.join(output, f"{storage.digest(config.dataset)[:8]}.zarr")
    if not RunDirectory(transform_folder(uri)).exists:
        storage.remove(uri)  # scores of what was at this address another night
    settings = {"output": config.run, "dataset": config.dataset, "destination": uri, "methods": [method]}
    label = "none" if config.label is None and run.config.dataset.classless else config.label
    asked = TransformConfig(**settings, features=config.features, label=label)
    transform(asked, callbacks, client)
    limits = {name: counts.limit(alpha / len(belonging.counts)) for name, counts in belonging.counts.items()}
    rows, labelled, far = _outside(uri, alpha, limits, belonging.n_held_out)
    scored = scored_rows(run, belonging, asked, alpha, far)
    record = {
        "dataset": config.dataset, "rows_at": uri, "page": storage.join(output, PAGE), "method": method,
        "alpha": alpha, "why": scored[1][0], **rows,
    }  # fmt: skip
    compared = labelled and run.config.dataset.target is None
    record |= _drift(run, method, uri, alpha) if compared else {"moved": [], "new": []}
    record["alarm"] = bool(reasons(record))
    nights = _keep(storage.join(output, HISTORY), record)
    html = monitor_page(record, nights, scored, sentences(record)[:-1], counted(run).record["n_features"])
    storage.write_bytes(record["page"], html.encode())
    if record["alarm"]:
        told(callbacks).on_alarm("monitor", config.dataset, " ".join(sentences(record)))
    return record


def _outside(
    uri: str, alpha: float, limits: Mapping[str, float], n_held_out: float
) -> tuple[dict[str, Any], bool, list[int]]:
    """Count the rows that do not belong, and list those farthest out, by p and scores over ``limits``, chunk by chunk.

    Returned are also whether rows have labels, and the positions of those farthest out. Limits are ranks among
    ``n_held_out`` scores, so that the share of rows beyond them is itself drawn from a beta distribution.
    """
    from scipy.stats import betabinom  # slow to import

    group: Any = open_group(uri)
    p, numbers, outside = group["p"], group["row"], 0
    least: list[tuple[float, float, int, int]] = []
    for start in range(0, p.shape[0], p.chunks[0]):
        part, own = np.asarray(p[start : start + p.chunks[0]]), np.asarray(numbers[start : start + p.chunks[0]])
        outside += int(np.count_nonzero(part <= alpha))
        scores = [group[name][start : start + len(part)] / max(limit, 1e-300) for name, limit in limits.items()]
        excess = np.max(scores, axis=0)
        first = np.lexsort((-excess, part))[:LISTED]
        more = ((float(part[i]), -float(excess[i]), int(own[i]), start + int(i)) for i in first if part[i] <= alpha)
        least = sorted([*least, *more])[:LISTED]
    n = int(p.shape[0])
    beyond = len(limits) * math.floor(alpha / len(limits) * (n_held_out + 1))
    by_chance = betabinom(n, beyond, n_held_out + 1 - beyond)
    found = {"rows": n, "outside": outside, "outside_p": float(by_chance.sf(outside - 1)),
             "limit": int(by_chance.isf(alpha))}  # fmt: skip
    told = {**found, "farthest": [{"row": row, "p": value} for value, _, row, _ in least]}
    return told, "y" in group, [at for *_, at in least]


def _drift(run: RunDirectory, method: str, uri: str, alpha: float) -> dict[str, Any]:
    """Compare the classes with those of the run, in the coordinates of the method."""
    model, stored = load_model(run.uri, method), load_reduced(run, method)
    arriving = moments_of(open_dataset(uri), precision="double")
    drift: Drift = stored.drift(arriving.mapped(np.eye(arriving.n_features), -_of_mean(model)))
    columns = [np.argsort(-np.abs(model.projection()[0] @ one.direction), kind="stable")[:5] for one in drift.classes]
    return {
        **_changes(drift, alpha),
        "classes": [_told(one, model, own) for one, own in zip(drift.classes, columns, strict=True)],
        "spread": [str(one.label) for one in drift.classes if one.spreads_otherwise],
    }


def _changes(drift: Drift, alpha: float) -> dict[str, Any]:
    """Return the labels of classes that moved, the farthest first, are new or missing, and the share that changed."""
    far = sorted((one for one in drift.moved(alpha) if one.distance >= APART), key=lambda one: -one.distance)
    labels = {"moved": [one.label for one in far], "new": drift.new, "missing": drift.missing}
    share = drift.moved_share if drift.shares <= alpha else 0.0
    return {**{name: [str(label) for label in own] for name, own in labels.items()}, "share": share}


def _of_mean(model: MomentReducer) -> NDArray[np.float64]:
    """Return the coordinates of the mean row, which stored ones are less."""
    matrix, mean, offset = model.projection()
    return (model.mean_ - (0 if mean is None else mean)) @ matrix - (0 if offset is None else offset)


def heed_drift(
    action: str, base: RunDirectory, uri: str, stored: ClassMoments, new: ClassMoments, callback: Callback
) -> dict[str, Any] | None:
    """Note how rows drift that a refresh of ``base`` is to take in, and return it; raise InputError to refuse them."""
    record = None if action == "ignore" else _drift_of_moments(base, stored, new)
    if record is None:
        if action == "refuse":
            callback.on_note(f"{uri} is taken in unchecked: its moments do not tell whether it drifts.")
        return None
    words, n_moved = _class_words(record), len(record["moved"])
    words += [f"{n_moved} classes moved in all."] * (n_moved > NAMED)
    if n_moved or record["new"]:
        callback.on_alarm("refresh", uri, " ".join(words))
        if action == "refuse":
            how = "Correct it, or take it in as it is by 'mmpca refresh --drift note'."
            raise InputError(f"{uri} is not taken in, as it drifts. {' '.join(words)} {how}")
    if n_moved or record["share"] >= SHARE:  # there is a note of new classes already
        callback.on_note(f"{uri} drifts. {' '.join(words)}")
    return record


def _drift_of_moments(base: RunDirectory, stored: ClassMoments, new: ClassMoments) -> dict[str, Any] | None:
    """Compare rows in the coordinates of the first model of ``base``; return None where moments do not tell."""
    try:
        model = load_model(base.uri, solved_methods(base, base.config.labels)[0])
        drift = stored.drift(new, model.projection()[0].T)
    except OutageError:
        raise
    except (InputError, IndexError):  # no model, or too few rows
        return None
    if drift.classes and all(np.isnan(one.p) for one in drift.classes):
        return None
    record, by_label = _changes(drift, ALPHA), {str(one.label): one for one in drift.classes}
    far = [by_label[label] for label in record["moved"][:NAMED]]
    record["classes"] = [_told(one, model, [j for j, _ in one.columns]) for one in far]
    if base.config.dataset.classless:  # a label that nobody gave
        record["moved"] = [ALL_ROWS] * len(record["moved"])
        record["classes"] = [{**one, "class": ALL_ROWS} for one in record["classes"]]
    return record


def _told(one: ClassDrift, model: MomentReducer, columns: Any) -> dict[str, Any]:
    names = getattr(model, "feature_names_in_", range(model.n_features_in_))
    numbers = {"distance": one.distance, "F": one.statistic, "p": one.adjusted, "spread": one.spread}
    own = {name: or_none(value) for name, value in numbers.items()}
    return {"class": str(one.label), "rows": one.rows, **own, "columns": [str(names[j]) for j in columns]}


def _keep(uri: str, record: dict[str, Any]) -> list[dict[str, Any]]:
    """Add a record to the history, unless it is there: the same rows give the same record. Return all nights."""
    nights = storage.read_json(uri)["nights"] if storage.exists(uri) else []
    if record not in nights:
        nights = [*nights, record]
        storage.write_json(uri, {"nights": nights})
    return nights


def in_words(record: dict[str, Any]) -> str:
    """Return what stands out in a batch in sentences, with bars of text."""
    return "\n".join([" ".join(sentences(record)), *bar_lines(record)])


def sentences(record: dict[str, Any]) -> list[str]:
    """Return what stands out in a batch."""
    share, why = record["outside"] / max(record["rows"], 1), reasons(record)
    words = [
        f"Alarm: {'; '.join(why)}." if why else "No alarm.",
        f"By {title_of(record['method'])}, {record['outside']:,} of {plural(record['rows'], 'row')} ({share:.1%}) do "
        f"not belong to those that trained; about {record['alpha'] * record['rows']:,.0f} are expected, and more than "
        f"{record['limit']:,} raise an alarm.",
    ]
    if record["farthest"]:
        words.append(f"Farthest out: row {', '.join(str(one['row']) for one in record['farthest'][:5])}.")
    return [*words, *_class_words(record), f"Scores by row: {record['rows_at']}. Page: {record['page']}"]


def _class_words(record: dict[str, Any]) -> list[str]:
    words, share = [], record.get("share", 0)
    for one in record.get("classes", []):
        if one["class"] in record["moved"]:
            what = "set of rows" if one["class"] == ALL_ROWS else f"class {one['class']}"
            how = f"{one['distance']:.2f} of its spread ({written('p', one['p'])})"
            words.append(f"The {what} moved by {how}, most along {', '.join(one['columns'])}.")
        elif one["class"] in record.get("spread", []):
            words.append(f"The class {one['class']} has {one['spread']:.2g} times the spread.")
    words += [f"The shares of the classes changed by {share:.0%} of the rows."] * (share >= SHARE)
    for what, why in (("New", "which the run has not seen"), ("Missing", "which the run has")):
        if names := record.get(what.lower()):
            words.append(f"{what}: {some_names(names)}, {why}.")
    return words
