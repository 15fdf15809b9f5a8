"""The rows along the first components."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmpca_dist.errors import InputError, plural
from mmpca_dist.faults import Setting
from mmpca_dist.ingest.column_profiles import ColumnProfile
from mmpca_dist.jobs.counted import Counted
from mmpca_dist.jobs.finished_runs import open_projected
from mmpca_dist.jobs.object_records import AGAIN
from mmpca_dist.jobs.records import COUNT
from mmpca_dist.pictures import palette
from mmpca_dist.pictures.chart import WIDTH, Panel, key, words
from mmpca_dist.pictures.frame import Drawn, Figure, ReportSection
from mmpca_dist.report.thumbnails import image_sheet
from mmpca_dist.results.figures import Figures, note_of_models
from mmpca_dist.results.run_result import SolvedRun
from mmpca_dist.stores.zarr_stores import reading_own
from mmpca_dist.tables.column import Column
from mmpca_dist.tables.compose import column_of
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.labels import encode, normalize_labels
from mmpca_dist.tables.spans import chunk_of

SAMPLE_ROWS, SAMPLE_CHUNKS = 2000, 8
"""Rows that are drawn, and chunks that they are read from."""
TURNS = 3
"""Turns in which points of all classes are drawn."""
MAX_KEYS = 20
"""Classes with a colour and an entry in the legend; the others share one."""
MAX_COLUMNS, MAX_LETTERS, COLUMN_CHUNKS = 8, 60, 64
"""Columns beside the features that pages show of a row, the letters of each value, and chunks that are read for it."""
TAIL = 0.5
"""Percent of the rows on either side that do not decide whether a panel is cut."""
STRETCH = 4.0
"""A panel is cut where rows in the tails stretch it by more than this."""


class ClassKey(NamedTuple):
    """A class, or all those without a colour of their own."""

    label: str
    colour: str
    mark: str


@dataclass(frozen=True)
class ProjectedSample:
    """Some rows, projected."""

    rows: dict[str, NDArray]
    """By name of the method, of shape (m, at most K); a method may be missing."""
    codes: NDArray
    """Shape (m,): position of the class of each row."""
    note: str
    """Which rows these are: ``"all 1797 rows"``."""
    numbers: Sequence[int] = ()
    """Position of each row in the table, shape (m,)."""
    values: Sequence[Any] = ()
    """Number to predict of each row, shape (m,); empty for classes."""
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The values of each row in the columns that are no features, as text."""
    left_out: Sequence[str] = ()
    """Such columns that a page does not carry."""
    images: Mapping[str, Any] | None = None
    """The rows as images, as of `image_sheet`."""
    labelled: bool = True

    @classmethod
    def of(cls, finished: SolvedRun, methods: Sequence[Figures]) -> ProjectedSample | None:
        """Read projected rows of a run, evenly spaced within a few chunks; None where none are stored."""
        run, config = finished.run, finished.config
        counted = finished.results.of(COUNT)
        has_targets, classless = "targets" in counted, config.dataset.classless
        names = [method.name for method in methods if method.name in config.projected]
        formats = [format for format in ("zarr", "parquet") if format in config.project.format]
        if not names or not formats:
            return None
        with reading_own(run.path("projected"), AGAIN):
            datasets = {name: open_projected(run.path("projected"), name, formats[0]) for name in names}
            first = datasets[names[0]]
            edges, labels, numbers = first.chunk_edges, [], []
            rows: dict[str, list[NDArray]] = {name: [] for name in names}
            for start, stop, picks in sampled_chunks(edges):
                numbers += (start + picks).tolist()
                known = np.zeros(stop - start, int) if classless else first.column(None, "label").read(start, stop)[0]
                labels.append(known[picks])
                for name, dataset in datasets.items():
                    rows[name].append(dataset.read(start, stop)[picks])
            values = np.concatenate(labels)
            if has_targets:
                codes = np.searchsorted(np.quantile(values, np.arange(1, palette.SHADES) / palette.SHADES), values)
            else:
                values = normalize_labels(values, run.uri)
                codes = encode(values, Counted(counted).classes, run.uri)
        n_rows = finished.table.n_rows
        note = f"all {n_rows:,} rows" if len(codes) == n_rows else f"{len(codes):,} of {n_rows:,} rows, evenly spaced"
        stacked = {name: np.concatenate(blocks) for name, blocks in rows.items()}
        columns, left_out = _columns(finished, numbers)
        shape = None if config.report.columns == "none" else counted["image_shape"]
        images = image_sheet(finished.table, numbers, shape)
        targets = values.tolist() if has_targets else ()
        return cls(stacked, codes, note, numbers, targets, columns, left_out, images, not classless)


