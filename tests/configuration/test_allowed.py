"""Clusters that a stranger's configuration may name: nothing is imported, reached or run for any other."""

import re
import sys

import pytest
from helpers.tables import make_config

from mmpca_dist.configuration import allowed_clusters
from mmpca_dist.configuration.allowed_clusters import refuse_strange_cluster
from mmpca_dist.configuration.sections import ComputeConfig
from mmpca_dist.errors import ConfigError, MmpcaError
from mmpca_dist.jobs import cluster
from mmpca_dist.jobs.events import Callback
from mmpca_dist.runs.fit import preview, run

SLURM = "dask_jobqueue.SLURMCluster"


def refuse(name, /, **options):
    refuse_strange_cluster(ComputeConfig(cluster=name, options=options))


def assert_refused(words, name, /, **options):
    """Assert that these words refuse a cluster; a failure names it and its options."""
    try:
        refuse(name, **options)
    except ConfigError as error:
        assert re.search(words, str(error)), (name, options)
    else:
        pytest.fail(f"{name} with {options} passes")


@pytest.fixture(autouse=True)
def nothing_else(monkeypatch):
    monkeypatch.delenv(allowed_clusters.CLUSTERS, raising=False)
    monkeypatch.delenv(allowed_clusters.OPTIONS, raising=False)


@pytest.mark.parametrize("action", [run, preview])
def test_no_class_of_another_name_is_imported(action, tmp_path, monkeypatch):
    (tmp_path / "planted.py").write_text("raise SystemExit('was run')")
    monkeypatch.syspath_prepend(tmp_path)
    config = make_config(tmp_path / "out", compute={"cluster": "planted.Cluster"})
    with pytest.raises(ConfigError, match=r"none of the classes .* set MMPCA_CLUSTERS=planted\.Cluster"):
        action(config)
    with pytest.raises(ConfigError, match="none of the classes"), cluster.open_scheduler(config.compute, Callback()):
        pass
    assert "planted" not in sys.modules and not (tmp_path / "out").exists()


def test_classes_that_the_machine_allows(tmp_path, monkeypatch):
    (tmp_path / "planted2.py").write_text("raise SystemExit('was run')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("MMPCA_CLUSTERS", "other.Cluster, planted2.Cluster")
    with (
        pytest.raises(SystemExit, match="was run"),
        cluster.open_scheduler(ComputeConfig(cluster="planted2.Cluster"), Callback()),
    ):
        pass


RUNNING = (
    "preload preload_nanny job_script_prologue job_extra_directives env_extra python shebang worker_extra_args extra "
    "worker_command scheduler_options worker_options scheduler_cls worker_class job_cls config env environ image "
    "docker_image container software custom_cluster_spec bootstrap extra_bootstrap security plugins scheduler_kwargs"
)


def test_options_that_run_code_are_refused(monkeypatch):
    for name in allowed_clusters.CLASSES:
        for option in RUNNING.split():
            monkeypatch.delenv(allowed_clusters.OPTIONS, raising=False)
            words = rf"options\.{option} may run code, .* set MMPCA_CLUSTER_OPTIONS={option} "
            assert_refused(words, name, **{option: "x"})
            monkeypatch.setenv(allowed_clusters.OPTIONS, f"other, {option}")
            refuse(name, **{option: "x"})


def test_texts_that_end_up_in_a_shell_are_plain(monkeypatch):
    texts = ["long\nrm -rf ~", "long; rm", "$(rm)", "`rm`", "a b", "--wrap=rm", "a|b", "a&b", "a>b", "'a'", '"a"',
             "a\\b", {"requests": {"memory": "2Gi\nx"}}, {"a b": 1}, ["a", "b c"], "2 GB x"]  # fmt: skip
    for text in texts:
        assert_refused(r"options\.queue is .* letters, digits", SLURM, queue=text)
    monkeypatch.setenv("MMPCA_CLUSTER_OPTIONS", "queue")
    for text in texts:
        refuse(SLURM, queue=text)


def test_what_says_how_much_and_where_passes():
    for name, options in (
        (SLURM, {"cores": 1, "memory": "4 GiB", "walltime": "02:00:00", "queue": "normal"}),
        ("dask_jobqueue.PBSCluster", {"resource_spec": "select=1:ncpus=24:mem=100GB", "local_directory": "/scratch/x"}),
        ("dask_kubernetes.operator.KubeCluster", {"name": "mmpca", "resources": {"limits": {"memory": "2Gi"}}}),
        ("coiled.Cluster", {"region": "eu-central-1", "worker_memory": "8GiB", "worker_vm_types": ["m6i.large"]}),
        ("dask_cloudprovider.aws.FargateCluster", {"n_workers": 4, "worker_cpu": 1024, "name": ""}),
    ):
        refuse(name, **options)


def test_schedulers_beyond_this_network_are_refused(monkeypatch):
    """Whoever answers sends pickles, which run code."""
    for address in ("tcp://203.0.114.5:8786", "tcp://scheduler.example.org:8786", "tls://8.8.8.8:1",
                    "tcp://134744072:8786", "tcp://0x08080808:8786", "tcp://[2a00:1450::1]:8786", "ws://evil.io/x",
                    "tcp://me.local.evil.io:1", "tcp://:1",
                    "tcp://a\u2488com:8786", "tcp://x.\u017fvc:8786"):  # fmt: skip
        monkeypatch.delenv(allowed_clusters.CLUSTERS, raising=False)
        assert_refused("beyond this network", address)
        monkeypatch.setenv(allowed_clusters.CLUSTERS, address)
        refuse(address)


def test_schedulers_of_this_network_pass():
    for address in ("tcp://127.0.0.1:8786", "tcp://localhost:1", "tcp://scheduler:8786", "tls://10.1.2.3:1",
                    "tcp://[::1]:1", "tcp://192.168.0.4:1", "tcp://dask.default.svc:1", "tcp://x.svc.cluster.local:1",
                    "tcp://node1.internal:1"):  # fmt: skip
        refuse(address)


def test_addresses_carry_no_credentials():
    for address in ("tcp://user:hunter2@scheduler:8786", "tcp://scheduler:1?token=hunter2"):
        with pytest.raises(MmpcaError, match="carries credentials") as caught:
            refuse(address)
        assert "hunter2" not in str(caught.value)
