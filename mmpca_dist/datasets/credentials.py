"""Addresses that carry credentials are refused: an address is printed, stored and shown in many places."""

from __future__ import annotations

import re

from mmpca_dist.errors import InputError

SECRET_PARAMETERS = re.compile(
    r"(^|[?&;])(sig|signature|x-amz-\w+|x-amz-[\w-]+|x-goog-[\w-]+|awsaccesskeyid|googleaccessid|(access_?)?key(_?id)?|"
    r"(client_?)?secret(_?(access_?)?key)?|(access_?|session_?|security_?|id_?|auth_?|sas_?)?token|pass(word|wd)?|"
    r"api_?key|account_?key|credentials?|authorization)=",
    re.IGNORECASE,
)
NO_PORT = ("s3", "s3a", "gs", "gcs")
"""Before the path these have the name of a bucket and nothing else."""
CONTAINER_AT_ACCOUNT = ("az", "abfs", "abfss", "wasb", "wasbs")
"""These may have a container and the host of an account, ``container@account.dfs.core.windows.net``."""


def refuse_secrets(uri: str) -> None:
    """Refuse a URL that holds a password, a key or a signature; the message does not repeat it.

    Raises
    ------
    InputError
    """
    for part in uri.split("::"):
        protocol, separator, rest = part.partition("://")
        if separator and _has_secret(protocol, rest):
            raise InputError(
                f"An address that begins with {protocol}:// carries credentials (a user and password, a key, a token "
                "or a signature); it is not repeated here. Credentials come from the environment only, as the store's "
                "own tools read them: take them out of the address."
            )


def _has_secret(protocol: str, rest: str) -> bool:
    place = re.split(r"[/?#]", rest, maxsplit=1)[0]
    user, at, host = place.rpartition("@")
    if at and (":" in user or protocol in (*NO_PORT, "http", "https")):
        return True
    if at and protocol in CONTAINER_AT_ACCOUNT and "." not in host:
        return True
    if not at and ":" in place:
        # A secret may hold a slash, so that its "@" is further on.
        port = place.rpartition(":")[2]
        if protocol in (*NO_PORT, *CONTAINER_AT_ACCOUNT) or not (port.isdigit() or place.endswith("]")):
            return True
    _, question, query = rest.partition("?")
    return bool(question and SECRET_PARAMETERS.search("?" + query))
