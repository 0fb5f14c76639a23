import json

import pytest
from click.testing import CliRunner

from r2med_pyserini.cli import cli
from r2med_pyserini.evaluation import MEASURES

RUN = "q1 Q0 d1 1 2.0 t\nq1 Q0 d2 2 1.0 t\n"
QRELS = "q1 0 d2 1\nq2 0 d9 2\n"


@pytest.fixture
def evaluated(write):
    """Runs `r2med eval` on a run and returns what it prints."""

    def run(*options, rows=RUN):
        run_file, qrels = write("run.txt", rows), write("qrels.txt", QRELS)
        done = CliRunner().invoke(cli, ["eval", str(run_file), "--qrels", str(qrels), *options], catch_exceptions=False)
        assert done.exit_code == 0
        return done

    return run


def test_means_and_how_many_queries_they_stand_for(evaluated):
    assert evaluated("--measure", "nDCG@10", "--measure", "mrr").stdout.splitlines() == [
        "nDCG@10\tall\t0.3155",
        "mrr\tall\t0.2500",
        "1 of 2 judged queries evaluated",
    ]


def test_every_query_can_be_shown(evaluated):
    assert evaluated("--measure", "MRR", "--per-query").stdout.splitlines() == [
        "MRR\tq1\t0.5000",
        "MRR\tq2\t0.0000",
        "MRR\tall\t0.2500",
        "1 of 2 judged queries evaluated",
    ]


def test_a_measure_asked_for_twice_is_shown_once(evaluated):
    assert evaluated("--measure", "MRR", "--measure", "MRR").stdout.count("MRR") == 1


def test_the_usual_measures_are_shown_if_none_is_asked_for(evaluated):
    assert [line.split("\t")[0] for line in evaluated().stdout.splitlines()[:-1]] == list(MEASURES)


@pytest.mark.parametrize("per_query", [False, True])
def test_json_is_complete(evaluated, per_query):
    expected = {"judged": 2, "evaluated": 1, "mean": {"MRR": 0.25}}
    queries = {"queries": {"q1": {"MRR": 0.5}, "q2": {"MRR": 0.0}}} if per_query else {}
    options = ["--per-query"] if per_query else []
    assert json.loads(evaluated("--measure", "MRR", "--format", "json", *options).stdout) == expected | queries


def test_a_sound_run_gives_no_warning(evaluated):
    assert evaluated().stderr == ""


def test_a_run_without_a_judged_document_is_warned_of(evaluated):
    done = evaluated("--measure", "MRR", rows="q1 Q0 x 1 2.0 t\n")
    assert done.stdout.startswith("MRR\tall\t0.0000")
    assert "holds no judged document" in done.stderr
