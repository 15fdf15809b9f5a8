"""One picture of a report as the axes that were drawn."""

from __future__ import annotations

from typing import Any

import pytest

from mmpca_dist.pictures import drawing
from mmpca_dist.report.run_page import ReportContents, figures


def drawn_sheet(monkeypatch: pytest.MonkeyPatch, contents: ReportContents, name: str) -> Any:
    """Return the sheet of a picture."""
    sheets: list[Any] = []
    make = drawing.sheet

    def remember(*size: float) -> Any:
        sheets.append(make(*size))
        return sheets[-1]

    with monkeypatch.context() as patched:
        patched.setattr(drawing, "sheet", remember)
        place = [figure.name for figure in figures(contents)].index(name)
    return sheets[place]
