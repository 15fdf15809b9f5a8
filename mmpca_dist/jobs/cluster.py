"""The scheduler of a job: threads, local processes, or a cluster."""

from __future__ import annotations

import ctypes
import functools
import importlib
import logging
import math
import multiprocessing
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import psutil

from mmpca_dist.configuration.allowed_clusters import refuse_strange_cluster
from mmpca_dist.configuration.sections import ComputeConfig
from mmpca_dist.errors import ClusterError, ConfigError, InputError, instead_of
from mmpca_dist.jobs.events import Callback
from mmpca_dist.limits import LIMITS
from mmpca_dist.passes.schedulers import Cluster, Scheduler, Threads, telling_of_lost_connections
from mmpca_dist.passes.worker_code import refuse_asynchronous, refuse_other_code
from mmpca_dist.planning.plan import WORKER_BASE
from mmpca_dist.stores import storage

PAUSED = 0.8
"""Share of its memory limit from which on Dask gives a worker no work: Dask's default."""
IGNORE_INTERRUPT = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
"""First code of local workers: Ctrl-C reaches them too, but their parent ends them."""

LARGE, KEPT = 4 << 20, 32 << 20
"""NumPy asks for huge pages, which are cheap, for so many bytes; and what an arena may keep free at its end."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3


def refuse_private(compute: ComputeConfig, addresses: Iterable[str | None]) -> None:
    """Raise InputError for addresses in the memory of this process where tasks run in others."""
    for address in addresses:
        if address is not None and compute.cluster != "threads" and storage.is_private(address):
            raise InputError(
                f"{address} is in the memory of this process, where the workers of compute.cluster: "
                f"{compute.cluster} cannot see it. Use storage that they share, or compute.cluster: threads."
            )


def refuse_misfit(compute: ComputeConfig) -> None:
    """Raise ConfigError for settings that are not for the kind of cluster that is named."""
    refuse_strange_cluster(compute)
    is_address = "://" in compute.cluster
    if compute.options and (is_address or compute.cluster in ("threads", "local")):
        raise ConfigError(
            f"compute.options are for a class of clusters, and compute.cluster is {compute.cluster!r}. Leave them out, "
            "or name the class."
        )
    if compute.adapt is not None and (is_address or compute.cluster == "threads" or "n_workers" in compute.options):
        raise ConfigError(
            f"compute.adapt is for clusters that the run starts, and compute.cluster is {compute.cluster!r}. Leave it "
            "out, or use local or a class of clusters, without n_workers in compute.options."
        )
    if compute.performance_report and compute.cluster == "threads":
        raise ConfigError(
            "compute.performance_report is for a Dask cluster, and compute.cluster is threads. Leave it out, or use a "
            "cluster such as local."
        )
    least_mib = math.ceil(WORKER_BASE / PAUSED / 2**20)
    if compute.cluster == "local" and compute.memory_bytes < least_mib << 20:
        raise ConfigError(
            f"compute.memory_limit is {compute.memory_limit}, and a worker holds {WORKER_BASE >> 20} MiB before any "
            f"data; Dask gives no work to one that uses {PAUSED:.0%} of its limit. Give {least_mib}MiB at least, or "
            "use compute.cluster: threads."
        )
    tls = [compute.tls_ca_file, compute.tls_cert, compute.tls_key]
    if any(tls) and not (all(tls) and is_address):
        raise ConfigError(
            "compute.tls_ca_file, tls_cert and tls_key go together, and are for the address of a scheduler "
            f"(compute.cluster is {compute.cluster!r})."
        )


def compute_on(client: Any, compute: ComputeConfig) -> ComputeConfig:
    """Return the settings that a plan needs for the workers of a Dask client, once there is one; without, the same."""
    if client is None:
        return compute
    if getattr(client, "status", "") == "closed" or not callable(getattr(client, "scheduler_info", None)):
        raise InputError(f"client must be an open Dask client, such as distributed.Client(cluster) (found {client!r}).")
    refuse_asynchronous(client)
    address = client.scheduler.address
    _await_workers(client, address, 1, compute.wait, lambda note: None)
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    memory = min(worker["memory_limit"] or psutil.virtual_memory().total // len(workers) for worker in workers)
    found = {"workers": len(workers), "threads_per_worker": max(worker["nthreads"] for worker in workers)}
    return compute.model_copy(update={**found, "cluster": address, "memory_limit": int(memory), "options": {}})


@contextmanager
def open_scheduler(
    compute: ComputeConfig, callback: Callback, label: str = "", client: Any = None
) -> Iterator[Scheduler]:
    """Yield the scheduler that tasks go to; call back with the dashboard, and with notes while workers start.

    The names of a cluster's tasks begin with ``label``. A Dask ``client`` takes the place of the settings. A cluster
    that is started here lives as long as the context.
    """
    if client is not None:
        callback.on_cluster(client.dashboard_link)
        refuse_other_code(client, callback.on_note)
        yield Cluster(client, sum(client.nthreads().values()))
        return
    refuse_strange_cluster(compute)  # a stored run may come from somebody else
    if compute.cluster == "threads":
        _return_freed_arrays()
        yield Threads(compute.n_threads)
        return
    start = _start_local if compute.cluster == "local" else _start_class
    with (
        nullcontext(compute.cluster) if "://" in compute.cluster else start(compute) as cluster,
        _connect(compute, cluster, callback.on_note, label) as scheduler,
    ):
        callback.on_cluster(scheduler.client.dashboard_link)
        yield scheduler


@functools.cache
def _return_freed_arrays() -> None:
    """Have arrays of `LARGE` bytes or more leave this process as they are freed; only glibc needs to be told.

    By itself glibc raises that size to that of the largest array that was freed, up to 32 MiB, and keeps twice as much
    free in each arena, of which every thread has its own: 250 MiB were free next to 70 MiB of arrays. Dask tells its
    workers by an environment variable.
    """
    if sys.platform == "linux":
        set_option = getattr(ctypes.CDLL(None), "mallopt", None)  # absent from other C libraries
        if set_option is not None:
            set_option(M_MMAP_THRESHOLD, LARGE)
            set_option(M_TRIM_THRESHOLD, KEPT)


@contextmanager
def performance_report(compute: ComputeConfig, scheduler: Scheduler, uri: str) -> Iterator[None]:
    """Write Dask's report of what a cluster does meanwhile, one HTML page with its scripts, if it is asked for."""
    if not compute.performance_report or not isinstance(scheduler, Cluster):
        yield
        return
    from distributed import performance_report as dask_report

    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "report.html")
        report = dask_report(filename=str(page), mode="inline")
        with scheduler.client.as_current():  # not longer, or else Dask would compute elsewhere what is meant for here
            report.__enter__()
        yield
        with scheduler.client.as_current():
            report.__exit__(None, None, None)
        storage.write_bytes(uri, page.read_bytes())


