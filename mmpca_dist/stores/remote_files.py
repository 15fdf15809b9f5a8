"""Files beyond a network, with retries: objects in buckets of S3, Google and Azure by obstore, others by fsspec."""

from __future__ import annotations

import functools
import io
import json
import os
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from fsspec.spec import AbstractBufferedFile

from mmpca_dist.errors import AccessError, InputError, instead_of
from mmpca_dist.limits import LIMITS
from mmpca_dist.stores import failures
from mmpca_dist.stores.addresses import AZURE, GCS, S3

T = TypeVar("T")
READ_AHEAD_BYTES = 1 << 20
"""Files are read ahead by so much; longer reads are one request."""
REQUEST_SECONDS = 5.0
"""obstore repeats a failing request itself for so long; after that ``failures`` logs the failure and repeats it."""
WRITER = "mmpcawriter"
"""Metadata key that says which call created an object; Azure allows no hyphen in it."""
SETTINGS = ("AWS_", "AZURE_", "GOOGLE_", "STORAGE_EMULATOR_HOST", "MMPCA_STORAGE_")
"""Environment variables that a client depends on begin with these."""
GCS_KEYS = ("client_email", "private_key", "private_key_id")
"""Members that the key of a service account must have, even one that signs nothing."""


@dataclass(frozen=True)
class Bucket:
    """A bucket, or an Azure container, with its objects by paths ``bucket/key``; methods mean what fsspec's do.

    It holds no client and no credentials. Folders exist as parts of names only. Nothing is cached, since others write
    to the same place.
    """

    protocol: str
    name: str
    account: str | None = None

    @classmethod
    def of(cls, uri: str) -> tuple[Bucket, str]:
        """Return the bucket of a URL and the path ``bucket/key``; Azure's may be ``container@account.host``."""
        protocol, _, path = uri.partition("://")
        host, slash, key = path.partition("/")
        name, _, account = host.partition("@")
        if protocol not in AZURE:
            return cls(protocol, host), path
        account = account.partition(".")[0] or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME", "")
        if not account:
            raise InputError(
                f"Cannot reach {uri}: its storage account is not known. Name it in AZURE_STORAGE_ACCOUNT_NAME, or in "
                f"the address: {protocol}://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH. Connection strings are not "
                "read."
            )
        return cls(protocol, name, account), f"{name}{slash}{key}"

    def connect(self) -> Any:
        """Return this process's obstore client, with the credentials of the environment."""
        settings = frozenset(item for item in os.environ.items() if item[0].startswith(SETTINGS))
        return _client(self, settings, failures.is_first_contact(f"{self.protocol}://{self.name}"))

    def _call(self, verb: str, path: str, operation: Callable[[Any, str], T]) -> T:
        """Return ``operation(client, key)``, repeated while it fails for reasons that pass."""
        key = path.partition("/")[2]
        action = f"{verb} {self.protocol}://{path}"
        return failures.patiently(action, lambda: operation(self.connect(), key))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None) -> bytes:
        """Return the bytes of an object, or of a range of it."""
        first = start or 0
        if end is not None and end <= first:
            return b""

        def read(client: Any, key: str) -> bytes:
            if end is not None:
                return bytes(client.get_range(key, start=first, end=end))
            options = {"range": {"offset": first}} if first else None
            return bytes(client.get(key, options=options).bytes())

        try:
            return self._call("read", path, read)
        except Exception as error:
            if failures.status(error) == 416:  # nothing is left from ``start`` on
                return b""
            raise

    def open(self, path: str, mode: str = "rb") -> io.BufferedReader:
        """Open an object for reading."""
        return io.BufferedReader(_RangeFile(self, path, cache_type="none", size=self.size(path)), READ_AHEAD_BYTES)

    def info(self, path: str) -> dict[str, Any]:
        """Return name, size and type of an object, or raise a ``FileNotFoundError``."""
        head = self._call("find", path, lambda client, key: client.head(key))
        return {"name": path, "size": head["size"], "type": "file"}

    def size(self, path: str) -> int:
        """Return the bytes of an object."""
        return int(self.info(path)["size"])

    def exists(self, path: str) -> bool:
        """Tell whether an object has this name, or is in a folder of this name."""
        if "/" not in path.rstrip("/"):
            return self._listed(path, lambda client, key: [client.list_with_delimiter(None)["objects"]]) is not None
        try:
            self.info(path)
        except FileNotFoundError:
            return self.isdir(path)
        return True

    def isdir(self, path: str) -> bool:
        """Tell whether objects are in a folder of this name."""
        return bool(self._listed(path, lambda client, key: list(next(iter(client.list(key or None)), ()))))

    def ls(self, path: str, detail: bool = False) -> list[str]:
        """Return the sorted names of the objects and folders directly in a folder."""

        def names(client: Any, key: str) -> list[str]:
            page = client.list_with_delimiter(key or None)
            return [*page["common_prefixes"], *(entry["path"] for entry in page["objects"] if entry["path"] != key)]

        return sorted(f"{self.name}/{name}" for name in self._listed(path, names) or ())

    def find(self, path: str, detail: bool = True) -> dict[str, dict[str, Any]]:
        """Return sizes and etags of the object, or of all objects below a folder, by name."""

        def entries(client: Any, key: str) -> list[dict[str, Any]]:
            below = [entry for batch in client.list(key or None) for entry in batch if entry["path"] != key]
            if key and not below:
                with suppress(FileNotFoundError):
                    return [client.head(key)]
            return below

        return {
            f"{self.name}/{entry['path']}": {"size": entry["size"], "etag": entry["e_tag"], "type": "file"}
            for entry in self._listed(path, entries) or ()
        }

    def _listed(self, path: str, operation: Callable[[Any, str], list[Any]]) -> list[Any] | None:
        """Return a listing; None without a bucket."""
        try:
            return self._call("list", path.rstrip("/"), operation)
        except Exception as error:
            if failures.status(error) == 404:
                return None
            raise

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite") -> None:
        """Write an object, whole; with ``mode="create"`` raise a ``FileExistsError`` if there is one of this name.

        A first answer may be lost, so that a second attempt finds the object of the first: its metadata tell.
        """
        writer = uuid.uuid4().hex

        def create(client: Any, key: str) -> None:
            from obstore.exceptions import AlreadyExistsError

            try:
                client.put(key, value, mode="create", attributes={WRITER: writer})
            except AlreadyExistsError as error:
                try:
                    attributes = client.get(key).attributes
                except FileNotFoundError as gone:  # deleted while it was created: try again
                    raise ConnectionAbortedError(f"{key} was deleted while it was created") from gone
                if attributes.get(WRITER) != writer:
                    raise FileExistsError(path) from error

        if mode == "create":
            self._call("create", path, create)
        else:
            self._call("write", path, lambda client, key: client.put(key, value))

    def put_file(self, local: str, path: str) -> None:
        """Write an object with the contents of a local file."""
        self._call("write", path, lambda client, key: client.put(key, Path(local)))

    def rm_file(self, path: str) -> None:
        """Delete an object; Google and Azure raise a ``FileNotFoundError`` where there is none."""
        self._call("remove", path, lambda client, key: client.delete(key))


