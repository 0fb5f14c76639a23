"""Fusing runs: values worked out by hand, and agreement with pyserini.fusion where that is right."""

import gzip
import json
import math
import random
import subprocess
import sys
from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest

from r2med_pyserini.composites import (
    COMBMNZ,
    COMBSUM,
    INTERPOLATION,
    METHODS,
    MIN_MAX,
    NONE,
    NORMALIZATIONS,
    RRF,
    WEIGHTED,
    Z_SCORE,
    FusionSpec,
)
from r2med_pyserini.errors import BadInput, R2medError, UsageError
from r2med_pyserini.fusion import fuse, fuse_files, lacking
from r2med_pyserini.trec import read_run, write_run

A, B = {"X": 3.0, "a": 2.0, "Y": 1.0}, {"b": 9.0, "c": 6.0, "Y": 5.0}
LARGEST, SMALLEST = sys.float_info.max, 5e-324


def spec(method: str = RRF, **settings) -> FusionSpec:
    """A specification with the defaults that a condition has."""
    defaults = {"k": 60.0} if method == RRF else {"normalization": NONE if method == INTERPOLATION else MIN_MAX}
    return FusionSpec(method, ("a", "b"), **{**defaults, **settings})


def fused(runs: list[dict], **settings) -> dict[str, dict[str, float]]:
    """Query -> document -> score of the fused run, best first."""
    return {query: dict(zip(ids, scores, strict=True)) for query, ids, scores in fuse(runs, spec(**settings))}


def fused_one(*hits: dict, **settings) -> dict[str, float]:
    """What runs of one query each give."""
    return fused([{"q": found} for found in hits], **settings)["q"]


def shows(found: dict[str, float], wanted: dict[str, float]) -> None:
    """Documents, their order and their scores, which have single precision."""
    assert list(found) == list(wanted)
    assert found == pytest.approx(wanted, rel=1e-7, abs=1e-12)


def random_run(seed: int, queries: int = 5, hits: int = 40, pool: int = 60, steps: int = 200) -> dict:
    """Scores are few different numbers, so that they tie; a run is in the order of score, ties by id."""
    chance = random.Random(seed)
    run = {}
    for query in range(queries):
        found = {f"d{document}": chance.randrange(steps) / 8 for document in chance.sample(range(pool), hits)}
        run[f"q{query}"] = dict(sorted(found.items(), key=lambda hit: (-hit[1], hit[0])))
    return run


EVERY_WAY = [
    {"method": RRF},
    *({"method": method, "normalization": way} for method in (COMBSUM, COMBMNZ) for way in NORMALIZATIONS),
    *({"method": WEIGHTED, "weights": (0.5, 2.0), "normalization": way} for way in NORMALIZATIONS),
    *({"method": INTERPOLATION, "alpha": 0.3, "normalization": way} for way in NORMALIZATIONS),
]


def as_text(settings: dict) -> str:
    return "-".join(map(str, settings.values()))


def test_every_method_is_tried():
    assert {settings["method"] for settings in EVERY_WAY} == set(METHODS)


class TestReciprocalRanks:
    def test_ranks_count_from_1_and_an_absent_document_adds_nothing(self):
        shows(fused_one(A, B), {"Y": 2 / 63, "X": 1 / 61, "b": 1 / 61, "a": 1 / 62, "c": 1 / 62})

    def test_k_is_a_setting(self):
        shows(fused_one(A, B, k=0.0), {"X": 1, "b": 1, "Y": 2 / 3, "a": 1 / 2, "c": 1 / 2})

    def test_scores_count_through_their_order_only(self):
        assert fused_one({"X": 1e9, "a": 2.0, "Y": -7.0}, B) == fused_one(A, B)

    def test_tied_documents_rank_in_the_order_of_the_run(self):
        shows(fused_one({"z": 1.0, "a": 1.0}, {}), {"z": 1 / 61, "a": 1 / 62})

    def test_a_run_out_of_order_is_sorted_by_score_then_id(self):
        shows(fused_one({"z": 1.0, "a": 1.0, "m": 2.0}, {}), {"m": 1 / 61, "a": 1 / 62, "z": 1 / 63})

    def test_the_order_of_runs_does_not_matter(self):
        runs = [random_run(seed) for seed in range(4)]
        results = [list(fuse(order, spec())) for order in permutations(runs)]
        assert all(found == results[0] for found in results)


