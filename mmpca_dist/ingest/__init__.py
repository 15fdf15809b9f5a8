"""Other formats into chunked Zarr with checksums."""
