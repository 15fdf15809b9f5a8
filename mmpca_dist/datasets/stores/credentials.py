"""Refuse addresses that carry credentials, since addresses are printed, stored and shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote

from mmpca_dist.errors import InputError

SECRET_NAME = re.compile(
    r"(token|key(_?id)?|secret|sig|signature|auth|sas|code|passw(or)?d|passphrase|pwd|credentials?|authorization|"
    r"googleaccessid)$|^pass$|^x-(amz|goog)-",
    re.IGNORECASE,
)
HARMLESS = re.compile(
    r"monkey|turkey|(bar|country|error|geo|lang(uage)?|post(al)?|status|uni|zip)[_-]?code", re.IGNORECASE
)
"""Names of other things that end alike."""
PARAMETER = re.compile(r"(?:^|[?&;#,\s])([^?&;#,\s=]*?)[\s\[\]]*=")
"""The name of a parameter of a query, a fragment or a segment of the path."""
PROTOCOL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
NO_PORT = ("s3", "s3a", "gs", "gcs")
"""Before the path these have the name of a bucket and nothing else."""
CONTAINER_AT_ACCOUNT = ("az", "abfs", "abfss", "wasb", "wasbs")
"""These may have a container and the host of an account, ``container@account.dfs.core.windows.net``."""
MOST_DECODINGS = 8
"""No tool encodes an address so many times over: only to hide something."""


def refuse_secrets(uri: str) -> None:
    """Refuse a URL that holds a password, a key or a signature; the message does not repeat it.

    Raises
    ------
    InputError
    """
    if "://" in uri and any(_has_secret(reading) for reading in _decodings(uri)):
        protocol = uri.partition("://")[0]
        which = f"that begins with {protocol}:// " if PROTOCOL.fullmatch(protocol) else ""
        raise InputError(
            f"An address {which}carries credentials (a user and password, a key, a token or a signature); it is not "
            "repeated here. Credentials come from the environment only, as the store's own tools read them: take them "
            "out of the address."
        )


def _decodings(uri: str) -> Iterator[str | None]:
    """Yield an address as it is and percent-decoded, as often as that changes it; None where that has no end."""
    for _ in range(MOST_DECODINGS):
        yield uri
        decoded = unquote(uri)
        if decoded == uri:
            return
        uri = decoded
    yield None


def _has_secret(uri: str | None) -> bool:
    if uri is None:
        return True
    tail = re.split(r"[?;#]", uri, maxsplit=1)[1:]
    names = PARAMETER.findall(tail[0]) if tail else []
    if any(SECRET_NAME.search(name) and not HARMLESS.fullmatch(name) for name in names):
        return True
    parts = (part.partition("://") for part in uri.split("::"))  # as fsspec chains them
    return any(separator and _has_user(protocol.lower(), rest) for protocol, separator, rest in parts)


def _has_user(protocol: str, rest: str) -> bool:
    host_part = re.split(r"[/?#;]", rest, maxsplit=1)[0]
    user, at, host = host_part.rpartition("@")
    if at and (":" in user or protocol in (*NO_PORT, "http", "https")):
        return True
    if at and protocol in CONTAINER_AT_ACCOUNT and "." not in host:
        return True
    if at or ":" not in host_part:
        return False
    # A secret may hold a slash, so that its "@" is further on.
    port = host_part.rpartition(":")[2]
    return protocol in (*NO_PORT, *CONTAINER_AT_ACCOUNT) or not (port.isdigit() or host_part.endswith("]"))