class TestSums:
    def test_combsum_adds_what_min_max_made_of_the_scores(self):
        shows(
            fused_one({"a": 4.0, "b": 3.0, "c": 0.0}, {"b": 30.0, "c": 20.0, "d": 10.0}, method=COMBSUM),
            {"b": 1.75, "a": 1.0, "c": 0.5, "d": 0.0},
        )

    def test_combsum_adds_bare_scores(self):
        found = fused_one(A, B, method=COMBSUM, normalization=NONE)
        shows(found, {"b": 9, "Y": 6, "c": 6, "X": 3, "a": 2})

    def test_combmnz_multiplies_by_the_number_of_runs_that_found_the_document(self):
        shows(
            fused_one(A, B, {"Y": 1.0}, method=COMBMNZ, normalization=NONE),
            {"Y": 3 * 7, "b": 9, "c": 6, "X": 3, "a": 2},
        )

    def test_to_be_found_counts_for_combmnz_even_with_a_score_of_0(self):
        found = fused_one({"a": 2.0, "b": 1.0}, {"c": 3.0, "a": 2.0}, method=COMBMNZ)
        shows(found, {"a": 2 * 1.0, "c": 1, "b": 0})

    def test_every_run_has_its_weight(self):
        shows(
            fused_one(A, B, method=WEIGHTED, weights=(2.0, 0.5), normalization=NONE),
            {"X": 6, "Y": 4.5, "b": 4.5, "a": 4, "c": 3},
        )

    def test_weights_apply_to_normalized_scores(self):
        shows(fused_one(A, B, method=WEIGHTED, weights=(2.0, 0.5)), {"X": 2, "a": 1, "b": 0.5, "c": 0.125, "Y": 0})

    def test_interpolation_gives_alpha_to_the_first_and_the_rest_to_the_second(self):
        found = fused_one(A, B, method=INTERPOLATION, alpha=0.75)
        shows(found, {"X": 2.25, "b": 2.25, "Y": 2, "a": 1.5, "c": 1.5})  # Y: 0.75 x 1 + 0.25 x 5

    @pytest.mark.parametrize("order", list(permutations([1e16, 1.0, -1e16])))
    def test_the_order_of_runs_does_not_matter_even_where_digits_cancel_out(self, order):
        runs = [{"a": score} for score in order]
        assert fused_one(*runs, method=COMBSUM, normalization=NONE) == {"a": 0.0}

    def test_weights_must_be_as_many_as_runs(self):
        with pytest.raises(ValueError, match="zip"):
            fused_one(A, B, A, method=WEIGHTED, weights=(1.0, 1.0))


