"""The plain Pyserini commands that do what we do, ready to copy and paste.

They write beside our files (`indexes/pyserini....`, `runs/pyserini....`), so that the two can be compared.
"""

import shlex
from pathlib import Path

from .conditions import Condition, names
from .lucene import index_arguments
from .paths import Collection, Workspace
from .specs import BM25_OFFICIAL, BM25QS, PYSERINI_DEFAULTS, QLD, SearchSpec
from .suites import Dataset, Suite

PLAIN, OURS = "python -m pyserini.", "r2med pyserini "


def for_cell(condition: Condition, suite: Suite, dataset: Dataset, workspace: Workspace, prefix: str) -> list[str]:
    """Index, search and evaluation of one condition on one dataset, as shell commands.

    `prefix` is PLAIN (a Java that Pyserini accepts must be installed) or OURS (with our Java). A setting that
    Pyserini's command line cannot express is said in a comment in place of the command.
    """
    files = workspace.collection(suite.name, dataset.slug)
    kind = "lucene-docvectors" if condition.index.docvectors else "lucene"
    index = _beside(workspace.index(kind, suite.name, dataset.slug))
    run = _beside(workspace.run(suite.name, dataset.slug, condition.name))
    reason = _inexpressible(condition.search)
    if reason:
        name = condition.name if condition.name in names() else str(condition.file)
        ours = ["r2med", "run", name, "--suite", suite.argument, "--dataset", dataset.slug]
        return [f"# {reason}; use: {shlex.join(ours)}"]
    return [
        prefix + shlex.join(["index.lucene", *(f"-{word}" if word.startswith("-") else word
                                               for word in index_arguments(files.corpus, index, condition.index))]),
        prefix + shlex.join(["search.lucene", *_search(condition.search, files, index, run)]),
        prefix + shlex.join(["eval.trec_eval", "-c", "-m", "ndcg_cut.10", str(files.qrels), str(run)]),
    ]  # fmt: skip


def _beside(path: Path) -> Path:
    return path.with_name(f"pyserini.{path.name}")


def _inexpressible(search: SearchSpec) -> str | None:
    if search.model == BM25_OFFICIAL:
        return "Pyserini has no command for the authors' BM25"
    if search.model == BM25QS and not (search.k1 and search.b):
        return "Pyserini's command line takes a k1 or b of 0 for none given"
    fixed = {key: value for key, value in PYSERINI_DEFAULTS.items() if key not in ("k1", "b")}
    changed = [key for key, value in search.parameters().items() if key in fixed and value != fixed[key]]
    return f"Pyserini's command line cannot set {', '.join(changed)}" if changed else None


def _search(search: SearchSpec, files: Collection, index: Path, run: Path) -> list[str]:
    words = ["--index", str(index), "--topics", str(files.topics), "--output", str(run)]
    if search.model == QLD:
        words.append("--qld")
    else:
        words += ["--bm25qs"] if search.model == BM25QS else ["--bm25"]
        words += ["--k1", str(search.k1), "--b", str(search.b)]
    if search.feedback:
        words.append(f"--{search.feedback}")
    return [*words, "--hits", str(search.hits)]
