"""What an evaluation takes, in seconds and bytes, is charged to the method that needs it, or to all of them."""

import pytest
from helpers.evaluating import scored
from helpers.tables import config_of, labelled, write_npz

from mmpca_dist.configuration.schema import parse_config
from mmpca_dist.evaluation import cost_meter as metering
from mmpca_dist.evaluation import engine, scores
from mmpca_dist.evaluation.cost_meter import ERRORS, MARGINS, MEDIANS, MOMENTS, Meter
from mmpca_dist.jobs.events import Callbacks
from mmpca_dist.runs import evaluate as stages
from mmpca_dist.runs import evaluation_scores
from mmpca_dist.runs.evaluate import evaluate, evaluation_of

FOLDS = {"splits": "folds", "folds": 3, "count": 2}


class Clock:
    """A clock that someone sets, or that goes on by ``tick`` seconds whenever it is read."""

    now, tick = 100.0, 0.0

    def perf_counter(self):
        self.now += self.tick
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(metering, "time", clock)
    return clock


def test_time_and_bytes_go_to_what_they_are_charged_to(clock):
    told = []
    meter = Meter(lambda *one: told.append(one), {MEDIANS: "m-pca1b"})

    def making():
        for _ in range(2):
            clock.now += 8
            meter.on_pass("cells", 80)
            yield "made"

    clock.now += 1
    meter.on_pass("sample", 5)
    clock.now += 2
    meter.on_pass("moments", 10)
    clock.now += 4
    meter.on_pass("medians", 20)
    clock.now += 8
    meter.turn(MOMENTS)
    for _ in meter.charged("m-pca2", making()):
        clock.now += 16  # whoever takes the items
    with meter.charging(ERRORS):
        meter.on_pass("score", 40)
        clock.now += 32
        with meter.charging("pca"):
            meter.on_pass("fit", 160)
            clock.now += 64
        clock.now += 128
    meter.turn(MARGINS)
    assert meter.seconds == {
        MOMENTS: 1 + 4 + 2 * 16, "m-pca1b": 2 + 8, "m-pca2": 2 * 8, ERRORS: 32 + 128, "pca": 64,
    }  # fmt: skip
    assert meter.n_bytes == {MOMENTS: 10, "m-pca1b": 5 + 20, "m-pca2": 2 * 80, ERRORS: 40, "pca": 160}
    assert told == [
        ("sample", 5), ("moments", 10), ("medians", 20), ("cells", 80), ("cells", 80), ("score", 40), ("fit", 160),
    ]  # fmt: skip


def test_what_makes_items_may_fail(clock):
    meter = Meter()

    def making():
        clock.now += 2
        yield 1
        clock.now += 4
        raise ValueError("no more")

    items = meter.charged("m-pca2", making())
    next(items)
    with pytest.raises(ValueError, match="no more"):
        next(items)
    clock.now += 8
    meter.turn(ERRORS)
    assert meter.seconds == {"m-pca2": 6, MOMENTS: 8}


def costs(tmp_path, methods, merged, monkeypatch, **changes):
    """Evaluate, and return the records and what the stage has read."""
    uri = write_npz(tmp_path / "rows.npz", *labelled(90, 5, 2, seed=2, separation=0.8))
    config = config_of(
        tmp_path / "-".join([*methods, str(merged)]), uri, methods=methods,
        evaluation={**FOLDS, "classifiers": ["fisher", "svm"], **changes},
    )  # fmt: skip
    monkeypatch.setattr(evaluation_scores, "route", lambda *_: (merged, not merged))
    records, _, results = scored(config)
    return records, results["score"]


