"""Reranking on the command line: what comes of it, what is reused, and what an interruption or a missing model leaves.

The reranker is ms-marco-minilm-l-6 by name, and a tiny random one in truth: it lies in a Hub cache of its own.
"""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from r2med_pyserini import evaluation, trec
from r2med_pyserini.collection import documents
from r2med_pyserini.encoders import Settings
from r2med_pyserini.paths import Workspace
from r2med_pyserini.reranking.base import Pair
from r2med_pyserini.reranking.local import LocalScorer

from .. import tiny_rerankers
from .helpers import Result, built, environment, hits, r2med_in, run_files, succeed

MINILM = "ms-marco-minilm-l-6"
MINI = ("--suite", "mini", "--dataset", "biology")
DEPTH = 10
HEAVY = {"torch", "transformers", "sentence_transformers", "jnius"}
SLACK = 1e-5  # what batches of other lengths may change

# Scores eight pairs at once; with a number N, the scorer hangs when it is asked a time more than N.
COUNTED = """
import sys
from threading import Event
from r2med_pyserini import cli
from r2med_pyserini.reranking import pipeline
from r2med_pyserini.reranking.local import LocalScorer

pipeline.AT_ONCE, last, score = 8, int(sys.argv.pop(1)), LocalScorer.score
calls, pairs = 0, 0

def counting(self, some, *others):
    global calls, pairs
    if calls == last:
        print("hangs", flush=True)
        Event().wait()
    calls += 1
    pairs += len(some)
    return score(self, some, *others)

LocalScorer.score = counting
try:
    cli.main()
except SystemExit as end:
    assert not end.code, end.code
finally:
    print(f"scored {pairs} pairs")
    print(sorted({name.split(".")[0] for name in sys.modules}))
"""
NEVER = 1000


@pytest.fixture(scope="module")
def hub(tmp_path_factory) -> Path:
    """A Hub cache with the reranker; the Hub is out of reach, for this process and its children."""
    folder = tmp_path_factory.mktemp("hub")
    with pytest.MonkeyPatch.context() as patch, tiny_rerankers.hub_cache(folder):
        patch.setenv("HF_HUB_CACHE", str(folder))
        patch.setenv("HF_HUB_OFFLINE", "1")
        tiny_rerankers.make(MINILM)
        yield folder


@pytest.fixture(scope="module")
def conditions(tmp_path_factory) -> dict[str, Path]:
    """Files of conditions, by name."""
    settings = {
        "own": f"input: bm25, reranker: {MINILM}, depth: {DEPTH}",
        "deeper": f"input: bm25, reranker: {MINILM}, depth: 25",
        "only": f"input: bm25, reranker: {MINILM}, depth: {DEPTH}, keep: reranked",
        "passages": f"input: bm25, reranker: {MINILM}, depth: {DEPTH}, max_passage: true",
        "twice": f"input: own.yaml, reranker: {MINILM}, depth: 5",
    }
    folder, found = tmp_path_factory.mktemp("conditions"), {}
    for name, how in settings.items():
        found[name] = folder / f"{name}.yaml"
        found[name].write_text(f"title: BM25, reranked\nrerank: {{{how}}}\n", encoding="utf-8")
    return found


@pytest.fixture(scope="module")
def finished(tmp_path_factory, hub, conditions) -> tuple[Workspace, Result]:
    """BM25 and its best documents reranked, made from nothing, and what was said."""
    workspace = Workspace(tmp_path_factory.mktemp("reranked"))
    return workspace, succeed(workspace, "run", "bm25", conditions["own"], *MINI, "--threads", "2")


def copy_of(workspace: Workspace, folder: Path) -> Workspace:
    shutil.copytree(workspace.root, folder / "copy")
    return Workspace(folder / "copy")


@pytest.fixture
def copy(finished, tmp_path) -> Workspace:
    """The same, to be changed."""
    return copy_of(finished[0], tmp_path)


def run_of(workspace: Workspace, condition: str) -> dict:
    return hits(workspace.run("mini", "biology", condition))


def counted(workspace: Workspace, *words: str | Path, last: int = NEVER) -> tuple[Result, int, set[str]]:
    """What a command leaves, how many pairs were scored, and which modules were loaded."""
    command = [sys.executable, "-c", COUNTED, str(last), *map(str, words)]
    env = environment(workspace)
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    *_, scored, modules = done.stdout.splitlines()
    names = set(json.loads(modules.replace("'", '"')))
    return Result(done.returncode, done.stdout, done.stderr), int(scored.split()[1]), names


# what comes of it


def test_each_stage_is_carried_out_once(finished):
    assert built(finished[1]) == [
        "convert mini/biology",
        "evaluate mini/biology bm25",
        "evaluate mini/biology own",
        "index mini/biology lucene",
        "rerank mini/biology own",
        "search mini/biology bm25",
    ]


