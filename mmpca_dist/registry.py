"""Registries: built-in objects by name, and those that installed packages add by entry points."""

from __future__ import annotations

import logging
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

T = TypeVar("T")
logger = logging.getLogger(__name__)


class Registry(Mapping[str, T], Generic[T]):
    """A mapping from names to things of one kind.

    Modules of ``package`` define the built-in ones, alone or in tuples. Installed packages add theirs by entry points
    of the group, whose objects are such things too. Names in a configuration never import anything.

    Parameters
    ----------
    kind : type
        Of the things, which have a ``name``.
    package : str or None
        Where the built-in ones are; None where all come by entry points.
    group : str, optional
        Of entry points; by default the name of the package.
    order : callable, optional
        What they are sorted by; by default the order of modules.
    """

    def __init__(
        self, kind: type[T], package: str | None, group: str | None = None, order: Callable[[T], Any] | None = None
    ) -> None:
        self._kind, self._package, self._group, self._order = kind, package, group or package or "", order

    def __getitem__(self, name: str) -> T:
        return self._things[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._things)

    def __len__(self) -> int:
        return len(self._things)

    @cached_property
    def _things(self) -> dict[str, T]:
        found = {thing.name: thing for thing in self._built_in()}  # type: ignore[attr-defined]
        for point in entry_points(group=self._group):
            for thing in self._installed(point):
                name = thing.name  # type: ignore[attr-defined]
                if name in found:
                    logger.warning("%s of %s is ignored: there is another %s.", name, point.value, name)
                found.setdefault(name, thing)
        things = found.values() if self._order is None else sorted(found.values(), key=self._order)
        return {thing.name: thing for thing in things}  # type: ignore[attr-defined]

    def _built_in(self) -> Iterator[T]:
        if self._package is None:
            return
        package = import_module(self._package)
        for module in pkgutil.iter_modules(package.__path__, f"{self._package}."):
            for value in vars(import_module(module.name)).values():
                yield from self._of_kind(value)

    def _installed(self, point: EntryPoint) -> Iterator[T]:
        try:
            yield from self._of_kind(point.load())
        except Exception:
            logger.warning("The entry point %s of %s does not load.", point.name, self._group, exc_info=True)

    def _of_kind(self, value: Any) -> Iterable[T]:
        if isinstance(value, self._kind):
            return [value]
        if isinstance(value, tuple):
            return [one for one in value if isinstance(one, self._kind)]
        return []
