"""Objects at paths and URLs: read, written, listed and removed, with checksums, and every failure in one sentence."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, TypeVar

import google_crc32c
import numpy as np
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem
from numpy.typing import NDArray

from mmpca_dist.errors import AccessError, DamageError, InputError, MmpcaError, OutageError, did_you_mean, instead_of
from mmpca_dist.stores import failures
from mmpca_dist.stores.addresses import (  # noqa: F401  (some for those who import storage)
    NAMED,
    absolute_path,
    check_address,
    is_bucket,
    is_local,
    is_private,
    is_remote,
    join,
    normalize,
)
from mmpca_dist.stores.remote_files import Bucket, PatientFileSystem, web_options

CHECKSUM = "checksum"
"""The key under which a JSON object holds the checksum of all its other keys."""
DIGITS = 16
PIECE = 1 << 17
"""Values that are copied at a time for their checksum."""


def checksum(data: bytes) -> str:
    """Return the CRC-32C of an object, as text."""
    return f"{google_crc32c.value(bytes(data)):08x}"


def extended(crc: int, values: NDArray) -> int:
    """Extend a CRC-32C by the values of an array, in C order and little-endian."""
    flat = np.ascontiguousarray(values).reshape(-1)
    for start in range(0, flat.size, PIECE):
        piece = flat[start : start + PIECE]
        crc = google_crc32c.extend(crc, piece.astype(piece.dtype.newbyteorder("<"), copy=False).tobytes())
    return crc


def to_json(value: dict[str, Any]) -> bytes:
    """Return the contents of a JSON file, a checksum among them."""
    plain = json.loads(json.dumps(value))  # as it will be read: tuples are lists then, and keys text
    return (json.dumps({**plain, CHECKSUM: _digest(plain)}, indent=1, sort_keys=True) + "\n").encode()


def from_json(data: bytes) -> dict[str, Any]:
    """Read what ``to_json`` wrote; raise ValueError for what is no JSON object, or does not match its checksum."""
    try:
        value = json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(value, dict):
        raise ValueError("it holds no JSON object")
    if CHECKSUM not in value:
        raise ValueError("it has no checksum, and may be written by another program")
    if value.pop(CHECKSUM) != _digest(value):
        raise ValueError("its checksum does not match")
    return value


def _digest(value: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:DIGITS]


T = TypeVar("T")
RESTORE = "Restore it from a copy."
NO_HARD_LINKS = frozenset([errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV])
DELETING_THREADS = 16
"""Objects are deleted one by one, so that a refused deletion is an error, and so many at once."""
PARTIAL = ".partial"
"""Names of files that are not complete end so."""
OUR_PARTIAL = re.compile(r"\..+\.[0-9a-f]{8}\.partial")
ZARR_PARTIAL = re.compile(r".+\.[0-9a-f]{32}\.partial")

_memory_lock = threading.Lock()


@contextmanager
def explained(uri: str, doing: str = "read") -> Iterator[None]:
    """Turn any failure of an address into an error of one sentence; programming errors pass."""
    try:
        yield
    except MmpcaError:
        raise
    except ImportError as error:
        raise InputError(
            f"Cannot {doing} {uri}: {error}. For object stores install 'mmpca-dist[s3]', [gcs] or [azure]; other "
            "protocols need their fsspec package."
        ) from error
    except Exception as error:
        reason = failures.reason(error, uri if is_local(uri) else None, doing.startswith("write"))
        if reason is None:
            raise
        outage = is_remote(uri) and failures.persistence(error) == "passing"
        raise (OutageError if outage else AccessError)(f"Cannot {doing} {uri}: {reason}.") from error


def filesystem(uri: str) -> tuple[Any, str]:
    """Return the file system of ``uri``, by fsspec or with methods of the same names, and the path within it.

    Remote ones retry what fails for reasons that pass.
    """
    check_address(uri)
    with explained(uri, "reach"):
        if is_local(uri):
            return LocalFileSystem(), str(absolute_path(uri))
        if is_bucket(uri):
            return Bucket.of(uri)
        # Lists of files of the past are of no use: others write to the same place.
        fs, path = url_to_fs(uri, use_listings_cache=False, **web_options(uri))
        return (fs if is_private(uri) else PatientFileSystem(fs, uri.partition("://")[0])), path


@contextmanager
def reached(uri: str, doing: str = "read") -> Iterator[tuple[Any, str]]:
    """Yield file system and path as ``filesystem`` returns them; failures become errors as in ``explained``."""
    with explained(uri, doing):
        yield filesystem(uri)


def undamaged(uri: str, read: Callable[[], T]) -> T:
    """Return the result of ``read``; remote data that fail their checksum are read again."""
    return failures.undamaged(is_remote(uri), f"read {uri}", read)


def exists(uri: str) -> bool:
    """Tell whether a file or folder is at ``uri``."""
    with reached(uri) as (fs, path):
        return bool(fs.exists(path))


def is_file(uri: str) -> bool:
    """Tell whether a file is at ``uri``, rather than a folder or nothing."""
    with reached(uri) as (fs, path):
        return bool(fs.exists(path) and not fs.isdir(path))


def require(uri: str) -> None:
    """Raise an ``InputError`` where nothing is at ``uri``, with the reason that a server gives."""
    with reached(uri) as (fs, path):
        if not fs.exists(path):
            beside = [each.name for each in Path(path).parent.glob("*")] if is_local(uri) else []
            if hint := did_you_mean(Path(path).name, beside):
                raise AccessError(f"Cannot read {uri}: {failures.ABSENT}.{hint}")
            fs.info(path)  # raises what fsspec's ``exists`` keeps to itself
            raise FileNotFoundError(uri)
    refuse_pipe(uri)


def refuse_pipe(uri: str) -> None:
    """Raise an ``InputError`` for what is neither a file nor a folder on this machine: reading it would wait."""
    if is_local(uri):
        path = Path(filesystem(uri)[1])
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise InputError(f"{uri} is neither a file nor a folder.")


def read_bytes(uri: str) -> bytes:
    """Read a whole object."""
    with reached(uri) as (fs, path):
        refuse_pipe(uri)
        return bytes(fs.cat_file(path))


def read_json(uri: str, remedy: str = RESTORE) -> dict[str, Any]:
    """Read a JSON file that this project wrote; a DamageError for what is damaged ends with ``remedy``."""
    with instead_of(ValueError, DamageError, f"Cannot read {uri}: it is damaged ({{reason}}). {remedy}"):
        return undamaged(uri, lambda: from_json(read_bytes(uri)))


def write_json(uri: str, value: dict[str, Any]) -> None:
    """Write a JSON file, whole."""
    write_bytes(uri, to_json(value))


def write_bytes(uri: str, data: bytes) -> None:
    """Write a whole object; on a local disk by a rename, so that readers never see half of it."""
    if is_local(uri):
        with writing(uri) as file:
            file.write(data)
        return
    with reached(uri, "write") as (fs, path):
        if not is_bucket(uri):  # without folders, it would make a bucket
            fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        fs.pipe_file(path, data)


@contextmanager
def writing(uri: str) -> Iterator[IO[bytes]]:
    """Yield a file of this machine that becomes the object at ``uri`` at the end, unless that is an error."""
    with reached(uri, "write") as (fs, path):
        if not is_local(uri):
            with TemporaryDirectory() as folder:
                copy = str(Path(folder, "copy"))
                with writing(copy) as file:
                    yield file
                fs.put_file(copy, path)
            return
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with partial_of(Path(path)) as partial:
            with partial.open("wb") as file:
                yield file
            partial.replace(path)


def create_bytes(uri: str, data: bytes) -> bool:
    """Create a whole object if nothing is at ``uri``; of several that try at once, exactly one succeeds.

    On a local disk a complete temporary file gets its name by a hard link, which fails where the name is taken; an
    object store is asked for a conditional write, which it must support (``If-None-Match: *`` on S3). Returns False
    where there was an object.

    >>> from mmpca_dist.stores.storage import create_bytes
    >>> create_bytes("memory://doc/lock", b"mine"), create_bytes("memory://doc/lock", b"yours")
    (True, False)
    """
    with reached(uri, "write") as (fs, path), _memory_lock if is_private(uri) else nullcontext():
        if is_local(uri):
            return _create_file(Path(path), data)
        try:
            fs.pipe_file(path, bytes(data), mode="create")
        except FileExistsError:
            return False
        return True


def _create_file(path: Path, data: bytes) -> bool:
    path.parent.mkdir(parents=True, exist_ok=True)
    with partial_of(path) as partial:
        partial.write_bytes(data)
        try:
            os.link(partial, path)
        except FileExistsError:
            # A network file system may lose the answer of a call that has succeeded, and repeat it.
            return partial.stat().st_nlink > 1
        except OSError as error:
            if error.errno not in NO_HARD_LINKS:
                raise
            with suppress(FileExistsError), path.open("xb") as file:
                file.write(data)  # without hard links, a reader may see the file before all of it is there
                return True
            return False
    return True


@contextmanager
def partial_of(path: Path) -> Iterator[Path]:
    """Yield a hidden name next to a file, for what gets the name of the file once it is whole.

    Nothing stays at the hidden name, unless the process is killed meanwhile: readers of folders pass over it then.
    """
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}{PARTIAL}")
    try:
        yield partial
    finally:
        partial.unlink(missing_ok=True)


def is_partial(name: str, prefix: str = "") -> bool:
    """Tell whether a name is one that ``partial_of`` gave out, for a file whose name begins with ``prefix``."""
    return name.startswith(f".{prefix}") and OUR_PARTIAL.fullmatch(name) is not None


def remove_partials(uri: str, but: str | None = None) -> int:
    """Remove the partial files of killed processes below a folder, and return the bytes freed.

    Nothing is removed below ``but``, a folder within.
    """
    if not is_local(uri):
        return 0  # stores write an object whole, or not at all
    n_bytes = 0
    for name, size, _ in list_objects(uri):
        last = name.rpartition("/")[2]
        is_kept = but is not None and name.startswith(f"{but}/")
        if not is_kept and (is_partial(last) or ZARR_PARTIAL.fullmatch(last)):
            Path(uri, name).unlink(missing_ok=True)
            n_bytes += size
    return n_bytes


def list_objects(uri: str) -> list[tuple[str, int, str]]:
    """Return (name, bytes, etag or modification time) of every object below ``uri``, sorted by name."""
    with reached(uri) as (fs, path):
        objects = _objects_at(fs, path)
    for name, info in objects.items():
        if info["type"] == "other":
            refuse_pipe(name)
    root = path.rstrip("/") + "/"
    marks = {name: info.get("etag") or info.get("mtime") or info.get("created") for name, info in objects.items()}
    sizes = {name: int(info.get("size") or 0) for name, info in objects.items()}
    return sorted((name.removeprefix(root), sizes[name], str(mark or "")) for name, mark in marks.items())


def names_in(uri: str) -> list[str]:
    """Return the sorted names of what lies directly in a folder; none where it is not there."""
    with reached(uri) as (fs, path):
        if not fs.exists(path):
            return []
        return sorted(str(name).rstrip("/").rsplit("/", 1)[-1] for name in fs.ls(path, detail=False))


def remove(uri: str) -> None:
    """Remove a file or a folder with all that is in it, if it is there; of a symbolic link, the link.

    Names are exact: ``*``, ``?`` and ``[..]`` are legal in names, and fsspec's ``rm`` takes them for patterns, which
    match the objects of others.
    """
    with explained(uri, "remove"):
        if not is_local(uri):
            _remove_objects(uri)
        elif Path(uri).is_dir() and not Path(uri).is_symlink():
            shutil.rmtree(uri)
        else:
            Path(uri).unlink(missing_ok=True)


def _remove_objects(uri: str) -> None:
    fs, path = filesystem(uri)

    def remove_object(name: str) -> None:
        with suppress(FileNotFoundError):  # another process was faster, or the answer of a first attempt was lost
            fs.rm_file(name)

    with ThreadPoolExecutor(DELETING_THREADS) as pool:
        list(pool.map(remove_object, _objects_at(fs, path)))  # raises what a thread has raised
    if not is_bucket(uri) and fs.isdir(path):
        entries = fs.find(path, withdirs=True, detail=True)
        folders = {
            name for name, info in entries.items() if info["type"] == "directory" and f"{name}/".startswith(f"{path}/")
        }
        for folder in sorted(folders | {path}, reverse=True):
            fs.rmdir(folder)


def _objects_at(fs: Any, path: str) -> dict[str, dict[str, Any]]:
    """Return the file at ``path``, or all files below that folder, by their names in the file system.

    Stores list names that begin with a prefix, so ``x`` may also list ``x1``: those are left out.
    """
    root = path.rstrip("/")
    return {name: info for name, info in fs.find(path, detail=True).items() if f"{name}/".startswith(f"{root}/")}


def remove_children(uri: str, names: Iterable[str]) -> None:
    """Remove these files or folders from a folder, and the folder where nothing else is in it."""
    for name in names:
        remove(join(uri, name))
    if is_bucket(uri):
        return
    with reached(uri, "remove") as (fs, path), suppress(FileNotFoundError):
        if fs.isdir(path) and not fs.ls(path, detail=False):
            fs.rmdir(path)


def free_bytes(uri: str) -> int | None:
    """Return the bytes that are free on the disk of a path, which may not exist yet; None for a URL."""
    if not is_local(uri):
        return None
    with explained(uri, "write to"):
        folders = (Path(uri), *Path(uri).parents)
        return shutil.disk_usage(next(folder for folder in folders if folder.exists())).free


def digest(*parts: Any) -> str:
    """Return a short hash of JSON-like values."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
