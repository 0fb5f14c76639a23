"""The Pyserini commands that are shown for dense retrieval give our vectors, rankings and scores."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from r2med_pyserini import commands, conditions, encoders, models
from r2med_pyserini.encoders.base import FLOAT32, Settings
from r2med_pyserini.faiss_index import unit
from r2med_pyserini.models import DOCUMENT, QUERY
from r2med_pyserini.paths import MINI, Workspace
from r2med_pyserini.suites import load_suite

from .. import tiny_models
from .helpers import environment, hits, rows, succeed, write_dataset

NEAR = 1e-5  # batches differ in padding, and Pyserini writes six decimals
MINILM = ("minilm", "minilm-hnsw")
AUTO = ("all-mpnet-base-v2", "bge-large-en-v1.5", "bge-m3", "bge-small-en-v1.5", "contriever")
QWEN3 = ("qwen3-embedding-0.6b", "diver-retriever-4b")
BLANKS = "blanks"

# Importing Pyserini costs seconds: one process runs all commands.
DRIVER = """
import json, sys
from r2med_pyserini.passthrough import run_module
for module, *arguments in json.load(sys.stdin):
    try:
        run_module(module, tuple(arguments))
    except SystemExit as end:
        assert not end.code, (module, arguments, end.code)
    print("\\0", end="", flush=True)
