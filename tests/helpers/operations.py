"""A Prefect server and a worker as a user starts them, for as long as the tests run."""

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import psutil

from helpers import ROOT
from helpers.servers import free_port

PREFECT = [sys.executable, "-m", "prefect"]
JSON = {"Content-Type": "application/json"}
BUSY = 30
"""So often a server on SQLite may be asked again that has answered 503, as Prefect's clients do."""
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "CRASHED")


def wait_for(what, seconds, describe=lambda: ""):
    """Return the first true value of ``what()``."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.2)
    raise AssertionError(f"not within {seconds} s: {describe()}")


@contextmanager
def background(command, log, **options):
    """Run a process in the background; it is ended with all its descendants, and its log kept, whatever happens."""
    with Path(log).open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, process_group=0, **options)
        try:
            yield process
        finally:
            family = [] if process.poll() is not None else psutil.Process(process.pid).children(recursive=True)
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for child in family:  # in groups of their own
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()


def artifacts_of(state):
    """Return the artifacts of the flow run that ended in a state, by key, the newest of each."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId

    with get_client(sync_client=True) as client:
        own = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[state.state_details.flow_run_id]))
        found = client.read_artifacts(artifact_filter=own, limit=200)
    return {one.key: one.data for one in sorted(found, key=lambda one: one.created)}


def tasks_of(state, least=1):
    """Return a flow run, and its task runs in order, of which there are at least so many once the server has them."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

    own = FlowRunFilter(id=FlowRunFilterId(any_=[state.state_details.flow_run_id]))
    with get_client(sync_client=True) as client:

        def known():
            tasks = client.read_task_runs(flow_run_filter=own)  # the server gets them as events
            return len(tasks) >= least and all(one.state.is_final() for one in tasks) and tasks

        tasks = wait_for(known, 60)
        return client.read_flow_run(state.state_details.flow_run_id), sorted(tasks, key=lambda one: one.start_time)


class Operations:
    """The commands and the API of a server at work; ``home`` is its PREFECT_HOME, ``folder`` where runs go.

    ``more`` is what else the environment of commands holds, such as PREFECT_API_AUTH_STRING.
    """

    def __init__(self, home, folder, port, **more):
        self.home, self.folder, self.url = home, folder, f"http://127.0.0.1:{port}"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT")}
        self.environment = {
            **kept,
            "PREFECT_HOME": str(home),
            "PREFECT_API_URL": f"{self.url}/api",
            "COLUMNS": "200",
            "DO_NOT_TRACK": "1",
            **more,
        }
        password = base64.b64encode(more.get("PREFECT_API_AUTH_STRING", "").encode()).decode()
        self._headers = {**JSON, **({"Authorization": f"Basic {password}"} if password else {})}

    def prefect(self, *arguments, **more):
        """Run a command where there is no checkout."""
        ended = subprocess.run(
            [*PREFECT, *arguments],
            cwd=self.folder, env={**self.environment, **more}, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    def python(self, code):
        """Run a few lines that speak to the server."""
        ended = subprocess.run(
            [sys.executable, "-c", code], env=self.environment, capture_output=True, text=True, timeout=120
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    @contextmanager
    def process(self, *command, **more):
        """Run a module of Python in the background."""
        log = self.home / f"{sum(1 for _ in self.home.glob('*.log'))}.log"
        environment = {**self.environment, **more}
        with background([sys.executable, "-m", *command], log, cwd=ROOT, env=environment) as process:
            yield process

    def api(self, path, body=None, method=None):
        """GET, or POST where there is a body, or as said."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/api{path}", data, self._headers, method=method)  # noqa: S310
        for _ in range(BUSY):
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
                    return json.loads(answer.read() or b"null")
            except urllib.error.HTTPError as error:
                if error.code != 503:
                    raise
                time.sleep(1)
        raise AssertionError(f"{path}: the server says 503 ever since")

    def answers(self):
        try:
            return self.api("/health")
        except OSError:
            return False

    def start(self, deployment, config):
        """Start a run of a deployment as its form does, and return its id."""
        found = self.api(f"/deployments/name/{deployment}")
        return self.api(f"/deployments/{found['id']}/create_flow_run", {"parameters": {"config": config}})["id"]

    def run(self, identifier):
        return self.api(f"/flow_runs/{identifier}")

    def ended(self, identifier, seconds=240):
        """Wait until a run has ended, and return it."""
        wait_for(
            lambda: self.run(identifier)["state_type"] in ENDED,
            seconds,
            lambda: f"{self.run(identifier)['state']}\n{self.log_of(identifier)}",
        )
        return self.run(identifier)

    def logs(self, identifier):
        """Return the messages of a run, oldest first."""
        wanted = {"logs": {"flow_run_id": {"any_": [identifier]}}, "sort": "TIMESTAMP_ASC"}
        return [line["message"] for line in self.api("/logs/filter", wanted)]

    def log_of(self, identifier):
        return "\n".join(self.logs(identifier))

    def tells(self, identifier, words, seconds=120):
        """Wait until the log of a run holds these words."""
        wait_for(lambda: words in self.log_of(identifier), seconds, lambda: self.log_of(identifier))

    def artifacts(self, identifier):
        """Return the artifacts of a run and of its tasks by key."""
        wanted = {"artifacts": {"flow_run_id": {"any_": [identifier]}}, "limit": 200}
        return {found["key"]: found for found in self.api("/artifacts/filter", wanted)}


@contextmanager
def prefect_at_work(home, folder):
    """Yield a Prefect server that has just been started, as the README says; SQLite, all services, the UI."""
    operations = Operations(home, folder, free_port())
    port = operations.url.rsplit(":", 1)[1]
    with operations.process("prefect", "server", "start", "--port", port) as server:
        wait_for(lambda: server.poll() is not None or operations.answers(), 120)
        assert server.poll() is None, (home / "0.log").read_text()
        yield operations
