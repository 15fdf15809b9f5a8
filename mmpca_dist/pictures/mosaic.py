"""Mosaics: lines of images of one shape, each line with a name."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mmpca_dist.pictures.chart import LETTER, WIDTH, text
from mmpca_dist.pictures.frame import Drawn

GAP, LARGEST = 4, 72
"""Pixels between images, and of an image at most, in either direction."""
RED, BLUE = (0xD6, 0x3F, 0x4B), (0x36, 0x80, 0xCC)
"""Of positive and negative coefficients; those near zero are transparent, so that they have the colour of the page."""


def coefficients(image: NDArray[np.float64], reach: float) -> NDArray[np.uint8]:
    """Return coefficients (h, w) as red and blue pixels (h, w, 4), opaque at ``reach``."""
    shares = np.clip(np.abs(image) / (reach or 1.0), 0, 1)
    colours = np.where((image > 0)[..., None], RED, BLUE)
    return np.concatenate([colours, 255 * shares[..., None]], axis=-1).round().astype(np.uint8)


def greys(image: NDArray[np.float64], ends: tuple[float, float]) -> NDArray[np.uint8]:
    """Return values (h, w) as grey pixels, white at the first end and black at the second."""
    shares = np.clip((image - ends[0]) / ((ends[1] - ends[0]) or 1.0), 0, 1)
    return np.asarray(255 - (255 * shares).round(), np.uint8)


def mosaic(title: str, lines: Sequence[tuple[str, Sequence[NDArray[np.uint8]], Sequence[str]]]) -> Drawn:
    """Return a panel of lines: a name, images, and the words above each, of which there may be none."""
    left = 8 + 1.25 * LETTER * max(len(name) for name, *_ in lines)
    most = max(len(images) for _, images, _ in lines)
    height, width = lines[0][1][0].shape[:2]
    across = min((WIDTH - left - 4) / most - GAP, LARGEST, LARGEST * width / height)
    down, y = across * height / width, 8.0 + 14 * bool(title)
    parts = [text(2, 13, title, "title")] if title else []
    for name, images, above in lines:
        y += 13 * bool(above)
        parts.append(text(left - 5, y + down / 2 + 4, name, "end"))
        for i, image in enumerate(images):
            x = left + i * (across + GAP)
            parts.append(
                f'<image x="{x:.1f}" y="{y:.1f}" width="{across:.1f}" height="{down:.1f}" preserveAspectRatio="none" '
                f'href="{data_uri(image)}"/><rect class="line" x="{x:.1f}" y="{y:.1f}" '
                f'width="{across:.1f}" height="{down:.1f}"/>'
            )
            if above:
                parts.append(text(x + across / 2, y - 3, above[i], "middle"))
        y += down + GAP
    return Drawn("".join(parts), WIDTH, round(y + 4))


def data_uri(image: NDArray[np.uint8]) -> str:
    """Return pixels, (h, w) grey or (h, w, 4), as the ``data:`` address of a PNG."""
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, format="png", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
