import csv
import io
import json
import math
import os
from dataclasses import replace
from pathlib import Path

import pytest

from r2med_pyserini.comparing import compare
from r2med_pyserini.conditions import load
from r2med_pyserini.errors import BadInput, R2medError, UsageError
from r2med_pyserini.outcome import Outcome
from r2med_pyserini.paths import QUERY_FILE
from r2med_pyserini.plan import prepare
from r2med_pyserini.report.comparison import WIDTH
from r2med_pyserini.significance import difference, holm

MEASURE = ("R@1",)
QRELS = "".join(f"q{number} 0 d{number} 1\n" for number in range(1, 6))
A_IS_RIGHT_ON, B_IS_RIGHT_ON = (1, 2, 3, 4), (4, 5)
OWN = "title: own\nindex: {kind: lucene}\nsearch: {model: bm25}\n"


def run_of(right: tuple[int, ...], queries: int = 5, prefix: str = "q") -> str:
    """A run that finds the one relevant document of the queries that are `right`, and another one of the others."""
    return "".join(f"{prefix}{n} Q0 {f'd{n}' if n in right else 'other'} 1 1 t\n" for n in range(1, queries + 1))


def call(
    a,
    b,
    suite="mini",
    slugs=(),
    qrels: Path | None = None,
    measures=MEASURE,
    form: str = "json",
    top: int = 3,
) -> Outcome:
    return compare(str(a), str(b), str(suite), slugs, qrels, measures, form, top)


def read(outcome: Outcome) -> dict:
    def refuse(word: str):
        raise AssertionError(f"{word} is no JSON")

    return json.loads(outcome.text, parse_constant=refuse)


def groups(outcome: Outcome) -> dict[tuple[str, str, str], dict]:
    return {(group["measure"], group["by"], group["group"]): group for group in read(outcome)["groups"]}


@pytest.fixture
def two_runs(write):
    """Runs A and B, and the judgements."""
    return write("a.txt", run_of(A_IS_RIGHT_ON)), write("b.txt", run_of(B_IS_RIGHT_ON)), write("qrels.txt", QRELS)


@pytest.fixture
def plant(workspace):
    """Puts a run in the workspace where a condition's current run would be; everything else is made as ever."""

    def plant(suite, slug: str, condition: str, run: str) -> None:
        prepared = prepare(str(suite), (slug,), conditions=[load(condition)])
        for stage in prepared.stages:
            if stage.verb == "search":
                stage = replace(stage, build=lambda path: path.write_text(run), tools=())
            if stage.verb != "index":
                stage.make(prepared.setting.hashes)

    return plant


@pytest.fixture
def suite(make_dataset) -> Path:
    """Two datasets of a user; of one the queries have body systems."""
    for name, systems in (("one", ["Nervous", "Nervous", "Urinary", " ", 7]), ("two", [None] * 3)):
        numbers = range(1, len(systems) + 1)
        folder = make_dataset(
            name,
            [{"id": f"d{n}", "text": f"document {n}"} for n in numbers],
            [{"id": f"q{n}", "text": f"query {n}", "body_system": systems[n - 1]} for n in numbers],
            [{"q_id": f"q{n}", "p_id": f"d{n}", "score": 1} for n in numbers],
        )
    return folder.parent


@pytest.fixture
def planted(plant, suite) -> Path:
    """The same, with runs of bm25 and qld of both datasets."""
    plant(suite, "one", "bm25", run_of(A_IS_RIGHT_ON))
    plant(suite, "one", "qld", run_of(B_IS_RIGHT_ON))
    plant(suite, "two", "bm25", run_of((1, 2, 3), 3))
    plant(suite, "two", "qld", run_of((), 3))
    return suite


