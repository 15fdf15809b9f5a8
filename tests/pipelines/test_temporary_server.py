"""A temporary server of a command touches nothing of a server of the user's."""

import os
import subprocess
import sys

import pytest
import yaml


@pytest.mark.e2e
def test_a_command_without_a_server_leaves_the_database_of_prefect_home_alone(tmp_path):
    """Two commands after another; that of the user is not made, opened or changed."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "prefect.db").write_bytes(b"the database of a server at work")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    for output in ("a", "b"):
        config = {"dataset": {"uri": "bundled:iris"}, "methods": ["pca"], "n_components": [2]}
        (tmp_path / "c.yaml").write_text(yaml.safe_dump({**config, "output": str(tmp_path / output)}))
        ran = subprocess.run(
            [sys.executable, "-m", "mmpca_pipelines", "run", str(tmp_path / "c.yaml")],
            env={**environment, "PREFECT_HOME": str(home), "TMPDIR": str(tmp_path)},
            capture_output=True, text=True, timeout=500,
        )  # fmt: skip
        assert ran.returncode == 0 and "not receive" not in ran.stdout, ran.stdout + ran.stderr
    assert (home / "prefect.db").read_bytes() == b"the database of a server at work"
    assert sorted(path.name for path in home.glob("prefect.db*")) == ["prefect.db"]
    assert not list(tmp_path.glob("mmpca-prefect-*"))
