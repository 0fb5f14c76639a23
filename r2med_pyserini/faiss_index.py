"""FAISS indexes in Pyserini's layout: a folder with `index` and `docid`, which its FaissSearcher opens."""

import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from .artifacts import artifact_path, write_json
from .errors import R2medError
from .specs import COSINE, FAISS_HNSW, IndexSpec, SearchSpec

if TYPE_CHECKING:
    import numpy as np

_TOGETHER = 448  # queries: fewer read the vectors too often, more leave processors without work
_INDEX, _IDS, _ABOUT = "index", "docid", "about.json"


def unit(vectors: "np.ndarray") -> "np.ndarray":
    """Float32 vectors of length 1, [texts, dimensions]; a zero vector stays one, so that its cosine is 0."""
    import numpy as np

    vectors = np.array(vectors, dtype=np.float32, order="C")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, lengths, out=vectors, where=lengths > 0)


def ready(vectors: "np.ndarray", metric: str) -> "np.ndarray":
    """Float32 vectors whose inner products rank by `metric`."""
    import numpy as np

    return unit(vectors) if metric == COSINE else np.ascontiguousarray(vectors, dtype=np.float32)


def build(parts: Iterable[tuple[list[str], "np.ndarray"]], folder: Path, spec: IndexSpec) -> None:
    """Put the vectors of (ids, vectors [texts, dimensions]), which come a part at a time, into a FAISS index.

    The index ranks by inner product; for COSINE its vectors have unit length. An HNSW graph is grown by one thread,
    since its edges depend on the order in which vectors come. Raises R2medError.
    """
    import faiss
    import numpy as np

    index, ids = None, []
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        for names, vectors in parts:
            if index is None:
                index = _empty(vectors.shape[1], spec)
            good = np.isfinite(vectors).all(axis=1)
            if not good.all():
                raise R2medError(f"document {names[np.argmin(good)]}: its vector holds NaN or infinite values")
            index.add(ready(vectors, spec.metric))
            ids += names
    finally:
        faiss.omp_set_num_threads(threads)
    if not ids:
        raise R2medError("there is no document to index")
    try:
        faiss.write_index(index, str(folder / _INDEX))
    except RuntimeError as error:  # which holds FAISS's source line, and then what the system said
        reason = str(error).rstrip().rpartition(": ")[2]
        raise R2medError(f"cannot make {artifact_path(folder)}: {reason}") from error
    (folder / _IDS).write_text("".join(f"{name}\n" for name in ids), encoding="utf-8")
    write_json(folder / _ABOUT, spec.parameters() | {"dimensions": index.d, "documents": index.ntotal})


def _empty(dimensions: int, spec: IndexSpec):
    import faiss

    if spec.kind != FAISS_HNSW:
        return faiss.IndexFlatIP(dimensions)
    index = faiss.IndexHNSWFlat(dimensions, spec.m, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = spec.ef_construction
    return index


def _open(folder: Path, spec: IndexSpec, documents: int):
    """The index and its ids. Raises R2medError if they do not fit together, or are of another kind."""
    import faiss

    try:
        about = json.loads((folder / _ABOUT).read_text(encoding="utf-8"))
        found = {key: about.get(key) for key in spec.parameters()}
        ids = (folder / _IDS).read_text(encoding="utf-8").split("\n")[:-1]
        index = faiss.read_index(str(folder / _INDEX))
    except (OSError, ValueError, AttributeError, RuntimeError, MemoryError) as error:  # FAISS raises the last two
        raise R2medError(f"{folder}: the index is damaged: remove the folder, and it is made anew") from error
    for key, wanted in spec.parameters().items():
        if found[key] != wanted:
            raise R2medError(f"{folder}: its {key} is {found[key]}, but {wanted} is wanted")
    if not index.ntotal == len(ids) == documents:
        raise R2medError(
            f"{folder}: {index.ntotal:,} vectors and {len(ids):,} ids for {documents:,} documents: "
            "remove it, and it is made anew"
        )
    return index, ids


def search(
    folder: Path,
    spec: IndexSpec,
    how: SearchSpec,
    documents: int,
    queries: tuple[list[str], "np.ndarray"],
    threads: int,
) -> Iterator[tuple[str, list[str], list[float]]]:
    """Search for every query, (ids, vectors [queries, dimensions]): (query id, document ids, scores), in their order.

    At most `how.hits` hits each, best first, equal scores by document id. Raises R2medError.
    """
    import numpy as np

    index, ids = _open(folder, spec, documents)
    names, vectors = queries
    if vectors.shape[1] != index.d:
        raise R2medError(f"{folder}: vectors of {index.d} dimensions, but queries of {vectors.shape[1]}")
    if how.ef_search is not None:
        index.hnsw.efSearch = how.ef_search + how.remove_query
    wanted = min(how.hits + how.remove_query, index.ntotal)
    found = _search(index, ready(vectors, spec.metric), wanted, threads)
    documents = np.array(ids, dtype=object)
    places = np.empty(len(ids), np.int64)  # of each id among the sorted ones
    places[np.array(sorted(range(len(ids)), key=ids.__getitem__))] = np.arange(len(ids))
    for name, scores, positions in zip(names, *found, strict=True):
        scores, positions = scores[positions >= 0], positions[positions >= 0]  # -1 stands where a graph found no more
        order = np.lexsort((places[positions], -scores))
        yield name, *kept(name, documents[positions[order]].tolist(), scores[order].tolist(), how)


def _search(index, vectors: "np.ndarray", wanted: int, threads: int) -> "tuple[np.ndarray, np.ndarray]":
    """Scores and positions of the best `wanted` vectors a query, [queries, wanted].

    Each of `threads` threads searches for _TOGETHER queries at a time by itself: FAISS's own threads lose much time
    where many hits are wanted, and scores would depend on their number.
    """
    import faiss
    import numpy as np

    def search_some(start: int) -> "tuple[np.ndarray, np.ndarray]":
        faiss.omp_set_num_threads(1)  # of this thread
        return index.search(vectors[start : start + _TOGETHER], wanted)

    with ThreadPoolExecutor(threads, thread_name_prefix="search") as pool:
        found = list(pool.map(search_some, range(0, len(vectors), _TOGETHER)))
    return np.concatenate([scores for scores, _ in found]), np.concatenate([positions for _, positions in found])


def kept(query: str, documents: list[str], scores: list[float], how: SearchSpec) -> tuple[list[str], list[float]]:
    """Of the hits of a query, best first, ids and scores of those that a run keeps."""
    if how.remove_query and query in documents:
        own = documents.index(query)
        documents, scores = documents[:own] + documents[own + 1 :], scores[:own] + scores[own + 1 :]
    return documents[: how.hits], scores[: how.hits]
