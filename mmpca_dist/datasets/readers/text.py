"""Text formats, which must be ingested before they can be read."""

from __future__ import annotations

from mmpca_dist.datasets.dataset import Dataset
from mmpca_dist.datasets.readers.formats import Format, Request
from mmpca_dist.datasets.readers.uri_options import COMPRESSED
from mmpca_dist.errors import InputError

SUFFIXES = (".csv", ".tsv", ".txt", ".libsvm", ".svm", ".svmlight")


def _refuse(request: Request) -> Dataset:
    without = "" if request.label_required else " (with --unlabelled, if it is CSV without labels)"
    raise InputError(
        f"{request.uri} is text: turn it into Zarr first, with: mmpca ingest {request.given} DEST.zarr{without}"
    )


FORMAT = Format(
    "text", "text", _refuse, suffixes=tuple(name + packed for name in SUFFIXES for packed in ("", *COMPRESSED)),
    alone=False,
)  # fmt: skip
