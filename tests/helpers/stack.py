"""The services of ``docker/compose.yaml`` as plain processes of this computer, on free ports of the loopback.

Commands, environments, health checks and their order are those of the file. Other than there, PostgreSQL is Debian's,
S3 is moto's, and everybody sees the files of this computer.
"""

import os
import pwd
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest
import yaml

from helpers.__init__ import ROOT
from helpers.operations import Operations, background, wait_for
from helpers.servers import free_port

COMPOSE = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())["services"]
IMAGE = dict(
    word.split("=", 1)
    for line in (ROOT / "docker" / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    if line.startswith("ENV ")
    for word in line.split()[1:]
)
"""The environment of the image."""
SECRETS = ("POSTGRES_PASSWORD", "PREFECT_PASSWORD", "S3_ACCESS_KEY", "S3_SECRET_KEY")
PORTS = ("4200", "8080", "8333", "8786", "8787", "8788")
"""Ports of the services in their containers."""
ONLY_HERE = {
    "PREFECT_SERVER_DATABASE_PORT": "postgres",
    "PREFECT_SERVER_API_PORT": "4200",
    "PREFECT_WORKER_WEBSERVER_PORT": "8080",
    "PGPORT": "postgres",
}
"""Variables that say which ports, as those of containers need not be free here."""
HEALTHY = 180
"""Seconds until a service is well, on a machine that has other work too."""


class Stack:
    """Services at work.

    Attributes
    ----------
    operations : Operations
        The commands and the API of its Prefect server.
    secrets : dict of str
        Random passwords and keys, as ``docker/.env`` would hold them.
    s3 : dict of str
        The environment that leads to its buckets.
    """

    def __init__(self, folder):
        self.folder = folder
        self.secrets = {name: secrets.token_hex(24) for name in SECRETS}
        self._ports = {name: str(free_port()) for name in (*PORTS, "postgres")}
        self._open = ExitStack()
        self._started = []
        self.s3 = {name: value for name, value in self._environment("worker").items() if name.startswith("AWS_")}
        password = self._environment("flows")["PREFECT_API_AUTH_STRING"]
        self.operations = Operations(folder, folder, self._ports["4200"], PREFECT_API_AUTH_STRING=password)

    @property
    def scheduler(self):
        return self._here("tcp://scheduler:8786")

    def start(self):
        """Start all services, each when those that it depends on are well."""
        self._postgres()
        self._service("prefect")
        self._service("scheduler")
        for _ in range(COMPOSE["worker"]["deploy"]["replicas"]):
            self._ports["8788"] = str(free_port())
            # A container is reached by its own address; here all share that of the loopback.
            self._service("worker", "--host", "127.0.0.1")
        self._s3()
        self._once("bucket")
        self._once("deploy")
        self._service("flows")

    def stop(self):
        self._open.close()

    def processes(self):
        """Return all processes of the stack."""
        mine = [psutil.Process(process.pid) for process, _ in self._started]
        return [*mine, *(child for one in mine for child in one.children(recursive=True))]

    @contextmanager
    def workers_held(self):
        """Let Dask's workers do nothing for a while, so that what is going on goes on."""
        found = [psutil.Process(process.pid) for process, name in self._started if name == "worker"]
        family = [*found, *(child for one in found for child in one.children(recursive=True))]
        for process in family:
            process.suspend()
        try:
            yield
        finally:
            for process in family:
                process.resume()

    def dump(self):
        """Return all that the database holds, as text."""
        command = [postgres_tool("pg_dump"), *self._postgres_client()]
        return subprocess.run(command, env=self._base(), capture_output=True, check=True, timeout=120).stdout

    def _here(self, text):
        """Return a line of the file with the addresses and passwords of this computer."""
        text = re.sub(r"\$\{(\w+):\?[^}]*\}", lambda found: self.secrets[found[1]], text)
        text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text).replace("$$", "$")
        text = re.sub(rf"//({'|'.join(COMPOSE)}):", "//127.0.0.1:", text).replace("0.0.0.0", "127.0.0.1")  # noqa: S104
        text = text.replace("/var/lib/mmpca", str(self.folder))
        return re.sub(rf"\b({'|'.join(PORTS)})\b", lambda found: self._ports[found[1]], text)

    def _base(self):
        foreign = ("PREFECT", "AWS", "DASK", "PG")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        return {
            **kept,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PREFECT_HOME": str(self.folder / "home"),
            "PREFECT_WORKER_WEBSERVER_HOST": "127.0.0.1",
            "PGPASSWORD": self.secrets["POSTGRES_PASSWORD"],
            **{name: value for name, value in IMAGE.items() if name.startswith(("PREFECT_SERVER", "DO_NOT", "DASK"))},
            **{name: self._ports[port] for name, port in ONLY_HERE.items()},
        }

    def _environment(self, name):
        given = {key: self._here(value) for key, value in COMPOSE[name].get("environment", {}).items()}
        if "PREFECT_SERVER_DATABASE_HOST" in given:
            given["PREFECT_SERVER_DATABASE_HOST"] = "127.0.0.1"
        return {**self._base(), **given}

    def _command(self, name):
        service = COMPOSE[name]
        return [self._here(word) for word in [*service["entrypoint"], *service.get("command", [])]]

    def _background(self, name, command, environment, well, **options):
        log = self.folder / f"{len(self._started)}-{name}.log"
        process = self._open.enter_context(background(command, log, env=environment, **options))
        self._started.append((process, name))
        wait_for(
            lambda: process.poll() is not None or well(), HEALTHY, lambda: f"{name} is not well: {log.read_text()}"
        )
        assert process.poll() is None, f"{name} has ended: {log.read_text()}"

    def _service(self, name, *more):
        environment = self._environment(name)
        check = [self._here(word) for word in COMPOSE[name]["healthcheck"]["test"][1:]]
        self._background(
            name, [*self._command(name), *more], environment, lambda: succeeds(check, environment), cwd=ROOT
        )

    def _once(self, name):
        ended = subprocess.run(
            self._command(name),
            cwd=ROOT, env=self._environment(name), capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert ended.returncode == 0, f"{name}: {ended.stdout}{ended.stderr}"

    def _s3(self):
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", self._ports["8333"]]
        self._background("s3", command, self._base(), lambda: answers(self.s3["AWS_ENDPOINT_URL"]))

    def _postgres_client(self):
        image = COMPOSE["postgres"]["environment"]
        return ["--host=127.0.0.1", f"--username={image['POSTGRES_USER']}", image["POSTGRES_DB"]]

    def _postgres(self):
        """Do what the image does when it starts: make a cluster with one user, and his database."""
        owner, image = postgres_owner(), COMPOSE["postgres"]["environment"]
        # Other than the folders of the tests, one that another user may enter.
        folder = Path(self._open.enter_context(tempfile.TemporaryDirectory(prefix="mmpca-postgres-")))
        password = folder / "password"
        password.write_text(self.secrets["POSTGRES_PASSWORD"])
        for path in (folder, password):
            shutil.chown(path, owner.get("user"), owner.get("group"))
        data, environment = str(folder / "data"), {**self._base(), "HOME": str(folder)}
        made = subprocess.run(
            [
                postgres_tool("initdb"), "--pgdata", data, "--username", image["POSTGRES_USER"],
                "--pwfile", str(password), "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync",
            ],
            cwd=folder, env=environment, capture_output=True, text=True, timeout=120, **owner,
        )  # fmt: skip
        assert made.returncode == 0, made.stdout + made.stderr
        password.unlink()
        serve = [postgres_tool("postgres"), "-D", data, "-h", "127.0.0.1", "-p", self._ports["postgres"], "-F"]
        check = [postgres_tool("pg_isready"), *COMPOSE["postgres"]["healthcheck"]["test"][2:]]
        self._background(
            "postgres", [*serve, "-c", "unix_socket_directories="], environment, lambda: succeeds(check, environment),
            cwd=folder, **owner,
        )  # fmt: skip
        create = [postgres_tool("createdb"), *self._postgres_client()]
        subprocess.run(create, env=environment, check=True, capture_output=True, timeout=60)


def postgres_tool(name):
    """Return the path of a program of PostgreSQL, which Debian keeps off the path; skip the test without it."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: float(folder.parent.name))
    found = shutil.which(name, path=os.pathsep.join([*map(str, versions[-1:]), os.environ["PATH"]]))
    if found is None:
        pytest.skip(f"PostgreSQL's {name} is not installed (Debian: apt-get install postgresql)")
    return found


def postgres_owner():
    """Return options of a process that make it run as a user whom PostgreSQL accepts: anybody but root."""
    if os.geteuid() != 0:
        return {}
    try:
        user = pwd.getpwnam("postgres")
    except KeyError:
        pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def succeeds(command, environment):
    ended = subprocess.run(command, env=environment, capture_output=True, timeout=60)
    return ended.returncode == 0


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=10):  # noqa: S310
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


@contextmanager
def stack_at_work(folder):
    """Yield the stack of the compose file; nothing of it outlives the context."""
    if sys.version_info < (3, 12):
        pytest.skip("the image has Python 3.13; on 3.11 Dask's workers need a variable that the files do not set")
    for name in ("initdb", "postgres", "pg_isready", "createdb", "pg_dump"):
        postgres_tool(name)
    postgres_owner()
    stack = Stack(folder)
    try:
        stack.start()
        yield stack
    finally:
        stack.stop()
