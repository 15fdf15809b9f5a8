"""The scheduler of a job: threads, local processes, or a cluster."""

from __future__ import annotations

import importlib
import logging
import math
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from mmpca_dist.configuration.allowed_clusters import refuse_strange_cluster
from mmpca_dist.configuration.sections import ComputeConfig
from mmpca_dist.datasets.stores import storage
from mmpca_dist.errors import ClusterError, ConfigError, InputError
from mmpca_dist.jobs.events import Callback
from mmpca_dist.limits import LIMITS
from mmpca_dist.planning.plan import WORKER_BASE
from mmpca_dist.statistics.schedulers import Cluster, Scheduler, Threads, telling_of_lost_connections

PAUSED = 0.8
"""Share of its memory limit from which on Dask gives a worker no work: its default."""
MOST_THREADS = 64
"""On a computer with few processors; with more than 16, four each."""
DEAF = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
"""What workers of this computer run first: Ctrl-C reaches them too, but it is the parent that ends them."""


def refuse_private(compute: ComputeConfig, addresses: Iterable[str | None]) -> None:
    """Refuse addresses in the memory of this process where tasks run in others.

    Raises
    ------
    InputError
    """
    for address in addresses:
        if address is not None and compute.cluster != "threads" and storage.is_private(address):
            raise InputError(
                f"{address} is in the memory of this process, where the workers of compute.cluster: "
                f"{compute.cluster} cannot see it. Use storage that they share, or compute.cluster: threads."
            )


def refuse_misfit(compute: ComputeConfig) -> None:
    """Refuse settings that are not for the kind of cluster that is named.

    Raises
    ------
    ConfigError
    """
    refuse_strange_cluster(compute)
    is_address = "://" in compute.cluster
    if compute.options and (is_address or compute.cluster in ("threads", "local")):
        raise ConfigError(
            f"compute.options are for a class of clusters, and compute.cluster is {compute.cluster!r}. Leave them out, "
            "or name the class."
        )
    least = math.ceil(WORKER_BASE / PAUSED / 2**20)
    if compute.cluster == "local" and compute.memory_bytes < least << 20:
        raise ConfigError(
            f"compute.memory_limit is {compute.memory_limit}, and a worker holds {WORKER_BASE >> 20} MiB before any "
            f"data; Dask gives no work to one that uses {PAUSED:.0%} of its limit. Give {least}MiB at least, or use "
            "compute.cluster: threads."
        )
    most = max(MOST_THREADS, 4 * (os.cpu_count() or 1))
    n_threads = max(compute.n_threads, *(size for size in compute.options.values() if type(size) is int), 0)
    if (compute.cluster in ("threads", "local") or compute.cluster.endswith(".LocalCluster")) and n_threads > most:
        raise ConfigError(
            f"compute.cluster: {compute.cluster} would run {n_threads:,} threads (compute.workers x "
            f"compute.threads_per_worker, or compute.options), and {most} is the most on this computer. Lower them, or "
            "name a cluster of several."
        )
    tls = [compute.tls_ca_file, compute.tls_cert, compute.tls_key]
    if any(tls) and not (all(tls) and is_address):
        raise ConfigError(
            "compute.tls_ca_file, tls_cert and tls_key go together, and are for the address of a scheduler "
            f"(compute.cluster is {compute.cluster!r})."
        )


@contextmanager
def open_cluster(compute: ComputeConfig) -> Iterator[Any]:
    """Yield the cluster that tasks go to, as `connect` takes it; one that is started here lives as long as the context.

    Raises
    ------
    InputError
        Where there is no such class of clusters, or it does not start with these options.
    """
    refuse_strange_cluster(compute)  # also of a run that somebody else has left
    if compute.cluster == "threads" or "://" in compute.cluster:
        yield None if compute.cluster == "threads" else compute.cluster
        return
    if compute.cluster == "local":
        made: Any = _local(compute)
    else:
        made = _made(compute)
    with made as cluster:
        yield cluster


def _local(compute: ComputeConfig) -> Any:
    from distributed import LocalCluster

    try:
        return LocalCluster(
            n_workers=compute.workers,
            threads_per_worker=compute.threads_per_worker,
            memory_limit=compute.memory_bytes,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
            preload=[DEAF],
        )
    except RuntimeError as error:
        raise ClusterError(
            f"The worker processes did not start ({str(error).rstrip('.')}). A script must start them within "
            "'if __name__ == \"__main__\":', for each of them runs the rest of the script too."
        ) from error


def _made(compute: ComputeConfig) -> Any:
    """Return a new cluster of the class that is named, of as many workers as are wanted."""
    cluster_class, cluster = _class_of(compute.cluster), None
    try:
        cluster = cluster_class(**compute.options)
        if "n_workers" not in compute.options:
            cluster.scale(compute.workers)
    except Exception as error:  # whatever the many classes of clusters raise
        if cluster is not None:
            cluster.close()
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise InputError(
            f"compute.cluster: {compute.cluster} does not start with the compute.options {', '.join(compute.options)}: "
            f"{reason}."
        ) from error
    return cluster


