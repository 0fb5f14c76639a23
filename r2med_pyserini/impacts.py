"""Lucene impact indexes, which hold the weights of learned sparse models: built and searched as Pyserini does it."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from . import anserini
from .artifacts import artifact_path
from .errors import R2medError, shown
from .javatasks import JavaPool, as_callable, bind
from .jvm import JAVA, java_class

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

CONTENTS = "contents"
LONGEST_TOKEN = 255  # in UTF-16 units: Lucene's WhitespaceTokenizer cuts there

_INDEXER = "io.anserini.index.IndexCollection"
# Where Java's Character.isWhitespace parts tokens; and control characters, which String.trim takes for nothing.
_SPACE = re.compile("[\0- \u1680\u2000-\u2006\u2008-\u200a\u2028\u2029\u205f\u3000]")


def quantize(vectors: "csr_matrix", scale: float, names: Sequence[str] | None = None) -> "csr_matrix":
    """round(weight x scale) as whole numbers, halves to even; a weight that rounds to zero is dropped.

    `vectors` is [texts, vocabulary] of float; the result has its shape and is sorted by column. `names` are the ids of
    the rows, for messages. Raises R2medError if a weight is negative or not finite, since an impact is a count.
    """
    import numpy as np
    from scipy.sparse import csr_matrix

    impacts = csr_matrix(vectors, dtype=np.float64, copy=True)
    impacts.sum_duplicates()
    wrong = np.flatnonzero(~((impacts.data >= 0) & (impacts.data < np.inf)))
    if len(wrong):
        row = int(np.searchsorted(impacts.indptr, wrong[0], side="right")) - 1
        name = f"text {names[row]}" if names else f"row {row}"
        raise R2medError(
            f"{name}: weight {impacts.data[wrong[0]]:g} of dimension {impacts.indices[wrong[0]]}: an impact index "
            "holds positive numbers only; the encoder is no sparse model of terms, or its output is damaged"
        )
    impacts.data = np.rint(impacts.data * scale)
    impacts.eliminate_zeros()
    return impacts.astype(np.int64)


def query_weights(row: "csr_matrix", vocabulary: Sequence[str], scale: float) -> dict[str, int]:
    """The tokens of a query, a [1, vocabulary] row of weights, with their impacts; empty if all round to zero.

    Raises R2medError if a weight is negative.
    """
    impacts = quantize(row, scale)
    return {vocabulary[column]: impact for column, impact in zip(*_entries(impacts, 0), strict=True)}


def _entries(impacts: "csr_matrix", row: int) -> tuple[list[int], list[int]]:
    """Columns and values of a row."""
    where = slice(impacts.indptr[row], impacts.indptr[row + 1])
    return impacts.indices[where].tolist(), impacts.data[where].tolist()


def index_arguments(corpus: Path, index: Path) -> list[str]:
    """The arguments of Anserini's IndexCollection for a folder of JsonVectorCollection files."""
    arguments = ["-collection", "JsonVectorCollection", "-input", str(corpus), "-index", str(index)]
    return [*arguments, "-generator", "DefaultLuceneDocumentGenerator", "-threads", "1", "-impact", "-pretokenized"]


def build(
    parts: Iterable[tuple[list[str], "csr_matrix"]],
    vocabulary: Sequence[str],
    index: Path,
    scale: float,
    pool: JavaPool,
) -> list[str]:
    """Index documents into folder `index`; return the ids of those left empty, which are not in it.

    Every part holds ids and their weights, [documents, vocabulary] of float; parts are taken one at a time, in order.
    Raises R2medError if all documents are empty, if one does not reach the index, for weights that `quantize` refuses,
    and for a token that Anserini, which parts tokens at white space, would not keep whole.
    """
    place = artifact_path(index)
    tokens = _Tokens(vocabulary)
    with anserini.scratch_collection(index) as corpus:
        indexed, empty = _write(parts, tokens, corpus / "docs.jsonl", scale)
        if not indexed:
            raise R2medError(f"{place}: no document has a weight that is positive; there is nothing to index")
        words = index_arguments(corpus.absolute(), index.absolute())
        anserini.build(_INDEXER, words, index, indexed, place, pool)
    return empty


