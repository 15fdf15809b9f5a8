"""Files of a table: how they begin, which of a folder belong to it, and those that match a pattern."""

from __future__ import annotations

import fnmatch
import re

from dask.utils import natural_sort_key

from mmpca_dist.errors import InputError
from mmpca_dist.stores import storage

HEAD_BYTES = 16
PATTERN = re.compile(r"[*?\[]")
COPIES = re.compile(r"(~|\.(bak|backup|old|orig|te?mp|part|partial|save|crdownload))$", re.I)
"""How names of files end that are no part of a table, though they may hold rows."""
HDF5 = b"\x89HDF\r\n\x1a\n"
TABLES = {b"PAR1": "Parquet", b"PARE": "encrypted Parquet", b"ARROW1": "Arrow", b"ORC": "ORC"}
"""How files begin that hold nothing but a table."""
TEXT_TABLES = re.compile(r"\.(csv|tsv|tab|jsonl|xlsx)(\.(gz|bz2|xz|zst|zip))?$", re.I)
"""How names of files end that hold rows of other programs."""
NO_ANNDATA = (".h5", ".hdf5", ".h5mu", ".loom", ".nc")


def head_of(uri: str) -> bytes:
    """Return the first bytes of a file; none of a folder."""
    with storage.reached(uri) as (fs, path):
        storage.refuse_pipe(uri)
        return b"" if fs.isdir(path) else bytes(fs.cat_file(path, start=0, end=HEAD_BYTES))


def is_hidden(name: str) -> bool:
    """Tell whether Spark, Hive and Dask ignore a file: ``_metadata``, and names that begin with a dot."""
    return any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in name.split("/"))


def names_of(uri: str, magic: bytes, suffixes: tuple[str, ...], deep: bool = True) -> list[str]:
    """Return the files of a format by path below a folder, in natural order, as Dask does: part.2 before part.10.

    They have one of the ``suffixes``, or begin with ``magic``. Raises InputError for other files that hold rows.
    """
    sizes = {name: size for name, size, _ in storage.list_objects(uri) if not is_hidden(name)}
    names = [name for name in sizes if deep or "/" not in name]
    own = [name for name in names if name.lower().endswith(suffixes)]
    for name in names:
        head = head_of(storage.join(uri, name)) if sizes[name] and not name.lower().endswith(suffixes) else b""
        other = next((title for begin, title in TABLES.items() if head.startswith(begin) and begin != magic), "")
        other = other or ("other" if sizes[name] and magic in TABLES and TEXT_TABLES.search(name) else "")
        if other or (head.startswith(magic) and COPIES.search(name)):
            raise InputError(
                f"{storage.join(uri, name)} holds {other or 'the same kind of'} rows, beside files named *{suffixes[0]}"
                f", and is not named like them. Move it away, or name the files to read: {uri}/*{suffixes[0]}."
            )
        if head.startswith(magic) and not name.lower().endswith(NO_ANNDATA):
            own.append(name)
    return sorted(own, key=natural_sort_key)


def matching(uri: str) -> list[str]:
    """Return the files whose names match a pattern such as ``parts/*.parquet``; none where an address is none."""
    folder, _, pattern = uri.rpartition("/")
    if not PATTERN.search(pattern) or "://" in pattern or storage.exists(uri):
        return []
    names = [name for name in storage.names_in(folder) if fnmatch.fnmatchcase(name, pattern) and not is_hidden(name)]
    if not names:
        raise InputError(f"No file in {folder} is named like {pattern}. Correct the pattern.")
    return [storage.join(folder, name) for name in sorted(names, key=natural_sort_key)]


def files_of(uri: str, magic: bytes, suffixes: tuple[str, ...], deep: bool = True) -> list[str]:
    """Return one file, or those of a format in a folder, or those that match a pattern."""
    if (files := matching(uri)) or storage.is_file(uri) or not storage.exists(uri):
        return files or [uri]
    return [storage.join(uri, name) for name in names_of(uri, magic, suffixes, deep)]
