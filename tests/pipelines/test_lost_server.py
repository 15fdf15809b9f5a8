"""The work does not need the Prefect server: one that is slow, silent, failing or gone delays no stage of a run."""

import http.server
import subprocess
import sys
import threading
from contextlib import nullcontext
from types import SimpleNamespace
from urllib.request import Request, urlopen

import httpx
import pytest
from helpers.operations import artifacts_of, prefect_at_work, wait_for
from helpers.proxy import proxy_of
from helpers.tables import make_config, write_config
from prefect.artifacts import Artifact
from prefect.exceptions import PrefectHTTPStatusError

from mmpca_dist.jobs.directory import RunDirectory
from mmpca_pipelines import artifacts
from mmpca_pipelines.artifacts import ArtifactCallback, Artifacts, Outbox

LOST = "The Prefect server did not receive all of this fit"


def status_error(code):
    request = httpx.Request("POST", "http://127.0.0.1/api/artifacts")
    return PrefectHTTPStatusError("refused", request=request, response=httpx.Response(code, request=request))


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(artifacts, "RETRY_SECONDS", 0.02)
    monkeypatch.setattr(artifacts, "LAST_RETRY_SECONDS", 0.02)


class Server:
    """Receives the requests of an outbox once this closes, or is let go; they fail as the list of errors says."""

    def __init__(self, *errors):
        self.errors, self.received, self.outbox, self.hold = list(errors), [], Outbox(), threading.Event()
        self.outbox.send(self.hold.wait)

    def receive(self, request):
        if self.errors and (error := self.errors.pop(0)) is not None:
            raise error
        self.received.append(request)

    def close(self):
        threading.Timer(0.1, self.hold.set).start()
        return self.outbox.close()


NEVER = [status_error(422), None, ValueError("not JSON")]
"""What a server refuses, or what cannot be made, will never succeed, and is left out."""


@pytest.mark.parametrize(("errors", "received"), [
    ([status_error(503)], [0, 1, 2, 3, 4]),
    ([status_error(503)] * 8, [0, 1, 2, 3, 4]),
    ([None, status_error(500), None, status_error(502), httpx.ReadTimeout("")], [0, 1, 2, 3, 4]),
    ([httpx.ConnectError("refused")] * 3, [0, 1, 2, 3, 4]),
    ([status_error(429), status_error(408)], [0, 1, 2, 3, 4]),
    ([httpx.RemoteProtocolError("disconnected"), None, None, status_error(504)], [0, 1, 2, 3, 4]),
    (NEVER, [1, 3, 4]),
], ids=["once", "often", "now and then", "gone for a while", "too many requests", "broken off", "in vain"])  # fmt: skip
@pytest.mark.parametrize("late", [True, pytest.param(False, marks=pytest.mark.e2e)], ids=["closing", "at work"])
def test_requests_arrive_in_order_and_those_that_fail_are_repeated(errors, received, late, caplog):
    server = Server(*errors)
    for number in range(5):
        server.outbox.send(server.receive, number)
    if not late:
        server.hold.set()
        wait_for(lambda: server.received == received, 30)
    assert server.close() == ""
    assert server.received == received
    busy = any("503" in str(getattr(error, "response", "")) for error in errors)
    assert ("PREFECT_SERVER_DATABASE_CONNECTION_URL" in caplog.text) == busy


def test_results_and_stages_go_before_pictures_and_tables():
    server = Server(status_error(503))
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


@pytest.mark.parametrize(("error", "reason"), [
    (status_error(503), "status 503"), (httpx.ConnectError("Connection refused"), "Connection refused"),
])  # fmt: skip
def test_the_close_gives_up_in_the_end_and_leaves_no_thread_at_work(error, reason, monkeypatch):
    monkeypatch.setattr(artifacts, "LAST_SECONDS", 3.0)
    server = Server(*[error] * 10_000)
    server.outbox.send(server.receive, 0)
    assert server.close() == reason
    server.outbox._thread.join(5)
    assert not server.outbox._thread.is_alive() and server.received == []


