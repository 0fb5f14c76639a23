"""Lucene's dense indexes, flat and HNSW, built and searched through Anserini's classes as Pyserini does it.

Anserini ranks by Lucene's DOT_PRODUCT, which wants vectors of unit length: a score is (1 + cosine) / 2. How sums are
rounded is up to Java and the CPU (with the module jdk.incubator.vector or without, with fused multiply-add or without),
so scores are the same on one machine, and equal to about seven digits elsewhere.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from . import anserini
from .artifacts import artifact_path
from .errors import R2medError
from .javatasks import JavaPool, as_callable, bind
from .jvm import JAVA, java_class
from .specs import LUCENE_FLAT, LUCENE_HNSW, IndexSpec

if TYPE_CHECKING:
    import numpy as np

VECTOR = "vector"
FLAT_CANDIDATES = 1000  # what Anserini's FlatDenseSearcher asks for, whatever the number of hits
LARGEST = {"dimensions": 4096, "m": 512, "ef_construction": 3200}  # Anserini's and Lucene's limits
MOST_BUFFERED = 100_000  # documents a segment at most, however short their vectors
TOLERANCE = 0.001  # by which a length may differ from 1: what half precision loses

_INDEXER = {
    LUCENE_FLAT: "io.anserini.index.IndexFlatDenseVectors",
    LUCENE_HNSW: "io.anserini.index.IndexHnswDenseVectors",
}


def index_arguments(corpus: Path, index: Path, spec: IndexSpec) -> list[str]:
    """The arguments of Anserini's IndexFlatDenseVectors, or IndexHnswDenseVectors, for JsonDenseVectorCollection files.

    Their memory buffer and their merging are set besides: see `_settle`.
    """
    arguments = ["-collection", "JsonDenseVectorCollection", "-input", str(corpus), "-index", str(index)]
    arguments += ["-generator", "DenseVectorDocumentGenerator", "-threads", "1", "-optimize"]
    if spec.kind == LUCENE_HNSW:
        arguments += ["-M", str(spec.m), "-efC", str(spec.ef_construction)]
    return arguments


def build(parts: "Iterable[tuple[list[str], np.ndarray]]", index: Path, spec: IndexSpec, pool: JavaPool) -> None:
    """Index documents into folder `index`: flat, or as one HNSW graph.

    Every part holds ids and their vectors, [documents, dimensions] of float32, of unit length; parts are taken one at
    a time, in order. The same parts give an index that answers the same, whatever else runs meanwhile. Raises
    R2medError for a vector that is not of unit length, for what Lucene cannot hold, and if a document does not reach
    the index.
    """
    place = artifact_path(index)
    for name in ("m", "ef_construction"):
        _check_limit(place, name, getattr(spec, name) or 0)
    with anserini.scratch_collection(index) as corpus:
        documents, dimensions = _write(parts, corpus / "docs.jsonl", place)
        if not documents:
            raise R2medError(f"{place}: there is no document to index")
        words, indexer = index_arguments(corpus.absolute(), index.absolute(), spec), _INDEXER[spec.kind]
        anserini.build(indexer, words, index, documents, place, pool, lambda made: _settle(made, dimensions))


def _check_limit(place: Path, name: str, value: int) -> None:
    if value > LARGEST[name]:
        raise R2medError(f"{place}: {name} is {value:,}; Lucene's dense indexes take at most {LARGEST[name]:,}")


def _settle(indexer, dimensions: int) -> None:
    """Let the index be a function of its documents, in their order. To be called holding JAVA.

    Anserini leaves it to Lucene when to write a segment (by its estimate of memory, which differs between JVMs) and
    which segments to merge, in threads of their own, meanwhile; yet an HNSW graph depends on the order in which its
    vectors come. Here a segment is written after a fixed number of documents, and there is one merge, of all segments
    in order, at the end; none at all if one segment holds everything, so that the graph is built once only.
    (IndexHnswDenseVectors does not heed its -memoryBuffer: it would write a segment every 16 MB.)
    """
    buffered = min(anserini.MEMORY_BUFFER_MB * 2**20 // (4 * dimensions), MOST_BUFFERED)
    policy = java_class("org.apache.lucene.index.LogDocMergePolicy")()
    policy.setMergeFactor(2**31 - 1)
    settings = indexer.writer.getConfig()
    settings.setMaxBufferedDocs(buffered)
    settings.setRAMBufferSizeMB(-1.0)  # off
    settings.setUseCompoundFile(False)  # or the one segment would count as not merged yet
    settings.setMergePolicy(policy)


def _write(parts: "Iterable[tuple[list[str], np.ndarray]]", file: Path, place: Path) -> tuple[int, int]:
    """Write a JsonDenseVectorCollection, one file, so that one thread reads it in order: documents and dimensions."""
    documents = dimensions = 0
    with file.open("wb") as out:
        for identifiers, vectors in parts:
            if dimensions not in (0, vectors.shape[1]) or len(identifiers) != len(vectors):
                raise ValueError(f"{len(identifiers)} ids, vectors of shape {vectors.shape}, {dimensions} dimensions")
            documents, dimensions = documents + len(identifiers), vectors.shape[1]
            _check_limit(place, "dimensions", dimensions)
            vectors = vectors.astype("float32", order="C", copy=False)
            check_unit_length(identifiers, vectors)
            out.writelines(_lines(identifiers, vectors))
            del vectors  # before the next part is made
    return documents, dimensions


def _lines(identifiers: list[str], vectors: "np.ndarray") -> Iterator[bytes]:
    import orjson

    for identifier, vector in zip(identifiers, vectors, strict=True):
        yield orjson.dumps({"docid": identifier, "vector": vector}, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n"


def check_unit_length(identifiers: list[str], vectors: "np.ndarray") -> None:
    """Raise R2medError, which names the text, unless all vectors, [texts, dimensions], have a length of 1."""
    import numpy as np

    lengths = np.linalg.norm(vectors, axis=1)
    wrong = np.flatnonzero(~(np.abs(lengths - 1) <= TOLERANCE))
    if len(wrong):
        raise R2medError(
            f"text {identifiers[wrong[0]]}: its vector has the length {lengths[wrong[0]]:g}; Lucene's dense indexes "
            "want vectors of length 1"
        )


def search(
    index: Path, kind: str, hits: int, ef_search: int | None, queries: "dict[str, np.ndarray]", pool: JavaPool
) -> Iterator[tuple[str, list[str], list[float]]]:
    """Search for every query, a [dimensions] vector of unit length: (query id, document ids, scores), in their order.

    At most `hits` each, best first, ties by document id. A score is (1 + cosine) / 2. These are the hits of Anserini's
    FlatDenseSearcher and HnswDenseSearcher, and so of Pyserini's LuceneFlatDenseSearcher and LuceneHnswDenseSearcher;
    but the former never gives more than 1,000. `ef_search`, of HNSW only, is how many candidates the graph is asked
    for: there are never more hits than that. Raises R2medError.
    """
    candidates = max(hits, FLAT_CANDIDATES) if kind == LUCENE_FLAT else ef_search
    for query, vector in queries.items():
        check_unit_length([query], vector[None])
    with anserini.opened(index) as reader:
        with JAVA:
            searcher = java_class("org.apache.lucene.search.IndexSearcher")(reader)
            pipeline = anserini.first_pass(searcher, hits)
            knn_query = java_class("org.apache.lucene.search.KnnFloatVectorQuery")
            candidates = min(candidates, reader.maxDoc())

        def task(vector: "np.ndarray"):
            query = knn_query(VECTOR, vector.astype("float32").tolist(), candidates)  # a fraction of a millisecond
            return as_callable(bind(pipeline, 0, query))

        found = pool.map(task, queries.values(), anserini.read_hits)
        for query, (identifiers, scores) in zip(queries, found, strict=True):
            yield query, identifiers, scores