"""


def run(found: list[list[str]], workspace: Workspace, **variables: str) -> dict[str, str]:
    """Run Pyserini's commands, each once; what trec_eval prints, by run file."""
    todo = [list(words) for words in dict.fromkeys(map(tuple, found))]
    done = subprocess.run(
        [sys.executable, "-c", DRIVER], input=json.dumps(todo), capture_output=True, text=True, check=False,
        env=environment(workspace) | variables,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    printed = done.stdout.split("\0")
    return {words[-1]: text for words, text in zip(todo, printed, strict=False) if words[0] == "eval.trec_eval"}


def ours(lines: list[str]) -> list[list[str]]:
    """The words of the commands that run with our Java."""
    return [shlex.split(line)[2:] for line in lines if line.startswith(commands.OURS)]


def theirs(path: Path) -> Path:
    return path.with_name(f"pyserini.{path.name}")


@dataclass
class Mini:
    workspace: Workspace
    printed: dict[str, str]

    def run(self, condition: str) -> Path:
        return self.workspace.run("mini", "biology", condition)


@pytest.fixture(scope="module")
def minilm(tmp_path_factory) -> Mini:
    workspace = Workspace(tmp_path_factory.mktemp("minilm"))
    words = ("run", *MINILM, "--suite", "mini", "--dataset", "biology")
    succeed(workspace, *words)
    shown = succeed(workspace, *words, "--display-commands").out
    return Mini(workspace, run(ours(shown.splitlines()), workspace))


@pytest.mark.slow
@pytest.mark.parametrize("condition", MINILM)
def test_rankings_are_the_same_and_scores_nearly(minilm, condition):
    here = minilm.run(condition)
    mine, pyserinis = hits(here), hits(theirs(here))
    assert mine.keys() == pyserinis.keys() == {row["id"] for row in rows(MINI / "biology" / "query.jsonl")}
    for query, found in mine.items():
        assert [document for document, _ in found] == [document for document, _ in pyserinis[query]]
        assert [score for _, score in found] == pytest.approx([score for _, score in pyserinis[query]], abs=NEAR)


@pytest.mark.slow
@pytest.mark.parametrize("condition", MINILM)
def test_trec_eval_prints_our_mean(minilm, condition):
    scores = minilm.workspace.scores("mini", "biology", condition)
    mean = json.loads(scores.read_text())["mean"]
    printed = minilm.printed[str(theirs(minilm.run(condition)))]
    assert re.search(r"^ndcg_cut_10\s+all\s+(\S+)$", printed, re.MULTILINE)[1] == f"{mean['nDCG@10']:.4f}"


@dataclass
class Tiny:
    """Tiny models behind the names of published ones, and what they make of texts that are hard to get right."""

    workspace: Workspace
    documents: dict[str, str]
    queries: dict[str, str]
    # By condition: ids and vectors of Pyserini's index, hits of its run, our vectors, how many texts we cut (by side).
    index: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    hits: dict[str, dict[str, list[tuple[str, float]]]] = field(default_factory=dict)
    vectors: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    cut: dict[str, dict[str, int]] = field(default_factory=dict)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Iterator[Tiny]:
    """All Hub models whose commands are shown."""
    mini = {row["id"]: row["text"] for row in rows(MINI / "biology" / "corpus.jsonl")[:20]}
    long = " ".join(mini.values()) * 2  # more than 8,192 tokens
    documents = mini | {
        "empty": "", "lines": "one line\nanother\n\nand the last\n", BLANKS: "  blanks at both ends  ", "long": long,
        "letters": "naïve Ωmega, 日本語 and 🫀", "delimited": "a [delimiter]\tand a \\n that is no line break",
    }  # fmt: skip
    queries = {row["id"]: row["text"] for row in rows(MINI / "biology" / "query.jsonl")[:4]}
    queries |= {"long": long[::-1], "lines": "two\nlines ", "one": "x"}
    root = tmp_path_factory.mktemp("tiny")
    raw = write_dataset(root / "raw" / "hard", documents, queries, [("one", "lines")])
    made = Tiny(Workspace(root / "work"), documents, queries)
    made.workspace.root.mkdir()
    succeed(made.workspace, "data", "--suite", raw)
    with tiny_models.hub_cache(root / "cache"):
        _make(made, str(raw))
    return made


def _make(made: Tiny, raw: str) -> None:
    suite = load_suite(raw, made.workspace)
    dataset, todo = suite.datasets[0], []
    for name in (*AUTO, *QWEN3):
        condition = conditions.load(name)
        model = tiny_models.make(condition.index.encoder)
        _point_at(tiny_models.snapshot(model))
        found = ours(commands.for_cell(condition, suite, dataset, made.workspace, commands.OURS))
        assert value(found[0], "--dimension") == str(model.dimensions)
        found[0][found[0].index("--dimension") + 1] = str(tiny_models.DIMENSIONS)
        todo += found
        encoder = encoders.load(model, Settings(device="cpu", dtype=FLOAT32))
        encoded = {
            side: encoder.encode(list(texts.values()), side, dataset.slug, lambda _: None)
            for side, texts in ((DOCUMENT, made.documents), (QUERY, made.queries))
        }
        made.vectors[name] = {side: unit(both.vectors) for side, both in encoded.items()}
        made.cut[name] = {side: both.truncated for side, both in encoded.items()}
    from huggingface_hub import constants

    run(todo, made.workspace, HF_HUB_CACHE=constants.HF_HUB_CACHE, HF_HUB_OFFLINE="1")
    for name in (*AUTO, *QWEN3):
        encoder = conditions.load(name).encoder
        index = theirs(made.workspace.index("faiss-flat", suite.name, dataset.slug, encoder))
        made.index[name] = _read(index)
        made.hits[name] = hits(theirs(made.workspace.run(suite.name, dataset.slug, name)))


def _point_at(snapshot: Path) -> None:
    """Make a snapshot the newest one of its repository."""
    references = snapshot.parents[1] / "refs"
    references.mkdir(exist_ok=True)
    (references / "main").write_text(snapshot.name)


def _read(folder: Path) -> dict[str, np.ndarray]:
    import faiss

    index = faiss.read_index(str(folder / "index"))
    ids = (folder / "docid").read_text().split()
    return dict(zip(ids, index.reconstruct_n(0, index.ntotal), strict=True))


def value(words: list[str], option: str) -> str:
    return words[words.index(option) + 1]


def test_all_models_of_the_hub_are_here():
    expressible = {
        name
        for name in conditions.names()
        if (encoder := conditions.load(name).encoder) and models.load(encoder).id
        if not _shown(name)[0].endswith(f"r2med run {name} --suite mini --dataset biology")
    }
    assert expressible == {*AUTO, *QWEN3, "qwen3-embedding-4b", "qwen3-embedding-8b"}


def _shown(name: str) -> list[str]:
    workspace = Workspace(Path())
    suite = load_suite("mini", workspace)
    return commands.for_cell(conditions.load(name), suite, suite.datasets[0], workspace, commands.OURS)


@pytest.mark.slow
@pytest.mark.parametrize("condition", [*AUTO, *QWEN3])
def test_documents_have_our_vectors(tiny, condition):
    found = tiny.index[condition]
    assert list(found) == list(tiny.documents)
    for (name, vector), wanted in zip(found.items(), tiny.vectors[condition][DOCUMENT], strict=True):
        assert np.linalg.norm(wanted) == pytest.approx(1)
        if name == BLANKS and condition in QWEN3:  # as a comment says
            assert np.abs(vector - wanted).max() > 0.01
        else:
            assert vector == pytest.approx(wanted, abs=NEAR), name


@pytest.mark.slow
@pytest.mark.parametrize("condition", [*AUTO, *QWEN3])
def test_queries_have_our_scores(tiny, condition):
    known = tiny.vectors[condition]
    removed = conditions.load(condition).search.remove_query
    assert tiny.hits[condition].keys() == tiny.queries.keys()
    for query, row in zip(tiny.queries, known[QUERY] @ known[DOCUMENT].T, strict=True):
        wanted = dict(zip(tiny.documents, row.tolist(), strict=True))
        found = dict(tiny.hits[condition][query])
        if condition in QWEN3:
            del wanted[BLANKS], found[BLANKS]
        if removed:
            wanted.pop(query, None)
        assert found == pytest.approx(wanted, abs=NEAR)


@pytest.mark.slow
@pytest.mark.parametrize("condition", [*AUTO, *QWEN3])
def test_these_texts_tell_settings_apart(tiny, condition):
    """Else the tests above could not fail: no two vectors are alike, and texts of both sides were cut."""
    known = np.concatenate([tiny.vectors[condition][side] for side in (DOCUMENT, QUERY)])
    distances = np.abs(known[:, None] - known[None]).max(axis=2) + np.eye(len(known))
    assert distances.min() > 100 * NEAR
    assert all(tiny.cut[condition].values())
