"""The image is built by buildah, which needs no Docker engine, and runs the quickstart."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from helpers import ROOT
from helpers.docker import LOCKS

CHROOT = ("--isolation=chroot", "--network=host")
MAX_BYTES = 10**9
"""What the layers above the base image may take."""

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(shutil.which("buildah") is None, reason="buildah is not installed"),
]


def buildah(*words, seconds=900, check=True):
    environment = {"STORAGE_DRIVER": "vfs", **os.environ}
    ended = subprocess.run(
        ["buildah", *words], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=seconds
    )
    assert ended.returncode == 0 or not check, ended.stdout[-4000:] + ended.stderr[-4000:]
    return ended


def size_of(image):
    found = json.loads(buildah("images", "--json", image).stdout)
    units = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}
    number, unit = found[0]["size"].split()
    return float(number) * units[unit.upper()]


@pytest.fixture(scope="module", params=LOCKS)
def image(request):
    """The image with one Python, and its base image."""
    python = request.param
    base = f"docker.io/library/python:{python}-slim-bookworm"
    if buildah("inspect", "--type", "image", base, check=False).returncode != 0:
        pulled = buildah("pull", "--quiet", base, check=False)
        if pulled.returncode != 0:
            pytest.skip(f"{base} is neither here nor to be had: {pulled.stderr.strip().splitlines()[-1]}")
    name = f"mmpca-dist-test:{python}"
    arguments = ("--build-arg", f"PYTHON={python}-slim-bookworm", "--build-arg", f"LOCK={LOCKS[python]}")
    # Certificates and settings of this machine, where it reaches package indexes through a proxy of its own.
    own = [word for path in ("/etc/ssl/certs", "/etc/pip.conf") if Path(path).exists()
           for word in ("--volume", f"{path}:{path}:ro")]  # fmt: skip
    limits = ("--ulimit", "nofile=20000:20000", "--ulimit", "nproc=30000:30000")
    buildah("bud", *CHROOT, *limits, *own, *arguments, "--file", "docker/Dockerfile", "--tag", name, ".", seconds=1800)
    yield name, base
    buildah("rmi", "--force", name)


def test_the_image_runs_the_quickstart(image):
    name, base = image
    container = buildah("from", name).stdout.strip()
    try:
        ran = buildah("run", *CHROOT, container, "--", "mmpca", "run", "conf/quickstart.yaml")
        assert "Report: /app/runs/quickstart/report/index.html" in ran.stdout
        shown = buildah("run", *CHROOT, container, "--", "mmpca", "show", "runs/quickstart")
        assert "1,797 rows" in shown.stdout
        refused = buildah("run", *CHROOT, container, "--", "touch", "/app/elsewhere", check=False)
        assert refused.returncode != 0, "the user may write to the folders of results only"
    finally:
        buildah("rm", container)
    assert size_of(name) - size_of(base) < MAX_BYTES
