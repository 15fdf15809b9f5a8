"""File systems of object stores and servers: every operation patient, large reads by obstore where it is installed."""

from __future__ import annotations

import functools
import io
import os
from collections.abc import Callable
from typing import Any

from mmpca_dist.datasets import patience

S3, GCS, AZURE = ("s3", "s3a"), ("gs", "gcs"), ("az", "abfs", "abfss")
OBJECT_STORES = (*S3, *GCS, *AZURE)
LISTINGS = ("find", "ls")
PATTERNS = frozenset(["cat", "copy", "cp", "delete", "expand_path", "get", "glob", "move", "mv", "put", "rm"])
"""Operations of fsspec that take names for patterns, of which the objects of others are no part."""
BUFFER_BYTES = 1 << 20
"""Files are read ahead by so much; what is longer is read at once."""
FAST_FAILURES = 3
"""After so many failures in a row obstore is no longer asked: it may want other settings than fsspec."""


class ShortReadError(OSError):
    """Fewer bytes came than were asked for."""


class PatientFileSystem:
    """An fsspec file system whose operations are tried again while they fail for reasons that pass.

    Nothing is taken from lists of files of the past: others write to the same place.
    """

    def __init__(self, fs: Any, protocol: str) -> None:
        self._fs, self._protocol = fs, protocol

    @property
    def is_plain(self) -> bool:
        """Whether the connection is not encrypted."""
        return is_plain(self._fs, self._protocol)

    def __getattr__(self, name: str) -> Any:
        if name in PATTERNS:
            raise AttributeError(f"{name} expands patterns in names; see mmpca_dist.datasets.literal")
        found = getattr(self._fs, name)
        return functools.partial(self._patiently, name, found) if callable(found) else found

    def _patiently(self, name: str, method: Callable[..., Any], *args: Any, **options: Any) -> Any:
        def attempt() -> Any:
            self._fs.invalidate_cache()
            return method(*args, **options)

        what = self._what("list" if name in LISTINGS else name, args)
        if name in LISTINGS:
            return patience.agreed(what, lambda: patience.patiently(what, attempt), lambda: self.is_plain)
        return patience.patiently(what, attempt)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None) -> bytes:
        """Return the bytes of a file, or of a range of it."""

        def attempt() -> bytes:
            fast = fast_reader(self._fs, self._protocol, path)
            found = None if fast is None or end is None else fast.read(path, start or 0, end)
            return self._fs.cat_file(path, start=start, end=end) if found is None else found

        return patience.patiently(self._what("read", (path,)), attempt)

    def open(self, path: str, mode: str = "rb") -> Any:
        """Open a file for reading."""
        if self._protocol not in OBJECT_STORES:
            return patience.patiently(self._what("open", (path,)), lambda: self._fs.open(path, mode))
        return io.BufferedReader(_RangeFile(self, path), BUFFER_BYTES)

    def _what(self, name: str, args: tuple[Any, ...]) -> str:
        return f"{name} {self._protocol}://{args[0]}" if args and isinstance(args[0], str) else name


class _RangeFile(io.RawIOBase):
    """A file of an object store, read range by range."""

    def __init__(self, fs: PatientFileSystem, path: str) -> None:
        self._fs, self._path, self._at = fs, path, 0
        self._size = int(fs.size(path))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        end = min(self._at + len(buffer), self._size)
        if end <= self._at:
            return 0

        def read() -> bytes:
            found = self._fs.cat_file(self._path, start=self._at, end=end)
            if len(found) != end - self._at:
                raise ShortReadError(f"{len(found)} bytes in place of {end - self._at}")
            return found

        buffer[: end - self._at] = patience.patiently(f"read {self._path}", read)
        done, self._at = end - self._at, end
        return done


def is_plain(fs: Any, protocol: str) -> bool:
    """Tell whether a connection is not encrypted: then nothing but checksums notices a bit that flips on the way."""
    if protocol in S3:
        client = getattr(fs, "_s3", None)
        return client is not None and str(client.meta.endpoint_url).startswith("http:")
    return protocol == "http"


class AbsentError(FileNotFoundError):
    """There is no such object."""


