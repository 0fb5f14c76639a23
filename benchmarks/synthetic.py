"""Random text of R2MED's sizes in R2MED's raw layout, to measure with where the data itself is not needed.

Counts and mean lengths are those of the eight datasets. Words are drawn by their real frequencies in English; a part
of every document is drawn from a few topic words of its own, so that words recur within a document as they do in real
text, and judged documents share some topic words with their query. The same arguments give the same bytes.

`python benchmarks/synthetic.py --data FOLDER` makes what is not there yet and prints the folder of every dataset.
"""

import argparse
import json
import shutil
import sys
import tempfile
import zlib
from importlib.metadata import version
from pathlib import Path

import numpy as np
import orjson

from r2med_pyserini.errors import R2medError
from r2med_pyserini.paths import CORPUS_FILE, QRELS_FILE, QUERY_FILE, Workspace
from r2med_pyserini.suites import Dataset, load_suite

FORMAT, SEED, MARK = 1, 20250601, "complete.json"
VOCABULARY, SPREAD, EMPTY = 100_000, 0.6, 0.001  # words; sigma of log-normal lengths; share of empty documents
TOPIC_WORDS, TOPIC_SHARE, SHARED = 20, 0.25, 3  # a text's own words, their share, those that a judged document shares
TOPIC_RANKS = (300, 30_000)  # topic words are neither the commonest nor the rarest
CHUNK = 4096  # texts made at once

_PLAIN, _COMMA, _STOP, _CAPITAL = range(4)


def default_data() -> Path:
    """Where the datasets are kept unless another folder is named."""
    return Path(tempfile.gettempdir()) / "r2med-benchmark"


def suite_folder(data: Path, scale: float) -> Path:
    """The suite of that scale below `data`; its name is one that r2med takes for a suite."""
    return data / ("synthetic" if scale == 1 else f"synthetic-{scale:g}".replace(".", "_"))


class Writer:
    """Draws texts over English words."""

    def __init__(self) -> None:
        import wordfreq

        words = wordfreq.top_n_list("en", VOCABULARY)
        weights = np.array([wordfreq.word_frequency(word, "en") for word in words])
        self._cumulative = np.cumsum(weights) / weights.sum()
        forms = (words, [f"{word}," for word in words], [f"{word}." for word in words], [w.capitalize() for w in words])
        self._forms = np.array([word for form in forms for word in form], dtype=object)
        self._count = len(words)

    def topics(self, rng: np.random.Generator, texts: int) -> np.ndarray:
        """Topic words of every text, a row each, spread evenly over the logarithm of the rank."""
        low, high = (min(rank, self._count - 1) for rank in TOPIC_RANKS)
        return np.exp(rng.uniform(np.log(low), np.log(high), (texts, TOPIC_WORDS))).astype(np.int32)

    def texts(self, rng: np.random.Generator, lengths: np.ndarray, topics: np.ndarray):
        """A text of every length, TOPIC_SHARE of its words out of its row of `topics`."""
        for first in range(0, len(lengths), CHUNK):
            sizes, own = lengths[first : first + CHUNK], topics[first : first + CHUNK]
            total = int(sizes.sum())
            drawn = np.minimum(np.searchsorted(self._cumulative, rng.random(total)), self._count - 1)
            text = np.repeat(np.arange(len(sizes)), sizes)
            topical = rng.random(total) < TOPIC_SHARE
            drawn[topical] = own[text[topical], rng.integers(TOPIC_WORDS, size=int(topical.sum()))]
            form = np.searchsorted((0.88, 0.94), rng.random(total))  # plain, comma, full stop
            form[1:][(form[:-1] == _STOP) & (form[1:] == _PLAIN)] = _CAPITAL
            words = self._forms[drawn + form * self._count].tolist()
            ends = np.cumsum(sizes).tolist()
            for start, end in zip([0, *ends], ends, strict=False):
                yield " ".join(words[start:end])


def lengths(rng: np.random.Generator, texts: int, mean: float) -> np.ndarray:
    """Log-normal lengths of that mean, at least one word each."""
    drawn = rng.lognormal(0, SPREAD, texts)
    return np.maximum(1, np.rint(drawn * mean / drawn.mean())).astype(np.int64)


def write_dataset(folder: Path, dataset: Dataset, scale: float, writer: Writer) -> None:
    """Write the three raw files of a dataset with `scale` times its documents."""
    rng = np.random.default_rng([SEED, zlib.crc32(dataset.slug.encode())])
    documents, queries = max(100, round(dataset.documents * scale)), dataset.queries
    query_lengths = lengths(rng, queries, dataset.words[0])
    document_lengths = lengths(rng, documents, dataset.words[1])
    document_lengths[rng.choice(documents, max(1, round(documents * EMPTY)), replace=False)] = 0
    query_topics, document_topics = writer.topics(rng, queries), writer.topics(rng, documents)
    judged, extra = [], rng.multinomial(dataset.qrels - queries, [1 / queries] * queries)
    for topics, more in zip(query_topics, extra, strict=True):
        judged.append(rng.choice(np.flatnonzero(document_lengths), 1 + more, replace=False))
        for document in judged[-1]:
            document_topics[document, :SHARED] = rng.choice(topics, SHARED, replace=False)
    names = [f"{dataset.slug}-{number:06d}" for number in range(documents)]
    texts = writer.texts(rng, document_lengths, document_topics)
    write_rows(folder / CORPUS_FILE, ({"id": name, "text": text} for name, text in zip(names, texts, strict=True)))
    relevant = {f"{dataset.slug}-q{number:03d}": [names[i] for i in found] for number, found in enumerate(judged)}
    texts = zip(relevant.items(), writer.texts(rng, query_lengths, query_topics), strict=True)
    rows = (
        {"id": query, "text": text, "doc_id": found, "answer": "none", "body_system": "none"}
        for (query, found), text in texts
    )
    write_rows(folder / QUERY_FILE, rows)
    pairs = ((query, document) for query, found in relevant.items() for document in found)
    write_rows(folder / QRELS_FILE, ({"q_id": query, "p_id": document, "score": 1} for query, document in pairs))


def write_rows(path: Path, rows) -> None:
    """Write JSON Lines."""
    with path.open("wb") as file:
        file.writelines(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)


def make(data: Path, slugs: tuple[str, ...], scale: float) -> list[Path]:
    """Make the datasets of these names (all if none) that are not there whole, and return their folders."""
    suite = load_suite("r2med", Workspace(data))
    folder, writer, made = suite_folder(data, scale), None, []
    recipe = {"format": FORMAT, "scale": scale, "numpy": version("numpy"), "wordfreq": version("wordfreq")}
    for dataset in suite.select(slugs):
        target = folder / dataset.slug
        mark = target / MARK
        made.append(target)
        if mark.is_file() and json.loads(mark.read_text(encoding="utf-8")) == recipe:
            continue
        print(f"making {target}", file=sys.stderr, flush=True)
        writer = writer or Writer()
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        write_dataset(target, dataset, scale, writer)
        mark.write_text(json.dumps(recipe), encoding="utf-8")  # last: it says that the rest is whole
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=default_data(), metavar="FOLDER", help="where to keep them")
    parser.add_argument("--datasets", nargs="*", default=(), metavar="NAME", help="only these")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the documents to make")
    arguments = parser.parse_args()
    try:
        print(*make(arguments.data, tuple(arguments.datasets), arguments.scale), sep="\n")
    except R2medError as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    main()
