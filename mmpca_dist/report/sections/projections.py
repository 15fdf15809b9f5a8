"""The rows along the first components."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Sheet
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from mmpca_dist.errors import InputError
from mmpca_dist.faults import Setting
from mmpca_dist.ingest.column_profiles import ColumnProfile
from mmpca_dist.jobs.counted import Counted
from mmpca_dist.jobs.finished_runs import open_projected
from mmpca_dist.jobs.object_records import AGAIN
from mmpca_dist.jobs.records import COUNT
from mmpca_dist.pictures import drawing
from mmpca_dist.pictures.drawing import MAX_COLOURS, plain
from mmpca_dist.pictures.frame import Figure, ReportSection
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
SHADES = 40
"""Colours of numbers to predict."""
MAX_COLUMNS, MAX_LETTERS, COLUMN_CHUNKS = 8, 60, 64
"""Columns beside the features that pages show of a row, the letters of each value, and chunks that are read for it."""
TAIL = 0.5
"""Percent of the rows on either side that do not decide whether a panel is cut."""
STRETCH = 4.0
"""A panel is cut where rows in the tails stretch it by more than this."""


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

    @classmethod
    def of(cls, finished: SolvedRun, methods: Sequence[Figures]) -> ProjectedSample | None:
        """Read projected rows of a run, evenly spaced within a few chunks; None where none are stored."""
        run, config = finished.run, finished.config
        counted = finished.results.of(COUNT)
        has_targets = "targets" in counted
        names = [method.name for method in methods if method.name in config.projected]
        formats = [format for format in ("zarr", "parquet") if format in config.project.format]
        if not names or not formats:
            return None
        with reading_own(run.path("projected"), AGAIN):
            datasets = {name: open_projected(run.path("projected"), name, formats[0]) for name in names}
            first = datasets[names[0]]
            edges, labels, numbers = first.chunk_edges, [], []
            n_chunks = len(edges) - 1
            count = min(n_chunks, SAMPLE_CHUNKS)
            rows: dict[str, list[NDArray]] = {name: [] for name in names}
            for chunk in (int((i + 0.5) * n_chunks / count) for i in range(count)):
                start, stop = int(edges[chunk]), int(edges[chunk + 1])
                picks = np.unique(np.linspace(0, stop - start - 1, min(SAMPLE_ROWS // count, stop - start)).astype(int))
                numbers += (start + picks).tolist()
                labels.append(first.column(None, "label").read(start, stop)[0][picks])
                for name, dataset in datasets.items():
                    rows[name].append(dataset.read(start, stop)[picks])
            values = np.concatenate(labels)
            if has_targets:
                codes = np.searchsorted(np.quantile(values, np.arange(1, SHADES) / SHADES), values)
            else:
                values = normalize_labels(values, run.uri)
                codes = encode(values, Counted(counted).classes, run.uri)
        n_rows = finished.table.n_rows
        note = f"all {n_rows:,} rows" if len(codes) == n_rows else f"{len(codes):,} of {n_rows:,} rows, evenly spaced"
        stacked = {name: np.concatenate(blocks) for name, blocks in rows.items()}
        columns, left_out = _columns(finished, numbers)
        return cls(stacked, codes, note, numbers, values.tolist() if has_targets else (), columns, left_out)


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


def _projections(methods: Sequence[Figures], sample: ProjectedSample, dataset: Mapping[str, Any]) -> list[Figure]:
    targets, codes = dataset.get("targets"), np.asarray(sample.codes)
    classes = [str(shade) for shade in range(SHADES)] if targets else dataset["classes"]
    shown = [
        (method, np.asarray(sample.rows[method.name][:, : method.size], dtype=np.float64))
        for method in methods
        if method.name in sample.rows and sample.rows[method.name].shape[1]
    ]
    if not shown or not len(codes):
        return []
    names = drawing.distinct(classes, 22)
    narrow = drawing.distinct(classes, 22 if len(shown) == 1 else 12)
    only_strips = all(rows.shape[1] == 1 for _, rows in shown)
    sheet, panels = drawing.panel_grid(len(shown), 4.2 if len(shown) == 1 else 3.1 if len(shown) <= 6 else 2.6)
    for panel, (method, rows) in zip(panels, shown, strict=True):
        finite = np.isfinite(rows).all(axis=1)
        if rows.shape[1] == 1:
            outside = _strips(panel, rows[finite, 0], codes[finite], narrow)
            of_many = f"{plain(targets[0])}, from low to high" if targets else "classes, in sorted order"
            vertical = "" if len(names) <= MAX_COLOURS else of_many
        else:
            outside, vertical = _scatter(panel, rows[finite, :2], codes[finite], names), "component 2"
        hidden = f" ({outside} {'row' if outside == 1 else 'rows'} outside)" if outside else ""
        drawing.dress(panel, plain(method.label), "component 1" + hidden, vertical)
        for axis in (panel.xaxis, panel.yaxis):
            axis.get_offset_text().set_fontsize(drawing.TICK_SIZE)
    if not only_strips and len(names) <= MAX_COLOURS:  # strips have their names next to them
        _legend(sheet, names)
    if targets:
        caption = f"Each point is a row ({sample.note}), from dark where {plain(targets[0])} is low to light."
    else:
        caption = _caption(sample.note, names, [rows.shape[1] == 1 for _, rows in shown])
    caption += note_of_models([method for method, _ in shown], "these are the coordinates of the first class's model")
    title = f"The rows along the first {'component' if only_strips else 'two components'}"
    alt = f"Scatter plots of {sample.note}. {separation_words(sample, [method for method, _ in shown])}"
    return [drawing.figure("projection", title, caption, sheet, alt)]


def separation(sample: ProjectedSample, methods: Sequence[Figures]) -> dict[str, float]:
    """Return the share of the spread along the first two components that lies between classes, the most first."""
    explained = {}
    for method in methods:
        rows = np.asarray(sample.rows[method.name][:, : min(method.size, 2)], dtype=np.float64)
        finite = np.isfinite(rows).all(axis=1)
        rows, codes = rows[finite] - rows[finite].mean(axis=0), np.asarray(sample.codes)[finite]
        squares, counts = float((rows**2).sum()), np.maximum(np.bincount(codes), 1)
        between = sum((np.bincount(codes, column) ** 2 / counts).sum() for column in rows.T)
        explained[method.name] = float(between / squares) if squares > 0 else 0.0
    return dict(sorted(explained.items(), key=lambda pair: -pair[1]))


def separation_words(sample: ProjectedSample, methods: Sequence[Figures]) -> str:
    """Return how well the first two components separate the classes, in a sentence."""
    titles = {method.name: method.label for method in methods}
    shares = [f"{titles[name]} {share:.0%}" for name, share in separation(sample, methods).items()]
    what = "ranges of the number to predict" if sample.values else "classes"
    of = f"{', '.join(shares[:-1])} and {shares[-1]}" if len(shares) > 1 else shares[0]
    return f"Share of the spread along the first two components that lies between {what}: {of}."


def _caption(note: str, names: list[str], strips: list[bool]) -> str:
    if all(strips):
        caption = (
            f"The only coordinate of the rows ({note}), a line of points for each class: where these do not overlap, "
            "one number tells the classes apart."
        )
    else:
        caption = (
            f"Each point is a row ({note}), coloured by its class: where colours separate, two "
            "numbers already tell the classes apart; where they mix, more components may still do so."
        )
        if any(strips):
            caption += " A method with one component has a line of points for each class instead."
    if len(names) > MAX_COLOURS:
        caption += f" There are {len(names)} classes: colours run from dark to light in their sorted order."
    return caption


def _scatter(panel: Axes, rows: NDArray[np.float64], codes: NDArray, names: list[str]) -> int:
    """Draw rows along two components and return how many lie outside the picture."""
    colours = np.asarray(drawing.class_colours(len(names)), dtype=object if len(names) <= MAX_COLOURS else None)
    markers = np.array([drawing.class_marker(i, len(names)) for i in range(len(names))])
    # In a shuffled order, or the last class would hide the others.
    order = np.random.default_rng(0).permutation(len(rows))
    rows, codes = rows[order], codes[order]
    size = 16 if len(rows) <= 500 else 8 if len(rows) <= 2500 else 4
    for marker in np.unique(markers):
        chosen = markers[codes] == marker
        panel.scatter(
            rows[chosen, 0], rows[chosen, 1], s=size, c=list(colours[codes[chosen]]), marker=marker,
            alpha=0.75, linewidths=0,
        )  # fmt: skip
    left_out = np.zeros(len(rows), dtype=bool)
    for values, set_limits in ((rows[:, 0], panel.set_xlim), (rows[:, 1], panel.set_ylim)):
        low, high = reach(values)
        if (values < low).any() or (values > high).any():
            margin = 0.03 * (high - low)  # or the outermost points would be cut in half
            low, high = low - margin, high + margin
            set_limits(low, high)
            left_out |= (values < low) | (values > high)
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=5))
    panel.ticklabel_format(scilimits=(-3, 4))
    return int(left_out.sum())


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


def _strips(panel: Axes, values: NDArray[np.float64], codes: NDArray, names: list[str]) -> int:
    """Draw a line of points for each class, moved apart vertically, and return how many lie outside the picture."""
    colours, few = drawing.class_colours(len(names)), len(names) <= MAX_COLOURS
    heights = np.random.default_rng(0).uniform(-0.4, 0.4, len(values)) - codes
    for position in range(len(names)):
        of_class = codes == position
        panel.scatter(values[of_class], heights[of_class], s=4, color=colours[position], linewidths=0)
    panel.set_ylim(-len(names) + 0.45, 0.55)
    panel.set_yticks(-np.arange(len(names)) if few else [], names if few else None)
    low, high = reach(values)
    outside = int(((values < low) | (values > high)).sum())
    if outside:
        panel.set_xlim(low, high)
    drawing.few_numbers(panel)
    return outside


def _legend(sheet: Sheet, names: list[str]) -> None:
    colours = drawing.class_colours(len(names))
    handles = [
        Line2D([], [], linestyle="", marker=drawing.class_marker(i, len(names)), color=colours[i], markersize=6)
        for i in range(len(names))
    ]
    most = max(1, int(110 / (max(map(len, names)) + 6)))
    drawing.legend_below(sheet, handles, names, most, handletextpad=0.1, columnspacing=1.2)


PROJECTION = ReportSection("projection", 20, _projections, ProjectedSample.of)