class FastReader:
    """Reads objects of a bucket by obstore; None stands for what it cannot read, and fsspec then tells why."""

    def __init__(self, store: Any, absence_counts: bool = False) -> None:
        self._store, self._absence_counts, self._failures = store, absence_counts, 0

    def read(self, path: str, start: int, end: int) -> bytes | None:
        """Return bytes ``start`` to ``end`` of ``path``, which begins with the bucket."""
        import obstore

        if self._failures >= FAST_FAILURES or end <= start:
            return None
        try:
            found = bytes(obstore.get_range(self._store, _key(path), start=start, end=end))
        except Exception as error:  # whatever it is, fsspec meets it again and says it in words that are known
            self._failed(path, error)
            return None
        self._failures = 0
        return found

    async def read_async(self, path: str, byte_range: tuple[int, int] | None) -> Any:
        """Return an object, or bytes of it, as a buffer; raise an ``AbsentError`` where there is certainly none."""
        import obstore
        from obstore.exceptions import NotFoundError

        if self._failures >= FAST_FAILURES:
            return None
        try:
            if byte_range is not None:
                found: Any = await obstore.get_range_async(
                    self._store, _key(path), start=byte_range[0], end=byte_range[1]
                )
            else:
                found = await (await obstore.get_async(self._store, _key(path))).bytes_async()
        except (NotFoundError, FileNotFoundError) as error:
            if self._absence_counts:
                raise AbsentError(path) from error
            return None
        except Exception as error:
            self._failed(path, error)
            return None
        self._failures = 0
        return found

    def _failed(self, path: str, error: Exception) -> None:
        self._failures += 1
        patience.log.warning("read %s by obstore failed (%s); fsspec reads it", path, type(error).__name__)


def _key(path: str) -> str:
    return path.partition("/")[2]


def fast_reader(fs: Any, protocol: str, path: str) -> FastReader | None:
    """Return what reads the objects of a bucket by obstore, if it is installed and is sure to ask the same store."""
    bucket = path.partition("/")[0]
    if protocol in S3:
        client = getattr(fs, "_s3", None)
        if client is None:
            client = fs.connect()  # no network yet
        return _fast_reader(protocol, bucket, client.meta.endpoint_url, client.meta.region_name, None)
    if protocol in AZURE:
        account = getattr(fs, "account_name", None)
        if account is None or getattr(fs, "connection_string", None):  # which may name another account, or server
            return None
        return _fast_reader(protocol, bucket, None, None, account)
    if protocol in GCS and "STORAGE_EMULATOR_HOST" not in os.environ:  # which obstore does not know
        return _fast_reader(protocol, bucket, None, None, None)
    return None


@functools.lru_cache(maxsize=64)
def _fast_reader(
    protocol: str, bucket: str, endpoint: str | None, region: str | None, account: str | None
) -> FastReader | None:
    try:
        from obstore.store import AzureStore, GCSStore, S3Store
    except ImportError:
        return None
    seconds = f"{patience.timeout():g}s"
    options: dict[str, Any] = {
        "client_options": {
            "allow_http": bool(endpoint) and str(endpoint).startswith("http:"),
            "connect_timeout": f"{min(patience.timeout(), 10.0):g}s",
            "read_timeout": seconds,
            "timeout": f"{max(patience.patience(), patience.timeout()):g}s",
        },
        "retry_config": {"max_retries": 0},
    }
    try:
        if protocol in GCS:
            return FastReader(GCSStore(bucket, **options))
        if protocol in AZURE:
            return FastReader(AzureStore(bucket, account_name=account, **options))
        own = None if endpoint is None or endpoint.endswith(".amazonaws.com") else endpoint
        return FastReader(
            S3Store(bucket, endpoint=own, region=region or "us-east-1", credential_provider=_credentials, **options),
            absence_counts=True,  # tried against a server; of others fsspec has to say so
        )
    except Exception:  # settings that obstore does not know: fsspec does it
        return None


def _credentials() -> Any:
    """Return the credentials that fsspec finds too: of the environment, a profile, a role, ..."""
    from datetime import UTC, datetime, timedelta

    found = _session().get_credentials().get_frozen_credentials()
    return {
        "access_key_id": found.access_key,
        "secret_access_key": found.secret_key,
        "token": found.token,
        "expires_at": datetime.now(UTC) + timedelta(minutes=5),
    }


@functools.cache
def _session() -> Any:
    import botocore.session

    return botocore.session.get_session()