class TestRunFiles:
    def test_all_that_is_said_of_two_runs(self, two_runs):
        a, b, qrels = two_runs
        found = read(call(a, b, qrels=qrels))
        (group,) = found["groups"]
        expected = vars(difference([1, 1, 1, 1, 0], [0, 0, 0, 1, 1]))
        assert {key: group[key] for key in expected} == expected
        assert (group["n"], group["a"], group["b"], group["better"], group["equal"], group["worse"]) == (
            5,
            0.8,
            0.4,
            3,
            1,
            1,
        )
        assert group["p_randomisation"] == 10 / 16  # of 16 sums of four signs, 6 are 0; the observed is 2
        assert (group["by"], group["holm_randomisation"]) == ("all", group["p_randomisation"])
        assert [query["scores"]["R@1"]["difference"] for query in found["queries"]] == [1, 1, 1, 0, -1]
        assert (found["a"], found["b"], found["judgements"], found["tests"]) == (str(a), str(b), str(qrels), 1)

    def test_changing_sides_changes_signs(self, two_runs):
        a, b, qrels = two_runs
        one, other = (groups(call(*pair, qrels=qrels))["R@1", "all", "all"] for pair in ((a, b), (b, a)))
        assert (one["p_t"], one["p_randomisation"]) == (pytest.approx(other["p_t"]), other["p_randomisation"])
        assert (one["a"], one["better"], one["difference"]) == (other["b"], other["worse"], -other["difference"])

    @pytest.mark.parametrize("form", ["text", "json", "csv"])
    def test_the_same_input_gives_the_same_output(self, two_runs, form):
        a, b, qrels = two_runs
        measures = ("nDCG@10", "MRR", "R@1")
        one, other = (call(a, b, qrels=qrels, form=form, measures=measures) for _ in range(2))
        assert one == other and one.good and not one.errors and not one.warnings

    def test_a_judged_query_that_a_run_lacks_counts_0_and_is_told(self, write, two_runs):
        a, _, qrels = two_runs
        short = write("short.txt", "q1 Q0 d1 1 1 t\n")
        outcome = call(a, short, qrels=qrels)
        assert [query["scores"]["R@1"]["b"] for query in read(outcome)["queries"]] == [1, 0, 0, 0, 0]
        assert outcome.warnings == [f"{short} has no hits for 4 of the 5 judged queries; they count 0"]

    def test_the_dataset_of_a_suite_gives_texts_and_body_systems(self, workspace, suite, write):
        a, b = write("a.txt", run_of(A_IS_RIGHT_ON)), write("b.txt", run_of(B_IS_RIGHT_ON))
        one = call(a, b, suite, slugs=("one",))
        assert one == call(a, b, suite, slugs=("one", "one"))
        queries = read(one)["queries"]
        assert [query["text"] for query in queries] == [f"query {n}" for n in range(1, 6)]
        assert [query["body_system"] for query in queries] == ["Nervous", "Nervous", "Urinary", None, None]
        assert list(groups(one)) == [
            ("R@1", "dataset", "one"),
            ("R@1", "body_system", "Nervous"),
            ("R@1", "body_system", "Urinary"),
        ]

    def test_one_query_has_no_tests_and_that_is_said(self, write):
        a, b = write("a.txt", run_of((1,), 1)), write("b.txt", run_of((), 1))
        qrels = write("qrels.txt", "q1 0 d1 1\n")
        group = groups(call(a, b, qrels=qrels))["R@1", "all", "all"]
        names = ("low", "high", "p_t", "p_randomisation", "holm_t", "holm_randomisation", "effect")
        assert [group[name] for name in names] == [None] * 7
        text = call(a, b, qrels=qrels, form="text").text
        assert "a single query tells nothing about chance" in " ".join(text.split())
        assert "nan" not in text.lower() and "None" not in text

    def test_runs_that_are_alike(self, write, two_runs):
        a, _, qrels = two_runs
        same = write("same.txt", a.read_text())
        group = groups(call(a, same, qrels=qrels))["R@1", "all", "all"]
        assert [group[name] for name in ("difference", "low", "high", "p_t", "p_randomisation")] == [0, 0, 0, 1, 1]
        text = call(a, same, qrels=qrels, form="text").text
        assert "is better by most" not in text and "nan" not in text.lower() and "-0.0000" not in text


