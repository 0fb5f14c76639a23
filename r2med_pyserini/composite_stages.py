"""Runs made from other runs, as stages: fusion, and reranking."""

from collections.abc import Mapping
from pathlib import Path

from . import fusion, rerankers, trec
from .artifacts import INCOMPLETE, Artifact
from .collection import documents
from .conditions import Condition
from .context import FORMATS, PRECISION, SENTENCES, Context, serves
from .encoders.base import AUTO
from .paths import Collection
from .rerankers import SERVED
from .reranking.base import Ranker
from .reranking.cache import ScoreCache
from .reranking.pipeline import Notes, candidates, rerank, rerank_lists
from .stages import Meter, Stage
from .suites import Dataset


def fuse(context: Context, dataset: Dataset, condition: Condition, inputs: Mapping[str, Stage]) -> Stage:
    """The stage that fuses the runs of conditions, which are given by name."""
    spec = condition.fusion
    path = context.workspace.run(context.suite.name, dataset.slug, condition.name)

    def recipe() -> dict:
        how = spec.parameters() | {"inputs": [context.hash(stage.artifact.path) for stage in inputs.values()]}
        return {"fuse format": FORMATS["fuse"], "fusion": how}

    def build(file: Path) -> dict:
        runs = [trec.read_run(stage.artifact.path) for stage in inputs.values()]
        trec.write_run(file, fusion.fuse(runs, spec), f"r2med-{spec.method}", trec.EXACT_SCORE)
        return {SENTENCES: fusion.lacking(runs, list(inputs))}

    artifact, subject = Artifact(path, folder=False), context.subject(dataset, condition.name)
    return Stage("fuse", subject, artifact, recipe, build, tuple(inputs.values()))


def reranked(context: Context, dataset: Dataset, condition: Condition, converted: Stage, given: Stage) -> Stage:
    """The stage that reranks the run of another condition."""
    spec, files = condition.rerank, Collection(converted.artifact.path)
    reranker, meter = rerankers.load(spec.reranker), Meter("pairs")
    path = context.workspace.run(context.suite.name, dataset.slug, condition.name)
    subject = context.subject(dataset, condition.name)

    def recipe() -> dict:
        inputs = context.inputs(converted) | {"run": context.hash(given.artifact.path)}
        how = {"depth": spec.depth, "keep": spec.keep, "max_passage": spec.max_passage}
        dtype = AUTO if reranker.loader in SERVED else context.setting.models.dtype
        made = {"rerank format": FORMATS["rerank"], "dtype": dtype}
        return made | {"reranker": reranker.recipe(dataset.slug), "how": how} | inputs

    def build(file: Path) -> dict:
        run, topics, notes = trec.read_run(given.artifact.path), trec.read_topics(files.topics), Notes()
        texts = _texts(files.docs, run, spec)
        meter.start(sum(len(hits) for hits in candidates(run, spec).values()))
        context.encoders.release()
        scorer = context.rerankers.get((reranker, spec.max_passage))
        kept = {"format": FORMATS["rerank"], "reranker": reranker.recipe(dataset.slug)}
        kept |= {"precision": scorer.precision, "windows": spec.max_passage}
        cache = ScoreCache(context.workspace.pair_scores(reranker.name), kept)
        how = rerank_lists if isinstance(scorer, Ranker) else rerank
        if isinstance(scorer, Ranker):
            notes.pairs = sum(map(len, candidates(run, spec).values()))
            cut = {name for name, text in texts.items() if reranker.cuts(text)}
            notes.cut = sum(len(cut & hits.keys()) for hits in candidates(run, spec).values())
        found = how(run, topics, texts, spec, scorer, cache, dataset.slug, notes, meter.advance)
        trec.write_run(file, found, f"r2med-{reranker.name}", trec.EXACT_SCORE)
        return {PRECISION: scorer.precision, SENTENCES: notes.sentences(), INCOMPLETE: notes.incomplete}

    artifact, needs = Artifact(path, folder=False), (converted, given)
    return Stage(
        "rerank", subject, artifact, recipe, build, needs, serves=serves, resource="encoder", status=meter.__str__
    )


def _texts(docs: Path, run: trec.Run, spec) -> dict[str, str]:
    """The texts of the documents that are reranked; the others are not kept in memory."""
    wanted = {document for hits in candidates(run, spec).values() for document in hits}
    return {name: text for name, text in documents(docs) if name in wanted}
