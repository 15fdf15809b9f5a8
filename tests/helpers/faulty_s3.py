"""A local S3 server, and a proxy before it that makes the faults of networks and stores at chosen calls.

Uploads are checked against the hash that is signed, as S3 does (moto does not), and go through one by one, so that
conditional writes are atomic, as those of S3 are (moto's are not).
"""

import contextlib
import hashlib
import http.client
import http.server
import socket
import struct
import threading
import time

FAULTS = ("slowdown", "throttled", "reset", "lost", "slow", "truncated", "flipped", "upload")
"""What may go wrong with a call:

slowdown and throttled: the answers 503 and 429; reset: the connection, before the call is done; lost: the same after
it is done, so that only its answer is lost; slow: no answer before the time-out; truncated: half of the answer's body;
flipped: a bit of a chunk or of this project's JSON, which have checksums; upload: a bit of the body that is sent.
Beside these, half: half of the body, as if it were the whole.
"""
KEYS = {"AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": "not-a-real-secret", "AWS_REGION": "us-east-1"}
XML = [("Content-Type", "application/xml")]
ERROR = '<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>{code}</Message></Error>'
HOP = ("connection", "transfer-encoding", "content-length", "keep-alive", "date", "server")


class FaultyS3:
    """A proxy before an S3 server.

    Attributes
    ----------
    calls : list of (method, path)
        What was asked for since ``reset``.
    applied : list of str
        The faults that could be made: a body of no bytes cannot be cut.
    """

    def __init__(self, port, delay=3.0):
        self.backend, self.delay = port, delay
        self.reset()
        self._lock, self._uploads = threading.Lock(), threading.Lock()
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                with contextlib.suppress(ConnectionError):
                    proxy.handle(self)

            do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815

            def log_message(self, *_args):
                pass

        class Server(http.server.ThreadingHTTPServer):
            request_queue_size = 128
            daemon_threads = True

            def handle_error(self, request, client_address):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def reset(self, faults=None, always=None):
        """Forget all calls. ``faults`` by number of the call, from 0; ``always`` one for each of them."""
        self.calls, self.applied, self._faults, self._always = [], [], dict(faults or {}), always

    def handle(self, request):
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        with self._lock:
            number = len(self.calls)
            fault = self._always or self._faults.get(number)
            self.calls.append((request.command, request.path))
        if fault in ("slowdown", "throttled"):
            self.applied.append(fault)
            status, code = (503, "SlowDown") if fault == "slowdown" else (429, "TooManyRequests")
            return self._answer(request, status, XML, ERROR.format(code=code).encode())
        if fault == "reset":
            return self._cut(request, fault)
        if fault == "upload" and body:
            self.applied.append(fault)
            body = flip(body, number)
        status, headers, found = self._forward(request, body)
        if fault == "lost":
            return self._cut(request, fault)
        if fault == "slow":
            self.applied.append(fault)
            time.sleep(self.delay)
        if found and fault == "flipped" and request.command == "GET" and has_checksum(request.path):
            self.applied.append(fault)
            found = flip(found, number)
        if fault == "half" and request.command == "GET":
            self.applied.append(fault)
            found = found[: len(found) // 2]
        cut = bool(found) and request.command != "HEAD" and fault == "truncated"
        if cut:
            self.applied.append(fault)
        return self._answer(request, status, headers, found, cut)

    def _forward(self, request, body):
        if request.command == "PUT" and not intact(request.headers, body):
            return 400, XML, ERROR.format(code="BadDigest").encode()
        with self._uploads if request.command == "PUT" else contextlib.nullcontext():
            backend = http.client.HTTPConnection("127.0.0.1", self.backend, timeout=60)
            backend.request(request.command, request.path, body, dict(request.headers))
            answer = backend.getresponse()
            found = answer.read()
            headers = [(name, value) for name, value in answer.getheaders() if name.lower() not in HOP]
            if request.command == "HEAD" and answer.getheader("Content-Length"):
                headers.append(("Content-Length", answer.getheader("Content-Length")))
            backend.close()
        return answer.status, headers, found

    def _answer(self, request, status, headers, body, cut=False):
        request.send_response(status)
        for name, value in headers:
            request.send_header(name, value)
        if request.command == "HEAD":
            if not any(name == "Content-Length" for name, _ in headers):
                request.send_header("Content-Length", "0")
            return request.end_headers()
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body[: len(body) // 2] if cut else body)
        if cut:
            request.wfile.flush()
            request.close_connection = True

    def _cut(self, request, fault):
        self.applied.append(fault)
        request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        request.close_connection = True
        request.connection.close()


def flip(body, number):
    """Return bytes with one bit flipped, another one at every call: no line damages what it carries twice alike."""
    place = number * 2654435761 % (8 * len(body))
    return body[: place // 8] + bytes([body[place // 8] ^ 1 << place % 8]) + body[place // 8 + 1 :]


def has_checksum(path):
    """Tell whether an object is a chunk, or JSON of this project; Zarr's metadata and listings are guarded by TLS."""
    is_json = path.endswith(".json") and not path.endswith("zarr.json")
    return "?" not in path and ("/c/" in path or is_json)


def intact(headers, body):
    """Tell whether a body is the one that its signature was made of, as S3 does; True without one."""
    signed = headers.get("x-amz-content-sha256", "")
    return len(signed) != 64 or signed == hashlib.sha256(body).hexdigest()
