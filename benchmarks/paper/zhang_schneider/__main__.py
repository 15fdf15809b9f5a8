"""Compute the tables of a configuration: ``python -m mmpca_paper.zhang_schneider CONFIG [--runs N]``."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from pathlib import Path

from mmpca_dist.configuration import bundled
from mmpca_dist.configuration.parsing import parse_model, read_yaml
from mmpca_dist.errors import ConfigError, MmpcaError, did_you_mean

from .boston import Boston
from .newsgroups import Newsgroups
from .table import Table
from .yale import Yale

TABLES: dict[str, type[Table]] = {"boston": Boston, "newsgroups": Newsgroups, "yale": Yale}
"""Values of the key ``table`` of a configuration."""


def load_table(path: str, runs: str | None = None) -> Table:
    """Return the table of a YAML file, or of a bundled configuration by name; ``runs`` replaces the number in it.

    Raises ConfigError where there is no such file, or its keys and values do not fit.
    """
    file = Path(path)
    if not file.is_file():
        file = bundled.path_of(path) or file
    try:
        content = read_yaml(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        hint = did_you_mean(path, bundled.TABLES)
        raise ConfigError(f"There is no {path}. There are {', '.join(bundled.TABLES)}.{hint}") from None
    except (ConfigError, ValueError, OSError) as error:
        raise ConfigError(f"{path} is not readable as YAML: {' '.join(str(error).split()).rstrip('.')}.") from error
    kind = content.get("table") if isinstance(content, dict) else None
    if kind not in list(TABLES):
        hint = did_you_mean(str(kind), TABLES)
        raise ConfigError(f"{path}: the key 'table' must be {' or '.join(TABLES)} (found {kind!r}).{hint}")
    changes = {} if runs is None else {"runs": runs}
    return parse_model(TABLES[kind], {**content, **changes}, path, dict.fromkeys(changes, "--runs"))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print own figures of a configuration next to the published ones."""
    parser = argparse.ArgumentParser(prog="python -m mmpca_paper.zhang_schneider", description=__doc__)
    parser.add_argument("config", help="a YAML file, such as conf/paper/zhang-schneider-boston.yaml")
    parser.add_argument("--runs", help="number of random choices of training rows, in place of the configuration's")
    options = parser.parse_args(arguments)
    warnings.filterwarnings("ignore", message="ProjectionPenalty.* value that was tried")  # the grid is the paper's
    try:
        load_table(options.config, options.runs).compare()
    except MmpcaError as error:
        raise SystemExit(f"Error: {error}") from None


if __name__ == "__main__":
    main()
