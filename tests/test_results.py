import random

import numpy as np
import pytest

from r2med_pyserini import results, significance
from r2med_pyserini.conditions import load
from r2med_pyserini.errors import R2medError, UsageError
from r2med_pyserini.evaluation import evaluate
from r2med_pyserini.report.comparison import BODY_SYSTEM, TASK
from r2med_pyserini.results import machine, ranks, recall, versions

from .planting import gathered, own_condition, planted, rows_of, run_of

SIZES = {"one": 12, "two": 3}  # queries of the datasets
MRR = "MRR"


@pytest.fixture
def suite(make_dataset, workspace):
    """Two datasets of a user. The relevant document of query q1 is d1, and so on. `one` has body systems."""
    for slug, size in SIZES.items():
        names = range(1, size + 1)
        queries = [{"id": f"q{n}", "text": f"query {n}", "body_system": "Nervous"} for n in names]
        queries[0]["body_system"] = "Urinary"
        folder = make_dataset(
            slug,
            corpus=[{"id": f"d{n}", "text": f"text {n}"} for n in names],
            queries=queries if slug == "one" else [{"id": q["id"], "text": q["text"]} for q in queries],
            qrels=[{"q_id": f"q{n}", "p_id": f"d{n}", "score": 1} for n in names],
        )
    return folder.parent


def run(size: int, right: int) -> str:
    """The first `right` queries have their document first; the others have it third."""
    lists = {
        f"q{n}": [f"d{n}", "x", "y"] if n <= right else ["x", "y", f"d{n}"] for n in range(1, size + 1)
    }  # fmt: skip
    return run_of(lists)


@pytest.fixture
def made(suite, tmp_path):
    """Makes results: for each condition how many queries of the datasets it gets right, in their order."""

    def make(measure=MRR, baseline=None, slugs=(), recall=True, **right):
        named = {name.replace("_", "-"): several for name, several in right.items()}
        known = [load(name) if name == "bm25" else own_condition(tmp_path, name) for name in named]
        runs = {
            name: {
                slug: run(SIZES[slug], count) for slug, count in zip(SIZES, several, strict=False) if count is not None
            }
            for name, several in named.items()
        }
        return gathered(planted(suite, known, runs, slugs), measure, baseline, recall)

    return make


class TestBaseline:
    def test_it_is_bm25_unless_named(self, made):
        assert made(bm25=(1, 1), b=(1, 1)).baseline == "bm25"
        assert made(bm25=(1, 1), b=(1, 1), baseline="b").baseline == "b"

    @pytest.mark.parametrize("bm25", [{}, {"bm25": (None, None)}])
    def test_without_bm25_there_is_none(self, made, bm25):
        found = made(b=(1, 1), **bm25)
        assert found.baseline is None and found.contrasts == []

    def test_one_that_is_not_shown_is_refused(self, made):
        with pytest.raises(UsageError, match=r"--baseline bm26: not among .* did you mean 'bm25'\?: b, bm25$"):
            made(bm25=(1, 1), b=(1, 1), baseline="bm26")

    def test_one_without_runs_is_refused(self, made):
        with pytest.raises(R2medError, match=r"--baseline b: no current run .*`r2med run b`"):
            made(bm25=(1, 1), b=(None, None), baseline="b")


