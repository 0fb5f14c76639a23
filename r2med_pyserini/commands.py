"""The plain Pyserini commands that do what we do, ready to copy and paste.

They write beside our files (`indexes/pyserini....`, `runs/pyserini....`), so that the two can be compared.
"""

import shlex
from dataclasses import replace
from pathlib import Path

from . import encoded_stages, models
from .commands_dense import Dense
from .commands_lexical import Lexical
from .conditions import Condition, names
from .paths import Workspace
from .specs import FAISS_FLAT, LUCENE, IndexSpec
from .suites import Dataset, Suite

_OF_RUNS = {
    "fusion": "Pyserini takes ids for numbers in its fusion, and ranks ties otherwise",
    "rerank": "Pyserini has no command that reranks",
}
PLAIN, OURS = "python -m pyserini.", "r2med pyserini "


def for_cell(condition: Condition, suite: Suite, dataset: Dataset, workspace: Workspace, prefix: str) -> list[str]:
    """Index, search and evaluation of one condition on one dataset: shell commands, comments first if there are any.

    `prefix` is PLAIN (a Java that Pyserini accepts must be installed) or OURS (with our Java). What Pyserini's command
    line cannot express is said in a comment in place of all commands. A command holds a line break, in quotation marks,
    if the model's prompt does.
    """
    cell = _cell(condition, suite, dataset, workspace) if condition.index else None
    reason = cell.inexpressible() if cell else _OF_RUNS["fusion" if condition.fusion else "rerank"]
    if reason:
        name = condition.name if condition.name in names() else str(condition.file)
        ours = ["r2med", "run", name, "--suite", suite.argument, "--dataset", dataset.slug]
        return [f"# {reason}; use: {shlex.join(ours)}"]
    evaluation = ["eval.trec_eval", "-c", "-m", "ndcg_cut.10", str(cell.files.qrels), str(cell.run)]
    comments = [f"# {remark}" for remark in cell.remarks()]
    return comments + [prefix + shlex.join(words) for words in (*cell.commands(), evaluation)]


def _cell(condition: Condition, suite: Suite, dataset: Dataset, workspace: Workspace) -> Lexical | Dense:
    spec, how = condition.index, condition.search
    files = workspace.collection(suite.name, dataset.slug)
    run = _beside(workspace.run(suite.name, dataset.slug, condition.name))

    def index(name: str) -> Path:
        return _beside(workspace.index(name, suite.name, dataset.slug, spec.encoder))

    if spec.kind == LUCENE:
        return Lexical(spec, how, files, index("lucene-docvectors" if spec.docvectors else "lucene"), run)
    vectors = index(encoded_stages.index_name(_flat(spec)))
    graph = index(encoded_stages.index_name(spec))
    return Dense(models.load(spec.encoder), spec, how, dataset.slug, files, vectors, graph, run)


def _flat(spec: IndexSpec) -> IndexSpec:
    """The flat index of the same vectors."""
    return replace(spec, kind=FAISS_FLAT, scale=None, m=None, ef_construction=None)


def _beside(path: Path) -> Path:
    return path.with_name(f"pyserini.{path.name}")
