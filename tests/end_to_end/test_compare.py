"""Comparing real runs of two conditions: against what `report` and `eval` say of them, and as files."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from r2med_pyserini.comparing import compare
from r2med_pyserini.outcome import Outcome
from r2med_pyserini.paths import MINI, QUERY_FILE, Workspace
from r2med_pyserini.report.comparison import WIDTH

from .helpers import Result, environment, r2med_in, rows, run_files

DATASETS = ("biology", "medqa-diag")
ONLY = [option for slug in DATASETS for option in ("--dataset", slug)]
MEASURES = ("nDCG@10", "R@100")


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Workspace:
    workspace = Workspace(tmp_path_factory.mktemp("compare"))
    done = r2med_in(workspace, "run", "bm25", "qld", "--suite", "mini", *ONLY, "--threads", "2")
    assert "Error" not in done.err
    return workspace


@pytest.fixture
def here(finished, monkeypatch) -> Workspace:
    monkeypatch.setenv("R2MED_HOME", str(finished.root))
    return finished


def call(a, b, slugs=(), qrels: Path | None = None, measures=(), form="json") -> Outcome:
    return compare(str(a), str(b), "mini", slugs, qrels, measures, form, 3)


def groups(outcome: Outcome) -> dict[tuple[str, str], dict]:
    return {(group["measure"], group["group"]): group for group in json.loads(outcome.text)["groups"]}


def test_means_are_those_of_the_report_and_queries_those_of_eval(here):
    outcome = call("bm25", "qld")
    missing = "bioinformatics, medical-sciences, medxpertqa-exam, pmc-treatment, pmc-clinical, iiyi-clinical"
    assert outcome.warnings == [f"left out: no current run of bm25 and qld on {missing}"]
    found = groups(outcome)
    for side, condition in (("a", "bm25"), ("b", "qld")):
        for slug in DATASETS:
            kept = json.loads(here.scores("mini", slug, condition).read_text())
            assert {m: found[m, slug][side] for m in MEASURES} == {m: kept["mean"][m] for m in MEASURES}
            done = r2med_in(
                here, "eval", here.run("mini", slug, condition), "--suite", "mini", "--dataset", slug,
                "--format", "json", "--per-query", "--measure", MEASURES[0], "--measure", MEASURES[1],
            )  # fmt: skip
            asked = {q["query"]: q for q in json.loads(outcome.text)["queries"] if q["dataset"] == slug}
            queries = json.loads(done.out)["queries"]
            assert {name: {m: q["scores"][m][side] for m in MEASURES} for name, q in asked.items()} == queries
    assert found["nDCG@10", "all"]["n"] == sum(found["nDCG@10", slug]["n"] for slug in DATASETS) == 18


def test_queries_come_with_what_the_raw_files_say(here):
    asked = json.loads(call("bm25", "qld", slugs=("biology",)).text)["queries"]
    raw = {row["id"]: (row["text"], row["body_system"]) for row in rows(MINI / "biology" / QUERY_FILE)}
    assert {query["query"]: (query["text"], query["body_system"]) for query in asked} == raw


def test_the_files_of_the_runs_give_the_same(here):
    by_name = call("bm25", "qld", slugs=("biology",))
    files = [here.run("mini", "biology", condition) for condition in ("bm25", "qld")]
    by_file = call(*files, slugs=("biology",))
    assert groups(by_file) == groups(by_name)
    bare = groups(call(*files, qrels=here.collection("mini", "biology").qrels))
    assert {measure: group for (measure, _), group in bare.items()} == {
        measure: groups(by_name)[measure, "biology"] | {"by": "all", "group": "all"} for measure in MEASURES
    }


def test_sides_may_change(here):
    one, other = groups(call("bm25", "qld")), groups(call("qld", "bm25"))
    assert one.keys() == other.keys()
    for key, group in one.items():
        assert group["difference"] == pytest.approx(-other[key]["difference"])
        assert group["p_randomisation"] == other[key]["p_randomisation"]
        assert (group["better"], group["equal"]) == (other[key]["worse"], other[key]["equal"])


@pytest.mark.parametrize("form", ["text", "json", "csv"])
def test_every_process_says_the_same(here, form):
    before = run_files(here)
    program = (
        "from r2med_pyserini.comparing import compare\n"
        f"print(compare('bm25', 'qld', 'mini', {DATASETS!r}, None, ('nDCG@10',), {form!r}, 3).text)"
    )
    said = [
        subprocess.run(
            [sys.executable, "-W", "error", "-c", program],
            capture_output=True, text=True, check=True, env={**environment(here), "PYTHONHASHSEED": seed},
        ).stdout
        for seed in "12"
    ]  # fmt: skip
    assert said[0] == said[1] == call("bm25", "qld", DATASETS, measures=("nDCG@10",), form=form).text + "\n"
    assert run_files(here) == before


def test_text_is_readable(here):
    text = call("bm25", "qld", form="text").text
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "where B is better by most" in text and "nDCG@10 by body system (not tested)" in text


class TestCommandLine:
    @staticmethod
    def compared(workspace: Workspace, *words) -> Result:
        return r2med_in(workspace, "compare", *words)

    def test_conditions(self, here):
        done = self.compared(here, "bm25", "qld", "--suite", "mini", *ONLY, "--top", "3")
        assert (done.status, done.err) == (0, "")
        assert done.out == call("bm25", "qld", DATASETS, form="text").text + "\n"

    def test_files_and_forms(self, here):
        files = [here.run("mini", "biology", condition) for condition in ("bm25", "qld")]
        words = [*files, "--suite", "mini", "--dataset", "biology", "--measure", "MRR", "--format"]
        lines = list(csv.DictReader(io.StringIO(self.compared(here, *words, "csv").out)))
        found = json.loads(self.compared(here, *words, "json").out)
        assert len(lines) == len(found["groups"]) + len(found["queries"])

    @pytest.mark.parametrize(
        ("words", "status", "text"),
        [
            (["bm25", "bm26", "--suite", "mini"], 2, "did you mean 'bm25'"),
            (["bm25", "bm25", "--suite", "mini"], 2, "A and B are both bm25"),
            (["bm25", "qld", "--suite", "mini", "--dataset", "pmc-clinical"], 1, "no current run of bm25 and qld"),
            (["bm25"], 2, "Missing argument"),
            (["bm25", "qld", "--top", "-1"], 2, "--top"),
            (["bm25", "qld", "--format", "xml"], 2, "xml"),
        ],
    )
    def test_refused(self, here, words, status, text):
        done = self.compared(here, *words)
        assert (done.status, done.out) == (status, "") and text in done.err
        assert "Traceback" not in done.err

    def test_a_folder_of_runs_is_no_run(self, here):
        done = self.compared(here, here.runs, "bm25", "--suite", "mini", "--dataset", "biology")
        assert done.status == 2 and os.fspath(here.runs) in done.err