def _start_local(compute: ComputeConfig) -> Any:
    from distributed import LocalCluster

    main = getattr(sys.modules["__main__"], "__file__", None)
    if multiprocessing.current_process().daemon or (main is not None and not Path(main).exists()):
        why = f"this is a script from {main}, which they run again" if main == "<stdin>" else "this is a worker itself"
        raise ClusterError(f"Worker processes cannot start: {why}. Use a file, or compute.cluster: threads.")
    unguarded = (
        "The worker processes did not start ({reason}). A script must start them within 'if __name__ == \"__main__\":'"
        ", for each of them runs the rest of the script too."
    )
    with instead_of(RuntimeError, ClusterError, unguarded):
        return LocalCluster(
            n_workers=compute.first_workers,
            threads_per_worker=compute.threads_per_worker,
            memory_limit=compute.memory_bytes,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
            preload=[IGNORE_INTERRUPT],
            scheduler_kwargs={"worker_ttl": LIMITS.silent_seconds},
        )


def _start_class(compute: ComputeConfig) -> Any:
    """Return a new cluster of the class that is named, with ``compute.workers`` unless its options say how many."""
    cluster_class, options = _class_of(compute.cluster), ", ".join(compute.options)
    text = f"compute.cluster: {compute.cluster} does not start with the compute.options {options}: {{reason}}."
    with instead_of(Exception, InputError, text), ExitStack() as stack:  # the classes of clusters raise many kinds
        cluster = cluster_class(**compute.options)
        stack.callback(cluster.close)
        if "n_workers" not in compute.options:
            cluster.scale(compute.first_workers)
        stack.pop_all()
    return cluster


def _class_of(name: str) -> Any:
    from distributed.deploy import Cluster as AnyCluster

    module, _, attribute = name.rpartition(".")
    try:
        cluster_class = getattr(importlib.import_module(module), attribute)
        if issubclass(cluster_class, AnyCluster):
            return cluster_class
        reason = "it is another class"
    except (ImportError, AttributeError, TypeError) as error:
        reason = str(error).rstrip(".")
    package = module.partition(".")[0].replace("_", "-")
    raise InputError(
        f"compute.cluster: {name} is no class of Dask clusters that can be imported here ({reason}). Install it, such "
        f"as with 'pip install {package}', or correct the name."
    )


