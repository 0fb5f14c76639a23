"""Our runs are Pyserini's runs, and our indexes are indexes that Pyserini reads."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from r2med_pyserini import commands, conditions
from r2med_pyserini.paths import MINI, Workspace
from r2med_pyserini.suites import load_suite

from .helpers import environment, hits, rows, succeed

CONDITIONS = ("bm25", "bm25-rm3", "bm25-rocchio", "qld", "bm25qs")
CELLS = [
    pytest.param(*cell, condition, id=f"{cell[1]}-{condition}")
    for cell in (("mini", "medqa-diag"), ("mini", "biology"), ("med", "med"))
    for condition in CONDITIONS
]

# Importing Pyserini costs seconds: one process runs all commands, then tries Pyserini's classes on an index of ours.
DRIVER = """
import json, sys
from r2med_pyserini.passthrough import run_module
job = json.load(sys.stdin)
for module, *arguments in job["commands"]:
    try:
        run_module(module, tuple(arguments))
    except SystemExit as end:
        assert not end.code, (module, arguments, end.code)
    print("\\0", end="", flush=True)
from pyserini.index.lucene import LuceneIndexReader
from pyserini.search.lucene import LuceneSearcher
found = LuceneSearcher(job["index"]).search(job["query"], k=10)
documents = LuceneIndexReader(job["index"]).stats()["documents"]
print(json.dumps({"hits": [(hit.docid, hit.score) for hit in found], "documents": documents}))
"""
BIOLOGY_QUERY, BIOLOGY_TEXT = next((row["id"], row["text"]) for row in rows(MINI / "biology" / "query.jsonl"))


@dataclass
class Theirs:
    """What Pyserini made beside our files: workspaces by suite, trec_eval's words by run file, hits of its classes."""

    workspaces: dict[str, Workspace]
    printed: dict[str, str] = field(default_factory=dict)
    probe: dict = field(default_factory=dict)

    def our_run(self, suite: str, dataset: str, condition: str):
        if suite not in self.workspaces:
            pytest.skip("needs the MED collection, which is not part of the project")
        return self.workspaces[suite].run(suite, dataset, condition)


@pytest.fixture(scope="module")
def theirs(request, lexical_mini, tmp_path_factory) -> Theirs:
    sources = {"mini": (lexical_mini, ["--suite", "mini", "--dataset", "medqa-diag", "--dataset", "biology"])}
    with suppress(pytest.skip.Exception):
        sources["med"] = (request.getfixturevalue("med_runs"), ["--suite", request.getfixturevalue("med")])
    workspaces, todo = {}, []
    for suite, (source, words) in sources.items():
        workspaces[suite] = Workspace(tmp_path_factory.mktemp("theirs") / suite)
        shutil.copytree(source.root, workspaces[suite].root)
        shown = succeed(workspaces[suite], "run", *CONDITIONS, *words, "--display-commands").out
        todo += [shlex.split(line)[2:] for line in dict.fromkeys(shown.splitlines()) if line.startswith(commands.OURS)]
    index = workspaces["mini"].index("lucene", "mini", "biology")
    job = json.dumps({"commands": todo, "index": str(index), "query": BIOLOGY_TEXT})
    process = [sys.executable, "-c", DRIVER]
    done = subprocess.run(
        process, input=job, capture_output=True, text=True, env=environment(lexical_mini), check=False
    )
    assert done.returncode == 0, done.stderr
    *printed, last = done.stdout.split("\0")
    by_run = {words[-1]: text for words, text in zip(todo, printed, strict=True) if words[0] == "eval.trec_eval"}
    return Theirs(workspaces, by_run, json.loads(last.splitlines()[-1]))


@pytest.mark.parametrize(("suite", "dataset", "condition"), CELLS)
def test_a_run_is_byte_identical_to_pyserinis(theirs, suite, dataset, condition):
    ours = theirs.our_run(suite, dataset, condition)
    assert ours.read_bytes() == ours.with_name(f"pyserini.{ours.name}").read_bytes()


@pytest.mark.parametrize(("suite", "dataset", "condition"), CELLS)
def test_trec_eval_prints_our_mean(theirs, suite, dataset, condition):
    run = theirs.our_run(suite, dataset, condition)
    mean = json.loads(theirs.workspaces[suite].scores(suite, dataset, condition).read_text())["mean"]
    printed = theirs.printed[str(run.with_name(f"pyserini.{run.name}"))]
    assert re.search(r"^ndcg_cut_10\s+all\s+(\S+)$", printed, re.MULTILINE)[1] == f"{mean['nDCG@10']:.4f}"


def test_pyserinis_searcher_finds_the_same_in_our_index(theirs):
    ours = hits(theirs.our_run("mini", "biology", "bm25"))[BIOLOGY_QUERY][:10]
    assert [(document, round(score, 6)) for document, score in theirs.probe["hits"]] == ours


def test_pyserinis_index_reader_counts_our_documents(theirs):
    texts = [row["text"] for row in rows(MINI / "biology" / "corpus.jsonl")]
    assert theirs.probe["documents"] == sum(1 for text in texts if text.strip())


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_plain_commands_differ_in_their_beginning_only(workspace, condition):
    suite = load_suite("mini", workspace)
    cell = (conditions.load(condition), suite, suite.datasets[0], workspace)
    ours, plain = (commands.for_cell(*cell, prefix) for prefix in (commands.OURS, commands.PLAIN))
    assert [line.replace(commands.OURS, commands.PLAIN) for line in ours] == plain != ours


def test_any_module_of_pyserini_can_be_called(r2med):
    done = r2med("pyserini", "search.lucene", "--help")
    assert done.status == 0
    assert "--bm25" in done.out


def test_a_module_that_pyserini_lacks_is_wrong_usage(r2med):
    done = r2med("pyserini", "nonsense")
    assert (done.status, done.out) == (2, "")
    assert re.fullmatch(r"Error: no module pyserini\.nonsense .*\n", done.err)
