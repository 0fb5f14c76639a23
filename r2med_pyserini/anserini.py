"""What Lucene indexes of all kinds share: Anserini's indexers, and the steps of Anserini's searchers."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import R2medError
from .javatasks import JavaPool, bind, boxed, compose, method, static_method
from .jvm import JAVA, as_java, java_class, java_errors

MEMORY_BUFFER_MB = 256  # of every index that is being built, as many at once as there are threads

_QUERY = "org.apache.lucene.search.Query"
_SCORED = "io.anserini.search.ScoredDocs"
_CONTEXT = "io.anserini.rerank.RerankerContext"


def build(
    indexer: str,
    words: list[str],
    index: Path,
    expected: int,
    subject: object,
    pool: JavaPool,
    prepare: Callable[[object], None] = lambda indexer: None,
) -> None:
    """Run Anserini's indexer of that class, told by the words of its command line: what users are shown is what runs.

    `prepare` may still change the Java object before it runs; it is called holding JAVA. `subject` says in messages
    what is being indexed. If another number of documents arrives than `expected`, or if segments are left that were to
    be merged, R2medError is raised, since Anserini itself only logs what it could not do.
    """

    def make():
        args = java_class(f"{indexer}$Args")()
        java_words = java_class("java.util.ArrayList")()
        for word in words:
            java_words.add(word)
        parser = java_class("org.kohsuke.args4j.CmdLineParser")(args)
        parser.parseArgument(as_java("java.util.Collection", java_words))
        args.memoryBuffer, args.quiet = MEMORY_BUFFER_MB, True
        made = java_class(indexer)(args)
        prepare(made)
        return made

    with java_errors(f"cannot index {subject}"):
        pool.run(indexer, make)
        with JAVA:
            reader = _open(index)
            found, segments = reader.numDocs(), reader.leaves().size()
            reader.close()
    if found != expected:
        raise R2medError(
            f"{subject}: {found:,} of {expected:,} documents reached the index; see Anserini's messages above; "
            "if the data changed meanwhile, run the same command again"
        )
    if "-optimize" in words and segments > 1:
        raise R2medError(f"{subject}: its {segments} segments were not merged; see Anserini's messages above")


@contextmanager
def scratch_collection(index: Path) -> Iterator[Path]:
    """A folder for a collection that is written only to be indexed; gone when the block ends, however it ends.

    It lies inside the index's folder, which Lucene does not mind, so that what a killed process leaves of it is
    removed together with the unfinished index.
    """
    folder = index / "collection"
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _open(index: Path):
    directory = java_class("org.apache.lucene.store.FSDirectory").open(
        java_class("java.nio.file.Paths").get(str(index.absolute()))
    )
    return as_java(
        "org.apache.lucene.index.IndexReader", java_class("org.apache.lucene.index.DirectoryReader").open(directory)
    )


@contextmanager
def opened(index: Path) -> Iterator:
    """Lucene's IndexReader of an index, closed at the end. What Java raises in the block becomes an R2medError."""
    with java_errors(f"cannot search {index}"):
        with JAVA:
            reader = _open(index)
        try:
            yield reader
        finally:
            with JAVA:
                reader.close()


def first_pass(searcher, hits: int):
    """A handle of (query) that gives Anserini's ScoredDocs: the best `hits` documents, ties by document id.

    To be called holding JAVA, as all below.
    """
    name, top = "org.apache.lucene.search.IndexSearcher", "org.apache.lucene.search.TopDocs"
    sort = "org.apache.lucene.search.Sort"
    search = method(name, "search", "org.apache.lucene.search.TopFieldDocs", _QUERY, "int", sort, "boolean")
    ties = java_class("io.anserini.search.SearchCollection").BREAK_SCORE_TIES_BY_DOCID
    search = bind(search.bindTo(searcher), 1, boxed(hits), ties, boxed(True))
    fetch = bind(static_method(_SCORED, "fromTopDocs", _SCORED, top, name), 1, searcher)
    return compose(fetch, search)


def reranked(first, *rerankers):
    """A handle of (query, context): Anserini's rerankers after a first pass, and at last tied scores told apart."""
    cascade = java_class("io.anserini.rerank.RerankerCascade")()
    for reranker in (*rerankers, java_class("io.anserini.rerank.lib.ScoreTiesAdjusterReranker")()):
        cascade.add(reranker)
    rerank = method("io.anserini.rerank.RerankerCascade", "run", _SCORED, _SCORED, _CONTEXT)
    return compose(rerank.bindTo(cascade), first)


def reranker_context(searcher, query, args, text: str | None = None, tokens=None):
    """What rerankers are told of a query; `args` are SearchCollection's. Only feedback reads text and tokens."""
    return java_class(_CONTEXT)(searcher, None, query, None, text, tokens, None, args)


def search_args(hits: int):
    """The arguments of Anserini's SearchCollection, which hold its defaults."""
    args = java_class("io.anserini.search.SearchCollection$Args")()
    args.hits = hits
    return args


def read_hits(result) -> tuple[list[str], list[float]]:
    """Document ids and scores of ScoredDocs."""
    scored = as_java(_SCORED, result)
    return list(scored.docids), list(scored.scores)
