"""What a reranker is asked for, and what it gives back."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from ..encoders.base import Advance


class Pair(NamedTuple):
    """A query's text and a document's."""

    query: str
    document: str


@dataclass(frozen=True)
class Scored:
    """Of some pairs, in their order: scores, higher is better, and whether the pair had to be cut."""

    scores: list[float]
    cut: list[bool]


class Scorer(Protocol):
    """A reranker that gives every pair a score by itself. `precision` is what it computes in, for records and keys."""

    precision: str

    def score(self, pairs: Sequence[Pair], dataset: str, advance: Advance) -> Scored:
        """Scores of pairs of texts. `advance` is told how many more pairs are done. Raises R2medError."""


@runtime_checkable
class Ranker(Protocol):
    """A reranker that sees the documents of a query together, and puts them in order."""

    precision: str

    def rank(self, query: str, documents: Sequence[str], dataset: str) -> "Ranking":
        """An order of the documents of a query. Raises R2medError."""
