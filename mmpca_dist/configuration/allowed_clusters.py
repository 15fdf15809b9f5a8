"""The classes of clusters, and their options, that a configuration may name."""

from __future__ import annotations

import ipaddress
import os
import re
from typing import Any
from urllib.parse import urlsplit

from mmpca_dist.configuration.sections import ComputeConfig
from mmpca_dist.errors import ConfigError, did_you_mean, instead_of
from mmpca_dist.stores.addresses import refuse_secrets

CLUSTERS = "MMPCA_CLUSTERS"
OPTIONS = "MMPCA_CLUSTER_OPTIONS"
"""The environment variables by which a machine allows more, separated by commas."""

CLASSES = frozenset(
    [
        "coiled.Cluster",
        "dask.distributed.LocalCluster",
        "distributed.LocalCluster",
        "dask_kubernetes.operator.KubeCluster",
        *(f"dask_jobqueue.{kind}Cluster" for kind in ("HTCondor", "LSF", "Moab", "OAR", "PBS", "SGE", "SLURM")),
        *(f"dask_cloudprovider.aws.{kind}Cluster" for kind in ("EC2", "ECS", "Fargate")),
        "dask_cloudprovider.azure.AzureVMCluster",
        "dask_cloudprovider.digitalocean.DropletCluster",
        "dask_cloudprovider.gcp.GCPCluster",
        "dask_cloudprovider.hetzner.HetznerCluster",
    ]
)
PLAIN_OPTIONS = frozenset(
    ["account", "arm", "cores", "death_timeout", "disk", "fargate_spot", "idle_timeout", "instance_type",
     "interface", "job_cpu", "job_mem", "local_directory", "location", "log_directory", "machine_type", "memory",
     "memory_limit", "n_workers", "name", "namespace", "nanny", "ngpus", "processes", "project", "protocol", "queue",
     "quiet", "region", "resource_spec", "resource_timeout", "resources", "scheduler_cpu", "scheduler_instance_type",
     "scheduler_mem", "scheduler_memory", "scheduler_vm_types", "server_type", "shutdown_on_close", "size",
     "spot_policy", "threads_per_worker", "use_best_zone", "vm_size", "walltime", "worker_cpu", "worker_gpu",
     "worker_instance_type", "worker_mem", "worker_memory", "worker_vm_types", "workspace", "zone"]
)  # fmt: skip
"""Options of how much and where. Others start code (preload, prologues, images, commands, arguments, environments)."""
PLAIN_TEXT = re.compile(r"[\d.]+ [A-Za-z]+|[\w./][\w./:@,+=-]*|")
"""Job scripts and command lines hold these texts, where a space or a line's end would begin something else."""
NEAR_NAME = re.compile(r"[A-Za-z][\w-]*|.*\.(local|localhost|internal|lan|svc)", re.I | re.ASCII)
"""Names that only this network resolves: without a dot (numbers are addresses), or of reserved domains.

Some other letters stand for a dot: the resolver takes ``a\u2488com`` for ``a1.com``."""


def refuse_strange_cluster(compute: ComputeConfig) -> None:
    """Raise ConfigError for a cluster that the machine does not allow, without importing or reaching anything."""
    if compute.cluster in ("threads", "local"):
        return
    if "://" in compute.cluster:
        _refuse_strange_address(compute.cluster)
        return
    if compute.cluster not in CLASSES | _allowed(CLUSTERS):
        hint = did_you_mean(compute.cluster, CLASSES)
        raise ConfigError(
            f"compute.cluster: {compute.cluster} is none of the classes that a configuration may name: "
            f"{', '.join(sorted(CLASSES))}.{hint} If it is to be, set {CLUSTERS}={compute.cluster} in the environment."
        )
    approved = _allowed(OPTIONS)
    for name, value in compute.options.items():
        if name in approved:
            continue
        if name not in PLAIN_OPTIONS:
            raise ConfigError(
                f"compute.options.{name} may run code, which configurations may not; it belongs into Dask's own "
                f"configuration of this machine. If it is to be allowed, set {OPTIONS}={name} in the environment."
            )
        _refuse_strange_text(name, value)


def _refuse_strange_text(name: str, value: Any) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            _refuse_strange_text(name, key)
            _refuse_strange_text(name, inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            _refuse_strange_text(name, inner)
    elif not (isinstance(value, int | float | None) or (isinstance(value, str) and PLAIN_TEXT.fullmatch(value))):
        raise ConfigError(
            f"compute.options.{name} is {str(value)[:60]!r}, and may hold letters, digits and ./:@,+=- only. If other "
            f"texts are to be allowed, set {OPTIONS}={name} in the environment."
        )


def _refuse_strange_address(address: str) -> None:
    refuse_secrets(address)
    strange = f"compute.cluster is {address!r}, which is no address. Write tcp://HOST:PORT."
    with instead_of(ValueError, ConfigError, strange):
        host = urlsplit(address).hostname or ""
    if not _is_near(host) and not {address, host} & _allowed(CLUSTERS):
        raise ConfigError(
            f"compute.cluster: {address} is beyond this network, and what answers there can run code here. If it is "
            f"to be allowed, set {CLUSTERS}={address} in the environment."
        )


def _is_near(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return NEAR_NAME.fullmatch(host) is not None
    return address.is_private or address.is_loopback or address.is_link_local


def _allowed(variable: str) -> set[str]:
    return {name.strip() for name in os.environ.get(variable, "").split(",") if name.strip()}
