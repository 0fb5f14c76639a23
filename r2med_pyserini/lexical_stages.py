"""Lexical retrieval as stages: a Lucene index of words, and the run that is searched in it."""

from dataclasses import replace
from pathlib import Path

from . import collection, lucene, trec
from .artifacts import Artifact
from .conditions import Condition
from .context import FORMATS, Context
from .jvm import anserini_version
from .paths import Collection
from .specs import BM25_OFFICIAL, IndexSpec
from .stages import Stage
from .suites import Dataset


def index_name(spec: IndexSpec) -> str:
    """What the index's folder is called before the dataset."""
    return f"{spec.kind}-exact" if spec.exact_lengths else spec.kind


def together(specs: list[IndexSpec]) -> dict[str, IndexSpec]:
    """Of all that is wanted of indexes, one index a name that serves every condition."""
    found: dict[str, IndexSpec] = {}
    for spec in specs:
        known = found.get(index_name(spec), spec)
        found[index_name(spec)] = replace(spec, docvectors=spec.docvectors or known.docvectors)
    return dict(sorted(found.items()))


def serves(have: dict, want: dict) -> bool:
    """An index that holds document vectors serves a condition that needs none."""
    return have == want or have == {**want, "docvectors": True}


def index(context: Context, dataset: Dataset, spec: IndexSpec, converted: Stage) -> Stage:
    """The stage that builds the index of a dataset."""
    files, name = Collection(converted.artifact.path), index_name(spec)
    path = context.workspace.index(name, context.suite.name, dataset.slug)

    def recipe() -> dict:
        made = {"index": FORMATS["index"], "anserini": anserini_version(), "docs": context.hash(files.docs)}
        return made | spec.parameters()

    def build(folder: Path) -> None:
        expected = collection.indexable(collection.read_health(files))
        lucene.build(files.corpus, folder, spec, expected, context.pool)

    artifact, subject = Artifact(path, folder=True), context.subject(dataset, name)
    return Stage("index", subject, artifact, recipe, build, (converted,), on_demand=True, serves=serves)


def run(context: Context, dataset: Dataset, condition: Condition, converted: Stage, index: Stage) -> Stage:
    """The stage that searches every topic of a dataset."""
    files = Collection(converted.artifact.path)
    path = context.workspace.run(context.suite.name, dataset.slug, condition.name)

    def recipe() -> dict:
        how = {"exact_lengths": condition.index.exact_lengths, "search": condition.search.parameters()}
        made = {"search format": FORMATS["search"], "anserini": anserini_version()}
        return made | context.inputs(converted) | how

    def build(file: Path) -> None:
        topics, documents = trec.read_topics(files.topics), collection.read_health(files)["documents"]
        found = lucene.search(index.artifact.path, condition.search, documents, topics, context.pool)
        exact = condition.search.model == BM25_OFFICIAL
        trec.write_run(file, found, score_format=trec.EXACT_SCORE if exact else trec.PYSERINI_SCORE)

    artifact, subject = Artifact(path, folder=False), context.subject(dataset, condition.name)
    return Stage("search", subject, artifact, recipe, build, (converted,), (index,))
