"""Ingests that die at a chosen step: for processes that are killed, and as if they were."""

import os
import shutil
import signal
from pathlib import Path

from helpers.ingested import ingest
from mmpca_dist.stores import storage


class KilledError(Exception):
    """Ends an ingest in this process as kill -9 would: whatever it tries afterwards changes nothing.

    It is no ``BaseException``, which fsspec would keep to itself.
    """


class Steps:
    """Counts calls that change what is stored, and dies before one of them."""

    def __init__(self, last, die):
        self.last, self.die, self.made = last, die, 0

    def before(self, function):
        """Return a function that counts."""

        def step(*args, **options):
            self.count()
            return function(*args, **options)

        return step

    def count(self):
        self.made += 1
        if self.made > self.last:
            self.die()


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def ingest_and_die(last, source, destination, overwrite, environment):
    """Ingest in this process, and be killed after ``last`` changes of the switch; ends as usual where there are fewer.

    Changes are what makes and removes the lease and the journal, renames, and deletions, of which each is torn in two.
    """
    os.environ.update(environment)
    steps = Steps(last, kill)

    def torn(folder):
        for path in sorted(Path(folder).rglob("*")):
            if path.is_file():
                path.unlink()
                break
        steps.count()
        rmtree(folder)

    rmtree, shutil.rmtree = shutil.rmtree, steps.before(torn)
    Path.rename = steps.before(Path.rename)
    storage.write_bytes = steps.before(storage.write_bytes)
    storage.remove = steps.before(storage.remove)
    storage.create_bytes = steps.before(storage.create_bytes)
    ingest(source, destination, overwrite=overwrite)
