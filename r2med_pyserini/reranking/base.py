"""What a reranker is asked for, and what it gives back."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Protocol, runtime_checkable

from ..encoders.base import Advance
from .cache import Cache, ScoreCache
from .pairs import Pair

_AS_BEFORE = "their passages keep their order"


@dataclass(frozen=True)
class Scored:
    """Of some pairs, in their order: scores, higher is better, and whether the pair had to be cut.

    `failed` says of the pairs that could not be scored, by their position, why; their score is NaN.
    """

    scores: list[float]
    cut: list[bool]
    failed: Mapping[int, str] = field(default_factory=dict)


class Scorer(Protocol):
    """A reranker that gives every pair a score by itself. `precision` is what it computes in, for records and keys."""

    precision: str

    def score(
        self,
        pairs: Sequence[Pair],
        dataset: str,
        advance: Advance,
        cache: ScoreCache | None = None,
        known: int = 0,
    ) -> Scored:
        """Scores of pairs of texts. `advance` is told how many more pairs are done. Raises R2medError.

        A scorer that is slow, or costs money, may put scores into `cache` as soon as it has them. `known` is how many
        other pairs of the same run have their scores: then it is no error if not one of these can be scored.
        """


@dataclass(frozen=True)
class Counts:
    """What became of the windows of lists of documents.

    Of `windows` windows the server was asked about `sent`, and the rest were known from before. `repaired` replies did
    not name every document once, and were completed; where the reply was `empty`, naming none, or the request `failed`,
    the window stays as it was. `reason` is why one failed, `example` a reply that named none.
    """

    windows: int = 0
    sent: int = 0
    repaired: int = 0
    empty: int = 0
    failed: int = 0
    reason: str | None = None
    example: str | None = None

    def __add__(self, other: "Counts") -> "Counts":
        numbers = [mine + theirs for mine, theirs in zip(astuple(self)[:5], astuple(other)[:5], strict=True)]
        return Counts(*numbers, self.reason or other.reason, self.example or other.example)

    @property
    def useless(self) -> bool:
        """Whether there were windows, and not one of them could be ranked."""
        return 0 < self.windows == self.empty + self.failed

    def sentences(self) -> list[str]:
        """What a user should know."""
        found = []
        if self.failed:
            found.append(f"{self.failed:,} of {self.windows:,} requests failed ({self.reason}): {_AS_BEFORE}")
        if self.empty:
            found.append(f"{self.empty:,} of {self.windows:,} replies named no passage ({self.example}): {_AS_BEFORE}")
        if self.repaired:
            found.append(f"{self.repaired:,} of {self.windows:,} replies did not name every passage once: completed")
        return found


@dataclass(frozen=True)
class Ranking:
    """The positions of the documents of a list, the best one's first; and what became of its windows."""

    order: list[int]
    counts: Counts = field(default_factory=Counts)


@runtime_checkable
class Ranker(Protocol):
    """A reranker that sees the documents of a query together, and puts them in order."""

    precision: str

    def rank(self, query: str, documents: Sequence[str], dataset: str, cache: Cache | None = None) -> Ranking:
        """An order of the documents of a query. `cache` keeps replies. Raises R2medError."""

    def rank_all(
        self,
        lists: Sequence[tuple[str, Sequence[str]]],
        dataset: str,
        cache: Cache | None = None,
        advance: Advance = lambda documents: None,
    ) -> list[Ranking]:
        """Orders of the documents of several queries, (query, documents) each. Raises R2medError.

        `advance` is told how many more documents are done.
        """
