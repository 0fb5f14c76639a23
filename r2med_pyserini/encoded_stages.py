"""Retrieval by models as stages: vectors of documents and of queries, an index of the former, and the run."""

from collections.abc import Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path

from . import collection, faiss_index, impacts, lucene_dense, models, trec
from .artifacts import Artifact
from .conditions import Condition
from .context import FORMATS, PRECISION, SENTENCES, Context, serves
from .encoders.base import AUTO
from .errors import R2medError
from .faiss_index import kept, unit
from .jvm import anserini_version
from .models import API, DOCUMENT, QUERY, Model
from .paths import Collection
from .specs import COSINE, FAISS_FLAT, FAISS_HNSW, GRAPH, IMPACT, LUCENE_FLAT, LUCENE_HNSW, SCALE, IndexSpec
from .stages import Meter, Stage
from .suites import Dataset
from .vectors import Job, Vectors, discard, put_together

_SHORT = {"metric": "", "scale": "scale", "m": "m", "ef_construction": "efc"}
_USUAL = {"metric": COSINE, "scale": SCALE, **GRAPH}
SIDES = {DOCUMENT: "documents", QUERY: "queries"}


def job(context: Context, dataset: Dataset, model: Model, side: str) -> Job:
    """What there is to encode of one side of a dataset."""
    files = context.workspace.collection(context.suite.name, dataset.slug)
    texts = (
        partial(collection.documents, files.docs)
        if side == DOCUMENT
        else lambda: trec.read_topics(files.topics).items()
    )
    whole = _place(context, dataset, model, side)
    return Job(model, side, dataset.slug, texts, context.workspace.parts(whole), whole)


def _place(context: Context, dataset: Dataset, model: Model, side: str) -> Path:
    kind = "vectors" if side == DOCUMENT else "query-vectors"
    return context.workspace.index(kind, context.suite.name, dataset.slug, model.name)


def encode(context: Context, dataset: Dataset, model: Model, side: str, converted: Stage) -> Stage:
    """The stage that encodes the documents, or the queries, of a dataset."""
    work, meter = job(context, dataset, model, side), Meter("texts")
    artifact = Artifact(work.whole, folder=True)
    files = Collection(converted.artifact.path)

    def recipe() -> dict:
        texts = context.hash(files.docs if side == DOCUMENT else files.topics)
        return {"vectors": FORMATS["vectors"], "texts": texts} | _how(context, dataset, model, side)

    def build(folder: Path) -> None:
        context.rerankers.release()
        meter.start(collection.read_health(files)["documents" if side == DOCUMENT else "queries"])
        put_together(work, context.encoders, folder, meter.advance)

    return Stage(
        "encode", context.subject(dataset, f"{model.name} {SIDES[side]}"), artifact, recipe, build, (converted,),
        on_demand=True, serves=serves, resource="encoder", status=meter.__str__,
        afterwards=partial(discard, work),
    )  # fmt: skip


def _how(context: Context, dataset: Dataset, model: Model, side: str) -> dict:
    """All that vectors depend on but the texts. The precision may be left open: see `serves`."""
    return {"model": model.recipe(side, dataset.slug), "dtype": _dtype(context, model)}


def _dtype(context: Context, model: Model) -> str:
    """The precision that is wanted; a service has its own."""
    return AUTO if model.loader == API else context.setting.models.dtype


def index_name(spec: IndexSpec) -> str:
    """What the index's folder is called before the dataset: its kind, and the settings that are not the usual ones."""
    similarity = models.load(spec.encoder).similarity
    usual = _USUAL | {"metric": similarity}
    odd = {key: value for key, value in spec.parameters().items() if key in _SHORT and value != usual[key]}
    return spec.kind + "".join(
        f"-{_SHORT[key]}{value:g}" if key != "metric" else f"-{value}" for key, value in odd.items()
    )


def index(context: Context, dataset: Dataset, spec: IndexSpec, converted: Stage, vectors: Stage) -> Stage:
    """The stage that builds an index of vectors."""
    model, files = models.load(spec.encoder), Collection(converted.artifact.path)
    path = context.workspace.index(index_name(spec), context.suite.name, dataset.slug, spec.encoder)

    def recipe() -> dict:
        made = {"index": FORMATS["index"], "docs": context.hash(files.docs)} | _library(spec)
        return made | spec.parameters() | _how(context, dataset, model, DOCUMENT)

    def build(folder: Path) -> dict:
        found, told = Vectors(vectors.artifact.path), []
        if spec.kind == IMPACT:
            empty = impacts.build(found.parts(), found.vocabulary(), folder, spec.scale, context.pool)
            if empty:
                named = f"{', '.join(empty[:3])}{', ...' if len(empty) > 3 else ''}"
                told = [f"{len(empty):,} documents without a weight are not in the index ({named})"]
        elif spec.kind in (FAISS_FLAT, FAISS_HNSW):
            faiss_index.build(found.parts(), folder, spec)
        else:
            lucene_dense.build(((ids, unit(part)) for ids, part in found.parts()), folder, spec, context.pool)
        return {PRECISION: found.precision, SENTENCES: told}

    artifact = Artifact(path, folder=True)
    subject = context.subject(dataset, f"{index_name(spec)} {spec.encoder}")
    needs, tools = (converted,), (vectors,)
    return Stage("index", subject, artifact, recipe, build, needs, tools, on_demand=True, serves=serves)


