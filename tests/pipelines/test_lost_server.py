"""The work does not need the Prefect server: one that is slow, silent, failing or gone delays no stage of a run."""

import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from types import SimpleNamespace

import httpx
import pytest
from helpers.operations import prefect_at_work, wait_for
from helpers.proxy import proxy_of
from helpers.tables import write_config
from prefect.artifacts import Artifact
from prefect.exceptions import PrefectHTTPStatusError

from mmpca_dist.jobs.directory import RunDirectory
from mmpca_pipelines import artifacts
from mmpca_pipelines.artifacts import ArtifactCallback, Artifacts, Outbox

LOST = "The Prefect server did not receive all of this fit"


def status_error(code):
    request = httpx.Request("POST", "http://127.0.0.1/api/artifacts")
    return PrefectHTTPStatusError("refused", request=request, response=httpx.Response(code, request=request))


class Server:
    """Receives requests, but for the first few, which fail."""

    def __init__(self, *errors):
        self.errors, self.received = list(errors), []

    def receive(self, request):
        if self.errors:
            raise self.errors.pop(0)
        self.received.append(request)


@pytest.mark.e2e
def test_requests_arrive_in_order_and_a_failed_one_is_repeated(monkeypatch, caplog):
    monkeypatch.setattr(artifacts, "RETRY_SECONDS", 0.01)
    server, outbox = Server(httpx.ConnectError("refused"), status_error(503), httpx.ReadTimeout("")), Outbox()
    for number in range(5):
        outbox.send(server.receive, number)
    while not server.received:
        time.sleep(0.01)
    assert outbox.close() == ""
    assert server.received == [0, 1, 2, 3, 4]
    assert caplog.text.count("PREFECT_SERVER_DATABASE_CONNECTION_URL") == 1  # of the 503


@pytest.mark.parametrize("error", [status_error(422), ValueError("not JSON")], ids=["refused", "not made"])
@pytest.mark.e2e
def test_a_request_that_will_never_succeed_is_left_out(error):
    server, outbox = Server(error), Outbox()
    for number in range(3):
        outbox.send(server.receive, number)
    assert outbox.close() == ""
    assert server.received == [1, 2]


@pytest.mark.e2e
def test_the_end_tries_a_server_that_is_gone_again_and_says_why(monkeypatch):
    monkeypatch.setattr(artifacts, "LAST_SECONDS", 6.0)
    server, outbox = Server(*[httpx.ConnectError("Connection refused")] * 99), Outbox()
    for number in range(3):
        outbox.send(server.receive, number)
    assert outbox.close() == "Connection refused"
    assert server.received == [] and 90 <= len(server.errors) < 99


@pytest.mark.e2e
def test_the_end_does_not_wait_for_ever(monkeypatch):
    monkeypatch.setattr(artifacts, "LAST_SECONDS", 0.1)
    answer, outbox = threading.Event(), Outbox()
    outbox.send(answer.wait)
    assert outbox.close() == "no answer within 0 s"
    answer.set()


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
