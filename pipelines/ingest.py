"""The flow that turns CSV, LIBSVM text, NumPy files, CSR matrices and Parquet into chunked, checksummed Zarr."""

from __future__ import annotations

from prefect import flow
from prefect.artifacts import create_table_artifact
from prefect.states import Completed, Failed, State

from mmpca_dist.datasets.ingest import ingest
from mmpca_dist.errors import MmpcaError
from mmpca_dist.runs.events import Callbacks
from pipelines.artifacts import ArtifactCallback
from pipelines.fit import REFUSED, watchers


@flow(
    name="ingest",
    description="Turn a labelled table of any format into chunked, checksummed Zarr.",
    persist_result=False,
)
def ingest_flow(
    source: str,
    destination: str,
    features: str | None = None,
    label: str | int | None = None,
    dtype: str | None = None,
    image_shape: tuple[int, int] | None = None,
    overwrite: bool = False,
    sparse: bool | None = None,
) -> State:
    """Write the table at ``source`` as a Zarr group of rows ``X`` and labels ``y`` at ``destination``."""
    callback = Callbacks([ArtifactCallback(), *watchers()])
    callback.on_stage_start("ingest")
    try:
        manifest = ingest(
            source,
            destination,
            features=features,
            label=label,
            dtype=dtype,
            image_shape=image_shape,
            overwrite=overwrite,
            sparse=sparse,
            progress=lambda done, total: callback.on_progress("ingest", done, total),
            note=callback.on_note,
        )
    except MmpcaError as error:
        return Failed(message=str(error), name=REFUSED)
    callback.on_stage_end("ingest", manifest, False)
    shown = ("rows", "columns", "dtype", "sparse", "classes", "bytes", "source", "destination")
    create_table_artifact(
        [{name: str(manifest[name]) for name in shown}], key="ingested", description="What was written"
    )
    kind = "sparse rows" if manifest["sparse"] else "rows"
    return Completed(message=f"{manifest['rows']} {kind} of {manifest['columns']} columns written to {destination}")
