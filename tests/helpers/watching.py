"""What functions are asked and return, what memory they take, and libraries that are not there."""

import builtins
import tracemalloc
from contextlib import contextmanager
from types import SimpleNamespace


def watched(patch, place, name, tell=lambda found, *_, **__: found):
    """Return a list of what a function returns from now on, or of what ``tell`` makes of that and its arguments."""
    told, function = [], getattr(place, name)

    def watching(*arguments, **options):
        found = function(*arguments, **options)
        told.append(tell(found, *arguments, **options))
        return found

    patch.setattr(place, name, watching)
    return told


@contextmanager
def allocated():
    """Yield what has the most bytes that were allocated at once, afterwards."""
    found = SimpleNamespace(peak=None)
    tracemalloc.start()
    try:
        yield found
        found.peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def without_library(patch, library):
    """Let imports of a library fail."""

    def refusing(name, *arguments, imported=builtins.__import__, **options):
        if name.partition(".")[0] == library:
            raise ImportError(f"No module named {library!r}")
        return imported(name, *arguments, **options)

    patch.setattr(builtins, "__import__", refusing)
