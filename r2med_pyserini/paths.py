"""The only place that names files and folders.

A `Workspace` is the folder that holds `collections/`, `indexes/`, `runs/` and `data/`; by default the
current folder, or the one that the environment variable `R2MED_HOME` names.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from .errors import R2medError

PACKAGE = Path(__file__).parent
CONDITIONS = PACKAGE / "conditions"
MINI = PACKAGE / "mini"
SUITES_FILE = PACKAGE / "suites.yaml"
PUBLISHED_FILE = PACKAGE / "published.csv"
ANSERINI_LOGGING = PACKAGE / "log4j2-quiet.xml"
JAVA_LOGGING = PACKAGE / "java-logging.properties"

CORPUS_FILE, QUERY_FILE, QRELS_FILE = "corpus.jsonl", "query.jsonl", "qrels.jsonl"
RAW_FILES = (CORPUS_FILE, QUERY_FILE, QRELS_FILE)
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Collection:
    """The files of one converted dataset below `root`."""

    root: Path

    @property
    def corpus(self) -> Path:
        """The folder to index (Pyserini's JsonCollection)."""
        return self.root / "corpus"

    @property
    def docs(self) -> Path:
        """The documents, one JSON object with id and contents a line."""
        return self.corpus / "docs.jsonl"

    @property
    def topics(self) -> Path:
        """Topics as Pyserini reads `.json`: ids stay strings, texts keep tabs and line breaks."""
        return self.root / "topics.json"

    @property
    def topics_tsv(self) -> Path:
        """The same topics for line-based tools: id, tab, text with white space folded."""
        return self.root / "topics.tsv"

    @property
    def qrels(self) -> Path:
        """The judgements, as trec_eval reads them."""
        return self.root / "qrels.txt"

    @property
    def health(self) -> Path:
        """Counts, and what is odd in the data."""
        return self.root / "health.json"


@dataclass(frozen=True)
class Workspace:
    """Where the outputs of every stage live."""

    root: Path

    @classmethod
    def default(cls) -> "Workspace":
        """The folder that R2MED_HOME names, or the current one."""
        root = os.environ.get("R2MED_HOME") or "."
        try:
            str(Path(root).absolute()).encode("utf-8")
        except UnicodeEncodeError as error:
            name = os.fsencode(Path(root).absolute())
            raise R2medError(
                f"the folder {name!r} has a name that is not UTF-8: rename it, or set R2MED_HOME"
            ) from error
        return cls(Path(root))

    @property
    def collections(self) -> Path:
        """Converted datasets, a folder a suite."""
        return self.root / "collections"

    @property
    def indexes(self) -> Path:
        """Indexes of every kind."""
        return self.root / "indexes"

    @property
    def runs(self) -> Path:
        """Runs and their scores."""
        return self.root / "runs"

    def data(self, suite: str) -> Path:
        """Raw files of a suite that is fetched: one folder a dataset."""
        return self.root / "data" / suite

    def collection(self, suite: str, dataset: str) -> Collection:
        """The converted files of a dataset."""
        return Collection(self.collections / suite / dataset)

    def index(self, kind: str, suite: str, dataset: str, encoder: str | None = None) -> Path:
        """An index folder; `kind` says what kind of index it is, `encoder` whose vectors it holds."""
        return self.indexes / f"{kind}.{suite}-{dataset}{f'.{encoder}' if encoder else ''}"

    def parts(self, vectors: Path) -> Path:
        """Where shards gather that are to become the folder of vectors `vectors`."""
        return self.cache / "parts" / vectors.name

    def run(self, suite: str, dataset: str, condition: str) -> Path:
        """A run file."""
        return self.runs / f"run.{suite}-{dataset}.{condition}.txt"

    def scores(self, suite: str, dataset: str, condition: str) -> Path:
        """The scores of a run."""
        return self.runs / f"run.{suite}-{dataset}.{condition}.scores.json"

    @property
    def cache(self) -> Path:
        """What may be deleted when no command runs, at the cost of time."""
        return self.root / ".r2med-cache"

    def pair_scores(self, reranker: str) -> Path:
        """Where the scores that a reranker has given are kept."""
        return self.cache / "scores" / f"{reranker}.sqlite"

    @property
    def hashes(self) -> Path:
        """Cache of file hashes; safe to delete."""
        return self.cache / "hashes.json"