class TestNormalization:
    def test_z_scores_are_of_the_population(self):
        deviation = math.sqrt(2 / 3)
        found = fused_one(A, {}, method=COMBSUM, normalization=Z_SCORE)
        shows(found, {"X": 1 / deviation, "a": 0, "Y": -1 / deviation})

    def test_a_document_below_the_average_loses_to_one_that_was_not_found(self):
        found = fused_one({"a": 4.0, "b": 0.0}, {"z": 1.0}, method=COMBSUM, normalization=Z_SCORE)
        shows(found, {"a": 1, "z": 0, "b": -1})

    @pytest.mark.parametrize(("way", "value"), [(MIN_MAX, 1.0), (Z_SCORE, 0.0), (NONE, 0.1)])
    @pytest.mark.parametrize("names", ["a", "abc"])
    def test_scores_that_are_all_equal(self, way, value, names):
        found = fused_one(dict.fromkeys(names, 0.1), {}, method=COMBSUM, normalization=way)
        shows(found, dict.fromkeys(names, value))

    def test_it_is_done_for_every_query_by_itself(self):
        run = {"q1": {"a": 2.0, "b": 1.0}, "q2": {"a": 200.0, "b": 100.0}}
        found = fused([run, {}], method=COMBSUM)
        assert found["q1"] == found["q2"] == {"a": 1.0, "b": 0.0}

    @pytest.mark.parametrize("way", [MIN_MAX, Z_SCORE])
    @pytest.mark.parametrize("method", [RRF, COMBSUM, COMBMNZ])
    @pytest.mark.parametrize(("factor", "more"), [(4.0, 0.0), (0.3, 7.0), (1e-9, 0.0), (1e12, 0.0)])
    def test_scaling_and_moving_a_run_changes_nothing(self, method, way, factor, more):
        settings = {"method": method, **({} if method == RRF else {"normalization": way})}
        one, other = random_run(1), random_run(2)
        moved = {q: {d: score * factor + more for d, score in hits.items()} for q, hits in one.items()}
        before, after = fused([one, other], **settings), fused([moved, other], **settings)
        for query, wanted in before.items():
            assert after[query] == pytest.approx(wanted, rel=1e-5, abs=1e-6)

    @pytest.mark.parametrize("way", [MIN_MAX, Z_SCORE])
    @pytest.mark.parametrize(
        "hits",
        [
            {"a": LARGEST, "b": -LARGEST},
            {"a": LARGEST, "b": math.nextafter(LARGEST, 0)},
            {"a": SMALLEST, "b": 0.0},
            {"a": 0.0, "b": -SMALLEST},
            {"a": 1.0, "b": math.nextafter(1.0, 0)},
            {"a": 1e-300, "b": -1e-310},
        ],
    )
    def test_no_scores_are_too_large_too_small_or_too_close(self, hits, way):
        found = fused_one(hits, {}, method=COMBSUM, normalization=way)
        assert list(found) == ["a", "b"]
        assert all(map(math.isfinite, found.values()))
        assert found["a"] > found["b"]

    @pytest.mark.parametrize("runs", [[{"a": LARGEST}] * 2, [{"a": LARGEST}, {"a": -LARGEST}] * 2, [{"a": 1e39}, {}]])
    def test_sums_that_single_precision_cannot_hold_are_refused(self, runs):
        with pytest.raises(BadInput, match="query q: the sums of the scores are too large; fuse with normalization"):
            fused_one(*runs, method=WEIGHTED, weights=(1e6,) * len(runs), normalization=NONE)


class TestWhatIsMissing:
    @pytest.mark.parametrize("empty", [{}, {"q2": {}}])
    @pytest.mark.parametrize("settings", EVERY_WAY, ids=as_text)
    def test_a_query_missing_from_a_run_is_fused_from_the_others(self, settings, empty):
        whole = {"q1": A, "q2": B}
        found = fused([whole, {"q1": A} | empty], **settings)
        assert list(found) == ["q1", "q2"]
        assert found["q2"] == fused([whole, {}], **settings)["q2"]
        assert next(iter(found["q2"])) == "b"

    @pytest.mark.parametrize("settings", EVERY_WAY, ids=as_text)
    def test_runs_without_any_hit(self, settings):
        assert fused([{}, {}], **settings) == {}
        assert fused([{"q": {}}, {}], **settings) == {"q": {}}

    def test_queries_come_in_the_order_of_their_ids(self):
        assert list(fused([{"10": A, "9": A}, {"007": B, "é": B}])) == ["007", "10", "9", "é"]

    def test_runs_that_lack_queries_are_named(self):
        runs = [{f"q{n}": A for n in range(6)}, {"q1": A, "q5": {}}, {}, {"q7": A} | {f"q{n}": A for n in range(6)}]
        assert lacking(runs, ["one", "two", "three", "four"]) == [
            "one has no hit for 1 of 7 queries (q7)",
            "two has no hit for 6 of 7 queries (q0, q2, q3, ...)",
            "three has no hit for 7 of 7 queries (q0, q1, q2, ...)",
        ]

    def test_nothing_is_said_of_whole_runs(self):
        assert lacking([{"q": A}, {"q": B}], ["one", "two"]) == lacking([{}, {}], ["one", "two"]) == []


