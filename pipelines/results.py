"""Names and finished work on Prefect's pages, with what to open and type next."""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from prefect.assets import Asset
from prefect.assets.core import AssetProperties

from mmpca_dist.jobs.records import ReportRecord
from mmpca_dist.results.result import Result
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


def publish(artifacts: Artifacts, result: Result) -> None:
    """Publish what came out of a run or an evaluation: tables, pictures, and a page that says the most of it."""
    report = cast(ReportRecord, result.report)  # which is written before
    for key, (description, rows) in result.tables.items():
        artifacts.show(key, _plain(description), table=rows)
    images = [base64.b64encode(storage.read_bytes(figure["svg"])).decode() for figure in report["figures"]]
    pictures = [
        (figure, f"data:image/svg+xml;base64,{image}") for figure, image in zip(report["figures"], images, strict=True)
    ]
    for figure, url in pictures:
        artifacts.show(f"figure-{figure['name']}", _plain(figure["title"]), image_url=url)
    first, *others = result.lead
    names = list(result.rows[0])
    lines = [names, ["---"] * len(names), *([_plain(row[name]) for name in names] for row in result.rows)]
    following = {"See it in a terminal:": f"mmpca show {shlex.quote(result.folder)} --open", **result.next}
    parts = [
        f"# {_plain(first)}",
        *map(_plain, filter(None, [" ".join(others), *result.words])),
        f"## {_plain(result.title)}",
        "\n".join(f"| {' | '.join(line)} |" for line in lines),
        _plain(result.legend),
        "## Report",
        _opening(report["html"]),
        "## Next",
        *(text for what, command in following.items() for text in (what, _code(command.splitlines()))),
        "## Notes",
        "\n".join(f"- {_plain(note)}" for note in result.notes) or "Nothing to note.",
        *(f"![{_plain(figure['title'])}]({url})" for figure, url in pictures[:1]),
    ]
    markdown = "\n\n".join(filter(None, parts)) + "\n"
    artifacts.show("result", "The result: what came out, the report, and what to type next", markdown=markdown)


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
