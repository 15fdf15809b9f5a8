"""Emulators of Azure's and Google's object stores, where they are installed."""

import base64
import contextlib
import hashlib
import hmac
import http.server
import json
import os
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from email.utils import formatdate
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit
from xml.sax.saxutils import escape

import pytest

from helpers.servers import free_port

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account of every Azurite, and its published key."""


@contextlib.contextmanager
def process(command, port):
    """Run a server until it is no longer needed; yield when it listens."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and server.poll() is None:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                time.sleep(0.1)
            else:
                raise RuntimeError(f"{command[0]} does not listen at port {port}")
            yield
        finally:
            server.terminate()


def ask(method, url, body=b"", headers=None):
    """Return (status, headers, body) of an answer, whatever the status."""
    request = urllib.request.Request(url, body or None, headers or {}, method=method)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            return answer.status, dict(answer.headers), answer.read()
    except urllib.error.HTTPError as answer:
        return answer.code, dict(answer.headers), answer.read()


@contextlib.contextmanager
def azurite():
    """Yield (environment, function that creates a container) of an Azurite (npm install --global azurite)."""
    program = shutil.which(os.environ.get("MMPCA_AZURITE", "azurite-blob"))
    if program is None:
        pytest.skip("Azurite is not installed (npm install --global azurite; or MMPCA_AZURITE=path of azurite-blob)")
    port = free_port()
    options = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence", "--skipApiVersionCheck"]
    endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"

    def create(name):
        date = formatdate(usegmt=True)
        resource = f"/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
        signed = f"PUT{12 * chr(10)}x-ms-date:{date}\nx-ms-version:2021-08-06\n{resource}"
        signature = base64.b64encode(hmac.digest(base64.b64decode(KEY), signed.encode(), hashlib.sha256)).decode()
        headers = {"x-ms-date": date, "x-ms-version": "2021-08-06", "Authorization": f"SharedKey {ACCOUNT}:{signature}"}
        status, _, text = ask("PUT", f"{endpoint}/{name}?restype=container", headers={**headers, "Content-Length": "0"})
        assert status == 201, text

    environment = {
        "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
        "AZURE_STORAGE_ACCOUNT_KEY": KEY,
        "AZURE_STORAGE_ENDPOINT": endpoint,
    }
    with process([program, *options, "--disableTelemetry", "--silent"], port):
        yield environment, create


@contextlib.contextmanager
def google():
    """Yield (environment, function that creates a bucket) of a gcp-storage-emulator (pip install gcp-storage-emulator).

    obstore speaks Google's XML API, of which the emulator has next to nothing: a proxy translates to its JSON API.
    """
    program = shutil.which(os.environ.get("MMPCA_GCS_EMULATOR", "gcp-storage-emulator"))
    if program is None:
        pytest.skip("gcp-storage-emulator is not installed (pip install gcp-storage-emulator; or MMPCA_GCS_EMULATOR)")
    port = free_port()
    with process([program, "start", "--host", "127.0.0.1", "--port", str(port), "--in-memory"], port):
        proxy = XmlProxy(f"http://127.0.0.1:{port}")
        try:
            yield {"STORAGE_EMULATOR_HOST": proxy.url}, proxy.create_bucket
        finally:
            proxy.server.shutdown()


