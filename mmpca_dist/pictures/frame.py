"""The frame that all pages share: parts under a heading, with words, pictures and tables. It draws nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Drawn:
    """The elements of an SVG picture of this size in pixels."""

    inner: str
    width: float
    height: float

    def svg(self, place: str = "") -> str:
        """Return it as an ``svg`` element; ``place`` are attributes."""
        size = f'viewBox="0 0 {self.width:g} {self.height:g}"'
        return f'<svg {place} {size} fill="none" stroke="currentColor" font-size="11">{self.inner}</svg>'


@dataclass(frozen=True)
class Key:
    """An entry of a legend; in a live plot a check box that shows and hides the renderers of its name."""

    label: str
    swatch: Drawn
    renderers: str = ""


@dataclass(frozen=True)
class Figure:
    """A picture: panels side by side as far as there is room, and a legend."""

    name: str
    """Lower case with dashes, unique in a report."""
    title: str
    caption: str
    panels: Sequence[Drawn]
    legend: Sequence[Key] = ()
    alt: str = ""
    """The picture in words, for readers who do not see it; by default the title."""


@dataclass(frozen=True)
class Field:
    """A field of a printed table: its text, a warning behind it, a small picture and lines of small print below it."""

    text: str = ""
    small: Sequence[str] = ()
    mark: str = ""
    best: bool = False
    bold: bool = False
    """Whether the first line of small print is bold."""
    picture: Drawn | None = None

    @property
    def words(self) -> str:
        """All of it in one line; a star marks the best."""
        return " ".join(filter(None, [self.text + "*" * self.best, self.mark, *self.small]))


@dataclass(frozen=True)
class Heading:
    """A column of a table; a ``bar`` is as long as its fields say in percent."""

    heading: str
    kind: str = "text"
    """One of ``"text"``, ``"head"`` (of the row), ``"name"``, ``"number"``, ``"error"`` and ``"bar"``."""
    small: str = ""


@dataclass(frozen=True)
class PrintedTable:
    """A table with a title, words above and below it, and a ``Field`` or text in each place."""

    columns: Sequence[Heading]
    rows: Sequence[Sequence[Field | str]]
    title: str = ""
    aside: str = ""
    """Soft words behind the title."""
    above: str = ""
    below: str = ""
    opens: bool | None = None
    """Whether a table that folds away is open at first; None for one that does not."""
    key: str = ""
    about: str = ""
    """Name and description where the table is published by itself."""
    brief: int | None = None
    """How many columns, without small print, are enough where there is little room; by default all."""

    @property
    def lines(self) -> Iterator[list[tuple[Heading, Field]]]:
        """The fields of each row, with their columns."""
        for row in self.rows:
            fields = [each if isinstance(each, Field) else Field(each) for each in row]
            yield list(zip(self.columns, fields, strict=True))

    def records(self) -> list[dict[str, str]]:
        """Return a dict of texts for each row, without bars."""
        return [
            {" ".join(filter(None, [c.heading, c.small])): shown.words for c, shown in line if c.kind != "bar"}
            for line in self.lines
        ]

    def texts(self) -> list[dict[str, str]]:
        """Return a dict of texts for each row, without small print: of the columns that are enough."""
        return [{column.heading: shown.text for column, shown in line[: self.brief]} for line in self.lines]


@dataclass(frozen=True)
class Plot:
    """An interactive picture, made by the script of the page with BokehJS; its legend and selects are the page's."""

    name: str
    title: str
    caption: str
    alt: str
    explorer: Mapping[str, Any]
    """The data that the script of the page chooses from, as JSON: ``kind`` is that of a function in ``page.js``."""
    still: Figure | None = None
    """The picture that is shown in its place in print, and where scripts do not run; its legend serves both."""


@dataclass(frozen=True)
class PagePart:
    """A part of a page under one heading: a lead, words on how to read what follows, pictures and tables."""

    name: str
    title: str
    words: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[PrintedTable] = ()
    lead: Sequence[str] = ()
    plots: Sequence[Plot] = ()
    commands: Mapping[str, str] = field(default_factory=dict)
    """Commands to type next, by their purpose."""


@dataclass(frozen=True)
class ReportSection:
    """A picture, or several that belong together, in the report of a run.

    Reports find the sections by a registry, and show each with the methods that name it in ``Method.sections``.

    ``draw(methods, data, dataset)`` returns figures. ``methods`` are results of at least one method, with ``name`` and
    ``title``; ``dataset`` describes the table: ``classes``, ``feature_names`` and ``image_shape``. ``data`` is what
    ``data(run, methods)`` returns, where there is such a function: what the pictures show of a run beyond its methods,
    such as its ``table.n_rows``, or ``model(name)``, the fitted estimator of a method. None leaves the section out.
    """

    name: str
    position: int  # sections come in this order
    draw: Callable[[Sequence[Any], Any, Mapping[str, Any]], list[Figure]]
    data: Callable[[Any, Sequence[Any]], Any] | None = None