def test_a_condition_alone_makes_the_run_that_it_reranks_and_no_scores_of_that(workspace, hub, conditions, finished):
    """With another number of threads, and not a byte of difference."""
    done = succeed(workspace, "run", conditions["own"], *MINI, "--threads", "1")
    assert len(built(done)) == 5
    assert "evaluate mini/biology bm25" not in built(done)
    ours = run_files(workspace)
    assert ours == {name: content for name, content in run_files(finished[0]).items() if name in ours}


def test_the_best_are_ordered_by_what_the_reranker_says(finished, hub):
    files = finished[0].collection("mini", "biology")
    texts, topics = dict(documents(files.docs)), trec.read_topics(files.topics)
    scorer = LocalScorer(tiny_rerankers.make(MINILM), Settings())
    before, after = run_of(finished[0], "bm25"), run_of(finished[0], "own")
    assert list(before) == list(after)
    assert max(map(len, before.values())) > 2 * DEPTH
    for query, ranked in after.items():
        names = [name for name, _ in before[query]]
        pairs = [Pair(topics[query], texts[name]) for name in names[:DEPTH]]
        scores = dict(zip(names, scorer.score(pairs, "biology", lambda number: None).scores, strict=False))
        assert dict(ranked[:DEPTH]) == pytest.approx(scores, abs=SLACK)
        assert [score for _, score in ranked] == sorted((score for _, score in ranked), reverse=True)
        assert [name for name, _ in ranked[DEPTH:]] == names[DEPTH:]
    assert [name for query in after for name, _ in after[query]] != [
        name for query in before for name, _ in before[query]
    ]


def test_what_is_found_within_100_is_what_was_found_before(finished):
    found = {
        name: evaluation.Scores(**json.loads(finished[0].scores("mini", "biology", name).read_text()))
        for name in ("bm25", "own")
    }
    assert found["own"].mean["R@100"] == found["bm25"].mean["R@100"] > 0.9
    assert found["own"].mean["nDCG@10"] != found["bm25"].mean["nDCG@10"]


def test_what_was_cut_is_told(finished):
    assert "Note: mini/biology own: 90 of 90 pairs cut at the reranker's length" in finished[1].out


@pytest.fixture(scope="module")
def more(finished, conditions, tmp_path_factory) -> tuple[Workspace, Result, int]:
    """The other conditions, and a fusion, with what there is already; what was said, and how many pairs were scored."""
    workspace = copy_of(finished[0], tmp_path_factory.mktemp("more"))
    both = conditions["own"].with_name("both.yaml")
    both.write_text("title: both\nfusion: {method: rrf, inputs: [bm25, twice.yaml]}\n", encoding="utf-8")
    words = ("run", *(conditions[name] for name in ("only", "deeper", "passages")), both, *MINI)
    done, pairs, _ = counted(workspace, *words)
    return workspace, done, pairs


def test_those_below_may_be_left_out(more):
    whole, only = run_of(more[0], "own"), run_of(more[0], "only")
    assert only == {query: ranked[:DEPTH] for query, ranked in whole.items()}
    scores = json.loads(more[0].scores("mini", "biology", "only").read_text())
    assert set(scores["mean"]) == {"nDCG@10", "R@10", "MRR", "P@10"}  # no measure looks deeper than there are documents


def test_passages_may_be_looked_at_in_windows(more):
    best, first = (
        {(query, name): score for query, ranked in run_of(more[0], condition).items() for name, score in ranked[:DEPTH]}
        for condition in ("passages", "own")
    )
    assert best.keys() == first.keys()
    assert all(best[pair] > first[pair] - SLACK for pair in best)
    assert any(best[pair] > first[pair] + 0.01 for pair in best)


def test_a_reranked_run_may_be_reranked_and_fused(more):
    assert [stage for stage in built(more[1]) if "evaluate" not in stage] == [
        "fuse mini/biology both",
        "rerank mini/biology deeper",
        "rerank mini/biology only",
        "rerank mini/biology passages",
        "rerank mini/biology twice",
    ]
    own, twice = run_of(more[0], "own"), run_of(more[0], "twice")
    assert twice.keys() == own.keys()
    for query, ranked in own.items():
        assert twice[query][:5] == ranked[:5]
        assert [name for name, _ in twice[query]] == [name for name, _ in ranked]


def test_conditions_share_scores(more):
    """A deeper one scores what is below, and one in windows scores all anew, since that is another way."""
    queries = len(run_of(more[0], "own"))
    assert more[2] == queries * (25 - DEPTH) + queries * DEPTH
    for query, ranked in run_of(more[0], "own").items():
        deeper = dict(run_of(more[0], "deeper")[query])
        assert [deeper[name] for name, _ in ranked[:DEPTH]] == [score for _, score in ranked[:DEPTH]]


# what is reused


def test_a_second_run_does_and_loads_nothing(finished, conditions):
    done, pairs, modules = counted(finished[0], "run", "bm25", conditions["own"], *MINI)
    assert (built(done), pairs, modules & HEAVY) == ([], 0, set())


