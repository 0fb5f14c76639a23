"""Build and search Lucene indexes through Anserini's classes: the same indexes and runs as Pyserini's commands give."""

from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

from . import anserini
from .errors import R2medError
from .javatasks import JavaPool, as_callable, bind
from .jvm import JAVA, java_class
from .official_bm25 import CONTENTS, OfficialBM25
from .specs import BM25_OFFICIAL, BM25QS, QLD, RM3, ROCCHIO, IndexSpec, SearchSpec

_INDEXER = "io.anserini.index.IndexCollection"


def index_arguments(corpus: Path, index: Path, spec: IndexSpec) -> list[str]:
    """The arguments of Anserini's IndexCollection, as its command line spells them."""
    arguments = ["-collection", "JsonCollection", "-input", str(corpus), "-index", str(index)]
    arguments += ["-generator", "DefaultLuceneDocumentGenerator", "-threads", "1"]
    if spec.docvectors:
        arguments.append("-storeDocvectors")
    if spec.exact_lengths:
        arguments.append("-bm25.accurate")
    return arguments


def build(corpus: Path, index: Path, spec: IndexSpec, expected: int, pool: JavaPool) -> None:
    """Index the collection in folder `corpus` into folder `index`.

    `expected` is the number of documents that are not empty (Anserini leaves empty ones out); if another number
    arrives, R2medError is raised, since Anserini itself only logs the documents that it could not index. One thread
    a dataset keeps the index a function of the collection; datasets are indexed side by side.
    """
    if expected == 0:
        raise R2medError(f"{corpus}: every document is empty; there is nothing to index")
    words = index_arguments(corpus.absolute(), index.absolute(), spec)
    anserini.build(_INDEXER, words, index, expected, corpus, pool)


def search(
    index: Path, spec: SearchSpec, documents: int, topics: dict[str, str], pool: JavaPool
) -> Iterator[tuple[str, list[str], list[float]]]:
    """Search every topic: (query id, document ids, scores) in the order of `topics`.

    At most `spec.hits` hits each, best first, ties by document id; none for a query without a word of the index.
    `documents` counts the whole collection, empty documents too; only bm25-official needs it. Raises R2medError.
    """
    with anserini.opened(index) as reader:
        with JAVA:
            wordless = reader.getSumTotalTermFreq(CONTENTS) <= 0  # all documents consist of stop words
            searcher = None if wordless else _Searcher(reader, spec, documents)
        found = pool.map(searcher.task, topics.values(), anserini.read_hits) if searcher else repeat(([], []))
        for query, (identifiers, scores) in zip(topics, found, strict=False):
            yield query, identifiers, scores


class _Searcher:
    """What Anserini's SimpleSearcher does, as a Callable a query. To be used holding JAVA."""

    def __init__(self, reader, spec: SearchSpec, documents: int):
        self._spec, self._reader = spec, reader
        self._analyzer = java_class("io.anserini.analysis.DefaultEnglishAnalyzer").newDefaultInstance()
        self._searcher = java_class("org.apache.lucene.search.IndexSearcher")(self._reader)
        self._official = None
        if spec.model == BM25_OFFICIAL:
            self._official = OfficialBM25(self._reader, self._searcher, spec.k1, spec.b, documents)
            similarity = self._official.similarity()
        elif spec.model == QLD:
            similarity = java_class("org.apache.lucene.search.similarities.LMDirichletSimilarity")(spec.mu)
        else:
            similarity = java_class("org.apache.lucene.search.similarities.BM25Similarity")(spec.k1, spec.b)
        self._searcher.setSimilarity(similarity)
        if spec.model == BM25QS:
            generator = java_class("io.anserini.search.query.QuerySideBm25QueryGenerator")
            self._generator = generator(spec.k1, spec.b, self._reader)
        else:
            self._generator = java_class("io.anserini.search.query.BagOfWordsQueryGenerator")()
        self._args = anserini.search_args(spec.hits)
        self._pipeline = self._make_pipeline()

    def _make_pipeline(self):
        """A handle that makes ScoredDocs: first pass with ties by document id, then what follows it.

        Its arguments are (query, context); or, for the authors' BM25, (query): their ranking knows no second step, and
        Anserini's rounds scores to four decimals and tells equal ones apart, which would change what trec_eval sees.
        """
        hits = self._args.rerankcutoff if self._spec.feedback == RM3 else self._spec.hits
        first = anserini.first_pass(self._searcher, hits)
        return first if self._official else anserini.reranked(first, *self._feedback())

    def _feedback(self) -> list:
        """Anserini's reranker for relevance feedback, if there is to be one."""
        spec = self._spec
        if spec.feedback == RM3:
            reranker = java_class("io.anserini.rerank.lib.Rm3Reranker")
            settings = (spec.fb_terms, spec.fb_docs, spec.original_query_weight, False, True)
            return [reranker(self._analyzer, None, CONTENTS, *settings)]
        if spec.feedback == ROCCHIO:
            reranker = java_class("io.anserini.rerank.lib.RocchioReranker")
            documents = (spec.fb_terms, spec.fb_docs) * 2  # for relevant and for non-relevant ones, which are not used
            settings = (*documents, spec.alpha, spec.beta, 0.0, False, False)
            return [reranker(self._analyzer, None, CONTENTS, *settings)]
        return []

    def task(self, text: str):
        """A Callable that searches for one text."""
        if self._official:
            return as_callable(bind(self._pipeline, 0, self._official.query(analyze(self._analyzer, text))))
        query, tokens = self._generator.buildQuery(CONTENTS, self._analyzer, text), None
        if self._spec.feedback:
            tokens = java_class("io.anserini.analysis.AnalyzerUtils").analyze(self._analyzer, text)
        context = anserini.reranker_context(self._searcher, query, self._args, text, tokens)
        return as_callable(bind(self._pipeline, 0, query, context))


def analyze(analyzer, text: str) -> list[str]:
    """The tokens of Anserini's analyzer. (Reading the list as one string is twice as fast as element by element.)

    A token holds no blank: the tokenizer parts words at white space.
    """
    joined = java_class("io.anserini.analysis.AnalyzerUtils").analyze(analyzer, text).toString()[1:-1]
    return joined.split(", ") if joined else []
