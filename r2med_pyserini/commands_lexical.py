"""Lexical retrieval as plain Pyserini commands."""

from dataclasses import dataclass
from pathlib import Path

from .lucene import index_arguments
from .paths import Collection
from .specs import BM25_OFFICIAL, BM25QS, PYSERINI_DEFAULTS, QLD, IndexSpec, SearchSpec


@dataclass(frozen=True)
class Lexical:
    """A cell of the table whose index holds words, and where the commands write."""

    spec: IndexSpec
    how: SearchSpec
    files: Collection
    index: Path
    run: Path

    def inexpressible(self) -> str | None:
        """Why Pyserini's command line cannot do the same, in a few words; None if it can."""
        how = self.how
        if how.model == BM25_OFFICIAL:
            return "Pyserini has no command for the authors' BM25"
        if how.model == BM25QS and not (how.k1 and how.b):
            return "Pyserini's command line takes a k1 or b of 0 for none given"
        fixed = {key: value for key, value in PYSERINI_DEFAULTS.items() if key not in ("k1", "b")}
        changed = [key for key, value in how.parameters().items() if key in fixed and value != fixed[key]]
        return f"Pyserini's command line cannot set {', '.join(changed)}" if changed else None

    def remarks(self) -> list[str]:
        """What a user of the commands should know: nothing, their runs are ours to the last byte."""
        return []

    def commands(self) -> list[list[str]]:
        """The commands that index and search, unless they are `inexpressible`."""
        arguments = index_arguments(self.files.corpus, self.index, self.spec)
        index = [f"-{word}" if word.startswith("-") else word for word in arguments]
        return [["index.lucene", *index], ["search.lucene", *self._search()]]

    def _search(self) -> list[str]:
        how = self.how
        words = ["--index", str(self.index), "--topics", str(self.files.topics), "--output", str(self.run)]
        if how.model == QLD:
            words.append("--qld")
        else:
            words += ["--bm25qs"] if how.model == BM25QS else ["--bm25"]
            words += ["--k1", str(how.k1), "--b", str(how.b)]
        if how.feedback:
            words.append(f"--{how.feedback}")
        return [*words, "--hits", str(how.hits)]