class TestContrasts:
    def test_on_a_dataset_they_are_those_of_the_scores(self, made):
        found = made(bm25=(2, 0), b=(11, 1))
        ours, theirs = [1.0] * 11 + [1 / 3], [1.0] * 2 + [1 / 3] * 10
        contrast = found.contrast("b", "one")
        assert contrast.found == significance.difference(ours, theirs)
        assert (contrast.found.better, contrast.found.worse, contrast.sign) == (9, 0, 1)
        assert found.contrast("bm25", "one") is None

    def test_where_the_baseline_is_better_the_sign_is_negative(self, made):
        assert made(bm25=(11, 1), b=(2, 1)).contrast("b", "one").sign == -1

    def test_on_the_suite_every_dataset_counts_alike(self, made):
        found = made(bm25=(2, 0), b=(11, 1))
        of_suite = found.contrast("b", None).found
        means = [row.mean(MRR, found.suite) for row in found.rows]
        assert (of_suite.b, of_suite.a) == pytest.approx(means)
        assert of_suite.difference == pytest.approx(means[1] - means[0])
        assert of_suite.n == sum(SIZES.values()) and (of_suite.low, of_suite.high) == (None, None)

    def test_of_equal_sizes_the_test_of_the_mean_is_that_of_all_queries(self, made):
        found = made(bm25=(2, 0), b=(8, 1))
        weight = dict.fromkeys(SIZES, 1.0)
        alike = results.difference(found.questions, "b", "bm25", weight)
        plain = significance.difference(
            [question.scores["b"] for question in found.questions],
            [question.scores["bm25"] for question in found.questions],
        )
        assert alike == plain

    def test_there_is_none_of_a_suite_that_is_not_whole(self, made):
        found = made(bm25=(2, 0), b=(11, None), c=(3, 1))
        assert [(one.condition, one.dataset) for one in found.contrasts] == [
            ("b", "one"), ("c", "one"), ("c", "two"), ("c", None),
        ]  # fmt: skip
        assert {one.dataset for one in made(bm25=(2, 0), b=(3, 0), slugs=("one",)).contrasts} == {"one"}

    def test_tests_are_adjusted_over_the_conditions(self, made):
        found = made(bm25=(2, 0), b=(11, 1), c=(9, 1), d=(3, 0))
        for slug in (*SIZES, None):
            same = [one for one in found.contrasts if one.dataset == slug]
            assert [one.condition for one in same] == ["b", "c", "d"]
            assert [one.p for one in same] == significance.holm([one.found.p_randomisation for one in same])

    def test_a_run_that_does_not_tell_the_measure_has_none(self, suite, tmp_path):
        known = [load("bm25"), own_condition(tmp_path, "b", how="search: {model: bm25, hits: 3}")]
        runs = {name: {slug: run(size, 2) for slug, size in SIZES.items()} for name in ("bm25", "b")}
        found = gathered(planted(suite, known, runs), "nDCG@10")
        assert found.contrasts == [] and {name for q in found.questions for name in q.scores} == {"bm25"}
        assert {name: len(curve) for name, curve in found.recall["one"].items()} == {"bm25": 1000, "b": 3}


class TestQuestions:
    def test_they_have_texts_and_scores(self, made):
        found = made(bm25=(1, 1), b=(None, 3))
        assert [question.query for question in found.questions[-3:]] == ["q1", "q2", "q3"]
        assert found.questions[0].text == "query 1" and found.questions[0].body_system == "Urinary"
        assert found.questions[0].scores == {"bm25": 1.0}
        assert found.questions[-1].scores == {"bm25": pytest.approx(1 / 3), "b": 1.0}
        assert found.questions[-1].body_system is None

    def test_a_dataset_without_runs_has_none(self, made):
        assert {question.dataset for question in made(bm25=(None, 1)).questions} == {"two"}
        assert made(bm25=(None, None)).questions == []


class TestShares:
    def test_means_over_the_queries_of_a_group(self, made):
        found = made(bm25=(1, 0), b=(12, 3))
        shares = [(share.by, share.name, share.queries, share.means) for share in found.shares]
        assert shares == [
            (BODY_SYSTEM, "Nervous", 11, {"bm25": pytest.approx(1 / 3), "b": 1.0}),
            (BODY_SYSTEM, "Urinary", 1, {"bm25": 1.0, "b": 1.0}),
        ]

    def test_a_condition_has_no_mean_unless_it_has_all_of_them(self, workspace):
        known = [load("bm25"), load("qld")]
        lists = run_of({str(n): ["x"] for n in range(9)})
        plan = planted(
            "mini",
            known,
            {"bm25": {"biology": lists, "bioinformatics": lists, "medqa-diag": lists}, "qld": {"biology": lists}},
        )
        tasks = {share.name: (share.queries, share.means) for share in gathered(plan).shares if share.by == TASK}
        assert tasks["qa-reference"] == (18, {"bm25": 0.0})
        assert sorted(tasks) == ["clinical-evidence", "qa-reference"]

    def test_a_single_group_is_no_break_down(self, made):
        assert made(bm25=(None, 1)).shares == []