class XmlProxy:
    """Google's XML API, with conditional writes and metadata, over the JSON API of an emulator."""

    def __init__(self, backend):
        self.backend, self.uploads = backend, threading.Lock()
        self.parts = {}
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, headers, answer = proxy.answer(self.command, self.path, self.headers, body)
                self.send_response(status)
                for name, value in {"Content-Length": str(len(answer)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer)

            do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815

            def log_message(self, *_args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def create_bucket(self, name):
        body = json.dumps({"name": name}).encode()
        status, _, text = ask("POST", f"{self.backend}/storage/v1/b", body, {"Content-Type": "application/json"})
        assert status == 200, text

    def answer(self, method, target, headers, body):
        parsed = urlsplit(target)
        bucket, _, name = parsed.path.lstrip("/").partition("/")
        bucket = unquote(bucket)
        query = {key: values[0] for key, values in parse_qs(parsed.query, keep_blank_values=True).items()}
        if not name:
            return self.listing(bucket, query)
        if method == "PUT" and "partNumber" in query:
            self.parts[query["uploadId"], int(query["partNumber"])] = body
            return 200, {"ETag": f'"{len(body)}"'}, b""
        if method == "POST" and "uploads" in query:
            xml = (
                f"<InitiateMultipartUploadResult><UploadId>{len(self.parts)}</UploadId></InitiateMultipartUploadResult>"
            )
            return 200, {}, xml.encode()
        if method == "POST":
            numbers = sorted(number for upload, number in self.parts if upload == query["uploadId"])
            whole = b"".join(self.parts.pop((query["uploadId"], number)) for number in numbers)
            self.store(bucket, name, {}, whole)
            return 200, {}, b'<CompleteMultipartUploadResult><ETag>"1"</ETag></CompleteMultipartUploadResult>'
        if method == "PUT":
            return self.store(bucket, name, headers, body)
        if method == "DELETE":
            return self.entry("DELETE", bucket, name)[0], {}, b""
        status, _, data = self.entry("GET", bucket, name)
        if status != 200:
            return status, {}, b"<Error><Code>NoSuchKey</Code></Error>"
        stated = json.loads(data)
        meta = {f"x-goog-meta-{key}": value for key, value in (stated.get("metadata") or {}).items()}
        always = {"ETag": f'"{stated["md5Hash"]}"', "Last-Modified": formatdate(usegmt=True), **meta}
        if method == "HEAD":
            return 200, {**always, "Content-Length": str(stated["size"])}, b""
        span = headers.get("Range")
        if span and int(span.removeprefix("bytes=").split("-")[0]) >= int(stated["size"]):
            return 416, {}, b"<Error><Code>InvalidRange</Code></Error>"
        url = f"{self.backend}/download/storage/v1/b/{bucket}/o/{quote(unquote(name), safe='')}?alt=media"
        status, answered, data = ask("GET", url, headers={"Range": span} if span else {})
        ranges = {key: value for key, value in answered.items() if key == "Content-Range"}
        return status, {**always, **ranges}, data

    def entry(self, method, bucket, name):
        """Ask for the JSON that describes an object, or delete the object."""
        return ask(method, f"{self.backend}/storage/v1/b/{bucket}/o/{quote(unquote(name), safe='')}")

    def store(self, bucket, name, headers, body):
        meta = {
            key.lower().removeprefix("x-goog-meta-"): value
            for key, value in headers.items()
            if key.lower().startswith("x-goog-meta-")
        }
        described = json.dumps({"name": unquote(name), "metadata": meta}).encode()
        mark = b"--part\r\nContent-Type: application/"
        related = b"".join(
            [mark, b"json\r\n\r\n", described, b"\r\n", mark, b"octet-stream\r\n\r\n", body, b"\r\n--part--\r\n"]
        )
        url = f"{self.backend}/upload/storage/v1/b/{bucket}/o?uploadType=multipart"
        with self.uploads:
            if headers.get("x-goog-if-generation-match") == "0" and self.entry("GET", bucket, name)[0] == 200:
                return 412, {}, b"<Error><Code>PreconditionFailed</Code></Error>"
            status, _, text = ask("POST", url, related, {"Content-Type": "multipart/related; boundary=part"})
        return status, {"ETag": f'"{hashlib.md5(body).hexdigest()}"'}, b"" if status == 200 else text  # noqa: S324

    def listing(self, bucket, query):
        options = {key: query[key] for key in ("prefix", "delimiter") if key in query}
        url = f"{self.backend}/storage/v1/b/{bucket}/o?" + urlencode(options)
        status, _, data = ask("GET", url)
        if status != 200:
            return status, {}, b"<Error><Code>NoSuchBucket</Code></Error>"
        page = json.loads(data)
        contents = "".join(
            f"<Contents><Key>{escape(item['name'])}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
            f'<ETag>"{item["md5Hash"]}"</ETag><Size>{item["size"]}</Size></Contents>'
            for item in page.get("items", [])
        )
        folders = "".join(
            f"<CommonPrefixes><Prefix>{escape(p)}</Prefix></CommonPrefixes>" for p in page.get("prefixes", [])
        )
        return 200, {}, f"<ListBucketResult>{contents}{folders}</ListBucketResult>".encode()