@functools.lru_cache(maxsize=64)
def _client(bucket: Bucket, settings: frozenset[tuple[str, str]], is_first: bool) -> Any:
    """Return an obstore client, which waits less for the first answer; ``settings`` only tells clients apart."""
    from obstore.store import AzureStore, GCSStore, S3Store

    options: dict[str, Any]
    if bucket.protocol in S3:
        endpoint, options = _s3_options()
        kind: Any = S3Store
    elif bucket.protocol in GCS:
        endpoint = os.environ.get("STORAGE_EMULATOR_HOST", "")  # as Google's own libraries have it
        account = {"gcs_base_url": endpoint, "disable_oauth": True} | dict.fromkeys(GCS_KEYS, "")
        options = {"service_account_key": json.dumps(account)} if endpoint else {}
        kind = GCSStore
    else:
        endpoint = os.environ.get("AZURE_STORAGE_ENDPOINT", "")
        options = {"account_name": bucket.account}
        kind = AzureStore
    answer = failures.timeout()
    if is_first:
        answer = min(answer, failures.FIRST_SECONDS)
    return kind(
        bucket.name,
        client_options={
            "allow_http": endpoint.startswith("http:"),
            "connect_timeout": timedelta(seconds=min(answer, 10.0)),
            "read_timeout": timedelta(seconds=answer),
            "timeout": timedelta(seconds=max(failures.patience(), failures.timeout())),
        },
        retry_config={
            "max_retries": 5,
            "retry_timeout": timedelta(seconds=min(REQUEST_SECONDS, failures.patience())),
            "backoff": {
                "init_backoff": timedelta(seconds=LIMITS.first_pause),
                "max_backoff": timedelta(seconds=REQUEST_SECONDS),
                "base": 2,
            },
        },
        **options,
    )


