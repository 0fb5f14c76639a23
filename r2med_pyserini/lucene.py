"""Build and search Lucene indexes through Anserini's classes: the same indexes and runs as Pyserini's commands give."""

from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

from .conditions import BM25_OFFICIAL, BM25QS, QLD, RM3, ROCCHIO, IndexSpec, SearchSpec
from .errors import R2medError
from .javatasks import JavaPool, as_callable, bind, boxed, compose, method, static_method
from .jvm import JAVA, as_java, java_class, java_errors
from .official_bm25 import CONTENTS, OfficialBM25

MEMORY_BUFFER_MB = 256  # of every index that is being built, as many at once as there are threads

_QUERY = "org.apache.lucene.search.Query"
_SCORED = "io.anserini.search.ScoredDocs"
_CONTEXT = "io.anserini.rerank.RerankerContext"


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
    with java_errors(f"cannot index {corpus}"):
        pool.run("io.anserini.index.IndexCollection", lambda: _indexer(corpus, index, spec))
        with JAVA:
            reader = _open(index)
            found = reader.numDocs()
            reader.close()
    if found != expected:
        raise R2medError(
            f"{corpus}: {found:,} of {expected:,} documents reached the index; see Anserini's messages above; "
            "if the data changed meanwhile, run the same command again"
        )


def _indexer(corpus: Path, index: Path, spec: IndexSpec):
    """Anserini's indexer, told by the words of its command line: what `--display-commands` shows is what runs."""
    args = java_class("io.anserini.index.IndexCollection$Args")()
    words = java_class("java.util.ArrayList")()
    for word in index_arguments(corpus.absolute(), index.absolute(), spec):
        words.add(word)
    parser = java_class("org.kohsuke.args4j.CmdLineParser")(args)
    parser.parseArgument(as_java("java.util.Collection", words))
    args.memoryBuffer, args.quiet = MEMORY_BUFFER_MB, True
    return java_class("io.anserini.index.IndexCollection")(args)


def _open(index: Path):
    directory = java_class("org.apache.lucene.store.FSDirectory").open(
        java_class("java.nio.file.Paths").get(str(index.absolute()))
    )
    return as_java(
        "org.apache.lucene.index.IndexReader", java_class("org.apache.lucene.index.DirectoryReader").open(directory)
    )


def search(
    index: Path, spec: SearchSpec, documents: int, topics: dict[str, str], pool: JavaPool
) -> Iterator[tuple[str, list[str], list[float]]]:
    """Search every topic: (query id, document ids, scores) in the order of `topics`.

    At most `spec.hits` hits each, best first, ties by document id; none for a query without a word of the index.
    `documents` counts the whole collection, empty documents too; only bm25-official needs it. Raises R2medError.
    """
    with java_errors(f"cannot search {index}"):
        with JAVA:
            reader = _open(index)
        try:
            with JAVA:
                wordless = reader.getSumTotalTermFreq(CONTENTS) <= 0  # all documents consist of stop words
                searcher = None if wordless else _Searcher(reader, spec, documents)
            found = pool.map(searcher.task, topics.values(), searcher.read) if searcher else repeat(([], []))
            for query, (identifiers, scores) in zip(topics, found, strict=False):
                yield query, identifiers, scores
        finally:
            with JAVA:
                reader.close()


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
        self._args = java_class("io.anserini.search.SearchCollection$Args")()
        self._args.hits = spec.hits
        self._pipeline = self._make_pipeline()

    def _make_pipeline(self):
        """A handle that makes ScoredDocs: first pass with ties by document id, then the cascade.

        Its arguments are (query, context); or, for the authors' BM25, (query): their ranking knows no second step, and
        Anserini's rounds scores to four decimals and tells equal ones apart, which would change what trec_eval sees.
        """
        searcher, scored, top = "org.apache.lucene.search.IndexSearcher", _SCORED, "org.apache.lucene.search.TopDocs"
        sort = "org.apache.lucene.search.Sort"
        first = method(searcher, "search", "org.apache.lucene.search.TopFieldDocs", _QUERY, "int", sort, "boolean")
        hits = self._args.rerankcutoff if self._spec.feedback == RM3 else self._spec.hits
        ties = java_class("io.anserini.search.SearchCollection").BREAK_SCORE_TIES_BY_DOCID
        first = bind(first.bindTo(self._searcher), 1, boxed(hits), ties, boxed(True))
        fetch = bind(static_method(scored, "fromTopDocs", scored, top, searcher), 1, self._searcher)
        if self._official:
            return compose(fetch, first)
        rerank = method("io.anserini.rerank.RerankerCascade", "run", scored, scored, _CONTEXT)
        return compose(rerank.bindTo(self._cascade()), compose(fetch, first))

    def _cascade(self):
        """What follows the first pass: relevance feedback, then telling tied scores apart."""
        spec, cascade = self._spec, java_class("io.anserini.rerank.RerankerCascade")()
        if spec.feedback == RM3:
            reranker = java_class("io.anserini.rerank.lib.Rm3Reranker")
            settings = (spec.fb_terms, spec.fb_docs, spec.original_query_weight, False, True)
            cascade.add(reranker(self._analyzer, None, CONTENTS, *settings))
        elif spec.feedback == ROCCHIO:
            reranker = java_class("io.anserini.rerank.lib.RocchioReranker")
            documents = (spec.fb_terms, spec.fb_docs) * 2  # for relevant and for non-relevant ones, which are not used
            cascade.add(reranker(self._analyzer, None, CONTENTS, *documents, spec.alpha, spec.beta, 0.0, False, False))
        cascade.add(java_class("io.anserini.rerank.lib.ScoreTiesAdjusterReranker")())
        return cascade

    def task(self, text: str):
        """A Callable that searches for one text."""
        if self._official:
            return as_callable(bind(self._pipeline, 0, self._official.query(analyze(self._analyzer, text))))
        query, tokens = self._generator.buildQuery(CONTENTS, self._analyzer, text), None
        if self._spec.feedback:
            tokens = java_class("io.anserini.analysis.AnalyzerUtils").analyze(self._analyzer, text)
        context = java_class(_CONTEXT)(self._searcher, None, query, None, text, tokens, None, self._args)
        return as_callable(bind(self._pipeline, 0, query, context))

    @staticmethod
    def read(result) -> tuple[list[str], list[float]]:
        """Document ids and scores of a Callable's result."""
        scored = as_java(_SCORED, result)
        return list(scored.docids), list(scored.scores)


def analyze(analyzer, text: str) -> list[str]:
    """The tokens of Anserini's analyzer. (Reading the list as one string is twice as fast as element by element.)

    A token holds no blank: the tokenizer parts words at white space.
    """
    joined = java_class("io.anserini.analysis.AnalyzerUtils").analyze(analyzer, text).toString()[1:-1]
    return joined.split(", ") if joined else []
