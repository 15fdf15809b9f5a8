"""Options in addresses: ``NAME?option=value&...``."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl

from mmpca_dist.errors import InputError, did_you_mean

Value = int | float | str


def parse_options(uri: str, query: str, defaults: Mapping[str, Value]) -> dict[str, Value]:
    """Return the options of an address, each of the type of its default.

    Raises
    ------
    InputError
        For an unknown option, or a value that does not parse.
    """
    options = dict(defaults)
    for key, text in parse_qsl(query, keep_blank_values=True):
        if key not in options:
            raise InputError(f"Unknown option {key!r} in {uri}.{did_you_mean(key, options)}")
        expected = type(options[key])
        try:
            options[key] = _whole(text) if expected is int else expected(text)
        except (ValueError, OverflowError) as error:
            raise InputError(
                f"Option {key}={text} in {uri} must be {'a whole number' if expected is int else 'a number'}."
            ) from error
    return options


def _whole(text: str) -> int:
    """Return a whole number, also one written as ``1e6``."""
    number = float(text)
    if number != int(number):
        raise ValueError(text)
    return int(number)


COMPRESSED = (".gz", ".bz2", ".xz")


def stem_of(uri: str) -> str:
    """Return an address in lower case without the suffix of a compression."""
    stem = uri.lower()
    for suffix in COMPRESSED:
        stem = stem.removesuffix(suffix)
    return stem