@pytest.mark.e2e
def test_the_end_does_not_wait_for_ever(monkeypatch):
    monkeypatch.setattr(artifacts, "LAST_SECONDS", 0.1)
    server = Server()
    assert server.outbox.close() == "no answer within 0 s"
    server.hold.set()


@pytest.mark.e2e
def test_of_progress_only_the_latest_is_sent_once_the_server_answers(monkeypatch):
    """An hour of progress is not replayed."""
    waiting, told = [], []
    monkeypatch.setattr("mmpca_pipelines.artifacts.UPDATE_SECONDS", 0.0)
    monkeypatch.setattr(Artifact, "create", lambda one, **_: told.append(one.progress) or SimpleNamespace(id=1))
    client = SimpleNamespace(update_artifact=lambda _, update: told.append(update.data))
    monkeypatch.setattr("mmpca_pipelines.artifacts.get_client", lambda **_: nullcontext(client))
    callback = ArtifactCallback(Artifacts(SimpleNamespace(send=lambda *request, **_: waiting.append(request)), "run"))
    for done in range(1, 51):
        callback.on_progress("reduce", done, 100)
    assert len(waiting) == 1
    request, *arguments = waiting.pop()
    request(*arguments)
    callback.on_progress("reduce", 100, 100)
    request, *arguments = waiting.pop()
    request(*arguments)
    assert told == [50.0, 100.0]


@pytest.mark.parametrize(("code", "expected"), [(503, [30.0]), (422, [])])
def test_an_artifact_that_is_refused_is_not_sent_again_and_holds_up_none(code, expected, monkeypatch):
    waiting, told, errors = [], [], [status_error(code)]

    def create(artifact, **_):
        if errors:
            raise errors.pop()
        told.append(artifact.progress)
        return SimpleNamespace(id=1)

    monkeypatch.setattr(Artifact, "create", create)
    artifacts = Artifacts(SimpleNamespace(send=lambda *request, **_: waiting.append(request)), "run")
    artifacts.show("progress", "reduce", progress=30.0)
    ((show, key),) = waiting
    with pytest.raises(PrefectHTTPStatusError):
        show(key)
    show(key)
    assert told == expected
    artifacts.show("progress", "reduce", progress=60.0)
    assert len(waiting) == 2


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
    from mmpca_pipelines.entrypoints import evaluate_flow

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


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with prefect_at_work(tmp_path_factory.mktemp("prefect"), tmp_path_factory.mktemp("runs")) as found:
        yield found


@pytest.mark.server
@pytest.mark.parametrize(("mode", "expected"), [
    ("slow", None),
    ("failing", "status 500"),
    ("gone", "disconnected|reset by peer|timed out"),
    ("silent", "no answer within|timed out"),
])  # fmt: skip
@pytest.mark.e2e
def test_a_run_ends_well_without_its_server(mode, expected, server, tmp_path):
    """The server changes in the middle of the first pass; the run is finished, and says so."""
    config = write_config(tmp_path / "c.yaml", tmp_path / "out", "synthetic:gaussian?n=4000000&d=64")
    with proxy_of(int(server.url.rsplit(":", 1)[1])) as proxy:
        environment = {**server.environment, "PREFECT_API_URL": f"http://127.0.0.1:{proxy.port}/api"}
        command = [sys.executable, "-m", "mmpca_pipelines", "run", config]
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        said = []
        for line in process.stdout:
            said.append(line)
            if "expected time" in line:
                threading.Thread(target=change_in_the_first_pass, args=(proxy, mode, tmp_path), daemon=True).start()
        text = "".join(said)
        assert process.wait(60) == 0, text
    assert proxy.mode == mode, "the run was over before the server changed"
    assert RunDirectory(str(tmp_path / "out")).record("report") is not None
    assert "Report: " in text and "Traceback" not in text and "ERROR" not in text, text
    if expected is None:
        assert LOST not in text
    else:
        (note,) = [line for line in said if LOST in line]
        assert any(reason in note for reason in expected.split("|")), note


def change_in_the_first_pass(proxy, mode, folder):
    """Change the server once the flow reads rows."""
    journal = folder / "out" / "events.jsonl"
    wait_for(lambda: journal.exists() and '"progress", "stage": "reduce"' in journal.read_text(), 120)
    proxy.mode = mode