def _class_of(name: str) -> Any:
    from distributed.deploy import Cluster as AnyCluster

    module, _, attribute = name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        package = module.partition(".")[0].replace("_", "-")
        raise InputError(
            f"compute.cluster: {name} cannot be imported here ({error}). Install it, such as with 'pip install "
            f"{package}', or correct the name."
        ) from error
    except AttributeError as error:
        raise InputError(f"compute.cluster: there is no {attribute} in {module}. Correct the name.") from error
    if not (isinstance(found, type) and issubclass(found, AnyCluster)):
        raise InputError(
            f"compute.cluster: {name} is no class of Dask clusters. Name one, such as dask_jobqueue.SLURMCluster, or "
            "use threads, local or the address of a scheduler."
        )
    return found


@contextmanager
def connect(compute: ComputeConfig, cluster: Any, on_note: Callable[[str], None] | None = None) -> Iterator[Scheduler]:
    """Yield the scheduler of a cluster or at an address; threads of this process for None.

    Of a cluster that was started here all workers are waited for, at an address the first.

    Parameters
    ----------
    on_note : callable, optional
        Told what is waited for, where that takes long, and how many workers there are where some are missing.

    Raises
    ------
    InputError
        Where nothing answers, or no worker comes in ``compute.wait`` seconds.
    """
    if cluster is None:
        yield Threads(compute.n_threads)
        return
    from distributed import Client

    given = isinstance(cluster, str)
    where = cluster if given else cluster.scheduler_address
    try:
        security = {"security": _security(compute)} if given else {}
        client = Client(cluster, timeout=compute.wait, set_as_default=False, **security)
    except (OSError, TimeoutError) as error:
        raise InputError(
            f"No Dask scheduler answers at {where} (compute.cluster). Is it running and reachable from here?"
        ) from error
    except (TypeError, ValueError) as error:
        if not where.startswith("tls://") or isinstance(error, ValueError):
            raise InputError(
                f"compute.cluster: {where} is no address of a Dask scheduler ({error}). Write tcp://HOST:PORT."
            ) from error
        raise InputError(
            f"The Dask scheduler at {where} wants certificates: set compute.tls_ca_file, tls_cert and tls_key, or "
            "distributed.comm.tls in Dask's own configuration."
        ) from error
    with _closed_in_the_end(client):
        wanted = 1 if given else compute.workers
        with telling_of_lost_connections():
            _await_workers(client, where, wanted, compute.wait, on_note or (lambda message: None))
            n_threads = sum(client.nthreads().values())
        yield Cluster(client, n_threads)


@contextmanager
def _closed_in_the_end(client: Any) -> Iterator[None]:
    """Close a client, without the traceback that it would log where its scheduler is gone."""
    log = logging.getLogger("distributed.client")
    before = log.level
    try:
        yield
    except ClusterError:
        log.setLevel(logging.CRITICAL + 1)
        raise
    finally:
        client.close()
        log.setLevel(before)


def _await_workers(client: Any, where: str, wanted: int, seconds: float, on_note: Callable[[str], None]) -> None:
    """Wait for workers; go on with fewer than wanted, but not with none."""
    patient = min(LIMITS.awaited_seconds, seconds)
    try:
        client.wait_for_workers(wanted, timeout=patient)
        return
    except TimeoutError:
        there = _n_workers(client)
        on_note(f"Waiting for workers at {where}: {there} of {wanted} there; up to {seconds:g} s (compute.wait).")
    try:
        client.wait_for_workers(wanted, timeout=max(seconds - patient, 0.01))
    except TimeoutError as error:
        there = _n_workers(client)
        if there == 0:
            raise InputError(
                f"The Dask scheduler at {where} has no workers after {seconds:g} s (compute.wait). Start some, or "
                "scale the cluster; see its logs where they do not come up."
            ) from error
        on_note(f"{there} of {wanted} workers are there after {seconds:g} s; going on with these.")


def _n_workers(client: Any) -> int:
    return len(client.nthreads())


def _security(compute: ComputeConfig) -> Any:
    """Return the certificates of a scheduler that uses TLS; None for those of Dask's own configuration, if any."""
    if not compute.tls_ca_file:
        return None
    from distributed.security import Security

    return Security(
        tls_ca_file=compute.tls_ca_file,
        tls_client_cert=compute.tls_cert,
        tls_client_key=compute.tls_key,
        require_encryption=True,
    )


def tell_dashboard(scheduler: Scheduler, callback: Callback) -> None:
    """Tell where the Dask dashboard of a cluster is; threads have none."""
    if isinstance(scheduler, Cluster):
        callback.on_cluster(scheduler.client.dashboard_link)
