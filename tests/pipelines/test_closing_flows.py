"""What a page shows is not lost where the server fails for a while as a flow ends; where it was in vain, it is said."""

import http.server
import threading
from types import SimpleNamespace
from urllib.request import Request, urlopen

import httpx
import pytest
from helpers.tables import make_config
from prefect.exceptions import PrefectHTTPStatusError

from mmpca_pipelines import artifacts
from mmpca_pipelines.artifacts import ArtifactCallback, Artifacts, Outbox


def status_error(code):
    request = httpx.Request("POST", "http://127.0.0.1/api/artifacts")
    return PrefectHTTPStatusError("refused", request=request, response=httpx.Response(code, request=request))


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(artifacts, "RETRY_SECONDS", 0.02)
    monkeypatch.setattr(artifacts, "LAST_RETRY_SECONDS", 0.02)


class Closing:
    """An outbox whose requests fail from its close on, as the list of errors says."""

    def __init__(self, *errors):
        self.errors, self.received, self.outbox, self._hold = list(errors), [], Outbox(), threading.Event()
        self.outbox.send(self._hold.wait)

    def receive(self, request):
        if self.errors and (error := self.errors.pop(0)) is not None:
            raise error
        self.received.append(request)

    def close(self):
        threading.Timer(0.1, self._hold.set).start()
        return self.outbox.close()


@pytest.mark.parametrize("errors", [
    [status_error(503)],
    [status_error(503)] * 8,
    [None, status_error(500), None, status_error(502), httpx.ReadTimeout("")],
    [httpx.ConnectError("refused")] * 3,
    [status_error(429), status_error(408)],
    [httpx.RemoteProtocolError("disconnected"), None, None, status_error(504)],
], ids=["once", "often", "now and then", "gone for a while", "too many requests", "broken off"])  # fmt: skip
def test_requests_that_fail_after_the_close_are_repeated_until_all_are_received(errors):
    server = Closing(*errors)
    for number in range(5):
        server.outbox.send(server.receive, number)
    assert server.close() == ""
    assert server.received == [0, 1, 2, 3, 4]


def test_results_and_stages_go_before_pictures_and_tables():
    server = Closing(status_error(503))
    sent = SimpleNamespace(send=lambda request, key, **how: server.outbox.send(server.receive, key, **how))
    shown = Artifacts(sent, "run")
    for name in ("errors", "figure-a", "plan"):
        shown.show(name, "", table=[])
    callback = ArtifactCallback(shown)
    callback.on_stage_end = None
    shown.show("stages", "", table=[])
    shown.show("result", "", markdown="")
    assert server.close() == ""
    assert server.received == ["run-stages", "run-result", "run-errors", "run-figure-a", "run-plan"]


def test_the_close_gives_up_in_the_end_and_leaves_no_thread_at_work(monkeypatch):
    monkeypatch.setattr(artifacts, "LAST_SECONDS", 3.0)
    server = Closing(*[status_error(503)] * 10_000)
    server.outbox.send(server.receive, 0)
    assert server.close() == "status 503"
    server.outbox._thread.join(5)
    assert not server.outbox._thread.is_alive() and server.received == []


class Failing(http.server.BaseHTTPRequestHandler):
    """Passes requests on to a Prefect server, but answers 503 to those for artifacts as long as ``fails`` says."""

    target = ""
    fails = staticmethod(lambda path: False)

    def _pass_on(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.fails(self.path):
            self.send_response(503)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        headers = {name: value for name, value in self.headers.items() if name.lower() != "accept-encoding"}
        request = Request(self.target + self.path, body or None, headers, method=self.command)  # noqa: S310
        try:
            with urlopen(request) as a:  # noqa: S310
                status, answer = a.status, a.read()
        except OSError as error:
            status, answer = error.code, error.read()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _pass_on  # noqa: N815

    def log_message(self, *_args):
        pass


@pytest.fixture
def failing(prefect_server):
    """Yield the handler of a server before the tests' Prefect server, which flows use."""
    from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

    target = PREFECT_API_URL.value().removesuffix("/api")
    handler = type("Handler", (Failing,), {"target": target})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/api"
    with temporary_settings({PREFECT_API_URL: url, PREFECT_CLIENT_MAX_RETRIES: 0}):
        yield handler
    server.shutdown()


def closing_after(monkeypatch):
    """Return an event that is set as an outbox begins to close."""
    closed, close = threading.Event(), Outbox.close

    def closing(outbox):
        closed.set()
        return close(outbox)

    monkeypatch.setattr(Outbox, "close", closing)
    return closed


@pytest.mark.e2e
@pytest.mark.parametrize("lasts", [False, True], ids=["for a while", "for good"])
def test_a_flow_on_a_server_that_answers_503_after_the_close(lasts, failing, monkeypatch, tmp_path, caplog):
    """All is there in the end; or else the log and the state's message say that it is not."""
    from helpers.operations import artifacts_of

    from mmpca_pipelines.evaluate import evaluate_flow

    monkeypatch.setattr(artifacts, "LAST_SECONDS", 8.0 if lasts else 60.0)
    closed, failed = closing_after(monkeypatch), []

    def fails(path):
        wanted = closed.is_set() and "/artifacts" in path and not path.endswith("/filter")
        if wanted and (lasts or len(failed) < 6):
            failed.append(path)
            return True
        return False

    failing.fails = staticmethod(fails)
    config = make_config(tmp_path / "out", "bundled:iris", methods=["pca", "m-pca0"], n_components=[1, 2])
    with caplog.at_level("WARNING"):
        state = evaluate_flow(config, return_state=True)
    assert state.is_completed() and "Report: " in state.message
    lost = "The Prefect server did not receive all that this page should show: "
    assert failed and (lost in state.message) == lasts == (lost in caplog.text)
    shown = {key.removeprefix("out-evaluation-") for key in artifacts_of(state)}
    assert {"result", "stages"} <= shown or lasts
