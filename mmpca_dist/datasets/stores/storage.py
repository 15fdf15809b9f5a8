"""Addresses: local paths and fsspec URLs, and the Zarr groups and files behind them.

Credentials come from the environment alone, so that no address, task or record can carry them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import zarr
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem
from zarr.storage import FsspecStore, ObjectStore

from mmpca_dist.datasets.stores import failure_reasons, literal_names, retries
from mmpca_dist.datasets.stores.checksums import from_json, to_json
from mmpca_dist.datasets.stores.credentials import refuse_secrets
from mmpca_dist.datasets.stores.fsspec_files import PatientFileSystem
from mmpca_dist.datasets.stores.object_stores import GCS, OBJECT_STORES, Bucket, BucketFileSystem
from mmpca_dist.datasets.stores.partial_files import beside, is_partial, is_partial_chunk
from mmpca_dist.datasets.stores.zarr_stores import PatientStore
from mmpca_dist.errors import AccessError, DamageError, InputError, MmpcaError, did_you_mean

T = TypeVar("T")
NAMED = ("bundled:", "synthetic:")
"""Data sets that have a name in place of an address."""
RESTORE = "Restore it from a copy."

KNOWN = (*OBJECT_STORES, "file", "memory", "http", "https")
PROTOCOLS = "MMPCA_PROTOCOLS"
"""The environment variable by which a machine allows others of fsspec's protocols, separated by commas."""

ONE_VERSION = re.compile(r"\?(versionid|generation)=", re.IGNORECASE)


def is_local(uri: str) -> bool:
    """Tell whether ``uri`` is a path on this machine's file system."""
    return "://" not in uri and not uri.startswith("file:")


def is_private(uri: str) -> bool:
    """Tell whether only this process can see what is at ``uri``."""
    return uri.startswith("memory:")


def is_remote(uri: str) -> bool:
    """Tell whether ``uri`` is beyond a network."""
    return not is_local(uri) and not is_private(uri)


def normalize(uri: str | os.PathLike) -> str:
    """Return an absolute path for local paths and ``file:`` URLs, since workers have working directories of their own.

    Other URLs, and names such as ``bundled:digits``, are left alone.
    """
    text = os.fspath(uri)
    if not text:
        raise InputError("An address is empty; give a path or a URL.")
    if "\0" in text:
        raise InputError(f"The address {text!r} holds the character NUL, which no name may hold.")
    if text[:5].lower() == "file:":
        text = text[5:]
        text = "/" + text.lstrip("/") if text.startswith("//") else text
    if "://" in text:
        refuse_secrets(text)
        protocol, _, rest = text.partition("://")
        if not rest.strip("/"):
            raise InputError(f"The address {text!r} names no bucket or folder. Write it in full.")
        text = f"{protocol.lower()}://{rest}".rstrip("/")
        refuse_ambiguous(text)
        return text
    return text if text.startswith(NAMED) else str(_absolute(text))


def _absolute(path: str) -> Path:
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError as error:
        raise InputError(f"{path} begins with the home folder of a user who is unknown. Write it in full.") from error
    except FileNotFoundError as error:
        raise InputError(
            f"{path} is relative to the working directory, which was removed. Change to another, or write an absolute "
            "path."
        ) from error


def refuse_ambiguous(uri: str) -> None:
    """Refuse URLs that a store, or the package that asks it, may take for the address of another object.

    Those of other protocols are refused, unless this machine allows them: some of fsspec's chain others, fill in
    templates, write caches or ask workers.

    Raises
    ------
    InputError
    """
    protocol, separator, path = uri.partition("://")
    if not separator:
        return
    allowed = filter(None, os.environ.get(PROTOCOLS, "").replace(" ", "").split(","))
    if protocol.lower() not in (*KNOWN, *allowed):
        raise InputError(
            f"Cannot reach {uri}: unknown protocol {protocol!r}.{did_you_mean(protocol, KNOWN)} There are "
            f"{', '.join(KNOWN)}. If another is to be allowed, set {PROTOCOLS}={protocol} in the environment."
        )
    if "::" in path:
        raise InputError(f"{uri} holds '::', which chains file systems. Choose a name without it.")
    if not (is_private(uri) or protocol in OBJECT_STORES):
        return
    if any(part in (".", "..") for part in path.split("/")):
        raise InputError(f"{uri} holds '.' or '..' as a folder. Write the address without it.")
    if protocol in OBJECT_STORES and ("//" in path or not path.isprintable()):
        raise InputError(
            f"{uri!r} names an object with an empty part or a control character in its name, which obstore cannot "
            "reach. Choose another name."
        )
    if ONE_VERSION.search(path) or (protocol in GCS and re.search(r"#\d+$", path)):
        raise InputError(f"{uri} names one version of an object. Write the address without the version.")


