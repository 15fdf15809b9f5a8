"""A Dask scheduler and workers as plain processes, which tests may kill."""

import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import psutil

DASK = [sys.executable, "-m", "dask.__main__"]


class DaskProcesses:
    """A scheduler and two workers, each under a nanny that starts it again when it dies.

    Nannies may end when their scheduler does; whoever runs them (systemd, Kubernetes) starts them again, as a thread
    does here.
    """

    def __init__(self, folder, port):
        self.folder, self.address = folder, f"tcp://127.0.0.1:{port}"
        self._scheduler = [
            *DASK, "scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard",
        ]  # fmt: skip
        self._worker = [
            *DASK, "worker", self.address, "--nworkers", "2", "--nthreads", "1", "--no-dashboard",
            "--local-directory", str(folder), "--death-timeout", "600",
        ]  # fmt: skip
        self.scheduler = self.nannies = None
        self._stopping = threading.Event()
        self._watch = threading.Thread(target=self._restart_nannies, daemon=True)

    def start(self):
        self.scheduler = subprocess.Popen(self._scheduler, stderr=subprocess.DEVNULL)
        self.nannies = subprocess.Popen(self._worker, stderr=subprocess.DEVNULL)
        self._watch.start()

    def _restart_nannies(self):
        while not self._stopping.wait(0.5):
            if self.nannies.poll() is not None:
                self.nannies = subprocess.Popen(self._worker, stderr=subprocess.DEVNULL)

    def restart_scheduler(self):
        """Kill the scheduler, and start another one at the same address; workers find it again."""
        self.scheduler.kill()
        self.scheduler.wait()
        self.scheduler = subprocess.Popen(self._scheduler, stderr=subprocess.DEVNULL)

    def workers(self):
        """Return the processes that do the work, not those that watch them."""
        try:
            children = psutil.Process(self.nannies.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return [child for child in children if "spawn_main" in " ".join(_command(child))]

    def kill_worker(self, how, number):
        """Send a signal to one of the workers there are."""
        deadline = time.monotonic() + 60
        while not (found := self.workers()):
            assert time.monotonic() < deadline, "no worker came back"
            time.sleep(0.05)
        found[number % len(found)].send_signal(how)

    def stop(self):
        self._stopping.set()
        self._watch.join()
        for process in (self.nannies, self.scheduler):
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
            process.send_signal(signal.SIGKILL)
            process.wait()


def _command(process):
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@contextmanager
def dask_processes(folder, port):
    """Yield a scheduler and two workers."""
    processes = DaskProcesses(folder, port)
    processes.start()
    try:
        yield processes
    finally:
        processes.stop()
