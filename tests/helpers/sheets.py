"""One picture of a report as the axes that were drawn."""

from mmpca_dist.pictures import drawing
from mmpca_dist.report.run_page import figures


def drawn_sheet(monkeypatch, contents, name):
    """Return the sheet of a picture."""
    sheets = []
    make = drawing.sheet

    def remember(*size):
        sheets.append(make(*size))
        return sheets[-1]

    with monkeypatch.context() as patched:
        patched.setattr(drawing, "sheet", remember)
        place = [figure.name for figure in figures(contents)].index(name)
    return sheets[place]