class TestConditions:
    def test_every_dataset_and_all_queries(self, planted):
        outcome = call("bm25", "qld", planted)
        found = groups(outcome)
        sizes = {(by, name): group["n"] for (_, by, name), group in found.items()}
        assert sizes == {
            ("dataset", "one"): 5,
            ("dataset", "two"): 3,
            ("all", "all"): 8,
            ("body_system", "Nervous"): 2,
            ("body_system", "Urinary"): 1,
        }
        assert found["R@1", "all", "all"]["a"] == 7 / 8 and found["R@1", "dataset", "two"]["b"] == 0
        names = read(outcome)
        assert (names["a"], names["b"], names["judgements"]) == ("bm25", "qld", planted.name)

    def test_holm_is_over_all_tests_of_all_measures_and_not_over_what_is_described(self, planted):
        outcome = call("bm25", "qld", planted, measures=("R@1", "MRR"))
        rows = read(outcome)["groups"]
        tested = [row for row in rows if row["by"] != "body_system"]
        assert len(tested) == read(outcome)["tests"] == 6
        for name in ("t", "randomisation"):
            assert [row[f"holm_{name}"] for row in tested] == holm([row[f"p_{name}"] for row in tested])
        described = [row for row in rows if row["by"] == "body_system"]
        assert len(described) == 4
        assert {row[name] for row in described for name in ("p_t", "p_randomisation", "holm_t")} == {None}

    def test_only_the_datasets_that_are_named(self, planted):
        outcome = call("bm25", "qld", planted, slugs=("two",))
        assert list(groups(outcome)) == [("R@1", "dataset", "two")]
        assert [query["dataset"] for query in read(outcome)["queries"]] == ["two"] * 3

    def test_a_dataset_that_lacks_a_run_is_left_out_and_that_is_said(self, plant, suite):
        for condition in ("bm25", "qld"):
            plant(suite, "one", condition, run_of((1,)))
        plant(suite, "two", "bm25", run_of((1,), 3))
        outcome = call("bm25", "qld", suite)
        assert {query["dataset"] for query in read(outcome)["queries"]} == {"one"}
        assert outcome.warnings == ["left out: no current run of qld on two"]

    def test_a_run_that_is_not_current_is_none(self, planted):
        with (planted / "two" / QUERY_FILE).open("a") as file:
            file.write('{"id": "q9", "text": "another"}\n')
        outcome = call("bm25", "qld", planted)
        assert outcome.warnings == ["left out: no current run of bm25 and qld on two"]

    def test_a_condition_of_a_file(self, planted, plant, write):
        own = write("own.yaml", OWN)
        plant(planted, "two", str(own), run_of((2,), 3))
        outcome = call("bm25", own, planted, slugs=("two",))
        assert read(outcome)["b"] == "own"
        assert groups(outcome)["R@1", "dataset", "two"]["b"] == pytest.approx(1 / 3)

    def test_a_condition_beside_a_run_file(self, planted, write):
        run = write("b.txt", run_of(B_IS_RIGHT_ON))
        mixed, ours = call("bm25", run, planted, slugs=("one",)), call("bm25", "qld", planted, slugs=("one",))
        assert read(mixed)["groups"] == read(ours)["groups"]
        turned = groups(call(run, "bm25", planted, slugs=("one",)))["R@1", "dataset", "one"]
        assert turned["difference"] == -groups(mixed)["R@1", "dataset", "one"]["difference"]

    def test_measures_that_are_kept_and_others_agree_with_evaluation(self, planted):
        kept, other = (groups(call("bm25", "qld", planted, measures=(name,))) for name in ("ndcg@10", "nDCG@9"))
        assert {measure for measure, _, _ in kept} == {"nDCG@10"}
        one = kept["nDCG@10", "dataset", "one"], other["nDCG@9", "dataset", "one"]
        assert [(group["a"], group["b"]) for group in one] == [(0.8, 0.4)] * 2

    def test_the_usual_measures(self, planted):
        assert read(call("bm25", "qld", planted, measures=()))["measures"] == ["nDCG@10", "R@100"]

    def test_a_measure_asked_for_twice_is_shown_once(self, planted):
        found = read(call("bm25", "qld", planted, measures=("mrr", "MRR", "r@10")))
        assert found["measures"] == ["MRR", "R@10"]

    def test_nothing_is_written(self, planted, workspace):
        def state():
            return {path: path.stat().st_mtime_ns for path in workspace.root.rglob("*") if "cache" not in str(path)}

        before = state()
        call("bm25", "qld", planted)
        assert state() == before


