"""The configuration files in the package: for runs, tables of a paper, deployments and automations."""

from __future__ import annotations

from pathlib import Path

OPERATIONS = ("automations", "notifications", "prefect", "prefect-docker", "prefect-kubernetes")
"""Files for Prefect, which are no configurations of runs."""
TABLES = tuple(f"paper/zhang-schneider-{data}" for data in ("boston", "newsgroups", "yale"))
"""Tables of a paper, which ``python -m mmpca_paper.zhang_schneider`` computes."""


def folder() -> Path:
    """Return the folder of the files: within the installed package, or ``conf`` of the checkout that it is in."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "conf"
    return installed if installed.is_dir() else package.parent / "conf"


def names() -> list[str]:
    """Return the names of all bundled files, such as ``quickstart`` or ``paper/sonar``."""
    return sorted(path.relative_to(folder()).with_suffix("").as_posix() for path in folder().rglob("*.yaml"))


def path_of(name: str) -> Path | None:
    """Return the path of a bundled file, or None where no file has this name."""
    return folder() / f"{name}.yaml" if name in names() else None


def run_names() -> list[str]:
    """Return the names of the bundled configurations of runs and evaluations."""
    return [name for name in names() if name not in (*OPERATIONS, *TABLES)]
