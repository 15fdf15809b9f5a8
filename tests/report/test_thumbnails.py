"""Images of rows on a page are those of the rows, side by side in one sheet."""

import base64
import io

import numpy as np
from PIL import Image

from mmpca_dist import open_dataset
from mmpca_dist.report import thumbnails
from mmpca_dist.report.thumbnails import COLUMNS, image_sheet


def pixels(found):
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(found["source"].partition(",")[2]))))


def test_the_sheet_has_the_image_of_each_row():
    table, numbers = open_dataset("bundled:digits"), [0, 3, *range(100, 170), 1796]
    found = image_sheet(table, numbers, (8, 8))
    sheet = pixels(found)
    assert sheet.shape == (8 * found["lines"], 8 * COLUMNS) and found["tall"] == 1
    for place, number in enumerate(numbers):
        down, across = 8 * (place // COLUMNS), 8 * (place % COLUMNS)
        values = table.read_rows(number, number + 1).reshape(8, 8)
        np.testing.assert_allclose(sheet[down : down + 8, across : across + 8], 255 * (1 - values / 16), atol=1)


def test_many_images_are_coarser_and_those_of_large_chunks_are_left_out(monkeypatch):
    table, numbers = open_dataset("bundled:digits"), range(100)
    monkeypatch.setattr(thumbnails, "MAX_PIXELS", 100 * 16)
    assert pixels(image_sheet(table, numbers, (8, 8))).shape == (2 * 4, COLUMNS * 4)
    monkeypatch.setattr(thumbnails, "MAX_BYTES", 1000)
    assert image_sheet(table, numbers, (8, 8)) is image_sheet(table, numbers, None) is None
