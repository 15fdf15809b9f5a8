"""Usual failures of an address are one sentence; those that pass are waited for, each for itself."""

import asyncio
import errno
import socket

import pytest

from mmpca_dist.errors import InputError, OutputError
from mmpca_dist.stores import failures, storage
from mmpca_dist.stores.remote_files import PatientFileSystem
from mmpca_dist.stores.zarr_stores import PatientStore


def of(package, name, base=Exception, **attributes):
    """Return an error as a package raises it that need not be installed."""
    error = type(name, (base,), {"__module__": f"{package}.errors", **attributes})("some words")
    assert isinstance(error, Exception)
    return error


def hidden(cause):
    error = FileNotFoundError("http://host/x")
    error.__cause__ = cause
    return error


def of_obstore(name, words):
    return getattr(pytest.importorskip("obstore.exceptions"), name)(
        f"Generic S3 error: {words} https://host/?sig=SECRET"
    )


def coded(number, words="words of the system"):
    return OSError(number, words)


FAILURES = [
    # doing, error, what the message must say
    ("read", FileNotFoundError("x"), "does not exist"),
    ("write", FileNotFoundError("no bucket"), "bucket or container does not exist"),
    ("read", hidden(of("aiohttp", "ClientResponseError", status=403)), "permission denied"),
    ("read", hidden(of("aiohttp", "ClientResponseError", status=404)), "does not exist"),
    ("read", hidden(of("aiohttp", "ClientConnectorError", OSError)), "cannot be reached"),
    ("read", of("aiohttp", "ClientConnectorDNSError"), "name is not known"),
    ("read", of("aiohttp", "ServerDisconnectedError"), "cannot be reached"),
    ("read", of("aiohttp", "ClientResponseError", status=500), "answers 500"),
    ("read", of_obstore("GenericError", "Server returned non-2xx status code: 503 Slow"), "answers 503"),
    ("write", of_obstore("GenericError", "Server returned non-2xx status code: 404 No"), "container does not exist"),
    ("read", of_obstore("PermissionDeniedError", "status code: 403"), "permission denied"),
    ("read", of_obstore("UnauthenticatedError", ""), "permission denied"),
    ("read", of_obstore("GenericError", "HTTP error: error sending request: dns error"), "name is not known"),
    ("read", of_obstore("GenericError", "HTTP error: operation timed out"), "no answer came in time"),
    ("read", of_obstore("GenericError", "HTTP error: error sending request"), "cannot be reached"),
    ("read", of_obstore("GenericError", "Error performing GET http://169.254.169.254/x"), "no valid credentials"),
    ("read", of_obstore("GenericError", "redirect: an incorrectly configured region"), "Set AWS_REGION"),
    ("read", of_obstore("GenericError", "got an invalid list"), "answer cannot be read"),
    ("read", of_obstore("InvalidPathError", "a//b"), "obstore cannot list"),
    ("read", IsADirectoryError(errno.EISDIR, "x"), "folder where a file belongs"),
    ("write", NotADirectoryError(errno.ENOTDIR, "x"), "file where a folder belongs"),
    ("write", coded(errno.ENOSPC), "no space is left"),
    ("write", coded(errno.EDQUOT), "quota"),
    ("write", coded(errno.EROFS), "read-only"),
    ("write", coded(errno.EACCES), "permission denied"),
    ("write to", coded(errno.EIO), "words of the system"),
    ("read", socket.gaierror(-2, "x"), "name is not known"),
    ("read", ConnectionRefusedError(errno.ECONNREFUSED, "x"), "cannot be reached"),
    ("read", TimeoutError(), "no answer came in time"),
    ("read", ImportError("install it"), "mmpca-dist[s3]"),
]


def test_failures_of_addresses():
    for doing, error, words in FAILURES:
        with pytest.raises(InputError) as caught, storage.explained("s4://bucket/x", doing):
            raise error
        assert str(caught.value).startswith(f"Cannot {doing} s4://bucket/x: ")
        assert words in str(caught.value)
        assert "SECRET" not in str(caught.value)
        assert "\n" not in str(caught.value) and str(caught.value).endswith((".", "?"))


def test_errors_of_programs_and_of_the_library_pass():
    """The latter derive from the natural builtins, some of which are failures of files."""
    for error in (TypeError("x"), KeyError("x"), ValueError("x"), AttributeError("x"), OutputError("taken")):
        with pytest.raises(type(error)) as caught, storage.explained("a", "write"):
            raise error
        assert caught.value is error


@pytest.mark.parametrize(("given", "expected"), [
    ("a/b.zarr", "{cwd}/a/b.zarr"),
    ("~/b.zarr", "{home}/b.zarr"),
    ("file:/a/b", "/a/b"),
    ("file:///a/b", "/a/b"),
    ("s3://bucket/a/", "s3://bucket/a"),
    ("bundled:iris", "bundled:iris"),
    ("synthetic:gaussian?n=10", "synthetic:gaussian?n=10"),
])  # fmt: skip
def test_local_addresses_become_absolute(given, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/someone")
    assert storage.normalize(given) == expected.format(cwd=tmp_path, home="/home/someone")


def test_only_named_children_are_removed(tmp_path):
    (tmp_path / "out" / "model").mkdir(parents=True)
    (tmp_path / "out" / "mine.txt").write_text("mine")
    storage.remove_children(str(tmp_path / "out"), ["model", "absent"])
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.txt"]
    storage.remove_children(str(tmp_path / "out"), ["mine.txt"])
    assert not (tmp_path / "out").exists()
    storage.remove_children(str(tmp_path / "out"), ["mine.txt"])


def test_answers_that_pass_are_told_from_those_that_last():
    for words, expected in (
        ("503 <Code>SlowDown</Code>", "passing"),
        ("400 <Code>BadDigest</Code>", "passing"),  # the body was damaged on its way
        ("400 <Code>RequestTimeout</Code>", "passing"),
        ("400 <Code>InvalidArgument</Code>", "unknown"),
        ("403 <Code>AccessDenied</Code>", "lasting"),
    ):
        answer = of_obstore("GenericError", f"Server returned non-2xx status code: {words}")
        assert failures.persistence(answer) == expected


class Flaky:
    """A file system, and a store of Zarr's, that fail at every second call."""

    def __init__(self):
        self._calls = 0

    def find(self, path):
        self._calls += 1
        if self._calls % 2:
            raise ConnectionResetError
        return ["a"]

    async def list_dir(self, prefix):
        for name in self.find(prefix):
            yield f"{prefix}/{name}"


def test_what_breaks_off_is_tried_again(limits):
    limits.first_pause = 0.0

    async def names():
        return [name async for name in PatientStore(Flaky(), "http://b", "").list_dir("X")]

    assert PatientFileSystem(Flaky(), "http").find("b") == ["a"]
    assert asyncio.run(names()) == ["X/a"]


@pytest.mark.parametrize(("error", "passes"), [(ConnectionResetError(), True), (RuntimeError(), False)])
def test_what_breaks_off_passes_and_what_is_not_known_is_tried_three_times(error, passes, limits):
    limits.first_pause = 0.0
    answers = iter([error] * 5 + ["whole"])

    def read():
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    if passes:
        assert failures.patiently("read x", read) == "whole"
    else:
        with pytest.raises(RuntimeError):
            failures.patiently("read x", read)
        assert len(list(answers)) == 3