class _Tokens:
    """The vocabulary, and which of its tokens Anserini would not keep whole."""

    def __init__(self, vocabulary: Sequence[str]):
        import numpy as np

        self.names = list(vocabulary)
        last = {token: column for column, token in enumerate(self.names)}
        bad = [_is_broken(token) or last[token] != column for column, token in enumerate(self.names)]
        self._bad = np.array(bad, bool)

    def check(self, impacts: "csr_matrix") -> None:
        """Raise R2medError if one of them carries weight."""
        if impacts.shape[1] != len(self.names):
            raise ValueError(f"vectors of {impacts.shape[1]} dimensions, a vocabulary of {len(self.names)} tokens")
        found = impacts.indices[self._bad[impacts.indices]]
        if len(found):
            token = self.names[found[0]]
            broken = f"is empty, holds white space or a control character, or is longer than {LONGEST_TOKEN} characters"
            problem = broken if _is_broken(token) else "stands there twice"
            raise R2medError(
                f"token {found[0]} of the encoder's vocabulary, {shown(token)}, {problem}: it "
                "cannot be a term of the index"
            )


def _is_broken(token: str) -> bool:
    return not 0 < len(token.encode("utf-16-le")) // 2 <= LONGEST_TOKEN or _SPACE.search(token) is not None


def _write(
    parts: Iterable[tuple[list[str], "csr_matrix"]], tokens: _Tokens, file: Path, scale: float
) -> tuple[int, list[str]]:
    """Write a JsonVectorCollection of the documents that are not empty: how many there are, and the ids of the empty.

    It is one file, so that one thread reads the documents in their order.
    """
    indexed, empty = 0, []
    with file.open("wb") as out:
        for identifiers, vectors in parts:
            if len(identifiers) != vectors.shape[0]:
                raise ValueError(f"{len(identifiers)} ids, weights of shape {vectors.shape}")
            impacts = quantize(vectors, scale, identifiers)
            tokens.check(impacts)
            empty += [identifiers[row] for row in (impacts.getnnz(axis=1) == 0).nonzero()[0]]
            indexed += len(identifiers)
            out.writelines(_lines(identifiers, impacts, tokens.names))
            del vectors, impacts  # before the next part is made
    return indexed - len(empty), empty


def _lines(identifiers: list[str], impacts: "csr_matrix", names: list[str]) -> Iterator[bytes]:
    import orjson

    for row, identifier in enumerate(identifiers):
        columns, values = _entries(impacts, row)
        if columns:
            vector = dict(zip((names[column] for column in columns), values, strict=True))
            yield orjson.dumps({"id": identifier, "contents": "", "vector": vector}) + b"\n"


def search(
    index: Path, hits: int, queries: dict[str, dict[str, int]], pool: JavaPool
) -> Iterator[tuple[str, list[str], list[float]]]:
    """Search for every query, given as token -> weight: (query id, document ids, scores) in the order of `queries`.

    At most `hits` each, best first, ties by document id and then spaced apart; none for a query without a token. These
    are the hits of Pyserini's LuceneImpactSearcher, which leaves out the tokens of a query that occur in every
    document (their idf is not above its `min_idf` of 0). Raises R2medError.
    """
    with anserini.opened(index) as reader:
        with JAVA:
            searcher = _Searcher(reader, hits)
        found = pool.map(searcher.task, queries.values(), anserini.read_hits)
        for query, (identifiers, scores) in zip(queries, found, strict=True):
            yield query, identifiers, scores


class _Searcher:
    """What Anserini's SimpleImpactSearcher does, as a Callable a query. To be used holding JAVA."""

    def __init__(self, reader, hits: int):
        self._reader, self._documents = reader, reader.numDocs()
        self._searcher = java_class("org.apache.lucene.search.IndexSearcher")(reader)
        self._searcher.setSimilarity(java_class("io.anserini.search.similarity.ImpactSimilarity")())
        self._generator = java_class("io.anserini.search.query.BagOfWordsQueryGenerator")()
        self._args = anserini.search_args(hits)
        self._pipeline = anserini.reranked(anserini.first_pass(self._searcher, hits))
        self._float, self._term = java_class("java.lang.Float"), java_class("org.apache.lucene.index.Term")
        self._tells: dict[str, bool] = {}

    def _tells_apart(self, token: str) -> bool:
        """Whether some documents hold a token, but not all. Queries share many of their tokens."""
        if token not in self._tells:
            self._tells[token] = 0 < self._reader.docFreq(self._term(CONTENTS, token)) < self._documents
        return self._tells[token]

    def task(self, weights: dict[str, int]):
        """A Callable that searches for one query."""
        terms = java_class("java.util.HashMap")()
        for token, weight in weights.items():
            if self._tells_apart(token):
                terms.put(token, self._float(weight))
        query = self._generator.buildQuery(CONTENTS, terms)
        context = anserini.reranker_context(self._searcher, query, self._args)
        return as_callable(bind(self._pipeline, 0, query, context))
