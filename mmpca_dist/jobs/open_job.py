"""Open a job: data set, folder, lease, cluster; refuse at once what cannot run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import psutil

from mmpca_dist.configuration.data_location import located, variables_named
from mmpca_dist.configuration.schema import Purpose, RunConfig
from mmpca_dist.errors import AccessError, ConfigError, InputError, MmpcaError
from mmpca_dist.evaluation.published import published_cells
from mmpca_dist.ingest.scan import checked
from mmpca_dist.jobs.cluster import open_scheduler, refuse_misfit, refuse_private
from mmpca_dist.jobs.configured_splits import addresses_of_parts, digest_of_parts
from mmpca_dist.jobs.directory import Identity, RunDirectory, folder_of
from mmpca_dist.jobs.events import Callback, Callbacks
from mmpca_dist.jobs.job import Job
from mmpca_dist.jobs.journal import Journal
from mmpca_dist.planning.plan import PROCESS_BASE
from mmpca_dist.stores import storage
from mmpca_dist.stores.lease import held
from mmpca_dist.stores.overlaps import refuse_inside
from mmpca_dist.tables import memory_limits
from mmpca_dist.tables.changes import Watch
from mmpca_dist.tables.dataset import Dataset
from mmpca_dist.tables.mapped_rows import mapped
from mmpca_dist.tables.readers.formats import open_dataset


def open_run_dataset(config: RunConfig, purpose: Purpose = "run", fetch: bool = True) -> Dataset:
    """Open the data set of a run, and check what can be checked without reading rows.

    The column of an evaluation's parts is no feature. Without ``fetch``, a file that must be downloaded first is an
    error.
    """
    with variables_named(config.dataset):
        return _open_dataset(config, purpose, fetch)


def _open_dataset(config: RunConfig, purpose: Purpose, fetch: bool) -> Dataset:
    section, column, compute = config.dataset, config.evaluation.column, config.compute
    beside = {}
    if purpose == "evaluation":
        _refuse_nothing_published(config)
        if column is not None and not column.endswith(".npy"):
            beside = {column: "evaluation.column"}
    refuse_misfit(compute)
    refuse_private(compute, [section.uri, section.label, config.output])
    uri, options = located(section, fetch), section.model_dump(include={"features", "label", "missing_chunks"})

    def opened(more: Sequence[str]) -> Dataset:
        return open_dataset(uri, drop=[*section.drop, *more], beside=beside, **options)

    with memory_limits.within(compute.memory_bytes // compute.threads_per_worker, "compute.memory_limit"):
        dataset = mapped(checked(uri, opened, section.drop), section.row_maps)
    if not config.chooses and config.largest > dataset.n_features:
        raise InputError(
            f"n_components={config.largest} is more than the {dataset.n_features} features of {dataset.uri}. Take as "
            "many at most, or n_components: auto."
        )
    stored = dataset.stored
    shape = section.image_shape or stored.image_shape
    if shape is not None and shape[0] * shape[1] != stored.n_features:
        raise InputError(
            f"dataset.image_shape is {shape[0]} x {shape[1]}, but the rows have {stored.n_features} features. Set it "
            "to the height and width of the images, or leave it out."
        )
    if dataset.n_rows < 2:
        raise InputError(f"{dataset.uri} has {dataset.n_rows} row(s); there must be at least two.")
    return dataset


def _refuse_nothing_published(config: RunConfig) -> None:
    """Refuse published figures of which none could stand beside one of the evaluation."""
    published, classifiers = config.evaluation.published, [one.label for one in config.evaluation.classifiers]
    if published is None:
        return
    cells = published_cells(published)
    if not any(
        cell.method in config.labels and cell.n_components in config.sizes and cell.classifier in classifiers
        for cell in cells
    ):
        methods = ", ".join(dict.fromkeys(cell.method for cell in cells))
        sizes = " and ".join(map(str, sorted({cell.n_components for cell in cells})))
        names = ", ".join(dict.fromkeys(cell.classifier for cell in cells))
        raise ConfigError(
            f"evaluation.published is {published!r}, and none of its figures is of one of the methods with one "
            f"of n_components under a classifier of such a label: there are {methods} with {sizes} components under "
            f"{names}. Take some of them, or leave it out."
        )


@contextmanager
def open_job(config: RunConfig, callback: Callback, purpose: Purpose = "run") -> Iterator[Job]:
    """Open everything a run needs, and claim the output folder.

    Raises InputError or OutputError, before any work, for data, a cluster or an output that cannot be used.
    """
    dataset, run = open_run_dataset(config, purpose), folder_of(config, purpose)
    watched = [*dataset.addresses, *addresses_of_parts(config, dataset, purpose)]
    if not run.exists:
        refuse_inside(config.output, (dataset.uri,))
    watch = Watch.of(watched)
    identity = Identity(dataset.fingerprint(), purpose, digest_of_parts(config, dataset, purpose))
    run.check(config, identity)
    with run.tidied(), held(run.uri, callback.on_note) as lease:
        begun_before = run.exists
        key = run.begin(config, identity)
        if begun_before:
            run.remove_partials()  # of a process that was killed as it wrote
        try:
            journal = Journal(run.uri, key)
            callbacks = Callbacks([callback, journal])
            with journal.kept(), open_scheduler(config.compute, callbacks) as scheduler:
                job = Job.of(config, dataset, run, key, scheduler, callbacks, lease, purpose=purpose)
                job.watch, job.watched = watch, watched
                # What this process holds beyond what the plan takes for granted: a notebook's other data, say.
                job.held = max(0, psutil.Process().memory_info().rss - PROCESS_BASE - dataset.resident_bytes)
                for note in config.notes:
                    callbacks.on_note(note)
                yield job
                if not lease.is_lost:
                    storage.remove(run.path("scratch"))
        except MmpcaError as error:
            # A resumed run keeps what it had, and the folder may be another run's by now.
            if not begun_before and not lease.is_lost:
                _discard_refused(run, error, callback.on_note)
            raise


def _discard_refused(run: RunDirectory, error: MmpcaError, on_note: Callable[[str], None]) -> None:
    """Delete the output of refused input, unless a stage is finished; keep all after an I/O failure."""
    with suppress(MmpcaError):  # if that fails too, report the first error
        may_go_on = isinstance(error, AccessError)
        if may_go_on and (run.has_results or run.has_checkpoints):
            on_note(f"What is done is kept in {run.uri}, as the run may go on: give the same command again.")
        elif not may_go_on and run.has_results:
            on_note(
                f"The stages that are done are kept in {run.uri}. A run with other rows or settings needs another "
                "output (--output DIR)."
            )
        else:
            run.discard()
            on_note(f"Removed what this run had begun in {run.uri}, as it cannot go on.")
