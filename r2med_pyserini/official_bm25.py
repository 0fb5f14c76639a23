"""BM25 as the R2MED authors compute it, out of Lucene. docs/bm25-official.md derives it."""

import math
from collections import Counter

from .jvm import java_class

CONTENTS = "contents"


class OfficialBM25:
    """BM25 as the R2MED authors compute it, out of a Lucene index with exact document lengths.

    Source: the authors' public code, which turns document and query into BM25 weight vectors (gensim's
    LuceneBM25Model over Lucene's analyzer) and multiplies them:

        score(q, d) = sum over terms t of w(t, q) w(t, d)
        w(t, x)     = idf(t) tf / (tf + k1 (1 - b + b L / avgdl)),  idf(t) = ln(N + 1) - ln(df(t) + 0.5)

    L is the exact token count; for the query it counts only tokens that occur in the corpus. N counts every document
    and avgdl divides by N, empty documents included. Lucene's own statistics leave empty documents out, so its idf is
    corrected in the boost of each clause, and its average length by another pair (k1', b') that gives the same value.
    """

    def __init__(self, reader, searcher, k1: float, b: float, documents: int):
        self._reader, self._k1, self._b, self._documents = reader, k1, b, documents
        statistics = searcher.collectionStatistics(CONTENTS)
        self._indexed = statistics.docCount()
        self._tokens = statistics.sumTotalTermFreq()
        self._mean_length = self._tokens / documents
        self._term = java_class("org.apache.lucene.index.Term")
        self._term_query = java_class("org.apache.lucene.search.TermQuery")
        self._boost_query = java_class("org.apache.lucene.search.BoostQuery")
        self._clauses: dict[str, tuple[object, int]] = {}
        self._should = java_class("org.apache.lucene.search.BooleanClause$Occur").SHOULD

    def similarity(self):
        """Lucene's BM25 with the pair (k1', b') that gives k1 (1 - b + b L / avgdl) for Lucene's average length.

        With r = Lucene's average length / avgdl: k1' = k1 (1 - b) + k1 b r, and b' = k1 b r / k1'.
        """
        ratio = (self._tokens / self._indexed) / self._mean_length
        length_part = self._k1 * self._b * ratio
        k1 = self._k1 * (1 - self._b) + length_part
        b = length_part / k1 if k1 else 0.0
        return java_class("io.anserini.search.similarity.AccurateBM25Similarity")(k1, b)

    def _look_up(self, token: str) -> tuple[object, int]:
        """The Lucene query of a token, and in how many documents it occurs. Queries share most of their words."""
        if token not in self._clauses:
            term = self._term(CONTENTS, token)
            self._clauses[token] = self._term_query(term), self._reader.docFreq(term)
        return self._clauses[token]

    def query(self, tokens: list[str]):
        """The Lucene query whose score of a document is score(q, d)."""
        builder = java_class("org.apache.lucene.search.BooleanQuery$Builder")()
        known = Counter(token for token in tokens if self._look_up(token)[1])
        length = known.total()
        for token, count in known.items():
            clause, frequency = self._look_up(token)
            inner = frequency + 0.5
            idf = math.log(self._documents + 1) - math.log(inner)
            lucene_idf = math.log(self._indexed + 1) - math.log(inner)
            saturation = count + self._k1 * (1 - self._b + self._b * length / self._mean_length)
            boost = idf * count / saturation * (idf / lucene_idf)
            builder.add(self._boost_query(clause, boost), self._should)
        return builder.build()