def _s3_options() -> tuple[str, dict[str, Any]]:
    """Return endpoint and options as Amazon's own tools determine them: by environment, profile or role."""
    import boto3
    from botocore.exceptions import BotoCoreError

    with instead_of((BotoCoreError, ValueError), AccessError, f"Cannot reach S3: {failures.NO_CREDENTIALS}."):
        meta = boto3.Session().client("s3", region_name=os.environ.get("AWS_REGION")).meta
        endpoint = "" if meta.endpoint_url.endswith(".amazonaws.com") else meta.endpoint_url
        options: dict[str, Any] = {"region": meta.region_name or "us-east-1", "endpoint": endpoint or None}
        if os.environ.get("AWS_SKIP_SIGNATURE", "").lower() not in ("true", "1"):
            _aws_credentials.cache_clear()
            aws_credentials()
            options["credential_provider"] = aws_credentials
    return endpoint, options


def aws_credentials() -> Any:
    """Return Amazon's credentials; clients refer to this function, so that none of them holds a secret to pickle."""
    return _aws_credentials()()


@functools.cache
def _aws_credentials() -> Callable[[], Any]:
    from obstore.auth.boto3 import Boto3CredentialProvider

    return Boto3CredentialProvider()


class _RangeFile(AbstractBufferedFile):
    """An object as a file, read range by range."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        end = min(end, self.size)

        def read() -> bytes:
            data = self.fs.cat_file(self.path, start, end)
            if len(data) != end - start:
                raise EOFError
            return bytes(data)

        shorter = f"Cannot read {self.path}: it became shorter while it was read."
        with instead_of(EOFError, AccessError, shorter):
            return failures.undamaged(True, f"read {self.path}", read)


class PatientFileSystem:
    """An fsspec file system that retries operations while they fail for reasons that pass."""

    def __init__(self, fs: Any, protocol: str) -> None:
        self._fs, self._protocol = fs, protocol

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._fs, name)
        return functools.partial(self._patiently, name, attribute) if callable(attribute) else attribute

    def _patiently(self, name: str, method: Callable[..., Any], *args: Any, **options: Any) -> Any:
        action = f"{name} {self._protocol}://{args[0]}" if args else name
        return failures.patiently(action, functools.partial(method, *args, **options))


def web_options(uri: str) -> dict[str, Any]:
    """Return options of the web's file system, which waits half a minute for a connection; others have none."""
    if not uri.startswith(("http://", "https://")):
        return {}
    from aiohttp import ClientTimeout

    return {"client_kwargs": {"timeout": ClientTimeout(total=300, sock_connect=failures.FIRST_SECONDS / 2)}}