def join(uri: str, *parts: str) -> str:
    """Append path components to a path or URL."""
    return "/".join([uri.rstrip("/"), *parts])


@contextmanager
def explained(uri: str, doing: str = "read") -> Iterator[None]:
    """Turn the many ways in which an address fails into one sentence; errors of programs pass."""
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
        reason = failure_reasons.reason(error, uri if is_local(uri) else None, doing.startswith("write"))
        if reason is None:
            raise
        raise AccessError(f"Cannot {doing} {uri}: {reason}.") from error


def filesystem(uri: str) -> tuple[Any, str]:
    """Return the file system of ``uri``, by fsspec or with methods of the same names, and the path within it.

    Remote ones repeat what fails for reasons that pass.
    """
    refuse_secrets(uri)
    refuse_ambiguous(uri)
    protocol = uri.partition("://")[0]
    with explained(uri, "reach"):
        if is_local(uri):
            return LocalFileSystem(), str(_absolute(uri))
        if protocol in OBJECT_STORES:
            bucket, path = Bucket.of(uri)
            return BucketFileSystem(bucket), path
        # Lists of files of the past are of no use: others write to the same place.
        fs, path = url_to_fs(uri, use_listings_cache=False)
        return (fs if is_private(uri) else PatientFileSystem(fs, protocol)), path


def agreed(uri: str, read: Callable[[], T]) -> T:
    """Return what ``read`` gives, twice alike where ``uri`` is reached without encryption: nothing else checks it."""
    fs, _ = filesystem(uri)
    return retries.agreed(f"read {uri}", read, lambda: getattr(fs, "is_plain", False))


def zarr_location(uri: str, read_only: bool = False) -> Any:
    """Return what Zarr finds a group or array by: a path, or the store behind a URL."""
    if is_local(uri):
        return Path(uri)
    refuse_secrets(uri)
    refuse_ambiguous(uri)
    protocol = uri.partition("://")[0]
    if protocol in OBJECT_STORES:
        with explained(uri, "reach"):
            bucket, path = Bucket.of(uri)
            store = ObjectStore(bucket.client, read_only=read_only)
            return PatientStore(store, uri, path.partition("/")[2] + "/", bucket.is_plain)
    fsspec_store = FsspecStore.from_url(uri, storage_options={"use_listings_cache": False}, read_only=read_only)
    return PatientStore(fsspec_store, uri, "", protocol == "http")


def undamaged(uri: str, read: Callable[[], T]) -> T:
    """Return what ``read`` gives of ``uri``; what comes from afar and fails its checksum is read again."""
    return retries.undamaged(is_remote(uri), f"read {uri}", read)


def exists(uri: str) -> bool:
    """Tell whether a file or folder is at ``uri``."""
    fs, path = filesystem(uri)
    with explained(uri):
        return bool(fs.exists(path))


def require(uri: str) -> None:
    """Raise an ``InputError`` where nothing is at ``uri``, with the reason that a server gives."""
    fs, path = filesystem(uri)
    with explained(uri):
        if not fs.exists(path):
            fs.info(path)  # raises what fsspec's ``exists`` keeps to itself
            raise FileNotFoundError(uri)
    refuse_pipe(uri)


def refuse_pipe(uri: str) -> None:
    """Raise an ``InputError`` for what is neither a file nor a folder on this machine: it would be waited for."""
    if is_local(uri):
        path = Path(filesystem(uri)[1])
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise InputError(f"{uri} is neither a file nor a folder.")


def remove_children(uri: str, names: Iterable[str]) -> None:
    """Remove these files or folders from a folder, and the folder where nothing else is in it."""
    for name in names:
        remove(join(uri, name))
    if uri.partition("://")[0] in OBJECT_STORES:
        return
    fs, path = filesystem(uri)
    with explained(uri, "remove"), suppress(FileNotFoundError):
        if fs.isdir(path) and not fs.ls(path, detail=False):
            fs.rmdir(path)


def read_json(uri: str, remedy: str = RESTORE) -> dict[str, Any]:
    """Read a JSON file that this project wrote.

    Raises
    ------
    DamageError
        For what is no JSON, or does not match its checksum; it ends with ``remedy``.
    """
    fs, path = filesystem(uri)
    with explained(uri):
        refuse_pipe(uri)
        try:
            return undamaged(uri, lambda: from_json(agreed(uri, lambda: fs.cat_file(path))))
        except MmpcaError:
            raise
        except ValueError as error:
            raise DamageError(f"Cannot read {uri}: it is damaged ({error}). {remedy}") from error


