"""Hostile places and data, for real: what needs Java. The rest is in ../test_hostile.py."""

import json
import os
import re
import shlex
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from r2med_pyserini.paths import Workspace

from .helpers import R2MED, built, environment, hits, r2med_in, succeed, write_dataset

OWN = "title: own\nindex: {kind: lucene}\nsearch: {model: bm25}\n"
DOCUMENTS = {
    "d1": "Chest pain that eases with rest points to angina.",
    "d2": "A cough with rusty sputum suggests pneumonia.",
    "d3": "Night blindness may stem from a lack of vitamin A.",
}
OTHERS = {**DOCUMENTS, "d2": "Chest pain at rest, chest pain at night.", "d4": "A cough at night and a fever."}
QUERIES = {"q1": "chest pain at rest", "q2": "cough and fever"}
MORE = {**QUERIES, "q3": "night blindness"}
JUDGED = [("q1", "d1"), ("q2", "d2"), ("q3", "d3")]
ODD_IDS = ["x" * 32_766, "é" * 16_383, "a\u00a0b", "a\u2028b", "a\x85b", "😀", "-", "'", "\\N"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> tuple[Path, Workspace]:
    """A suite, and the workspace of its finished runs. Its datasets are three states of the same data, and odd ones."""
    root = tmp_path_factory.mktemp("hostile")
    suite, workspace = root / "suite", Workspace(root / "work")
    write_dataset(suite / "old", DOCUMENTS, QUERIES, JUDGED)
    write_dataset(suite / "more", DOCUMENTS, MORE, JUDGED)
    write_dataset(suite / "other", OTHERS, QUERIES, JUDGED)
    for name, grades in (("minus1", [-1, -1, -1]), ("lower", [-2, -3, -5])):
        judgements = [*zip(["q1"] * 3, DOCUMENTS, grades, strict=True), ("q2", "d1", grades[1]), ("q2", "d2", 1)]
        rows = [json.dumps({"q_id": query, "p_id": document, "score": grade}) for query, document, grade in judgements]
        (write_dataset(suite / name, DOCUMENTS, QUERIES, []) / "qrels.jsonl").write_text("\n".join(rows))
    texts = {name: f"pain {number}" for number, name in enumerate(ODD_IDS)}
    write_dataset(suite / "ids", texts, dict.fromkeys(ODD_IDS, "pain"), [(ODD_IDS[0], ODD_IDS[1])])
    workspace.root.mkdir()
    succeed(workspace, "run", "bm25", "--suite", suite)
    return suite, workspace


@pytest.fixture
def old(finished, tmp_path) -> tuple[Path, Workspace]:
    """The dataset `old`, and the workspace, of the test's own."""
    shutil.copytree(finished[0] / "old", tmp_path / "suite" / "old")
    shutil.copytree(finished[1].root, tmp_path / "work")
    return tmp_path / "suite", Workspace(tmp_path / "work")


# odd data


def test_grades_below_minus_1_are_as_minus_1(finished):
    _, workspace = finished
    lower, minus1 = (workspace.scores("suite", name, "bm25").read_bytes() for name in ("lower", "minus1"))
    assert lower == minus1
    assert json.loads(lower)["queries"]["q1"]["nDCG@10"] == 0 < json.loads(lower)["queries"]["q2"]["nDCG@10"]


def test_odd_ids_come_through(finished):
    suite, workspace = finished
    run = workspace.run("suite", "ids", "bm25")
    found = hits(run)
    assert found.keys() == set(ODD_IDS)
    assert all({document for document, _ in ranking} == set(ODD_IDS) for ranking in found.values())
    assert succeed(workspace, "validate", run, "--suite", suite, "--dataset", "ids").out == f"{run}: no fault\n"


# nothing of a user's is lost


def test_a_run_that_r2med_did_not_make_is_refused_and_stays(old):
    suite, workspace = old
    run = workspace.run("suite", "old", "bm25")
    (run.parent / ".manifests" / f"{run.name}.json").unlink()
    run.write_text("mine")
    done = r2med_in(workspace, "run", "bm25", "--suite", suite)
    assert (done.status, done.err) == (1, f"Error: {run} is there, but r2med did not make it: move it out of the way\n")
    assert run.read_text() == "mine"


def test_a_file_in_an_index_is_named_and_stays_when_the_index_would_be_made_anew(old, finished):
    suite, workspace = old
    index = workspace.index("lucene", "suite", "old")
    (index / "notes.txt").write_text("mine")
    before = {path.name: path.read_bytes() for path in index.iterdir()}
    shutil.copy(finished[0] / "other" / "corpus.jsonl", suite / "old")
    done = r2med_in(workspace, "run", "bm25", "--suite", suite)
    assert (done.status, built(done)) == (1, ["convert suite/old"])
    assert f"Error: {index / 'notes.txt'} is not r2med's, and would be lost: move it out of {index}\n" in done.err
    assert {path.name: path.read_bytes() for path in index.iterdir()} == before


def test_a_finders_file_in_an_index_changes_nothing(old, finished):
    suite, workspace = old
    (workspace.index("lucene", "suite", "old") / ".DS_Store").write_text("x")
    run = workspace.run("suite", "old", "bm25")
    run.unlink()
    assert built(succeed(workspace, "run", "bm25", "--suite", suite)) == ["search suite/old bm25"]
    assert run.read_bytes() == finished[1].run("suite", "old", "bm25").read_bytes()


# data that change during a run


def change(folder: Path, state: Path) -> None:
    """Bring a dataset into the state of another: a query is appended, in two parts; or the corpus is replaced."""
    if state.name == "more":
        line = (state / "query.jsonl").read_text().splitlines(keepends=True)[-1]
        for part in (line[:9], line[9:]):
            with (folder / "query.jsonl").open("a") as file:
                file.write(part)
            time.sleep(0.2)
    else:
        shutil.copy(state / "corpus.jsonl", folder / "new")
        (folder / "new").replace(folder / "corpus.jsonl")


@pytest.mark.parametrize(
    ("state", "moment", "meanwhile"),
    [
        ("more", None, None),
        ("other", "convert", "data"),
        ("other", "index", "run bm25"),
    ],
)
def test_after_data_changed_during_a_run_another_run_gives_their_scores(finished, tmp_path, state, moment, meanwhile):
    """`moment`: the stage after which they change; `meanwhile`: what another process does then."""
    (states, right), suite = finished, tmp_path / "suite"
    shutil.copytree(states / "old", suite / "old")
    (tmp_path / "work").mkdir()
    workspace = Workspace(tmp_path / "work")
    command = [*R2MED, "run", "bm25", "--suite", suite, "--threads", "2"]
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process, said = subprocess.Popen(command, env=environment(workspace), **output), ""
    while moment and f" {moment} " not in said:
        said += process.stderr.readline() or pytest.fail("it ended too early")
    change(suite / "old", states / state)
    if meanwhile:
        succeed(workspace, *meanwhile.split(), *([] if "clean" in meanwhile else ["--suite", suite]))
    said += process.communicate(timeout=60)[1]
    assert "Traceback" not in said
    assert process.returncode == (1 if "Error: " in said else 0), said
    succeed(workspace, "run", "bm25", "--suite", suite)
    for path in (Workspace.run, Workspace.scores):
        ours, wanted = path(workspace, "suite", "old", "bm25"), path(right, "suite", state, "bm25")
        assert ours.read_bytes() == wanted.read_bytes()
    assert "0 of 4 stages to do" in succeed(workspace, "run", "bm25", "--suite", suite, "--dry-run").out


# names, streams and places


def test_figures_of_suites_and_datasets_with_odd_names_are_read_back(tmp_path, workspace, write):
    own, suite = write("own.yaml", OWN), tmp_path / "suites" / "on"
    for name in ("yes", "123", "on", "null"):
        write_dataset(suite / name, DOCUMENTS, QUERIES, JUDGED)
    assert re.search(r"^own .* NEW$", succeed(workspace, "run", own, "--suite", suite).out, re.MULTILINE)
    succeed(workspace, "record", own, "--suite", suite, "--yes")
    for words in (("run", own, "--suite", suite), ("report", own, "--suite", suite, "--measure", "MRR")):
        assert re.search(r"^own .* OK$", succeed(workspace, *words).out, re.MULTILINE)


def test_a_run_is_made_though_all_streams_are_closed(workspace, make_dataset):
    command = shlex.join([*R2MED, "run", "bm25", "--suite", str(make_dataset())])
    done = subprocess.run(["sh", "-c", f"{command} <&- >&- 2>&-"], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert workspace.scores("tiny", "tiny", "bm25").is_file()
    assert hits(workspace.run("tiny", "tiny", "bm25")).keys() == QUERIES.keys()


def test_a_current_folder_whose_name_is_not_utf8_is_one_clear_line_or_no_trouble(tmp_path, make_dataset):
    here = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    try:
        here.mkdir()
    except OSError:
        pytest.skip("this file system wants UTF-8")
    env = {name: value for name, value in os.environ.items() if name != "R2MED_HOME"}
    command = [*R2MED, "run", "bm25", "--suite", make_dataset()]
    done = subprocess.run(command, cwd=here, env=env, capture_output=True, check=False)
    assert b"Traceback" not in done.stderr
    assert done.returncode == 0 or done.stderr.count(b"Error: ") == 1
