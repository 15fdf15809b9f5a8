"""The image, its lock and the compose file, as far as they can be checked without a Docker engine."""

import re
import shlex
import shutil
import subprocess
import tomllib

import pytest
import yaml
from helpers import ROOT
from helpers.docker import LOCKS, run, tool
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

COMPOSE = ROOT / "docker" / "compose.yaml"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
IMAGE_EXTRAS = ("s3",)
SECRETS = ("POSTGRES_PASSWORD", "PREFECT_PASSWORD", "S3_ACCESS_KEY", "S3_SECRET_KEY")


@pytest.fixture(scope="module")
def compose():
    return yaml.safe_load(COMPOSE.read_text())


@pytest.fixture(scope="module")
def services(compose):
    return compose["services"]


def long_running(services):
    return {name: service for name, service in services.items() if service["restart"] == "unless-stopped"}


# The compose file


@pytest.mark.parametrize("name", ["compose.yaml", "compose.tls.yaml"])
def test_the_compose_specification_accepts_the_files(name):
    checked = run(tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(COMPOSE.with_name(name)))
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_names_of_volumes_networks_and_services_resolve(compose, services):
    for name, service in services.items():
        mounted = {volume.split(":")[0] for volume in service.get("volumes", [])}
        assert mounted <= set(compose["volumes"]), name
        assert set(service.get("networks", [])) <= set(compose["networks"]), name
        for other, when in service.get("depends_on", {}).items():
            assert other in services, (name, other)
            healthy = when["condition"] == "service_healthy"
            assert healthy == ("healthcheck" in services[other]), f"{name} waits for {other} to be {when['condition']}"
    used = {volume.split(":")[0] for service in services.values() for volume in service.get("volumes", [])}
    assert used == set(compose["volumes"])


def test_hosts_in_addresses_are_services(services):
    """Whatever a service is told to talk to is this container or another service."""
    hosts = set(re.findall(r"(?:http|tcp)://([^:/\s\"']+):", COMPOSE.read_text()))
    assert {"s3", "prefect", "scheduler"} <= hosts <= {*services, "127.0.0.1"}
    assert services["prefect"]["environment"]["PREFECT_SERVER_DATABASE_HOST"] in services


def test_long_running_services_are_watched_restarted_and_limited(services):
    watched = long_running(services)
    assert set(watched) == {"postgres", "prefect", "scheduler", "worker", "s3", "flows"}
    for name, service in watched.items():
        check = service["healthcheck"]
        assert check["test"][0] == "CMD", name
        assert {"interval", "timeout", "retries", "start_period"} <= set(check), name
        if "HEALTH_URL" in check["test"][-1]:
            assert service["environment"]["HEALTH_URL"].startswith("http://127.0.0.1:"), name


def test_services_have_no_more_rights_than_they_need(services):
    for name, service in services.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert "cap_add" not in service and "privileged" not in service, name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert {"cpus", "memory", "pids"} <= set(service["deploy"]["resources"]["limits"]), name
        own = service["image"].startswith("mmpca-dist:")
        assert own == ("build" in service), name
        assert own or service["user"].split(":")[0] not in ("0", "root"), name


def test_ports_are_published_on_the_loopback_only(services):
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert sorted(ports) == ["127.0.0.1:4200:4200", "127.0.0.1:8333:8333", "127.0.0.1:8787:8787"]


def test_images_are_pinned_by_version(services):
    for name, service in services.items():
        assert "build" in service or re.search(r":v?\d[\w.-]*$", service["image"]), f"{name}: {service['image']}"
    assert {s["image"] for s in services.values() if "build" in s} == {"mmpca-dist:local"}


def test_secrets_have_no_defaults(services):
    """Every password comes from the environment, and compose refuses to start without it."""
    asked = re.findall(r"\$\{(\w+)([^}]*)\}", COMPOSE.read_text())
    assert {name for name, _ in asked} == {*SECRETS, "PREFECT_UI_API_URL", "PREFECT_UI_URL"}
    for name, rest in asked:
        assert rest == ":?set it in docker/.env" or name not in SECRETS, name
    settings = [one for service in services.values() for one in service.get("environment", {}).items()]
    for key, value in settings:
        if re.search(r"PASSWORD|SECRET|ACCESS_KEY|AUTH_STRING|TOKEN", key):
            assert re.fullmatch(r"(mmpca:)?\$\{\w+:\?[^}]*\}", value), key