class TestOrderAndCuts:
    @pytest.mark.parametrize("settings", EVERY_WAY, ids=as_text)
    def test_scores_never_rise_and_equal_ones_stand_in_the_order_of_ids(self, settings):
        for hits in fused([random_run(3, steps=9), random_run(4, steps=9)], **settings).values():
            rows = [(-score, document) for document, score in hits.items()]
            assert rows == sorted(rows)
            assert len({score for score, _ in rows}) < len(rows)

    @pytest.mark.parametrize("settings", EVERY_WAY, ids=as_text)
    def test_no_score_is_minus_zero(self, settings):
        found = fused_one({"a": 0.0, "b": -0.0, "c": -1e-60}, {"d": -0.0, "b": -0.0}, **settings)
        assert not any(score == 0 and math.copysign(1, score) < 0 for score in found.values())

    @pytest.mark.parametrize("settings", EVERY_WAY[1:], ids=as_text)
    def test_the_order_of_equal_documents_within_a_run_does_not_matter(self, settings):
        one = {"a": 2.0, "b": 2.0, "c": 2.0, "d": 1.0}
        results = [
            fused_one({name: one[name] for name in (*order, "d")}, {"b": 5.0, "d": 4.0}, **settings)
            for order in permutations("abc")
        ]
        assert all(list(found.items()) == list(results[0].items()) for found in results)

    @pytest.mark.parametrize("settings", EVERY_WAY, ids=as_text)
    def test_a_run_out_of_order_is_fused_as_the_sorted_one(self, settings):
        one, other = random_run(5), random_run(6)
        shuffled = {}
        for query, hits in one.items():
            items = list(hits.items())
            random.Random(7).shuffle(items)
            shuffled[query] = dict(items)
        assert list(fuse([shuffled, other], spec(**settings))) == list(fuse([one, other], spec(**settings)))

    @pytest.mark.parametrize("settings", EVERY_WAY, ids=as_text)
    def test_hits_cuts_what_comes_out(self, settings):
        runs = [random_run(8, steps=9), random_run(9, steps=9)]
        whole, cut = fused(runs, **settings), fused(runs, hits=7, **settings)
        for query, hits in whole.items():
            assert list(cut[query].items()) == list(hits.items())[:7]

    @pytest.mark.parametrize("settings", EVERY_WAY, ids=as_text)
    def test_depth_cuts_what_goes_in(self, settings):
        runs = [random_run(10), random_run(11)]
        heads = [{query: dict(list(hits.items())[:6]) for query, hits in run.items()} for run in runs]
        assert list(fuse(runs, spec(depth=6, **settings))) == list(fuse(heads, spec(**settings)))
        assert list(fuse(runs, spec(depth=40, **settings))) == list(fuse(runs, spec(**settings)))

    def test_depth_comes_before_normalization_and_before_runs_are_counted(self):
        found = fused_one(A, {"b": 9.0, "c": 6.0, "X": 5.0}, method=COMBMNZ, depth=2)
        shows(found, {"X": 1, "b": 1, "a": 0, "c": 0})

    def test_depth_takes_the_best_of_a_run_out_of_order(self):
        shows(fused_one({"c": 1.0, "a": 3.0, "b": 3.0}, {}, depth=2), {"a": 1 / 61, "b": 1 / 62})

    def test_the_runs_stay_as_they_were(self):
        runs = [{"q": {"c": 1.0, "a": 3.0, "b": 3.0}}, {"q": dict(B), "r": {}}]
        before = json.dumps(runs)
        list(fuse(runs, spec(COMBSUM)))
        assert json.dumps(runs) == before


