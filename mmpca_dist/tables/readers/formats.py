"""Formats of data sets: their registry, and how a data set is opened by its address."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from mmpca_dist.errors import InputError, did_you_mean, instead_of, some_names
from mmpca_dist.faults import Setting
from mmpca_dist.registry import Registry
from mmpca_dist.stores import storage
from mmpca_dist.tables.chosen_columns import Columns, with_columns
from mmpca_dist.tables.levels import Levels
from mmpca_dist.tables.source import Source


@dataclass(frozen=True)
class Request:
    """A request to open a table, as for ``open_dataset``."""

    uri: str
    typed: str
    """The address as the user typed it."""
    features: str | None = None
    label: str | None = None
    label_required: bool = True
    """Whether labels must be there; rows to be transformed need none."""
    names: list[str] | None = None
    """Columns to take by name, in this order, of formats whose columns have names."""
    drop: Sequence[str] = ()
    beside: Mapping[str, Setting | str] = field(default_factory=dict)
    missing_chunks: str | None = None
    missing: str = "refuse"
    encode: bool = False
    levels: Sequence[Levels] | None = None
    """Those of the columns of text that a model was fitted to; None where rows tell them."""
    unlabelled: str = "refuse"
    columns: Columns | None = None


@dataclass(frozen=True)
class Format:
    """A format of data sets."""

    name: str
    title: str
    """In messages: ``"a Zarr group"``."""
    open: Callable[[Request], Source]
    """Opens a request; reads only metadata."""
    scheme: str = ""
    """How addresses of this format begin, such as ``"synthetic:"``; empty where suffixes tell."""
    suffixes: tuple[str, ...] = ()
    """How addresses of this format end."""
    holds: Callable[[str, Sequence[str]], bool] | None = None
    """Tells whether a folder whose address has no known suffix is in this format, also by the names in it."""
    columns: bool = False
    """Whether its columns have names, so that some can be left out."""
    alone: bool = True
    """Whether an address alone names labelled rows; a folder of new data sets may then hold such files."""

    def is_named_by(self, uri: str) -> bool:
        """Tell whether the beginning or the end of an address names this format."""
        return (bool(self.scheme) and uri.startswith(self.scheme)) or uri.endswith(self.suffixes)


FORMATS = Registry(Format, "mmpca_dist.tables.readers", group="mmpca_dist.formats")


def format_of(uri: str) -> Format:
    """Return the format of a data set, by its address or the content of its folder; Zarr where neither tells."""
    for format in FORMATS.values():
        if format.is_named_by(uri):
            return format
    storage.require(uri)
    return _by_content(uri) or FORMATS["zarr"]


def _by_content(uri: str) -> Format | None:
    with storage.reached(uri) as (fs, path):
        names = storage.names_in(uri) if fs.isdir(path) else []
    holding = (format for format in FORMATS.values() if format.holds is not None and format.holds(uri, names))
    return next(holding, None) if names else None


def is_table(uri: str) -> bool:
    """Tell whether an address names a table, by its beginning or end, or by what is in the folder."""
    if TEXT.is_named_by(uri.lower()) or any(format.is_named_by(uri) for format in FORMATS.values()):
        return True
    return Path(uri).is_dir() and _by_content(uri) is not None


def open_source(request: Request) -> Source:
    """Open a table; reads only metadata."""
    format = format_of(request.uri)
    source = with_columns(format.open(request), request.columns)
    if request.drop and not format.columns:
        raise InputError(
            f"{{drop}} is {list(request.drop)}, but {source.uri} is {format.title}: its columns have no names to leave "
            "them out by.",
            drop=Setting("drop"),
        )
    return source


def refuse_missing_names(uri: str, stored: Collection[str], names: list[str]) -> None:
    """Refuse features that lack some of the ``names`` that a model was fitted to."""
    stored = set(stored)
    missing = [name for name in names if name not in stored]
    if missing:
        raise InputError(
            f"{uri} lacks {len(missing)} of the {len(names)} features that the model was fitted to: "
            f"{some_names(missing)}.{did_you_mean(missing[0], stored.difference(names))}"
        )


@contextmanager
def reading_with(extra: str, what: str, failure: str, remedy: str) -> Iterator[None]:
    """Turn what a library of an optional dependency raises, which has many types, into one sentence.

    ``what`` says what the data are, ``failure`` what cannot be done, and ``remedy`` what to do then.
    """
    absent = f"{what}. Install 'mmpca-dist[{extra}]' to read it ({{reason}})."
    failed = f"{failure}: {{reason}}. {remedy}"
    with instead_of(Exception, InputError, failed), instead_of(ImportError, InputError, absent):
        yield


COMPRESSED = (".gz", ".bz2", ".xz")
TEXT_SUFFIXES = (".csv", ".tsv", ".txt", ".libsvm", ".svm", ".svmlight")


def stem_of(uri: str) -> str:
    """Return an address in lower case without the suffix of a compression."""
    stem = uri.lower()
    for suffix in COMPRESSED:
        stem = stem.removesuffix(suffix)
    return stem


def _refuse_text(request: Request) -> Source:
    unlabelled = "" if request.label_required else " (with --unlabelled, if it is CSV without labels)"
    raise InputError(
        f"{request.uri} is text: turn it into Zarr first, with: mmpca ingest {request.typed} DEST.zarr{unlabelled}"
    )


TEXT = Format(
    "text", "text", _refuse_text, alone=False,
    suffixes=tuple(name + packed for name in TEXT_SUFFIXES for packed in ("", *COMPRESSED)),
)  # fmt: skip
"""Text is ingested before it is read."""