@contextmanager
def _connect(compute: ComputeConfig, cluster: Any, on_note: Callable[[str], None], label: str) -> Iterator[Cluster]:
    """Yield the scheduler of a cluster that was started here, once all workers are there; or at an address, with one.

    Notes say how many workers there are, if some are late or missing.
    """
    from distributed import Client
    from distributed.security import Security

    is_address = isinstance(cluster, str)
    where = cluster if is_address else cluster.scheduler_address
    if compute.adapt is not None and not is_address:
        cluster.adapt(minimum=compute.adapt.minimum, maximum=compute.adapt.maximum)
    silent = f"No Dask scheduler answers at {where} (compute.cluster). Is it running and reachable from here?"
    strange = f"compute.cluster: {where} is no address of a Dask scheduler ({{reason}}). Write tcp://HOST:PORT."
    secured = (
        f"The Dask scheduler at {where} wants certificates: set compute.tls_ca_file, tls_cert and tls_key, or "
        "distributed.comm.tls in Dask's own configuration."
    )
    with (
        instead_of((TypeError, ValueError), InputError, strange),
        instead_of(TypeError if where.startswith("tls://") else (), InputError, secured),
        instead_of((OSError, TimeoutError), ClusterError, silent),
    ):
        security = None  # Dask's own configuration may have some
        if compute.tls_ca_file:
            security = Security(
                tls_ca_file=compute.tls_ca_file, tls_client_cert=compute.tls_cert, tls_client_key=compute.tls_key,
                require_encryption=True,
            )  # fmt: skip
        client = Client(cluster, timeout=compute.wait, set_as_default=False, security=security)
    log, nothing = logging.getLogger("distributed.client"), logging.Filter("no logger")
    try:
        client.subscribe_topic("scheduler", functools.partial(_tell_of_silent_workers, on_note))
        if is_address:  # where the cluster is ours, it ends with us, and its scheduler would have nobody to tell
            client.subscribe_topic("all", functools.partial(_tell_of_lost_workers, on_note))
        with telling_of_lost_connections():
            _await_workers(client, where, 1 if is_address else compute.first_workers, compute.wait, on_note)
            refuse_other_code(client, on_note)
            n_threads = sum(client.nthreads().values())
        yield Cluster(client, n_threads, label=label)
    except ClusterError:
        log.addFilter(nothing)  # a client logs a traceback as it is closed, where its scheduler is gone
        raise
    finally:
        client.close()
        log.removeFilter(nothing)


def _tell_of_silent_workers(on_note: Callable[[str], None], event: tuple[float, Any]) -> None:
    """Note which workers a scheduler gives up, as it hears nothing of a stopped process or a lost machine."""
    message = event[1]
    if isinstance(message, dict) and message.get("action") == "worker-ttl-timed-out":
        workers = ", ".join(message["workers"])
        on_note(
            f"Nothing has been heard for {message['ttl']:g} s of {workers}: other workers take over their tasks, or "
            "they themselves once they are started again."
        )


def _tell_of_lost_workers(on_note: Callable[[str], None], event: tuple[float, Any]) -> None:
    """Note which worker went without a word, and what others do again."""
    message = event[1]
    if isinstance(message, dict) and message.get("action") == "remove-worker" and not message["expected"]:
        again = len(message["processing-tasks"]) + len(message["lost-computed-tasks"])
        on_note(f"The worker {message['worker']} was lost: other workers take over its {again:,} tasks.")


def _await_workers(client: Any, where: str, expected: int, seconds: float, on_note: Callable[[str], None]) -> None:
    """Wait for workers; go on with fewer than expected, but not with none."""
    silent = min(LIMITS.awaited_seconds, seconds)
    try:
        client.wait_for_workers(expected, timeout=silent)
        return
    except TimeoutError:
        n_workers = len(client.nthreads())
        on_note(f"Waiting for workers at {where}: {n_workers} of {expected} there; up to {seconds:g} s (compute.wait).")
    try:
        client.wait_for_workers(expected, timeout=max(seconds - silent, 0.01))
    except TimeoutError as error:
        n_workers = len(client.nthreads())
        if n_workers == 0:
            raise ClusterError(
                f"The Dask scheduler at {where} has no workers after {seconds:g} s (compute.wait). Start some, or "
                "scale the cluster; see its logs where they do not come up."
            ) from error
        on_note(f"{n_workers} of {expected} workers are there after {seconds:g} s; going on with these.")
