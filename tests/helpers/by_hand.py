"""Evaluations beside the same splits made by hand."""

import naive_evaluation

from helpers.evaluating import by_cell, scored, with_all_columns
from helpers.samples import batch_of

SPLITS = {
    "shares": {"splits": "shares", "count": 2, "train": "2/3", "seed": 3},
    "folds": {"splits": "folds", "folds": 3, "seed": 5},
    "dealt twice": {"splits": "folds", "folds": 2, "count": 2},
}


def guessed(splits, y, number):
    """Return how many rows held out are not of the largest class in training, counted one by one."""
    split, place = divmod(number, len(splits.held_out))
    train = splits.training(batch_of(y), splits.held_out[place])[split]
    largest = max(sorted(set(y)), key=lambda label: sum(y[train] == label))
    return sum(y[~train] != largest)


def assert_as_by_hand(config, X, y, *others):
    """Return the records, whose errors are those of the twin but where a decision is a matter of rounding.

    So must those of ``others`` be, which are evaluated too.
    """
    every = [scored(one) for one in (config, *others)]
    records, splits, _ = every[0]
    has_all = any(line["method"] == "all-columns" for line in records[0]["errors"])
    expected = naive_evaluation.evaluate(X, y, splits, with_all_columns(config) if has_all else config)
    for found in (by_cell(one) for one, *_ in every):
        assert found.keys() == expected.keys()
        for key, (used, errors, close) in expected.items():
            assert found[key][0] == used, key
            assert abs(found[key][1] - errors) <= close, key
    for found, *_ in every:
        assert [record["guessed"] for record in found] == [guessed(splits, y, number) for number in range(len(found))]
    decisions = sum(record["rows"] for record in records) * len(expected) / len(records)
    assert sum(close for *_, close in expected.values()) < 0.01 * decisions
    assert sum(errors for _, errors, _ in expected.values()) > 0.02 * decisions  # neither is it all easy
    return records