class TestTasks:
    def test_a_task_is_shown_beside_its_datasets(self, plant):
        for slug, query in (("biology", "0"), ("bioinformatics", "0"), ("medqa-diag", "007")):
            for condition in ("bm25", "qld"):
                plant("mini", slug, condition, f"{query} Q0 {condition} 1 1 t\n")
        outcome = call("bm25", "qld")
        assert [key for key in groups(outcome) if key[1] != "body_system"] == [
            ("R@1", "dataset", "biology"),
            ("R@1", "dataset", "bioinformatics"),
            ("R@1", "dataset", "medqa-diag"),
            ("R@1", "task", "qa-reference"),
            ("R@1", "all", "all"),
        ]
        found = groups(outcome)
        assert found["R@1", "task", "qa-reference"]["n"] == 18 and found["R@1", "all", "all"]["n"] == 27
        systems = [group["n"] for (_, by, _), group in found.items() if by == "body_system"]
        assert sum(systems) == 27
        assert "not R2MED's scores" in call("bm25", "qld", form="text").text


class TestForms:
    def test_text_fits_its_width_and_shows_what_matters(self, planted):
        text = call("bm25", "qld", planted, measures=("R@1", "MRR"), form="text", top=2).text
        assert max(map(len, text.splitlines())) <= WIDTH
        lines = [line.split() for line in text.splitlines()]
        header = ["queries", "n", "A", "B", "A", "-", "B", "low", "high", "p(t)", "p(r)", "Holm", "+/=/-"]
        assert header in lines
        assert ["all", "queries", "8", "0.8750", "0.2500", "+0.6250"] in [line[:6] for line in lines]
        assert "number of tests shown, 6." in text

    @pytest.mark.parametrize("top", [0, 1, 3, 100])
    def test_the_queries_of_the_largest_gain_and_loss(self, planted, top):
        text = call("bm25", "qld", planted, form="text", top=top).text
        gained, lost = (
            [line for line in text.splitlines() if f" {sign}1.0000 " in line and "query" in line] for sign in "+-"
        )
        assert (len(gained), len(lost)) == (min(top, 6), min(top, 1))
        if top:
            assert gained[0].split() == ["one", "q1", "1.0000", "0.0000", "+1.0000", "query", "1"]
            assert lost[0].split()[:2] == ["one", "q5"]

    def test_the_largest_comes_first(self, write):
        ranks = {"q1": 3, "q2": 1, "q3": 2, "q4": 4}
        lines = [f"{q} Q0 {'d' if n == rank else f'x{n}'} 1 {-n} t\n" for q, rank in ranks.items() for n in range(1, 5)]
        a, b = write("a.txt", "".join(lines)), write("b.txt", "".join(f"{q} Q0 x1 1 1 t\n" for q in ranks))
        qrels = write("qrels.txt", "".join(f"{q} 0 d 1\n" for q in ranks))
        for sides, sign in (((a, b), "+"), ((b, a), "-")):
            text = call(*sides, qrels=qrels, measures=("MRR",), form="text", top=3).text
            shown = [line.split() for line in text.splitlines() if line.startswith("q") and sign in line.split()[-1]]
            assert [(line[0], line[-1]) for line in shown if line[0] in ranks] == [
                *(("q2", f"{sign}1.0000"), ("q3", f"{sign}0.5000"), ("q1", f"{sign}0.3333")),
            ]

    def test_long_and_odd_names_and_texts(self, workspace, make_dataset, plant):
        name, odd = "a-long-name-" * 8 + "z", "\x1b[31mred\u2028\x00" + "word " * 90
        queries = [letter * 500 for letter in "qr"]
        folder = make_dataset(
            name,
            queries=[{"id": query, "text": f"{odd}{query}", "body_system": f"\x1b[2J{query}"} for query in queries],
            qrels=[{"q_id": query, "p_id": "d1", "score": 1} for query in queries],
        )
        for condition, document in (("bm25", "d1"), ("qld", "d2")):
            plant(folder, name, condition, "".join(f"{query} Q0 {document} 1 1 t\n" for query in queries))
        text = call("bm25", "qld", folder, form="text").text
        tables = text[text.index("R@1\n") :].splitlines()
        assert max(map(len, tables)) <= WIDTH
        assert "\x1b" not in text and "\x00" not in text
        whole = "".join(line.split()[0] for line in tables if line.split())
        assert name in whole and all(f"[2J{query}" in whole for query in queries)

    def test_csv_has_a_line_a_group_and_a_line_a_query(self, planted):
        outcome = call("bm25", "qld", planted, form="csv", measures=("R@1", "MRR"))
        rows = list(csv.DictReader(io.StringIO(outcome.text)))
        kinds = [row["by"] for row in rows]
        assert [kinds.count(kind) for kind in ("dataset", "all", "body_system", "query")] == [4, 2, 4, 16]
        assert rows[0]["dataset"] == rows[0]["group"] == "one"
        first = next(row for row in rows if row["by"] == "query")
        assert [first[name] for name in ("measure", "dataset", "group", "n", "a", "b", "difference", "p_t")] == [
            *("R@1", "one", "q1", "1", "1.0", "0.0", "1.0", ""),
        ]
        as_json = groups(call("bm25", "qld", planted, measures=("R@1", "MRR")))
        for row in rows:
            if row["by"] != "query":
                known = as_json[row["measure"], row["by"], row["group"]]
                assert {name: value for name, value in row.items() if name != "dataset"} == {
                    name: "" if value is None else str(value) for name, value in known.items()
                }

    @pytest.mark.parametrize("form", ["text", "json", "csv"])
    def test_nothing_is_nan(self, planted, form):
        assert "nan" not in call("bm25", "qld", planted, form=form, measures=("R@1", "nDCG@10")).text.lower().split()
        values = read(call("bm25", "qld", planted))["groups"]
        assert all(math.isfinite(v) for group in values for v in group.values() if isinstance(v, float))


