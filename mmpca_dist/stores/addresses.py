"""Addresses: paths and URLs in one spelling, without credentials, and never such as may mean another object.

Credentials come from the environment alone: addresses are printed, stored and shown.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote

from mmpca_dist.errors import InputError, did_you_mean, instead_of

NAMED = ("bundled:", "synthetic:")
"""Data sets that have a name in place of an address."""
S3, GCS, AZURE = ("s3", "s3a"), ("gs", "gcs"), ("az", "abfs", "abfss")
OBJECT_STORES = (*S3, *GCS, *AZURE)
KNOWN_PROTOCOLS = (*OBJECT_STORES, "file", "memory", "http", "https")
ALLOWED_PROTOCOLS = "MMPCA_PROTOCOLS"
"""The environment variable by which a machine allows others of fsspec's protocols, separated by commas."""
ONE_VERSION = re.compile(r"\?(versionid|generation)=", re.IGNORECASE)

SECRET_PARAMETER = re.compile(
    r"[?#](.*[?&;#])?(([^=?&;#]*[-_.])?(access|account|api|auth|session|shared)?"
    r"(token|key|secret|sig|signature|auth|sas|passw(or)?d|credentials?)=|x-(amz|goog)-|\w*accesskeyid=)",
    re.IGNORECASE,
)
"""A parameter of a query or a fragment that holds a credential: its name ends with one of these words."""
HOST = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#;]*)")
WITHOUT_USER = (*S3, *GCS, "http", "https")
"""Before ``@`` these can only have credentials."""


def is_local(uri: str) -> bool:
    """Tell whether ``uri`` is a path on this machine's file system."""
    return "://" not in uri and not uri.startswith("file:")


def is_private(uri: str) -> bool:
    """Tell whether only this process can see what is at ``uri``."""
    return uri.startswith("memory:")


def is_bucket(uri: str) -> bool:
    """Tell whether ``uri`` is in an object store, where folders are only parts of names."""
    return uri.partition("://")[0] in OBJECT_STORES


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
        check_address(text)
        return text
    return text if text.startswith(NAMED) else str(absolute_path(text))


def absolute_path(path: str) -> Path:
    """Return a path of this machine in full; raise an ``InputError`` where its first folder is unknown."""
    unknown = f"{path} begins with the home folder of a user who is unknown. Write it in full."
    removed = f"{path} is relative to the working directory, which was removed. Change to another, or write it in full."
    with instead_of(RuntimeError, InputError, unknown), instead_of(FileNotFoundError, InputError, removed):
        return Path(path).expanduser().absolute()


def check_address(uri: str) -> None:
    """Refuse URLs with credentials, and those that a store or its client may take for the address of another object.

    Addresses of other protocols are refused, unless this machine allows them: some of fsspec's chain others, fill in
    templates, write caches or ask workers.
    """
    refuse_secrets(uri)
    protocol, separator, path = uri.partition("://")
    if not separator:
        return
    allowed = filter(None, os.environ.get(ALLOWED_PROTOCOLS, "").replace(" ", "").split(","))
    if protocol.lower() not in (*KNOWN_PROTOCOLS, *allowed):
        raise InputError(
            f"Cannot reach {uri}: unknown protocol {protocol!r}.{did_you_mean(protocol, KNOWN_PROTOCOLS)} There are "
            f"{', '.join(KNOWN_PROTOCOLS)}. If another is to be allowed, set {ALLOWED_PROTOCOLS}={protocol} in the "
            "environment."
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


def refuse_secrets(uri: str) -> None:
    """Raise an ``InputError`` for a URL with a password, a key or a signature, as it stands or once decoded.

    The message does not repeat the address.
    """
    if "://" in uri and (_has_secret(uri) or _has_secret(unquote(uri))):
        protocol = HOST.match(uri)
        which = f"that begins with {protocol[1]}:// " if protocol else ""
        raise InputError(
            f"An address {which}carries credentials (a user and password, a key, a token or a signature); it is not "
            "repeated here. Credentials come from the environment only, as the store's own tools read them: take them "
            "out of the address."
        )


def _has_secret(uri: str) -> bool:
    return bool(SECRET_PARAMETER.search(uri)) or any(_has_user(*match.groups()) for match in HOST.finditer(uri))


def _has_user(protocol: str, host_part: str) -> bool:
    user, at, host = host_part.rpartition("@")
    if at:
        return ":" in user or protocol.lower() in WITHOUT_USER or (protocol.lower() in AZURE and "." not in host)
    # A secret may hold a slash, so that its "@" is further on.
    return ":" in host_part and not re.search(r"(:\d*|\])$", host_part)
