"""Faults as values, and the one place where sentences are made of them in the words of who asks."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Literal

HOLE = re.compile(r"\{(\w+)(!r)?\}")


@dataclass(frozen=True)
class Asker:
    """Who asks, and what they call things: by default a run, whose settings are keys of a configuration."""

    settings: Literal["keys", "options", "keywords"] = "keys"
    """Settings of a data set are keys of a configuration, options of a command, or keywords of Python."""
    estimator: str = ""
    """The class of an estimator, which begins its sentences."""
    columns: Sequence[str] = ()
    """Names of an estimator's columns: indicators by the column of text that they are of."""
    called: Mapping[str, str] = field(default_factory=dict)
    """Settings that another one stands for, and what that is called."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """Addresses that are opened, and those that are shown: of converted text the text."""


@dataclass(frozen=True)
class Setting:
    """A setting, by default of a data set; with a value, or several, what to type."""

    name: str
    values: str | Sequence[str] | None = None
    section: str = "dataset"

    def said(self, asker: Asker) -> str:
        if self.name in asker.called:
            return asker.called[self.name]
        if asker.settings == "keywords":
            return self.name if self.values is None else f"{self.name}={self.values!r}"
        several = [self.values] if isinstance(self.values, str) else list(self.values or ())
        if asker.settings == "options":
            option = f"--{self.name.replace('_', '-')}"
            return " ".join(f"{option} {shlex.quote(value)}" for value in several) or option
        several = [value if value[:1].isalnum() else json.dumps(value) for value in several]
        named = "".join(several) if isinstance(self.values, str) else f"[{', '.join(several)}]"
        return f"{self.section}.{self.name}" + ("" if self.values is None else f": {named}")


@dataclass(frozen=True)
class Col:
    """A column of the rows: its number, and its name in a table that has names."""

    number: int
    name: str | None = None

    def said(self, asker: Asker) -> str:
        if self.name is None and self.number < len(asker.columns):
            return repr(asker.columns[self.number])
        return str(self.number) if self.name is None else f"{self.number} ({self.name!r})"


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong.

    >>> fault = Fault("Column {column} has a gap. Set {fill}.", {"column": Col(1), "fill": Setting("missing", "mean")})
    >>> render([fault]), render([fault], Asker("keywords", "PCA", ["id", "age"]))
    ('Column 1 has a gap. Set dataset.missing: mean.', "PCA: Column 'age' has a gap. Set missing='mean'.")
    """

    text: str
    """A sentence with holes, ``{name}`` or ``{name!r}``, for facts; other braces stay, such as those in names."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Plain values, such as the number of a row; and what askers call otherwise: ``Setting``, ``Col``, other faults."""
    kind: str = ""
    """A word that code branches on, if any does."""

    def said(self, asker: Asker) -> str:
        def filled(hole: re.Match) -> str:
            fact = self.facts.get(hole[1], hole[0])
            return fact.said(asker) if hasattr(fact, "said") else repr(fact) if hole[2] else str(fact)

        return HOLE.sub(filled, self.text) if self.facts else self.text

    @classmethod
    def all_said(cls, faults: Sequence[Fault], asker: Asker) -> str:
        """Return what is said of several faults."""
        return " ".join(fault.said(asker) for fault in faults)


def render(faults: Sequence[Fault], asker: Asker | None = None) -> str:
    """Return what is wrong in the words of an asker, by default of who asks now."""
    asker = who_asks() if asker is None else asker
    text = type(faults[0]).all_said(faults, asker) if faults else ""
    for opened, shown in asker.addresses.items():  # also in what other libraries said, which is plain text
        text = text.replace(opened, shown)
    return text if text.startswith(asker.estimator) else f"{asker.estimator}: {text}"


_asks: ContextVar[Callable[[], Asker]] = ContextVar("asks", default=Asker)


def who_asks() -> Asker:
    """Return the asker of what is done now."""
    return _asks.get()()


@contextmanager
def asking(asker: Asker | Callable[[], Asker]) -> Iterator[None]:
    """Let an asker ask for what is done here, and errors that leave be said to it; a function is called as they do."""
    token = _asks.set(asker if callable(asker) else lambda: asker)
    try:
        yield
    except Exception as error:
        if getattr(error, "asker", error) is None:
            error.asker = who_asks()  # type: ignore[attr-defined]
        raise
    finally:
        _asks.reset(token)


def showing(addresses: Mapping[str, str]) -> AbstractContextManager[None]:
    """Show addresses in the place of those that are opened; who asks already may show others for these."""
    asker = who_asks()
    more = {opened: asker.addresses.get(shown, shown) for opened, shown in addresses.items()}
    return asking(replace(asker, addresses={**asker.addresses, **more}))