def test_scores_outlast_the_run_and_then_no_model_is_wanted(copy, finished, conditions, nothing):
    copy.run("mini", "biology", "own").unlink()
    done, pairs, modules = counted(copy, "run", conditions["own"], *MINI)
    assert (built(done), pairs, "transformers" in modules) == (["rerank mini/biology own"], 0, False)
    assert run_files(copy) == run_files(finished[0])


def test_a_precision_is_computed_when_it_is_asked_for_and_then_serves(copy, finished, conditions):
    """On a processor `auto` is float32."""
    words = ("run", conditions["own"], *MINI, "--device", "cpu")
    precise = run_files(finished[0], "run.*.own.*")
    assert counted(copy, *words, "--dtype", "float32")[1] == 0
    assert run_files(copy, "run.*.own.*") == precise
    assert counted(copy, *words, "--dtype", "bfloat16")[1] > 0
    rough = run_files(copy, "run.*.own.*")
    assert rough != precise
    assert built(succeed(copy, *words)) == []
    assert run_files(copy, "run.*.own.*") == rough


def test_a_report_needs_no_model(finished, conditions):
    done, pairs, modules = counted(finished[0], "report", "bm25", conditions["own"], *MINI)
    assert "own " in done.out
    assert (pairs, modules & HEAVY) == (0, set())


# interruptions


def interrupted(workspace: Workspace, last: int, how: signal.Signals, *words: str | Path) -> tuple[int, str]:
    """Stop a command that has scored `last` times; its exit status, and its error output."""
    process = subprocess.Popen(
        [sys.executable, "-c", COUNTED, str(last), *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(workspace),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    for line in process.stdout:
        if line == "hangs\n":
            process.send_signal(how)
            break
    return process.wait(timeout=60), process.stderr.read()


def test_an_interrupted_reranking_goes_on_where_it_was(copy, finished, conditions):
    words = ("run", conditions["own"], *MINI)
    forget(copy)
    status, said = interrupted(copy, 3, signal.SIGINT, *words)
    assert (status, said.endswith("\nInterrupted. What is done is kept: the same command goes on from here.\n")) == (
        130,
        True,
    )
    assert interrupted(copy, 2, signal.SIGKILL, *words)[0] == -signal.SIGKILL
    assert not copy.run("mini", "biology", "own").exists()
    _, pairs, _ = counted(copy, *words)
    assert pairs == DEPTH * len(run_of(copy, "bm25")) - 5 * 8
    for query, ranked in run_of(finished[0], "own").items():
        assert dict(run_of(copy, "own")[query]) == pytest.approx(dict(ranked), abs=SLACK)


# without the model


@pytest.fixture
def nothing(hub, tmp_path, monkeypatch) -> None:
    """A Hub cache without anything."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "empty"))


def test_without_the_model_the_other_conditions_are_run(workspace, nothing):
    done = r2med_in(workspace, "run", "bm25+minilm-l-6-100", "bm25", "qld", "--suite", "mini", "--threads", "2")
    [line] = [line for line in done.err.splitlines() if not line.startswith("[")]
    assert done.status == 1
    assert line.startswith(f"Error: {MINILM}: HF_HUB_OFFLINE is set, and the model is not in the cache: ")
    files = run_files(workspace, "run.*.scores.json")
    assert len(files) == 16
    assert not [name for name in files if "minilm" in name]


def test_a_missing_model_is_not_missed_where_the_run_is_there(copy, nothing, conditions):
    assert built(succeed(copy, "run", conditions["own"], *MINI)) == []


def forget(workspace: Workspace) -> None:
    """Remove what was reranked, and the scores of pairs."""
    workspace.run("mini", "biology", "own").unlink()
    workspace.pair_scores(MINILM).unlink()


def test_a_model_that_came_makes_up_for_it(copy, finished, hub, nothing, conditions, monkeypatch):
    forget(copy)
    assert r2med_in(copy, "run", conditions["own"], *MINI).status == 1
    monkeypatch.setenv("HF_HUB_CACHE", str(hub))
    assert built(succeed(copy, "run", conditions["own"], *MINI)) == ["rerank mini/biology own"]
    assert run_files(copy) == run_files(finished[0])


def test_a_damaged_model_is_an_error_in_one_line(copy, hub, conditions, tmp_path, monkeypatch):
    forget(copy)
    shutil.copytree(hub, tmp_path / "damaged")
    [weights] = (tmp_path / "damaged").rglob("model.safetensors")
    weights.write_bytes(weights.read_bytes()[:1000])
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "damaged"))
    done = r2med_in(copy, "run", conditions["own"], *MINI)
    [line] = [line for line in done.err.splitlines() if not line.startswith("[")]
    assert (done.status, done.out) == (1, "")
    assert line.startswith(f"Error: model {MINILM} cannot be loaded from {weights.parent}: ")


def test_a_preview_says_what_would_be_done(copy, conditions):
    copy.run("mini", "biology", "own").unlink()
    said = succeed(copy, "run", conditions["own"], *MINI, "--dry-run").out
    assert "to do       rerank    mini/biology own" in said
    assert "done        search    mini/biology bm25" in said
