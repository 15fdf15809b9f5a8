"""The formats of data sets, and their registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mmpca_dist.datasets.dataset import Dataset
from mmpca_dist.datasets.stores import storage
from mmpca_dist.registry import Registry


@dataclass(frozen=True)
class Request:
    """What is asked of a reader.

    Attributes
    ----------
    uri, given : str
        Where the rows are, normalised and as it was typed.
    features, label : str or None
        The arrays or columns that hold rows and labels; None for those that the format takes by default.
    label_required : bool
        Whether labels must be there; rows that are only transformed may do without.
    names : list of str or None
        Columns to take by name, in this order, of formats whose columns have names.
    drop : sequence of str
        Columns that are no features.
    beside : mapping
        More such columns, and what has named them, for errors.
    missing_chunks : {"refuse", "fill"}
    """

    uri: str
    given: str
    features: str | None = None
    label: str | None = None
    label_required: bool = True
    names: list[str] | None = None
    drop: Sequence[str] = ()
    beside: Mapping[str, str] = field(default_factory=dict)
    missing_chunks: str = "refuse"


@dataclass(frozen=True)
class Format:
    """A format of data sets.

    Attributes
    ----------
    name : str
    title : str
        In messages: ``"a Zarr group"``.
    open : callable
        Opens what a request asks for; only metadata is read.
    scheme : str
        What addresses begin with, where the format goes by that: ``"synthetic:"``.
    suffixes : tuple of str
        What addresses end with.
    holds : callable, optional
        Tells whether the folder of an address that ends with no known suffix is in this format.
    columns : bool
        Whether its columns have names, so that some can be left out.
    alone : bool
        Whether an address alone is of labelled rows, as a folder for new data sets holds them.
    """

    name: str
    title: str
    open: Callable[[Request], Dataset]
    scheme: str = ""
    suffixes: tuple[str, ...] = ()
    holds: Callable[[str], bool] | None = None
    columns: bool = False
    alone: bool = True

    def is_named_by(self, uri: str) -> bool:
        """Tell whether the beginning or the end of an address names this format."""
        by_scheme = bool(self.scheme) and uri.startswith(self.scheme)
        return by_scheme or (bool(self.suffixes) and uri.endswith(self.suffixes))


FORMATS = Registry(Format, "mmpca_dist.datasets.readers", group="mmpca_dist.formats")
FOLDERS_BY_DEFAULT = "zarr"


def format_of(uri: str) -> Format:
    """Return the format of a data set, by its address, or by what is in its folder.

    Raises
    ------
    InputError
        Where nothing is there.
    """
    formats = FORMATS.values()
    named = next((one for one in formats if one.is_named_by(uri)), None)
    if named is not None:
        return named
    storage.require(uri)
    holding = next((one for one in formats if one.holds is not None and one.holds(uri)), None)
    return holding or FORMATS[FOLDERS_BY_DEFAULT]