def write_bytes(uri: str, data: bytes) -> None:
    """Write a whole object; on a local disk by a rename, so that readers never see half of it."""
    fs, path = filesystem(uri)
    with explained(uri, "write"):
        if uri.partition("://")[0] not in OBJECT_STORES:  # these have no folders, and would make a bucket
            fs.makedirs(fs._parent(path), exist_ok=True)
        if not is_local(uri):
            fs.pipe_file(path, data)
            return
        with beside(Path(path)) as partial:
            partial.write_bytes(data)
            partial.replace(path)


def write_pieces(uri: str, pieces: Iterable[bytes]) -> None:
    """Write an object of which only a piece at a time is in memory; where pieces do not all come, there is none."""
    fs, path = filesystem(uri)
    if not is_local(uri):
        with TemporaryDirectory() as folder:
            whole = Path(folder, "whole")
            write_pieces(str(whole), pieces)
            with explained(uri, "write"):
                fs.put_file(str(whole), path)
        return
    with explained(uri, "write"):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with beside(Path(path)) as partial:
            with partial.open("wb") as file:
                file.writelines(pieces)
            partial.replace(path)


def remove_partials(uri: str, but: str | None = None) -> int:
    """Remove what processes left below a folder that were killed as they wrote a file, and return the bytes freed.

    Nothing is removed below ``but``, a folder within.
    """
    if not is_local(uri):
        return 0  # stores write an object whole, or not at all
    n_bytes = 0
    for name, size, _ in list_objects(uri):
        last = name.rpartition("/")[2]
        is_kept = but is not None and name.startswith(f"{but}/")
        if not is_kept and (is_partial(last) or is_partial_chunk(last)):
            Path(uri, name).unlink(missing_ok=True)
            n_bytes += size
    return n_bytes


def read_bytes(uri: str) -> bytes:
    """Read a whole object."""
    fs, path = filesystem(uri)
    with explained(uri):
        refuse_pipe(uri)
        return agreed(uri, lambda: bytes(fs.cat_file(path)))


def write_json(uri: str, value: dict[str, Any]) -> None:
    """Write a JSON file, whole."""
    write_bytes(uri, to_json(value))


def open_group(uri: str, mode: str = "r") -> zarr.Group:
    """Open (``"r"``, ``"a"``) or create anew (``"w"``) a Zarr group.

    Consolidated metadata, which are copies, are passed over: of an array that was replaced since they are false.
    """
    with explained(uri, "read" if mode == "r" else "write"):
        if is_local(uri) and mode in ("a", "w"):
            Path(uri).parent.mkdir(parents=True, exist_ok=True)
        location = zarr_location(uri, mode == "r")
        try:
            if mode == "r" and is_remote(uri):
                # Looking for all forms of groups at once would take four times as many requests.
                with suppress(zarr.errors.GroupNotFoundError):
                    return zarr.open_group(location, mode="r", zarr_format=3, use_consolidated=False)
            return zarr.open_group(location, mode=mode, use_consolidated=False)  # type: ignore[arg-type]
        except zarr.errors.GroupNotFoundError as error:
            raise InputError(
                f"Cannot read {uri}: there is no Zarr group at this address, and a folder of Parquet files has these "
                "directly in it."
            ) from error
        except (ValueError, TypeError, LookupError, RecursionError) as error:  # JSON, or settings, that are none
            reason = " ".join(str(error).split()).rstrip(".")[:200]
            raise InputError(f"Cannot read {uri}: its Zarr metadata is damaged ({reason}). Restore it.") from error


def list_objects(uri: str) -> list[tuple[str, int, str]]:
    """Return (name, bytes, etag or modification time) of every object below ``uri``, sorted by name."""
    fs, path = filesystem(uri)
    with explained(uri):
        objects = literal_names.objects_at(fs, path)
    root = path.rstrip("/") + "/"
    return sorted(
        (
            name.removeprefix(root),
            int(info.get("size") or 0),
            str(info.get("etag") or info.get("mtime") or info.get("created") or ""),
        )
        for name, info in objects.items()
    )


def names_in(uri: str) -> list[str]:
    """Return the sorted names of what lies directly in a folder; none where it is not there."""
    fs, path = filesystem(uri)
    with explained(uri):
        if not fs.exists(path):
            return []
        return sorted(str(name).rstrip("/").rsplit("/", 1)[-1] for name in fs.ls(path, detail=False))


def remove(uri: str) -> None:
    """Remove a file or a folder with all that is in it, if it is there; of a symbolic link, the link."""
    with explained(uri, "remove"):
        if not is_local(uri):
            fs, path = filesystem(uri)
            literal_names.remove(fs, path, uri.partition("://")[0] not in OBJECT_STORES)
        elif Path(uri).is_dir() and not Path(uri).is_symlink():
            shutil.rmtree(uri)
        else:
            Path(uri).unlink(missing_ok=True)


def digest(*parts: Any) -> str:
    """Return a short hash of JSON-like values."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