PYSERINI = """
import json, sys, warnings
warnings.simplefilter("ignore")
from pyserini.fusion import average, interpolation, normalize, reciprocal_rank_fusion
from pyserini.trectools import TrecRun

runs = [TrecRun(path) for path in sys.argv[1:]]
found = {
    "rrf": reciprocal_rank_fusion(runs),
    "rrf k 7 depth 15": reciprocal_rank_fusion(runs, rrf_k=7, depth=15),
    "interpolation": interpolation(runs[:2], alpha=0.3),
    "average": average(runs, depth=20),
    "normalize": normalize(runs),
}
columns = ["topic", "docid", "score"]
print(json.dumps({name: fused.run_data[columns].values.tolist() for name, fused in found.items()}))
"""
LIKE_PYSERINI = {
    "rrf": spec(),
    "rrf k 7 depth 15": spec(k=7.0, depth=15),
    "interpolation": spec(INTERPOLATION, alpha=0.3),
    "average": spec(WEIGHTED, weights=(1 / 3,) * 3, normalization=NONE, depth=20),
    "normalize": spec(COMBSUM),
}


@pytest.fixture(scope="module")
def beside_pyserini(tmp_path_factory) -> tuple[list[dict], dict[str, dict[str, dict[str, float]]]]:
    """Random runs, and what pyserini.fusion makes of them: method -> query -> document -> score."""
    folder = tmp_path_factory.mktemp("pyserini")
    runs = [random_run(seed, pool=90, steps=1000) for seed in (21, 22, 23)]
    del runs[1]["q3"]
    runs[2]["q4"] = dict.fromkeys(sorted(runs[2]["q4"]), 2.5)
    for number, run in enumerate(runs):
        rows = ((query, list(hits), list(hits.values())) for query, hits in run.items())
        write_run(folder / f"{number}.txt", rows)
    command = [sys.executable, "-c", PYSERINI, *(str(folder / f"{number}.txt") for number in range(3))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    theirs = {}
    for name, rows in json.loads(done.stdout).items():
        for query, document, score in rows:
            theirs.setdefault(name, {}).setdefault(query, {})[document] = score
    return runs, theirs


@pytest.mark.parametrize("name", LIKE_PYSERINI)
def test_pyserini_gives_the_same(beside_pyserini, name):
    runs, theirs = beside_pyserini
    found = list(fuse(runs[: 2 if name == "interpolation" else 3], LIKE_PYSERINI[name]))
    assert [query for query, _, _ in found] == list(theirs[name]) == [f"q{number}" for number in range(5)]
    for query, documents, scores in found:
        rounded = {document: float(np.float32(score)) for document, score in theirs[name][query].items()}
        assert documents == sorted(rounded, key=lambda document: (-rounded[document], document))
        assert scores == pytest.approx([rounded[document] for document in documents], rel=1e-6)


class TestFiles:
    ONE = "q1 Q0 X 1 3 t\nq1 Q0 a 2 2 t\nq1 Q0 Y 3 1 t\n"
    OTHER = "q1 Q0 b 1 9 t\nq1 Q0 c 2 6 t\nq1 Q0 Y 3 5 t\n"

    @pytest.fixture
    def paths(self, write) -> list[Path]:
        return [write("one.txt", self.ONE), write("other.txt.gz", gzip.compress(self.OTHER.encode()))]

    def test_the_fused_run_is_written_byte_for_byte(self, tmp_path, paths):
        assert fuse_files(paths, spec(hits=3), tmp_path / "out.txt") == []
        assert (tmp_path / "out.txt").read_bytes() == (
            b"q1 Q0 Y 1 0.0317460336 r2med-rrf\nq1 Q0 X 2 0.0163934417 r2med-rrf\nq1 Q0 b 3 0.0163934417 r2med-rrf\n"
        )

    def test_a_method_names_itself_in_the_tag(self, tmp_path, paths):
        fuse_files(paths, spec(COMBMNZ), tmp_path / "out.txt")
        assert {line.split()[-1] for line in (tmp_path / "out.txt").read_text().splitlines()} == {"r2med-combmnz"}

    @pytest.mark.parametrize("settings", EVERY_WAY, ids=as_text)
    def test_what_is_written_keeps_order_and_ties(self, tmp_path, settings):
        runs = [random_run(31), random_run(32)]
        for number, run in enumerate(runs):
            write_run(tmp_path / str(number), ((query, list(hits), list(hits.values())) for query, hits in run.items()))
        fuse_files([tmp_path / "0", tmp_path / "1"], spec(**settings), tmp_path / "out.txt")
        back = {
            query: {document: float(np.float32(score)) for document, score in hits.items()}
            for query, hits in read_run(tmp_path / "out.txt").items()
        }
        wanted = fused(runs, **settings)
        assert back == wanted
        assert [list(hits) for hits in back.values()] == [list(hits) for hits in wanted.values()]

    def test_what_runs_lack_is_returned(self, write, tmp_path, paths):
        more = write("more.txt", self.ONE + "q2 Q0 b 1 1 t\n")
        empty = write("empty.txt", "")
        assert fuse_files([*paths, more, empty], spec(), tmp_path / "out.txt") == [
            f"{paths[0]} has no hit for 1 of 2 queries (q2)",
            f"{paths[1]} has no hit for 1 of 2 queries (q2)",
            f"{empty} has no hit for 2 of 2 queries (q1, q2)",
        ]
        assert list(read_run(tmp_path / "out.txt")) == ["q1", "q2"]

    def test_runs_without_a_common_document_are_doubted(self, write, tmp_path, paths):
        foreign = write("foreign.txt", "q1 Q0 other-1 1 1 t\n")
        assert fuse_files([*paths, foreign], spec(), tmp_path / "out.txt") == [
            f"{foreign} shares no document with the other runs: are they of the same dataset?"
        ]

    def test_faults_of_all_files_come_at_once(self, write, tmp_path, paths):
        bad = [write("bad1.txt", "q1 Q0 d 1 nan t\n"), tmp_path / "none.txt"]
        with pytest.raises(BadInput) as caught:
            fuse_files([bad[0], *paths, bad[1]], spec(), tmp_path / "out.txt")
        assert [fault.partition(": ")[0] for fault in caught.value.faults] == [f"{bad[0]}:1", str(bad[1])]
        assert not (tmp_path / "out.txt").exists()

    def test_a_run_of_other_queries_is_refused(self, write, tmp_path, paths):
        foreign = write("foreign.txt", "p7 Q0 X 1 1 t\n")
        with pytest.raises(BadInput) as caught:
            fuse_files([*paths, foreign], spec(), tmp_path / "out.txt")
        example = "it has 'p7', the others 'q1'"
        wanted = f"{foreign} shares no query with the other runs ({example}): are they of the same dataset?"
        assert str(caught.value) == wanted

    def test_a_run_fused_with_one_without_a_row(self, write, tmp_path, paths):
        empty = write("empty.txt", "")
        assert fuse_files([empty, paths[0]], spec(), tmp_path / "out.txt") == [
            f"{empty} has no hit for 1 of 1 queries (q1)"
        ]
        assert list(read_run(tmp_path / "out.txt")["q1"]) == ["X", "a", "Y"]

    def test_runs_without_a_row_are_refused(self, write, tmp_path):
        paths = [write("a.txt", ""), write("b.txt", "\n")]
        with pytest.raises(BadInput, match=r"a\.txt, .*b\.txt: hold no row"):
            fuse_files(paths, spec(), tmp_path / "out.txt")

    def test_one_run_is_nothing_to_fuse(self, tmp_path, paths):
        with pytest.raises(UsageError, match="two or more runs"):
            fuse_files(paths[:1], spec(), tmp_path / "out.txt")

    @pytest.mark.parametrize("again", ["one.txt", "./one.txt", "link"])
    def test_a_run_given_twice_is_a_slip(self, tmp_path, paths, again, monkeypatch):
        monkeypatch.chdir(tmp_path)
        Path("link").symlink_to("one.txt")
        with pytest.raises(UsageError, match=r"one\.txt is given twice"):
            fuse_files([*paths, Path(again)], spec(), tmp_path / "out.txt")

    @pytest.mark.parametrize("name", ["one.txt", "folder/../one.txt"])
    def test_no_run_is_overwritten_by_what_is_made_of_it(self, tmp_path, paths, name):
        (tmp_path / "folder").mkdir()
        with pytest.raises(UsageError, match=r"one\.txt is one of the runs"):
            fuse_files(paths, spec(), tmp_path / name, overwrite=True)
        assert paths[0].read_text() == self.ONE

    def test_a_users_file_is_kept_unless_it_may_go(self, write, tmp_path, paths):
        out = write("out.txt", "mine\n")
        with pytest.raises(R2medError, match=r"out\.txt is there already: name another file, or say --overwrite"):
            fuse_files(paths, spec(), out)
        assert out.read_text() == "mine\n"
        (tmp_path / "other name").hardlink_to(out)
        fuse_files(paths, spec(), out, overwrite=True)
        assert list(read_run(out)["q1"]) == ["Y", "X", "b", "a", "c"]
        assert (tmp_path / "other name").read_text() == "mine\n"  # replaced as a whole, not written over

    @pytest.mark.parametrize("make", ["folder", "link", "broken link"])
    def test_only_a_plain_file_is_ever_replaced(self, write, tmp_path, paths, make):
        out = tmp_path / "out.txt"
        if make == "folder":
            out.mkdir()
        else:
            out.symlink_to(write("kept.txt", "mine\n") if make == "link" else tmp_path / "none")
        with pytest.raises(R2medError, match=r"out\.txt is there already"):
            fuse_files(paths, spec(), out, overwrite=True)
        assert out.is_dir() or out.is_symlink()

    @pytest.mark.parametrize("place", ["no/such/folder/out.txt", "one.txt/out.txt", "x" * 255])
    def test_a_place_where_nothing_can_be_written(self, tmp_path, paths, place):
        with pytest.raises(R2medError, match="cannot write "):
            fuse_files(paths, spec(), tmp_path / place)

    @pytest.mark.parametrize("old", [None, "mine\n"])
    def test_nothing_half_written_stays(self, write, tmp_path, old):
        rows = "".join(f"q{number:03d} Q0 d 1 1 t\n" for number in range(500)) + "q999 Q0 d 1 1e308 t\n"
        paths, out = [write("a.txt", rows), write("b.txt", rows)], tmp_path / "out.txt"
        if old:
            out.write_text(old)
        with pytest.raises(BadInput, match="query q999"):
            fuse_files(paths, spec(COMBSUM, normalization=NONE), out, overwrite=True)
        left = {path.name for path in tmp_path.iterdir()}
        assert left == {"a.txt", "b.txt", *(["out.txt"] if old else [])}
        assert not old or out.read_text() == old


@pytest.mark.parametrize(("settings", "seed"), list(product(EVERY_WAY, range(3))), ids=str)
def test_a_plain_computation_gives_the_same(settings, seed):
    """The definitions once more, document by document."""
    runs = [random_run(100 + seed, steps=20), random_run(200 + seed, steps=20)]
    method, way = settings["method"], settings.get("normalization")
    weights = settings.get("weights") or ((0.3, 0.7) if method == INTERPOLATION else (1, 1))
    for query, found in fused(runs, **settings).items():
        parts = []
        for run in runs:
            scores = list(run[query].values())
            low, high, mean = min(scores), max(scores), math.fsum(scores) / len(scores)
            deviation = math.sqrt(math.fsum((score - mean) ** 2 for score in scores) / len(scores))
            points = {
                MIN_MAX: [(score - low) / (high - low) for score in scores],
                Z_SCORE: [(score - mean) / deviation for score in scores],
                NONE: scores,
                None: [1 / (60 + rank) for rank in range(1, len(scores) + 1)],
            }[way]
            parts.append(dict(zip(run[query], points, strict=True)))
        wanted = {
            document: sum(weight * part.get(document, 0) for weight, part in zip(weights, parts, strict=True))
            * (sum(document in part for part in parts) if method == COMBMNZ else 1)
            for document in {*parts[0], *parts[1]}
        }
        assert found == pytest.approx(wanted, rel=1e-6, abs=1e-7)