class TestRefused:
    @pytest.mark.parametrize(
        ("a", "b", "how", "text"),
        [
            ("bm25", "bm25", {}, "A and B are both bm25"),
            ("bm25", "bm26", {}, "neither a condition; did you mean"),
            ("bm25", "", {}, "nor a run file that is here"),
            ("bm25", ".", {}, "nor a run file that is here"),
            ("bm25", "qld", {"suite": "minni"}, "did you mean 'mini'"),
            ("bm25", "qld", {"slugs": ("biolgy",)}, "did you mean 'biology'"),
            ("bm25", "qld", {"measures": ("ndgc@10",)}, "did you mean 'nDCG@10'"),
            ("bm25", "qld", {"qrels": Path("x")}, "bm25 is a condition"),
            ("bm25", "a.txt", {}, "either --dataset NAME"),
            ("a.txt", "qld", {"qrels": Path("x")}, "qld is a condition"),
            ("a.txt", "b.txt", {}, "either --dataset NAME"),
            ("a.txt", "a.txt", {}, "A and B are both a.txt"),
            ("a.txt", "b.txt", {"slugs": ("biology",), "qrels": Path("x")}, "either --dataset NAME"),
            ("a.txt", "b.txt", {"slugs": ("biology", "medqa-diag")}, "belongs to one dataset"),
            ("a.txt", "b.txt", {"slugs": ("biolgy",)}, "did you mean 'biology'"),
            ("a.txt", "b.txt", {"qrels": Path("qrels.txt"), "form": "xml"}, "formats are text, json, csv"),
            ("a.txt", "b.txt", {"qrels": Path("qrels.txt"), "top": -1}, "--top is 0 or more"),
        ],
    )
    def test_words_that_make_no_sense(self, workspace, two_runs, monkeypatch, a, b, how, text):
        monkeypatch.chdir(two_runs[0].parent)
        with pytest.raises(UsageError, match=text):
            call(a, b, **how)

    def test_no_current_run(self, planted):
        with pytest.raises(R2medError, match="no current run of bm25-rm3 on one, two\nmake the runs with") as caught:
            call("bm25", "bm25-rm3", planted)
        assert str(caught.value).endswith(f"`r2med run bm25 bm25-rm3 --suite {planted}`")
        assert caught.value.exit_status == 1

    def test_no_current_run_beside_a_run_file(self, suite, workspace, write):
        with pytest.raises(R2medError, match=r"no current run of bm25 on two\n.*run bm25 --suite .* --dataset two`"):
            call("bm25", write("b.txt", run_of((1,), 3)), suite, slugs=("two",))

    def test_a_file_that_is_no_condition(self, workspace, write):
        with pytest.raises(BadInput, match="search"):
            call("bm25", write("own.yaml", "title: own\nindex: {kind: lucene}\n"))

    def test_two_names_of_one_condition(self, workspace, write, monkeypatch):
        own = write("own.yaml", OWN)
        monkeypatch.chdir(own.parent)
        with pytest.raises(UsageError, match="A and B are both"):
            call("own.yaml", "./own.yaml")

    @pytest.mark.parametrize("place", ["a", "b"])
    def test_a_run_of_other_queries_is_named(self, two_runs, write, place):
        a, b, qrels = two_runs
        foreign = write("foreign.txt", run_of((1,), prefix="other"))
        with pytest.raises(BadInput, match=r"foreign\.txt: run and qrels share no query"):
            call(*((foreign, b) if place == "a" else (a, foreign)), qrels=qrels)

    @pytest.mark.parametrize(
        ("content", "text"), [("", "holds no row"), ("q1 d1 1\n", "wanted are 6"), (b"\xff Q0 d1 1 1 t\n", "not UTF-8")]
    )
    def test_a_file_that_is_no_run(self, two_runs, write, content, text):
        a, _, qrels = two_runs
        with pytest.raises(BadInput, match=text):
            call(a, write("bad.txt", content), qrels=qrels)

    def test_judgements_that_are_none(self, two_runs, write):
        with pytest.raises(BadInput, match="holds no judgement"):
            call(*two_runs[:2], qrels=write("empty.txt", ""))

    def test_a_run_without_a_judged_document_is_warned_of(self, two_runs, write):
        a, _, qrels = two_runs
        none = write("none.txt", run_of(()))
        assert call(a, none, qrels=qrels).warnings == [
            f"{none} holds no judged document: do run and qrels belong to the same dataset?"
        ]

    def test_a_measure_that_looks_deeper_than_a_condition(self, plant, suite):
        for condition in ("bm25", "bm25-official"):
            plant(suite, "two", condition, run_of((1,), 3))
        with pytest.raises(UsageError, match=r"bm25-official keeps too few documents a query for R@1000"):
            call("bm25", "bm25-official", suite, measures=("R@1", "R@1000"))

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_a_file_that_may_not_be_read(self, two_runs):
        a, b, qrels = two_runs
        b.chmod(0)
        with pytest.raises(OSError):
            call(a, b, qrels=qrels)