def _library(spec: IndexSpec) -> dict[str, str]:
    """What builds the index, and its version."""
    if spec.kind in (FAISS_FLAT, FAISS_HNSW):
        return {"faiss": version("faiss-cpu")}
    return {"anserini": anserini_version()}


def run(
    context: Context, dataset: Dataset, condition: Condition, converted: Stage, index: Stage, queries: Stage
) -> Stage:
    """The stage that searches for every topic of a dataset."""
    spec, how = condition.index, condition.search
    model, files = models.load(spec.encoder), Collection(converted.artifact.path)
    path = context.workspace.run(context.suite.name, dataset.slug, condition.name)
    subject = context.subject(dataset, condition.name)

    def recipe() -> dict:
        made = {f"{name} format": FORMATS[name] for name in ("vectors", "index", "search")} | _library(spec)
        sides = {side: model.recipe(side, dataset.slug) for side in (DOCUMENT, QUERY)}
        settings = {"dtype": _dtype(context, model), "index": spec.parameters(), "search": how.parameters()}
        return made | context.inputs(converted) | sides | settings

    def build(file: Path) -> dict:
        topics, notes = Vectors(queries.artifact.path), index.artifact.notes()
        if notes.get(PRECISION) != topics.precision:
            raise R2medError(
                f"{subject}: its documents were encoded in {notes.get(PRECISION)}, its queries in {topics.precision}: "
                f"say --dtype {notes.get(PRECISION)}, or remove {index.artifact.path} and what was encoded for it"
            )
        if spec.kind == IMPACT:
            form, found = trec.PYSERINI_SCORE, _search_impacts(context, index, condition, topics)
        elif spec.kind in (LUCENE_FLAT, LUCENE_HNSW):
            form, found = trec.EXACT_SCORE, _search_lucene(context, index, condition, topics)
        else:
            count = collection.read_health(files)["documents"]
            asked = topics.ids, topics.matrix()
            threads = context.setting.threads
            form = trec.EXACT_SCORE
            found = faiss_index.search(index.artifact.path, spec, how, count, asked, threads)
        trec.write_run(file, found, score_format=form)
        return {PRECISION: topics.precision, SENTENCES: notes.get(SENTENCES, [])}

    artifact, tools = Artifact(path, folder=False), (index, queries)
    return Stage("search", subject, artifact, recipe, build, (converted,), tools, serves=serves)


def _search_impacts(context: Context, index: Stage, condition: Condition, topics: Vectors) -> Iterator[tuple]:
    matrix, vocabulary, scale = topics.matrix(), topics.vocabulary(), condition.index.scale
    weights = {name: impacts.query_weights(matrix[row], vocabulary, scale) for row, name in enumerate(topics.ids)}
    how = condition.search
    for query, ids, scores in impacts.search(index.artifact.path, how.hits + how.remove_query, weights, context.pool):
        yield query, *kept(query, ids, scores, how)


def _search_lucene(context: Context, index: Stage, condition: Condition, topics: Vectors) -> Iterator[tuple]:
    how, vectors = condition.search, unit(topics.matrix())
    asked = dict(zip(topics.ids, vectors, strict=True))
    hits = how.hits + how.remove_query
    kind, candidates = condition.index.kind, how.ef_search and how.ef_search + how.remove_query
    for query, ids, scores in lucene_dense.search(index.artifact.path, kind, hits, candidates, asked, context.pool):
        yield query, *kept(query, ids, scores, how)


def truncations(stages: list[Stage]) -> list[str]:
    """What was cut of the texts of encode stages that are done: a sentence a model and side, datasets together."""
    counts: dict[str, list[tuple[str, int, int]]] = {}
    for stage in stages:
        found, (where, what) = Vectors(stage.artifact.path), stage.subject.split(" ", 1)
        counts.setdefault(what, []).append((where, found.truncated, len(found.ids)))
    sentences = []
    for what, found in counts.items():
        cut = [(where, some) for where, some, _ in found if some]
        if cut:
            total = f"{sum(some for _, some in cut):,} of {sum(every for _, _, every in found):,}"
            sentences.append(f"{what}: {total} cut at the model's length ({', '.join(f'{w} {n:,}' for w, n in cut)})")
    return sentences