def test_the_example_environment_has_every_name_and_no_value(tmp_path):
    """The line in its comment fills it with values that differ, for the owner's eyes only."""
    example = (ROOT / "docker" / ".env.example").read_text()
    names = [line for line in example.splitlines() if not line.startswith("#")]
    assert names == [f"{name}=" for name in SECRETS]
    command = example.splitlines()[1].removeprefix("#").strip()
    shutil.copy(ROOT / "docker" / ".env.example", tmp_path)
    subprocess.run(command, shell=True, cwd=tmp_path, check=True)  # noqa: S602
    filled = dict(line.split("=", 1) for line in (tmp_path / ".env").read_text().splitlines() if line[0] != "#")
    assert set(filled) == set(SECRETS)
    assert len(set(filled.values())) == len(SECRETS)
    assert all(len(value) == 48 for value in filled.values())
    assert (tmp_path / ".env").stat().st_mode & 0o077 == 0


def test_filled_environments_are_not_committed_or_copied():
    assert "/docker/.env" in (ROOT / ".gitignore").read_text().splitlines()
    assert "!docker/.env" not in (ROOT / ".dockerignore").read_text()


def test_encrypting_changes_no_more_than_the_addresses(services):
    """compose.tls.yaml repeats the command of the Dask workers, as lists are replaced, not merged."""
    encrypted = yaml.safe_load(COMPOSE.with_name("compose.tls.yaml").read_text())["services"]
    plain = [word.replace("tcp://", "tls://") for word in services["worker"]["entrypoint"]]
    assert encrypted["worker"]["entrypoint"] == plain
    assert set(encrypted) == {name for name, s in services.items() if "scheduler" in (name, *s.get("depends_on", ()))}
    settings = encrypted["flows"]["environment"]
    for role in ("SCHEDULER", "WORKER", "CLIENT"):
        assert settings[f"DASK_DISTRIBUTED__COMM__TLS__{role}__KEY"] == "/certs/dask.key"


def test_the_run_of_the_stack_fits_the_stack(services):
    from mmpca_dist.configuration.schema import load_config

    config = load_config(str(ROOT / "docker" / "run.yaml"))
    worker = services["worker"]
    assert config.compute.cluster in worker["entrypoint"]
    assert config.compute.workers == worker["deploy"]["replicas"]
    assert worker["entrypoint"][worker["entrypoint"].index("--memory-limit") + 1] == config.compute.memory_limit
    assert config.output.startswith("s3://mmpca/")
    assert 'create_bucket(Bucket="mmpca")' in services["bucket"]["entrypoint"][-1]


def test_the_pool_of_the_deployments_is_the_one_that_is_served(services):
    served = services["flows"]["entrypoint"]
    pool = served[served.index("--pool") + 1]
    assert services["deploy"]["environment"]["POOL"] == pool
    path = ROOT / "conf" / "prefect.yaml"
    if not path.exists():
        pytest.skip("there is no conf/prefect.yaml")
    deployments = yaml.safe_load(path.read_text())["deployments"]
    assert {deployment["work_pool"]["name"] for deployment in deployments} == {pool}


# The Dockerfile


@pytest.fixture(scope="module")
def instructions():
    """Pairs of an instruction's name and its words, comments left out and lines joined."""
    text = (ROOT / "docker" / "Dockerfile").read_text()
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    return [tuple(line.split(maxsplit=1)) for line in text.splitlines() if line.strip()]


def test_hadolint_finds_nothing():
    checked = run(tool("hadolint"), str(ROOT / "docker" / "Dockerfile"))
    assert checked.returncode == 0, checked.stdout


