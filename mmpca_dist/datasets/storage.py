"""Addresses: local paths and fsspec URLs, and the Zarr groups and files behind them.

Credentials come from the environment alone, so that no address, task or record can carry them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import zarr
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem
from zarr.storage import FsspecStore

from mmpca_dist.datasets import faults, literal, patience
from mmpca_dist.datasets.checksums import from_json, to_json
from mmpca_dist.datasets.credentials import refuse_secrets
from mmpca_dist.datasets.object_stores import AZURE, GCS, OBJECT_STORES, S3, PatientFileSystem
from mmpca_dist.datasets.zarr_stores import PatientStore
from mmpca_dist.errors import AccessError, DamageError, InputError, MmpcaError, did_you_mean

T = TypeVar("T")
NAMED = ("bundled:", "synthetic:")
"""Data sets that have a name in place of an address."""
PARTIAL = ".partial"
"""So end the names of what is not whole yet."""
RESTORE = "Restore it from a copy."
OUR_PARTIAL = re.compile(r"\..+\.[0-9a-f]{8}\.partial")
ZARR_PARTIAL = re.compile(r".+\.[0-9a-f]{32}\.partial")
"""What Zarr calls a file of a chunk until it is whole."""

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
            f"Cannot {doing} {uri}: {error}. For s3: URLs install 'mmpca-dist[s3]'; other protocols need "
            "their fsspec package (gcsfs, adlfs, ...)."
        ) from error
    except Exception as error:
        reason = faults.reason(error, uri if is_local(uri) else None, doing.startswith("write"))
        protocol = uri.split("://")[0]
        if reason is None and isinstance(error, ValueError) and protocol in AZURE and "account" in str(error):
            raise InputError(
                f"Cannot {doing} {uri}: its storage account is not known, or does not take the credentials in the "
                "environment. Name it in AZURE_STORAGE_ACCOUNT_NAME, or in the address: "
                "abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH."
            ) from error
        if reason is None and isinstance(error, ValueError) and "rotocol" in str(error):
            known = ["s3", "gs", "az", "file", "memory", "http", "https"]
            raise InputError(
                f"Cannot {doing} {uri}: unknown protocol {protocol!r}.{did_you_mean(protocol, known)}"
            ) from error
        if reason is None:
            raise
        raise AccessError(f"Cannot {doing} {uri}: {reason}.") from error


def filesystem(uri: str) -> tuple[Any, str]:
    """Return the fsspec file system of ``uri``, a patient one where it is remote, and the path within it."""
    refuse_secrets(uri)
    refuse_ambiguous(uri)
    protocol = uri.partition("://")[0]
    with explained(uri, "reach"):
        if is_local(uri):
            return LocalFileSystem(), str(_absolute(uri))
        fs, path = url_to_fs(uri, **_options(protocol))
        if is_private(uri):
            return fs, path
        if protocol in S3:
            fs.retries = 1  # patience has its own
        return PatientFileSystem(fs, protocol), path


def _options(protocol: str) -> dict[str, Any]:
    return patience.settings() if protocol in S3 else {}


def agreed(uri: str, read: Callable[[], T]) -> T:
    """Return what ``read`` gives, twice alike where ``uri`` is reached without encryption: nothing else checks it."""
    fs, _ = filesystem(uri)
    return patience.agreed(f"read {uri}", read, lambda: isinstance(fs, PatientFileSystem) and fs.is_plain)


def zarr_place(uri: str, read_only: bool = False) -> Any:
    """Return what Zarr finds a group or array by: a path, or the store behind a URL."""
    if is_local(uri):
        return Path(uri)
    refuse_secrets(uri)
    refuse_ambiguous(uri)
    protocol = uri.partition("://")[0]
    store = FsspecStore.from_url(uri, storage_options=_options(protocol), read_only=read_only)
    if protocol in S3:
        store.fs.retries = 1
    return PatientStore(store, protocol)


def undamaged(uri: str, read: Callable[[], T]) -> T:
    """Return what ``read`` gives of ``uri``; what comes from afar and fails its checksum is read again."""
    return patience.undamaged(is_remote(uri), f"read {uri}", read)


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
            fs.info(path)  # raises what ``exists`` keeps to itself
            raise FileNotFoundError(uri)
    refuse_pipe(uri)


def refuse_pipe(uri: str) -> None:
    """Raise an ``InputError`` for what is neither a file nor a folder on this machine: it would be waited for."""
    if is_local(uri):
        place = Path(filesystem(uri)[1])
        if place.exists() and not (place.is_file() or place.is_dir()):
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


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """Yield a hidden name beside a file, for what gets the name of the file once it is whole.

    Nothing stays at the hidden name, unless the process is killed meanwhile: readers of folders pass over it then.
    """
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}{PARTIAL}")
    try:
        yield partial
    finally:
        partial.unlink(missing_ok=True)


def is_partial(name: str, whole: str = "") -> bool:
    """Tell whether a name is one that ``beside`` gave out, for a file whose name begins with ``whole``."""
    return name.startswith(f".{whole}") and OUR_PARTIAL.fullmatch(name) is not None


def remove_partials(uri: str, but: str | None = None) -> int:
    """Remove what processes left below a folder that were killed as they wrote a file, and return the bytes freed.

    Nothing is removed below ``but``, a folder within.
    """
    if not is_local(uri):
        return 0  # stores write an object whole, or not at all
    listed = (one for one in list_objects(uri) if but is None or not one[0].startswith(f"{but}/"))
    names = ((name, name.rpartition("/")[2], size) for name, size, _ in listed)
    found = [(name, size) for name, last, size in names if is_partial(last) or ZARR_PARTIAL.fullmatch(last)]
    for name, _ in found:
        Path(uri, name).unlink(missing_ok=True)
    return sum(size for _, size in found)


def read_bytes(uri: str) -> bytes:
    """Read a whole object."""
    fs, path = filesystem(uri)
    with explained(uri):
        refuse_pipe(uri)
        return bytes(fs.cat_file(path))


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
        place = zarr_place(uri, mode == "r")
        try:
            if mode == "r" and is_remote(uri):
                # Looking for all forms of groups at once would take four times as many requests.
                with suppress(zarr.errors.GroupNotFoundError):
                    return zarr.open_group(place, mode="r", zarr_format=3, use_consolidated=False)
            return zarr.open_group(place, mode=mode, use_consolidated=False)  # type: ignore[arg-type]
        except zarr.errors.GroupNotFoundError as error:
            raise InputError(
                f"Cannot read {uri}: there is no Zarr group at this address, and a folder of Parquet files has these "
                "directly in it."
            ) from error
        except (ValueError, TypeError, LookupError, RecursionError) as error:  # JSON, or settings, that are none
            found = " ".join(str(error).split()).rstrip(".")[:200]
            raise InputError(f"Cannot read {uri}: its Zarr metadata is damaged ({found}). Restore it.") from error


def list_objects(uri: str) -> list[tuple[str, int, str]]:
    """Return (name, bytes, etag or modification time) of every object below ``uri``, sorted by name."""
    fs, path = filesystem(uri)
    with explained(uri):
        found = literal.objects_at(fs, path)
    root = path.rstrip("/") + "/"
    return sorted(
        (
            name.removeprefix(root),
            int(info.get("size") or 0),
            str(info.get("ETag") or info.get("etag") or info.get("md5Hash") or info.get("mtime")
                or info.get("LastModified") or info.get("created") or ""),
        )
        for name, info in found.items()
    )  # fmt: skip


def names_in(uri: str) -> list[str]:
    """Return the sorted names of what lies directly in a folder; none where it is not there."""
    fs, path = filesystem(uri)
    fs.invalidate_cache()
    with explained(uri):
        if not fs.exists(path):
            return []
        return sorted(str(found).rstrip("/").rsplit("/", 1)[-1] for found in fs.ls(path, detail=False))


def remove(uri: str) -> None:
    """Remove a file or a folder with all that is in it, if it is there; of a symbolic link, the link."""
    with explained(uri, "remove"):
        if not is_local(uri):
            fs, path = filesystem(uri)
            fs.invalidate_cache()
            literal.remove(fs, path, uri.partition("://")[0] not in OBJECT_STORES)
        elif Path(uri).is_dir() and not Path(uri).is_symlink():
            shutil.rmtree(uri)
        else:
            Path(uri).unlink(missing_ok=True)


def digest(*parts: Any) -> str:
    """Return a short hash of JSON-like values."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