def sampled_chunks(edges: NDArray[np.int64]) -> Iterator[tuple[int, int, NDArray[np.intp]]]:
    """Yield the ends of a few chunks, evenly spaced, and which of their rows are drawn, counted from the first."""
    count = min(len(edges) - 1, SAMPLE_CHUNKS)
    for chunk in (int((i + 0.5) * (len(edges) - 1) / count) for i in range(count)):
        start, stop = int(edges[chunk]), int(edges[chunk + 1])
        picks = np.linspace(0, stop - start - 1, min(SAMPLE_ROWS // count, stop - start)).astype(np.intp)
        yield start, stop, np.unique(picks)


def _columns(finished: SolvedRun, numbers: Sequence[int]) -> tuple[dict[str, list[str]], list[str]]:
    """Return what rows have in columns that are no features, and which of these ``report.columns`` leaves out.

    Columns without a value for each row are in neither.
    """
    found, left_out, config = dict[str, list[str]](), list[str](), finished.config
    table: Any = finished.table
    chosen = config.report.columns
    kept = dict.fromkeys([*config.dataset.drop, *filter(None, [config.evaluation.column])])
    names = list(chosen if isinstance(chosen, list) else kept)
    for name in names[: MAX_COLUMNS * isinstance(table, Dataset)]:
        try:
            column = column_of(table.stored, name, Setting("drop"))
            chunks = sorted({chunk_of(table.chunk_edges, number)[1:] for number in numbers})
            if len(chunks) > COLUMN_CHUNKS:
                continue
            if chosen == "none" or (chosen == "auto" and not _is_measured(column, name, chunks)):
                left_out.append(name)
                continue
            values = [table.beside(column, *chunk)[0][0] for chunk in chunks]
        except InputError:
            continue
        starts = [start for start, _ in chunks]
        places = [(number, bisect(starts, number) - 1) for number in numbers]
        found[name] = [str(values[chunk][number - starts[chunk]])[:MAX_LETTERS] for number, chunk in places]
    return found, left_out


def _is_measured(column: Column, name: str, chunks: Sequence[tuple[int, int]]) -> bool:
    """Tell whether a page may be passed on with the values of a column, as far as some rows tell."""
    profile = ColumnProfile(name)
    for values in (values for chunk in chunks for values in column.read_arrow(*chunk).chunks):
        profile.add(values)
    return profile.may_be_passed_on


def class_keys(sample: ProjectedSample, dataset: Mapping[str, Any]) -> tuple[list[ClassKey], NDArray[np.intp]]:
    """Return the classes with a colour, the largest, and the place of each row among them.

    Numbers and rows without labels have none. Rows of all other classes share the place after the last, and its grey.
    """
    if dataset.get("targets") or not sample.labelled:
        return [], np.zeros(len(sample.codes), np.intp)
    names, counts = dataset["classes"], np.asarray(dataset["counts"])
    largest = np.sort(np.argsort(-counts, kind="stable")[:MAX_KEYS])
    keys = [ClassKey(str(names[code])[:MAX_LETTERS], *palette.place_look(i)) for i, code in enumerate(largest)]
    if more := len(names) - len(largest):
        keys.append(ClassKey(f"{more:,} others", "faint", "circle"))
    ranks = np.full(len(names), len(largest))
    ranks[largest] = np.arange(len(largest))
    return keys, ranks[np.asarray(sample.codes)]


def _projections(methods: Sequence[Figures], sample: ProjectedSample, dataset: Mapping[str, Any]) -> list[Figure]:
    """Return the rows along the first two components of all methods, a panel each: what paper shows."""
    keys, ranks = class_keys(sample, dataset)
    shown = [m for m in methods if m.name in sample.rows and sample.rows[m.name].shape[1]]
    if not shown or not len(sample.codes):
        return []
    rows = [np.asarray(sample.rows[method.name][:, : method.size], np.float64) for method in shown]
    panels = [projection_panel(m.label, each, sample, keys, ranks) for m, each in zip(shown, rows, strict=True)]
    targets = dataset.get("targets")
    told = f", from blue where {targets[0]} is low to orange" if targets else ", coloured by its class" if keys else ""
    told += ". A method with one component has a line for each class." if keys else "."
    caption = f"Each point is a row ({sample.note}){told}"
    caption += note_of_models(shown, "these are the coordinates of the first class's model")
    alt = f"Scatter plots of {sample.note}. {separation_words(sample, shown)}"
    entries = [key(one.label, one.colour, one.mark) for one in keys]
    return [Figure("projection", "The rows along the first two components", caption, panels, entries, alt)]


def projection_panel(
    title: str, rows: NDArray[np.float64], sample: ProjectedSample, keys: Sequence[ClassKey], ranks: NDArray[np.intp],
    width: int = WIDTH,
) -> Drawn:  # fmt: skip
    """Return the rows (m, K) along their first two components, or a line for each class where they have one."""
    finite = np.isfinite(rows).all(axis=1)
    rows, ranks, codes = rows[finite], ranks[finite], np.asarray(sample.codes)[finite]
    lines = strips(ranks, len(keys) or 1)
    up = rows[:, 1] if rows.shape[1] > 1 else lines
    panel = Panel(words(title, 32), "component 1", "component 2" if rows.shape[1] > 1 else "", 220, width)
    ends = [reach(values) for values in (rows[:, 0], up)]
    for axis, (low, high) in zip((panel.x, panel.y), ends, strict=True):
        axis.see([low, high])
    (left, right), (low, high) = ends
    inside = (rows[:, 0] >= left) & (rows[:, 0] <= right) & (up >= low) & (up <= high)
    size = 5.0 if len(rows) <= 500 else 3.5 if len(rows) <= 2500 else 2.5
    if rows.shape[1] == 1:
        panel.y.ticks = [(len(keys) - 1 - i, words(one.label, 10)) for i, one in enumerate(keys)]
    of_row = ranks if keys else codes
    looks = [(one.colour, one.mark) for one in keys] or [(f"shade{code}", "circle") for code in range(palette.SHADES)]
    # In turns, or the last class would hide the others.
    for turn in range(TURNS):
        for place in np.unique(of_row):
            chosen = np.flatnonzero(inside & (of_row == place))[turn::TURNS]
            colour, mark = looks[place]
            panel.points(rows[chosen, 0], up[chosen], colour, mark, size)
    outside = int(len(rows) - inside.sum())
    panel.xlabel += f" ({plural(outside, 'row')} outside)" if outside else ""
    return panel.drawn()


def separation(sample: ProjectedSample, methods: Sequence[Figures]) -> dict[str, float]:
    """Return the share of the spread along two components between classes, or of the scatter of rows without labels."""
    explained = {}
    for method in (each for each in methods if each.name in sample.rows and sample.rows[each.name].shape[1]):
        if not sample.labelled:
            explained[method.name] = float(np.nansum(method.mean_shares[:2]))
            continue
        rows = np.asarray(sample.rows[method.name][:, : min(method.size, 2)], dtype=np.float64)
        finite = np.isfinite(rows).all(axis=1)
        rows, codes = rows[finite] - rows[finite].mean(axis=0), np.asarray(sample.codes)[finite]
        squares, counts = float((rows**2).sum()), np.maximum(np.bincount(codes), 1)
        between = sum((np.bincount(codes, column) ** 2 / counts).sum() for column in rows.T)
        explained[method.name] = float(between / squares) if squares > 0 else 0.0
    return dict(sorted(explained.items(), key=lambda pair: -pair[1]))


def answer_words(sample: ProjectedSample, methods: Sequence[Figures]) -> str:
    """Return which method separates classes, or else holds of the scatter, most along two components, and how much."""
    shares = separation(sample, methods)
    name, share = next(iter(shares.items()))
    best = next(method for method in methods if method.name == name)
    count, held = min(best.size, 2), float(np.nansum(best.mean_shares[:2]))
    along = "its first component" if count == 1 else "its first two components"
    what = "ranges of the number to predict" if sample.values else "classes"
    others = list(dict.fromkeys(f"{each:.0%}" for each in [*shares.values()][:0:-1]))
    many = "s" * (len(shares) > 2)
    rest = f" (of the other method{many}, {' to '.join([*others[:1], *others[1:][-1:]])})" if others else ""
    if not sample.labelled:
        more = f", and {best.share:.0%} along all {best.size}" if best.size > count and np.isfinite(best.share) else ""
        return f"{best.title} holds most of the scatter of the rows: {share:.0%} along {along}{rest}{more}."
    subject = "It holds" if count == 1 else "The two hold"
    total = f" {subject} {held:.0%} of what the method looks for in the table." if 0 < held <= 1 else ""
    return (
        f"{best.title} separates the {what} most: {share:.0%} of the spread along {along}, of the rows that it was "
        f"fitted to, lies between {what}{rest}.{total}"
    )


def separation_words(sample: ProjectedSample, methods: Sequence[Figures]) -> str:
    """Return how well the first two components separate the classes, in a sentence."""
    titles = {method.name: method.label for method in methods}
    shares = [f"{titles[name]} {share:.0%}" for name, share in separation(sample, methods).items()]
    what = "ranges of the number to predict" if sample.values else "classes"
    of = f"{', '.join(shares[:-1])} and {shares[-1]}" if len(shares) > 1 else shares[0]
    between = f"spread along the first two components that lies between {what}"
    return f"Share of the {between if sample.labelled else 'scatter that the first two components hold'}: {of}."


def reach(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the range to show: all values, unless far outliers would squeeze the others together."""
    if not len(values):
        return 0.0, 1.0
    # Rounded inwards: among few values, too, the outermost does not count.
    low = float(np.percentile(values, TAIL, method="higher"))
    high = float(np.percentile(values, 100 - TAIL, method="lower"))
    least, largest = float(values.min()), float(values.max())
    if largest - least <= STRETCH * (high - low) or high <= low:
        return least, largest
    margin = 0.25 * (high - low)
    return max(least, low - margin), min(largest, high + margin)


def strips(ranks: NDArray[np.intp], n_keys: int) -> NDArray[np.float64]:
    """Return a line for each class with a colour, the first on top, within which rows are moved apart."""
    spread = np.random.default_rng(0).uniform(-0.35, 0.35, len(ranks))
    return np.asarray(n_keys - 1 - ranks + spread, dtype=np.float64)


PROJECTION = ReportSection("projection", 20, _projections, ProjectedSample.of)
