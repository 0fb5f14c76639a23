"""Other ways to the same rankings, to measure against: `python benchmarks/peers.py authors|bm25s ...`.

They read R2MED's raw files and write runs. Each is used as its users do; where there was a choice, the faster way was
taken.
"""

import argparse
import sys
from pathlib import Path

import orjson

from r2med_pyserini import trec
from r2med_pyserini.paths import CORPUS_FILE, QUERY_FILE

K1, B = 0.9, 0.4


def read_texts(path: Path) -> tuple[list[str], list[str]]:
    """Ids and texts of a corpus or query file."""
    with path.open("rb") as file:
        rows = [orjson.loads(line) for line in file]
    return [row["id"] for row in rows], [row["text"] for row in rows]


def run_file(out: Path, dataset: Path, system: str) -> Path:
    """Where a system's run of a dataset lies."""
    return out / f"run.{dataset.name}.{system}.txt"


def authors(datasets: list[Path], out: Path) -> None:
    """The method of the R2MED authors' public code: BM25 vectors of gensim over Lucene's analyzer, 100 hits.

    The analyzer is called as r2med does, which is faster than the list of Java strings that Pyserini returns.
    """
    from gensim.corpora import Dictionary
    from gensim.models import LuceneBM25Model
    from gensim.similarities import SparseMatrixSimilarity

    from r2med_pyserini.jvm import java_class
    from r2med_pyserini.lucene import analyze

    analyzer = java_class("io.anserini.analysis.DefaultEnglishAnalyzer").newDefaultInstance()
    for dataset in datasets:
        names, texts = read_texts(dataset / CORPUS_FILE)
        corpus = [analyze(analyzer, text) for text in texts]
        dictionary = Dictionary(corpus)
        model = LuceneBM25Model(dictionary=dictionary, k1=K1, b=B)
        vectors = model[[dictionary.doc2bow(tokens) for tokens in corpus]]
        size = {"num_docs": len(corpus), "num_terms": len(dictionary)}
        index = SparseMatrixSimilarity(vectors, **size, normalize_queries=False, normalize_documents=False)
        found = []
        for query, text in zip(*read_texts(dataset / QUERY_FILE), strict=True):
            scores = index[model[dictionary.doc2bow(analyze(analyzer, text))]].tolist()
            best = sorted(zip(names, scores, strict=True), key=lambda pair: pair[1], reverse=True)[:100]
            found.append((query, [name for name, _ in best], [score for _, score in best]))
        trec.write_run(run_file(out, dataset, "authors"), found, "authors")
        _progress("authors", dataset)


def bm25s(datasets: list[Path], out: Path, threads: int, warm: bool) -> None:
    """bm25s with its own tokenizer, 1000 hits; keeps its index in `out`, and with `warm` loads it from there."""
    import bm25s

    options = {"stopwords": "en", "stemmer": _stemmer(), "show_progress": False}
    for dataset in datasets:
        kept = out / f"index.{dataset.name}"
        if warm:
            index, names = bm25s.BM25.load(kept), orjson.loads((kept / "names.json").read_bytes())
        else:
            names, texts = read_texts(dataset / CORPUS_FILE)
            index = bm25s.BM25(k1=K1, b=B)
            index.index(bm25s.tokenize(texts, **options), show_progress=False)
            index.save(kept)
            (kept / "names.json").write_bytes(orjson.dumps(names))
        queries, texts = read_texts(dataset / QUERY_FILE)
        tokens, hits = bm25s.tokenize(texts, **options), min(1000, len(names))
        found, scores = index.retrieve(tokens, k=hits, n_threads=threads, show_progress=False)
        rows = zip(queries, ([names[i] for i in row] for row in found.tolist()), scores.tolist(), strict=True)
        trec.write_run(run_file(out, dataset, "bm25s"), rows, "bm25s")
        _progress("bm25s", dataset)


def _stemmer():
    try:
        import Stemmer
    except ImportError:
        return None
    return Stemmer.Stemmer("english")


def _progress(system: str, dataset: Path) -> None:
    print(f"  {system}: {dataset.name} done", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("system", choices=("authors", "bm25s"))
    parser.add_argument("out", type=Path, help="folder for runs and indexes")
    parser.add_argument("datasets", nargs="*", type=Path, help="their folders; with none, only the imports happen")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--warm", action="store_true", help="bm25s: search the index that an earlier run kept")
    arguments = parser.parse_intermixed_args()
    if arguments.system == "authors":
        authors(arguments.datasets, arguments.out)
    else:
        bm25s(arguments.datasets, arguments.out, arguments.threads, arguments.warm)


if __name__ == "__main__":
    main()
