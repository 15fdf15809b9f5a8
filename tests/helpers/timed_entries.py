"""Entries of a benchmark that processes of their own import."""

import os


def make(_folder):
    return {}


def fill(_data, n_bytes):
    return {"passes": len(b"1" * n_bytes) > 0}


def fail(_data):
    raise ValueError("wrong /in/a/file")


def die(_data):
    os._exit(1)
