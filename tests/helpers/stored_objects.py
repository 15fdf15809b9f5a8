"""The bytes of all objects in a folder, and the settings of a run."""

from mmpca_dist.stores import storage


def objects(folder):
    return {name: storage.read_bytes(storage.join(folder, name)) for name, *_ in storage.list_objects(folder)}


def settings(output, **changes):
    content = {"dataset": {"uri": "bundled:iris"}, "methods": ["m-pca0"], "n_components": 2}
    return {**content, "project": {"format": ["zarr"]}, "compute": {"cluster": "threads"}, "output": output, **changes}
