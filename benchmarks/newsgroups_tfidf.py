"""Make the file of ``conf/paper/bm2pca-newsgroups.yaml``: ``python benchmarks/newsgroups_tfidf.py COUNTS.npz FOLDER``.

``COUNTS.npz`` has the term counts of 20 Newsgroups as CSR arrays (those of ``scipy.sparse.save_npz``) and the classes
``y``. ``FOLDER/newsgroups20_tfidf.npz`` gets the same rows by scikit-learn's ``TfidfTransformer``: counts times
log((1 + n) / (1 + rows with the term)) + 1, over all n rows, divided by the length of the row.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import scipy.sparse
from sklearn.feature_extraction.text import TfidfTransformer

FILE = "newsgroups20_tfidf.npz"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("counts", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    with np.load(options.counts) as file:
        counts = scipy.sparse.csr_array(
            (file["data"].astype(np.float64), file["indices"], file["indptr"]), tuple(file["shape"])
        )
        y = file["y"]
    rows = TfidfTransformer().fit_transform(counts)
    options.folder.mkdir(parents=True, exist_ok=True)
    path = options.folder / FILE
    arrays = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr, "shape": np.array(rows.shape)}
    np.savez_compressed(path, format=np.array("csr"), y=y, **arrays)
    print(f"{path}: {rows.shape[0]} rows, {rows.shape[1]} columns, {rows.nnz} values, {len(np.unique(y))} classes")


if __name__ == "__main__":
    main()
