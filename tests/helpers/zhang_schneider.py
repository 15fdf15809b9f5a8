"""The configurations of the tables of Zhang & Schneider, changed for tests."""

from mmpca_paper.zhang_schneider.__main__ import load_table

from helpers import ROOT

PAPER = ROOT / "conf" / "paper"


def table(kind, /, **changes):
    """Return the tables of a kind with some settings changed."""
    config = load_table(str(PAPER / f"zhang-schneider-{kind}.yaml"))
    return type(config).model_validate({**config.model_dump(), **changes})