@pytest.mark.parametrize("classifiers", [["fisher", "svm"], ["incremental"]])
@pytest.mark.parametrize("merged", [False, True])
def test_every_byte_and_no_more_than_the_time_is_charged(merged, classifiers, tmp_path, monkeypatch, clock):
    """Also without any pass that serves the errors of all methods."""
    monkeypatch.setattr("mmpca_dist.limits.LIMITS.gathered_bytes", 100)
    methods = ["pca", "m-pca0", "m-pca1b", "m-pca2"]
    if merged:
        classifiers = [name for name in classifiers if name != "svm"]  # which is fitted to rows in memory
    whole = [] if "svm" in classifiers else ["all-columns"]  # which would gather more than 100 bytes
    clock.tick, begin = 1.0, clock.now
    records, found = costs(tmp_path, methods, merged, monkeypatch, classifiers=classifiers, margins=False)
    assert sum(sum(record["read"].values()) for record in records) == found["bytes"] > 0
    for record in records:
        assert set(record["seconds"]) == {MOMENTS, ERRORS, MARGINS, *methods, *whole}
        assert min(record["seconds"].values()) >= 0
        assert record["seconds"]["m-pca2"] > 0
    if merged:  # one split after the other
        assert sum(sum(record["seconds"].values()) for record in records) <= clock.now - begin
        assert ("pca" in records[0]["read"]) == (classifiers == ["incremental"])  # whose fits are passes


@pytest.mark.parametrize("merged", [False, True])
def test_classifiers_are_charged_to_the_method_they_follow(merged, tmp_path, monkeypatch, clock):
    """Which is most of what an evaluation of few rows takes."""
    of_rows, of_moments = scores.Classifiers.fit_rows, engine.fit_from_moments

    def slow(function):
        def slowly(*arguments, **options):
            clock.now += 60
            return function(*arguments, **options)

        return slowly

    monkeypatch.setattr(scores.Classifiers, "fit_rows", slow(of_rows))
    monkeypatch.setattr(engine, "fit_from_moments", slow(of_moments))
    records, _ = costs(tmp_path, ["pca", "m-pca0"], merged, monkeypatch, margins=False)
    for method in ("pca", "m-pca0"):  # two classifiers in two deals of three folds
        assert sum(record["seconds"][method] for record in records) >= 60 * 2 * 2 * 3


def test_bytes_of_methods_that_need_more_than_moments(tmp_path, limits, monkeypatch):
    """Each pass is charged to one, whatever other methods there are."""
    limits.kept_bytes = 2000
    limits.kept_floor = 100
    limits.sample_rows = 20

    def read(*methods):
        records, found = costs(tmp_path, list(methods), True, monkeypatch)
        assert not records[1]["read"]  # its passes were those of the first part
        return records[0]["read"], found["bytes"]

    size = 90 * 5 * 8
    plain, total = read("pca", "m-pca0")
    assert plain == {MOMENTS: size, ERRORS: 2 * size}  # svm is fitted to rows, which a pass gathers
    assert total == 2 * 3 * size
    own = read("pca", "m-pca1b")[0].pop("m-pca1b")
    assert own == size  # the sample is all rows: one pass settles the medians
    nearest = read("pca", "m-pca2")[0].pop("m-pca2")
    assert nearest >= size
    assert read("pca", "m-pca1b", "m-pca2")[0] == {**plain, "m-pca1b": own, "m-pca2": nearest}


def test_the_report_adds_up_the_splits(tmp_path, monkeypatch):
    monkeypatch.setattr(evaluation_scores, "route", lambda *_: (True, False))
    uri = write_npz(tmp_path / "rows.npz", *labelled(90, 5, 2, seed=2, separation=0.8))
    config = config_of(tmp_path / "out", uri, methods=["pca", "m-pca2"], evaluation={**FOLDS, "margins": False})
    evaluate(config)
    records, _, results = scored(config)
    with stages.open_job(config, Callbacks([]), "evaluation") as job:
        job.results.update(results)
        found = evaluation_of(job, records)
    for name, sums in (("seconds", found.seconds), ("read", found.bytes_read)):
        assert set(sums) == {what for record in records for what in record[name]} != set()
        for what in sums:
            assert sums[what] == pytest.approx(sum(record[name].get(what, 0) for record in records), rel=1e-12)
    assert sum(found.bytes_read.values()) == results["score"]["bytes"]


def test_others_are_tested_against_pca_unless_another_is_named():
    content = {"dataset": {"uri": "bundled:iris"}, "n_components": [1], "output": "runs/x"}
    for methods, evaluation, expected in (
        (["m-pca0", "pca"], {}, "pca"), (["m-pca0", "lol"], {}, "m-pca0"),
        (["pca", "lol"], {"reference": "lol"}, "lol"),
    ):  # fmt: skip
        config = parse_config({**content, "methods": methods, "evaluation": evaluation}, "the test")
        assert config.reference == expected
