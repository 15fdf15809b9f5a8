"""Sizes that trade memory for speed, and pauses: one object, so that tests can use smaller ones.

Sizes never depend on the machine: results would.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(eq=False)
class Limits:
    """Sizes in bytes, rows or counts, and times in seconds. Defaults were chosen by measurement, or keep a promise."""

    unit_bytes: int = 64 << 20
    """Chunks are read in units of up to this many bytes. Smaller units cost scheduling and per-call overhead (an
    object-store request, a task), larger ones memory; 64 MiB reads at full speed."""
    smallest_unit_bytes: int = 8 << 20
    """Units of small data sets are not cut further than this to give every worker one."""
    pooled_bytes: int = 256 << 20
    """Class scatters beyond this are pooled."""
    class_rows: int = 16
    """Rows in a span for each class, about: what a span leaves of a class takes as long as several rows."""
    scatter_rows: int = 512
    """Rows in a span for each scatter, about, or half as many as there are columns: a scatter that a span leaves takes
    about as long as half of these rows."""
    kept_bytes: int = 48 << 20
    """Budget of the values that one pass keeps for medians, all spans together."""
    kept_floor: int = 64 << 10
    """Bytes that a span may keep for medians, however small its share of the rows is."""
    turned_bytes: int = 1 << 30
    """Memory in which rows that are stored by columns are turned around: 40 bytes for each stored value."""
    sample_rows: int = 65_536
    """Medians are bracketed from up to this many rows (of at most 64 MiB): brackets then hold 2 to 3% of the values."""
    dense_columns: int = 3072
    """Columns up to which the solver ``auto`` forms the scatter: LAPACK then takes seconds."""
    centred_bytes: int = 32 << 20
    """Rows that a solver in passes centres at once: enough for fast products, few enough to stay near the processor."""
    sparse_task_bytes: int = 16 << 20
    """Stored bytes of a task of such a solver over sparse rows, at least: every task leaves sums as large as the dense
    vectors."""
    start_rows: int = 128
    """Rows of the sample that such a solver starts from, at least."""
    start_class_rows: int = 4
    """Rows of every class in that sample, at least: their mean is subtracted from the rows of the class."""
    resumable_bytes: int = 64 << 20
    """Rows from which on passes keep checkpoints: a stage over fewer is soon repeated."""
    rows_per_cell: int = 400
    """Rows of a cell in the search."""
    smallest_segment: int = 512
    """Rows of a segment in the search, at least."""
    calibration_queries: int = 2000
    """Queries searched exactly to choose how far to look, and as many others to measure what that gave: at least."""
    fewest_together: int = 3
    """Parts from which on one search serves all: two searches of half the rows compare half the pairs of one."""
    parquet_statistics: int = 500_000
    """Statistics of Parquet columns that are looked up for missing values, some microseconds each: columns times row
    groups. Where there are more, missing values are found as rows are read."""
    spread_bytes: int = 4 << 20
    """Doubles of a piece of rows whose columns' squares `mmpca ingest` sums, so that pieces stay in the cache."""
    piece_rows: int = 2048
    """Rows of a piece of a cell, at most: it bounds the results of matrix products."""
    smallest_piece: int = 256
    """Wide rows make smaller pieces, so that none exceeds a segment, but none smaller than this."""
    segment_bytes: int = 32 << 20
    """Rows of a segment of the search, at most: what a task reads at a time."""
    layout_block_rows: int = 8192
    """Rows that the search brings to coordinates at a time, at most."""
    layout_block_bytes: int = 64 << 20
    """Bytes that these take in double precision, at most."""
    few_classes: int = 3
    """With so few classes the queries of each face the other classes in matrix products of their own, which leave out
    pairs within the class. With more, small products would cost more than leaving out saves."""
    task_bytes: int = 64 << 20
    """Drawn queries of a task of the search, at most."""
    smallest_task: int = 256
    """Drawn queries of a task, at least."""
    scratch_chunk_bytes: int = 1 << 20
    """Scratch arrays that are read in part have chunks of this size, all in one shard."""
    pair_block_rows: int = 2048
    """Differences of pairs that are multiplied at a time, at most."""
    pair_block_bytes: int = 16 << 20
    """Bytes that these take in double precision, at most."""
    sampled_pairs: int = 20_000
    """Differences that are kept for pictures and standard errors, at most."""
    sampled_pair_bytes: int = 64 << 20
    """Bytes that these take, unless they are fewer than ``fewest_sampled_pairs``."""
    fewest_sampled_pairs: int = 256
    """Differences that are kept however wide they are."""
    training_block_rows: int = 65_536
    """Rows of a block for classifiers that learn block by block; fixed, so that results do not depend on where the
    rows come from."""
    cholesky_columns: int = 512
    """Linear classifiers of so many columns try two Cholesky factors before eigenvectors, which take at least five
    times as long."""
    direct_bytes: int = 512 << 20
    """Rows of up to this size are taken into memory, where any method and classifier can be evaluated."""
    gathered_bytes: int = 1 << 30
    """Reduced rows that are held at once for classifiers that are fitted to rows."""
    split_count_bytes: int = 8 << 20
    """Bytes of counts that a span leaves while splits are drawn: for 50 splits of two classes 2^13 bins each, hence two
    passes over the labels of a million rows and three over those of a billion. Merging holds a few such arrays."""
    hashed_rows: int = 1 << 17
    """Rows hashed at once while splits are drawn: some megabytes of temporary arrays."""
    score_bytes: int = 64 << 20
    """Scores that classifiers hold at once: for as many rows as this allows, for all classes. With 20,000
    classes 139 rows: products of so few are as fast as of thousands, and naive Bayes takes less than twice as long."""
    margin_rows: int = 4096
    """Rows of each held-out part that margins are measured on, about."""
    margin_sample_bytes: int = 64 << 20
    """Bytes in double precision of rows that margins are measured on, and as many of those that are fitted to."""
    progress_line_seconds: float = 10.0
    """Between two lines of progress in a log file: some hundred lines for a run of half an hour."""
    silent_seconds: float = 60.0
    """A worker of ``cluster: local`` that is not heard of for so long is killed, and started again. Dask looks at these
    intervals, so up to twice the time passes. A worker is heard of twice a second but, on a busy machine, not for 10
    seconds as it imports modules for its first task."""
    awaited_seconds: float = 5.0
    """How long workers may take to start before a note says that they are waited for."""
    chunk_bytes: int = 8 << 20
    """A chunk of the rows or labels that ``mmpca ingest`` writes, and a step of its reading; eight chunks of rows make
    a shard, which is one reading unit. Chunks have a checksum each, so that a slice of 3 MiB costs 8 MiB: 3.6 GiB/s
    where chunks of 64 MiB give 0.3."""
    csr_chunks_per_shard: int = 64
    """Chunks, of 1 MiB, of a shard of CSR rows."""
    band_bytes: int = 256 << 20
    """Rows that an ingest holds at a time, at most; larger reading units are cut."""
    text_block_bytes: int = 4 << 20
    """Text is parsed in blocks of this size."""
    text_block_lines: int = 128
    """A block of CSV has so many lines or more, up to 32 MiB: each column costs pyarrow some microseconds, which at
    40,000 columns makes blocks of 4 MiB three times as slow as those of 16."""
    text_line_bytes: int = 64 << 20
    """A longer line is none: the file is of another kind, or made to fill memory."""
    spool_bytes: int = 32 << 20
    """Labels beyond this many bytes (four a row) wait for the end of an ingest in a temporary file."""
    max_classes: int = 100_000
    """More distinct labels than this are measurements, not classes."""
    max_levels: int = 4096
    max_groups: int = 1_000_000
    """More distinct names of groups than this are measurements, too."""
    first_pause: float = 0.2
    """Seconds before a failed request to a store is repeated; the pauses double."""
    lease_beat: float = 10.0
    """Seconds between renewals of a lease."""
    lease_expiry: float = 60.0
    """Seconds without a renewal after which a lease has ended, where nobody can tell whether its owner lives."""


LIMITS = Limits()
"""The limits in use."""
COMPONENT_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Numbers of components that are tried: neighbours differ by a third to a half, as errors hardly do within that."""
