"""Reading local chunks past Zarr, against Zarr's own pipelines and zarrs': ``python benchmarks/reading.py``.

``PlainChunks`` (``plain_chunks.py``) is worth its lines only while it reads at least twice as fast as the best of
them. N x 256 float32 rows are stored in five layouts, the last two of them compressed, which ``PlainChunks`` does not
read. Every case reads all rows into reused buffers, a thread a core, in a process of its own, with the file in the page
cache. Ratios within one run are what counts.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import psutil

D, CHUNK, SHARD = 256, 8_192, 65_536
THREADS = psutil.cpu_count(logical=True) or 2
LAYOUTS = (
    "chunks of 64 MiB",
    "the same with checksums",
    "shards of 64 MiB, chunks of 8 MiB with checksums",
    "chunks of 8 MiB, zstd",
    "shards of 64 MiB, chunks of 8 MiB, zstd",
)
ZARR = "zarr.core.codec_pipeline."
PIPELINES = {
    "zarr": f"{ZARR}BatchedCodecPipeline",
    "zarr, fused": f"{ZARR}FusedCodecPipeline",  # since Zarr 3.4
    "zarrs": "zarrs.ZarrsCodecPipeline",  # pip install zarrs
}
DIRECT = "this library"


def make_stores(folder: Path, rows: int) -> None:
    """Write one array for each layout."""
    import zarr
    from zarr.codecs import Crc32cCodec, ZstdCodec

    options: list[dict[str, Any]] = [
        {"chunks": (SHARD, D), "compressors": None},
        {"chunks": (SHARD, D), "compressors": [Crc32cCodec()]},
        {"chunks": (CHUNK, D), "shards": (SHARD, D), "compressors": [Crc32cCodec()]},
        {"chunks": (CHUNK, D), "compressors": [ZstdCodec()]},
        {"chunks": (CHUNK, D), "shards": (SHARD, D), "compressors": [ZstdCodec()]},
    ]
    for number, layout in enumerate(options):
        if (folder / str(number) / "zarr.json").exists():
            continue
        array = zarr.create_array(folder / str(number), shape=(rows, D), dtype="f4", overwrite=True, **layout)
        rng = np.random.default_rng(1)
        for start in range(0, rows, SHARD):
            values = rng.standard_normal((min(SHARD, rows - start), D), dtype=np.float32)
            array[start : start + SHARD] = np.round(values, 1) if number > 2 else values  # which compresses


def read_all(read: Callable[[int, int, Any], Any], rows: int, buffers: list[Any]) -> None:
    """Read all rows by stretches of a shard, a thread for each buffer."""

    def work(first: int) -> None:
        for start in range(first * SHARD, rows, THREADS * SHARD):
            stop = min(start + SHARD, rows)
            read(start, stop, buffers[first][: stop - start])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def measure(case: str, path: Path) -> float:
    """Return the seconds that a case takes in this process, its buffers touched once before."""
    import zarr
    from zarr.core.buffer.cpu import NDBuffer

    from mmpca_dist.tables.readers.plain_chunks import PlainChunks

    if case in PIPELINES:
        zarr.config.set({"codec_pipeline.path": PIPELINES[case]})
    array = zarr.open_array(path, mode="r")

    def by_zarr(start: int, stop: int, out: Any) -> None:
        array.get_basic_selection((slice(start, stop), slice(None)), out=NDBuffer(out))

    direct = PlainChunks.of(array, path)
    read = direct.read if direct is not None and case == DIRECT else by_zarr
    buffers = [np.ones((SHARD, D), np.float32) for _ in range(THREADS)]
    read_all(read, min(THREADS * SHARD, array.shape[0]), buffers)  # what happens once is not what a pass takes
    begin = time.perf_counter()
    read_all(read, array.shape[0], buffers)
    return time.perf_counter() - begin


def available() -> list[str]:
    """Return the cases that the installed packages offer."""
    import zarr.core.codec_pipeline as pipelines

    absent = {"zarr, fused": not hasattr(pipelines, "FusedCodecPipeline"), "zarrs": find_spec("zarrs") is None}
    return [DIRECT, *(name for name in PIPELINES if not absent.get(name))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=Path("benchmarks/results/reading"))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--case")
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measure(options.case, options.folder)))
        return
    folder = options.folder / str(options.rows)
    make_stores(folder, options.rows)
    gib = options.rows * D * 4 / 2**30
    print(f"{platform.machine()}, {THREADS} cores, Python {platform.python_version()}, zarr {version('zarr')}")
    print(f"\n{options.rows:,} x {D} float32; median of {options.repeats}\n")
    print("| layout | reader | GiB/s | times the first one's seconds |\n| --- | --- | --- | --- |")
    for number, layout in enumerate(LAYOUTS):
        reference = None
        for case in available()[number > 2 :]:
            command = [sys.executable, __file__, "--case", case, "--folder", str(folder / str(number))]
            runs = [float(json.loads(subprocess.check_output(command))) for _ in range(options.repeats)]
            seconds = float(np.median(runs))
            reference = reference or seconds
            print(f"| {layout} | {case} | {gib / seconds:.2f} | {seconds / reference:.1f} |", flush=True)


if __name__ == "__main__":
    main()
