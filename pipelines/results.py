"""Names and finished work on Prefect's pages, with what to open and type next."""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from prefect.assets import Asset
from prefect.assets.core import AssetProperties

from mmpca_dist.jobs.records import CompareRecord, ReportRecord
from mmpca_dist.stores import storage

from .artifacts import Artifacts

LONGEST = 60
DRAWN = re.compile(r"[a-z]+-[a-z]+")
"""A name that Prefect draws, such as "meek-zebra": others are the user's own."""
RESTRICTED = re.compile(r"[^A-Za-z0-9/:._~@+=,*()-]")
LONGEST_KEY = 500


def short(address: str) -> str:
    """Return the last part of an address: no folders, credentials or options.

    >>> short("s3://tables/2026/train.zarr"), short("bundled:digits"), short("synthetic:gaussian?n=9")
    ('train.zarr', 'digits', 'gaussian')
    """
    path = address.partition("?")[0].rstrip("/")
    name = re.split(r"[/\\:@]", path)[-1]
    return name[:LONGEST] or "rows"


def slug(address: str) -> str:
    """Return a key that begins the keys of a run's artifacts.

    >>> slug("runs/My run_2")
    'my-run-2'
    """
    return re.sub(r"[^a-z0-9]+", "-", short(address).lower()).strip("-") or "run"


def listed(names: Sequence[str]) -> str:
    """Return up to three names, or two and how many more.

    >>> listed(["a", "b", "c"]), listed(["a", "b", "c", "d"])
    ('a, b, c', 'a, b and 2 more')
    """
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:2])} and {len(names) - 2} more"


def asset(address: str, part: str = "") -> Asset:
    """Return the asset at an address or of a part of the run there, under one key however the address is spelled.

    >>> asset("bundled:digits").key, asset("/data/my table.zarr").key
    ('bundled://digits', 'file:///data/my_table.zarr')
    """
    uri = storage.normalize(address) + (f"/{part}" if part else "")
    scheme, colon, rest = uri.partition(":")
    if not colon or Path(uri).is_absolute():
        scheme, rest = "file", uri
    key = f"{scheme.lower()}://{rest.removeprefix('//')}"
    properties = AssetProperties(name=f"{short(address)}: {part}" if part else short(address))
    return Asset(key=RESTRICTED.sub("_", key)[:LONGEST_KEY], properties=properties)


MARKUP = re.compile(r"[\\`*_\[\]<>!|]")


def publish_run(
    artifacts: Artifacts,
    folder: str,
    report: ReportRecord,
    plan: list[tuple[str, str, str]],
    search: list[tuple[str, str, str]],
) -> None:
    """Publish plan versus measured, components, the certificate of a search, and the pictures of a finished run."""
    from mmpca_dist.runs.outcomes import components_and_legend, lines

    if plan:
        rows = [{"what": a, "planned": b, "measured": c} for a, b, c in plan]
        artifacts.show("plan", "The plan and what was used", table=rows)
    spectra, legend = components_and_legend(folder)
    artifacts.show("components", legend, table=spectra)
    if search:
        proved = "The search for nearest rows of other classes: what it took, and how much is proved"
        artifacts.show("search", proved, table=[{"what": a, "found": b, "what it means": c} for a, b, c in search])
    at = shlex.quote(folder)
    columns = ("method", "components", "share", "leading eigenvalues")
    printed = [" | ".join(columns), " | ".join("---" for _ in columns)]
    printed += [" | ".join(_plain(row[name]) for name in columns) for row in spectra]
    following = [
        f"mmpca show {at}",
        f"mmpca transform {at} NEW_ROWS {shlex.quote(folder + '-new')}",
    ]
    python = f"from mmpca_dist import load_model\n\nmodel = load_model({folder!r}, {spectra[0]['method']!r})"
    table = "\n".join(f"| {line} |" for line in printed)
    _publish_page(artifacts, report, _plain(lines(folder)[0]), table, following, python)


def publish_evaluation(artifacts: Artifacts, folder: str, comparison: CompareRecord) -> None:
    """Publish the verdict, the tables and the pictures of a finished evaluation."""
    for key, (description, rows) in comparison["tables"].items():
        artifacts.show(key, _plain(description), table=rows)
    following = [f"mmpca show {shlex.quote(folder)} --open", *comparison["next"]]
    answer = "\n\n".join([f"**{_plain(' '.join(comparison['answer']))}**", _plain(comparison["verdict"])])
    _publish_page(artifacts, comparison, "Evaluation finished", answer, following)


def publish_result(artifacts: Artifacts, heading: str, said: str, lines: Sequence[str]) -> None:
    """Publish what was written, and what to type or to open."""
    artifacts.show("result", heading, markdown=f"# {heading}\n\n{_plain(said)}\n\n{_code(lines)}\n")


def _plain(text: str) -> str:
    """Return text from data or settings as Markdown that shows it: no image, link or HTML of a stranger's."""
    return MARKUP.sub(r"\\\g<0>", " ".join(text.split()))


def _code(lines: Sequence[str]) -> str:
    """Return lines as Markdown that a person copies; no line ends the block."""
    text = "\n".join(" ".join(line.split()) for line in lines).replace("```", "'''")
    return f"```\n{text}\n```"


def _publish_page(
    artifacts: Artifacts, report: ReportRecord, heading: str, answer: str, following: Sequence[str], python: str = ""
) -> None:
    """Publish the pictures of a report; and its answer, how to open it, what to type next, its notes, one picture."""
    images = [base64.b64encode(storage.read_bytes(figure["png"])).decode() for figure in report["figures"]]
    pictures = [
        (figure, f"data:image/png;base64,{image}") for figure, image in zip(report["figures"], images, strict=True)
    ]
    for figure, url in pictures:
        artifacts.show(f"figure-{figure['name']}", _plain(figure["title"]), image_url=url)
    notes = "\n".join(f"- {_plain(note)}" for note in report["notes"]) or "Nothing to note."
    in_python = f"In Python:\n\n{_code(python.splitlines())}\n\n" if python else ""
    first = "".join(f"\n![{_plain(figure['title'])}]({url})\n" for figure, url in pictures[:1])
    artifacts.show(
        "result",
        "The result: what came out, the report, and what to type next",
        markdown=f"# {heading}\n\n{answer}\n\n## Report\n\n{_opening(report['html'])}\n\n## Next\n\n"
        f"{_code(following)}\n\n{in_python}## Notes\n\n{notes}\n{first}",
    )


def _opening(page: str) -> str:
    """Return how to open a report: no browser follows a link from a page of a server to a file."""
    if page.startswith(("http://", "https://")):
        return f"[Open the report]({page})"
    if storage.is_local(page):
        return (
            "Paste this line into the address bar of a browser on the computer that has the folder of the run:\n\n"
            + _code([Path(page).as_uri()])
        )
    return f"It lies in an object store; download it from there:\n\n{_code([page])}"