class TestRecall:
    def test_it_is_that_of_the_evaluation_at_every_rank(self):
        chance = random.Random(7)
        documents = [f"d{n}" for n in range(40)] + ["é", "z", "\U0001f600", "\ue000"]
        levels = [1.0, 1.00000001, 2.0, -1.5]  # the first two are the same in single precision
        for _ in range(20):
            qrels = {f"q{n}": {name: chance.randint(-1, 2) for name in chance.sample(documents, 6)} for n in range(5)}
            found = {
                f"q{n}": {name: chance.choice(levels) for name in chance.sample(documents, chance.randint(0, 30))}
                for n in range(1, 6)
            }
            curve = recall(qrels, found, 30)
            scores = evaluate(qrels, found, tuple(f"R@{rank}" for rank in range(1, 31)), foreign=False)
            assert curve == pytest.approx(list(scores.mean.values()), abs=1e-12)

    def test_scores_are_those_of_the_runs(self, made):
        found = made(bm25=(6, 0), b=(12, 3))
        for row in found.rows:
            for entry in row.entries:
                curve = found.recall[entry.dataset.slug][row.condition.name]
                for rank in (10, 100, 1000):
                    assert curve[rank - 1] == pytest.approx(entry.scores.mean[f"R@{rank}"])
        assert found.recall["one"]["bm25"][0] == pytest.approx(0.5)

    def test_it_is_left_out_unless_wanted(self, made):
        assert made(bm25=(1, 1), recall=False).recall == {}

    def test_ties_are_ranked_by_id_descending(self):
        assert ranks({"a": 1.0, "b": 1.0, "c": 2.0}, ["a", "b", "c", "d"]) == [3, 2, 1]
        assert ranks({}, ["a"]) == []
        assert ranks({"a": float(np.float32(0.1)), "b": 0.1}, ["a"]) == [2]


class TestSteps:
    def test_what_scores_rest_on(self, made):
        found = made(bm25=(1, None))
        steps = {step.verb: step for step in found.steps}
        assert list(steps) == ["convert", "index", "search", "evaluate"]
        assert {(step.condition, step.dataset) for step in found.steps} == {("bm25", "one")}
        assert (steps["index"].seconds, steps["index"].size) == (None, None)  # its index is not here
        assert 0 <= steps["evaluate"].seconds < 60 and steps["search"].size == len(run(SIZES["one"], 1))

    def test_fused_runs_rest_on_their_inputs(self, suite, tmp_path):
        (tmp_path / "both.yaml").write_text("title: t\nfusion: {method: rrf, inputs: [bm25, qld]}\n")
        known = [load("bm25"), load("qld"), load(str(tmp_path / "both.yaml"))]
        runs = {name: {"one": run(12, 2)} for name in ("bm25", "qld", "both")}
        plan = planted(suite, known, runs, ("one",))
        done = [(step.verb, step.subject) for step in gathered(plan).steps if step.condition == "both"]
        assert [verb for verb, _ in done] == ["convert", "index", "search", "search", "fuse", "evaluate"]
        assert len(set(done)) == len(done)

    def test_an_index_with_less_in_it_than_others_want_is_known(self, suite):
        plan = planted(suite, [load("bm25")], {"bm25": {"one": run(12, 2)}}, ("one",))
        (index,) = plan.only("index")
        index.artifact.make(index.recipe(), lambda folder: (folder / "x").write_text("x"), plan.setting.hashes)
        wider = planted(suite, [load("bm25"), load("bm25-rm3")], {"bm25": {"one": run(12, 2)}}, ("one",))
        assert not wider.only("index")[0].is_current(wider.setting.hashes)
        steps = {step.verb: step for step in gathered(wider).steps}
        assert steps["index"].size == 1 and steps["index"].seconds is not None
        (index.artifact.path / "x").write_text("y")
        assert {step.size for step in gathered(wider).steps if step.verb == "index"} == {None}


def test_versions_and_machine_are_told():
    found = versions([load("rrf-bm25-minilm")])
    assert {"Python", "Java", "r2med-pyserini", "anserini", "faiss", "torch", "pytrec-eval-terrier"} <= found.keys()
    assert all(isinstance(text, str) and text for text in (*found.values(), *machine().values()))
    assert {"operating system", "processor", "memory"} <= machine().keys()


def test_versions_leave_out_what_is_not_installed(monkeypatch):
    def missing(conditions):
        raise results.PackageNotFoundError("torch")

    monkeypatch.setattr(results.recording, "made_with", missing)
    assert "torch" not in versions([load("minilm")])


def test_without_any_run_there_is_nothing_to_tell(made):
    found = made(bm25=(None, None))
    assert (found.contrasts, found.questions, found.shares, found.steps) == ([], [], [], [])
    assert found.recall == {"one": {}, "two": {}} and found.versions["Python"]


def test_only_conditions_that_are_shown_count(suite, tmp_path):
    known = [load("bm25"), own_condition(tmp_path, "b")]
    runs = {name: {slug: run(size, 2) for slug, size in SIZES.items()} for name in ("bm25", "b")}
    scored, rows = rows_of(planted(suite, known, runs))
    plan = planted(suite, known, runs)
    found = results.gather(plan, scored, rows[1:], MRR)
    assert found.baseline is None and {name for q in found.questions for name in q.scores} == {"b"}