def test_the_image_runs_the_command_as_a_user_by_number(instructions):
    last = max(i for i, (name, _) in enumerate(instructions) if name == "FROM")
    final = dict(instructions[last:])
    assert final["USER"] == "10001:10001"
    assert "ENTRYPOINT" not in final, "the pools of Prefect give whole commands"
    assert "HEALTHCHECK" not in final  # one image for several services: the compose file knows what to ask


def test_bases_are_pinned_and_nothing_is_fetched_by_url(instructions):
    python, lock = [words for name, words in instructions if name == "ARG"][:2]
    assert (python, lock) == ("PYTHON=3.13-slim-bookworm", f"LOCK={LOCKS['3.13']}")
    assert {words.split()[0] for name, words in instructions if name == "FROM"} == {"python:${PYTHON}"}
    assert not [words for name, words in instructions if name == "ADD"]
    assert "http" not in (ROOT / "docker" / "Dockerfile").read_text()


def test_no_secret_and_no_telemetry_in_the_image(instructions):
    settings = " ".join(words for name, words in instructions if name in ("ENV", "ARG"))
    assert not re.search(r"PASSWORD|SECRET|TOKEN|KEY", settings)
    off = {"PREFECT_SERVER_ANALYTICS_ENABLED=false", "PREFECT_SERVER_UI_V2_ENABLED=false", "DO_NOT_TRACK=1"}
    assert off <= set(settings.split())


def test_what_is_copied_exists_and_is_in_the_context(instructions):
    """.dockerignore lets through what the Dockerfile copies, and nothing else."""
    sources = set()
    for name, words in instructions:
        if name == "COPY" and not words.startswith("--from"):
            sources |= set(words.split()[:-1])
    assert all((ROOT / source).exists() for source in sources)
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in lines
    assert {line[1:] for line in lines if line.startswith("!")} == sources


def test_labels_are_those_of_the_project(instructions):
    text = next(words for name, words in instructions if name == "LABEL")
    labels = dict(word.split("=", 1) for word in shlex.split(text))
    prefix = "org.opencontainers.image."
    assert labels[f"{prefix}licenses"] == PROJECT["license"]
    assert f"{labels[f'{prefix}description']}, on Dask and Prefect." == PROJECT["description"]


# The locks


@pytest.fixture(params=LOCKS)
def lock(request):
    """The Python that a lock is made for, and its text."""
    return request.param, (ROOT / "docker" / LOCKS[request.param]).read_text()


def test_the_lock_holds_what_the_project_asks_for(lock):
    """Every dependency, those of the image's extras included, at a version within its bounds."""
    python, text = lock
    linux = {"extra": "", "python_version": python, "python_full_version": f"{python}.9", "sys_platform": "linux"}
    versions = re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE)
    locked = {canonicalize_name(name): version for name, version in versions}
    asked = [*PROJECT["dependencies"]]
    for extra in IMAGE_EXTRAS:
        asked += PROJECT["optional-dependencies"][extra]
    for requirement in map(Requirement, asked):
        if requirement.marker is None or requirement.marker.evaluate(linux):
            version = locked.get(canonicalize_name(requirement.name))
            assert version is not None, f"{requirement} is not in the lock; make it anew"
            assert requirement.specifier.contains(version), f"{requirement}, but the lock has {version}"


def test_the_lock_has_hashes_and_names_no_place(lock):
    _, text = lock
    packages = re.findall(r"^[\w.-]+==.*(?:\n    --hash=sha256:[0-9a-f]{64}(?: \\)?)+", text, re.MULTILINE)
    assert len(packages) == len(re.findall(r"^[^\s#]", text, re.MULTILINE))
    assert not re.search(r"://|--index|--find-links|^\s*-e|^\s*/| @ ", text, re.MULTILINE)


def test_the_command_that_makes_the_lock_is_documented(lock):
    python, text = lock
    command = text.splitlines()[1].removeprefix("#").strip()
    assert command.startswith("uv pip compile pyproject.toml docker/requirements.in")
    assert f"--python-version {python} " in command and command.endswith(LOCKS[python])
    assert all(f"--extra {extra}" in command for extra in IMAGE_EXTRAS)
    assert command in (ROOT / "docs" / "docker.md").read_text()
