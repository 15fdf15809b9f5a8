"""Registries: built-in objects by name, and those that installed packages add by entry points."""

from __future__ import annotations

import logging
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

T = TypeVar("T")
logger = logging.getLogger(__name__)


@cache
def installed_points() -> Any:
    """Return the entry points of all installed packages, whose metadata are read once."""
    return entry_points()


class Registry(Mapping[str, T], Generic[T]):
    """A mapping from names to objects of one kind, which have a ``name``.

    Modules of the packages define the built-in ones, alone or in tuples. Installed packages add theirs by entry points
    of ``group`` (by default the name of the first package), whose objects are of the same kind. Names in a
    configuration never import anything. ``order`` is a key to sort them by; by default modules are in order.
    """

    def __init__(
        self, kind: type[T], *packages: str, group: str | None = None, order: Callable[[T], Any] | None = None
    ) -> None:
        self._kind, self._packages, self._group, self._order = kind, packages, group or packages[0], order

    def __getitem__(self, name: str) -> T:
        return self._objects[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._objects)

    def __len__(self) -> int:
        return len(self._objects)

    @cached_property
    def _objects(self) -> dict[str, T]:
        objects = {item.name: item for item in self._built_in()}  # type: ignore[attr-defined]
        for point in installed_points().select(group=self._group):
            for item in self._installed(point):
                name = item.name  # type: ignore[attr-defined]
                if objects.setdefault(name, item) is not item:
                    logger.warning("%s of %s is ignored: there is another %s.", name, point.value, name)
        if self._order is None:
            return objects
        return dict(sorted(objects.items(), key=lambda named: self._order(named[1])))  # type: ignore[misc]

    def _built_in(self) -> Iterator[T]:
        for package in self._packages:
            for module in pkgutil.iter_modules(import_module(package).__path__, f"{package}."):
                for value in vars(import_module(module.name)).values():
                    yield from self._of_kind(value)

    def _installed(self, point: EntryPoint) -> list[T]:
        try:
            return self._of_kind(point.load())
        except Exception:
            logger.warning("The entry point %s of %s does not load.", point.name, self._group, exc_info=True)
            return []

    def _of_kind(self, value: Any) -> list[T]:
        values = value if isinstance(value, tuple) else [value]
        return [item for item in values if isinstance(item, self._kind)]
