"""Where the tasks of a run go: threads of this process, local processes, or an existing cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from mmpca_dist.datasets import storage
from mmpca_dist.errors import InputError
from mmpca_dist.runs.sections import ComputeConfig
from mmpca_dist.statistics.reduction import Cluster, Scheduler, Threads

WAIT_SECONDS = 60
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


@contextmanager
def open_cluster(compute: ComputeConfig) -> Iterator[str | None]:
    """Yield the address of the scheduler, of a cluster that lives as long as the context; None for threads."""
    if compute.cluster != "local":
        yield None if compute.cluster == "threads" else compute.cluster
        return
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=compute.workers,
        threads_per_worker=compute.threads_per_worker,
        memory_limit=compute.memory_bytes,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        silence_logs=50,
        preload=[DEAF],
    ) as cluster:
        yield cluster.scheduler_address


@contextmanager
def connect(compute: ComputeConfig, address: str | None) -> Iterator[Scheduler]:
    """Yield the scheduler at ``address``, with at least one worker; threads of this process for None.

    Raises
    ------
    InputError
        Where nothing answers or no worker comes within a minute.
    """
    if address is None:
        yield Threads(compute.n_threads)
        return
    from distributed import Client

    try:
        client = Client(address, timeout=WAIT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise InputError(
            f"No Dask scheduler answers at {address} (compute.cluster). Is it running and reachable from here?"
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=WAIT_SECONDS)
        except TimeoutError as error:
            raise InputError(
                f"The Dask scheduler at {address} has no workers after {WAIT_SECONDS} s. Start some, "
                "or scale the cluster."
            ) from error
        yield Cluster(client, sum(client.nthreads().values()))
