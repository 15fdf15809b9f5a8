"""Bytes of `.npy` files, honest or not."""

from __future__ import annotations

import io


def npy(shape, n_bytes=64, descr="<f8"):
    file = io.BytesIO()
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    file.write(b"\x93NUMPY\x01\x00" + (len(header) + 1).to_bytes(2, "little") + header + b"\n" + bytes(n_bytes))
    return file.getvalue()
