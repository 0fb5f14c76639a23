"""Scores of pairs, kept on disk by all that they depend on, so that no pair is scored twice."""

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from ..errors import R2medError
from .base import Pair

_TABLE = "CREATE TABLE IF NOT EXISTS scores (key BLOB PRIMARY KEY, score REAL NOT NULL, cut INTEGER) WITHOUT ROWID"
_AT_ONCE = 500  # keys of one statement
_PATIENCE = 60  # seconds to wait for another process that writes


class ScoreCache:
    """Scores in an SQLite file, which several processes may use at once; it may be deleted at any time.

    `recipe` is what the score of a pair depends on besides its texts: the facts about the reranker, its revision,
    lengths and precision.
    """

    def __init__(self, path: Path, recipe: dict):
        self._path = path
        self._prefix = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).digest()

    def key(self, pair: Pair) -> bytes:
        """What a pair's score is kept under."""
        texts = json.dumps([pair.query, pair.document]).encode()
        return hashlib.sha256(self._prefix + texts).digest()

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self._path, timeout=_PATIENCE)) as connection, connection:
                connection.execute(_TABLE)
                yield connection
        except sqlite3.Error as error:
            raise R2medError(f"{self._path}: {error}; remove the file, which only saves time") from error

    def get(self, pairs: Sequence[Pair]) -> list[tuple[float, bool] | None]:
        """Score, and whether the pair was cut, of each pair that is known; None of the others. Raises R2medError."""
        if not self._path.is_file():
            return [None] * len(pairs)
        keys, known = [self.key(pair) for pair in pairs], {}
        with self._opened() as connection:
            for start in range(0, len(keys), _AT_ONCE):
                some = keys[start : start + _AT_ONCE]
                marks = ",".join("?" * len(some))
                rows = connection.execute(f"SELECT key, score, cut FROM scores WHERE key IN ({marks})", some)
                known |= {key: (score, bool(cut)) for key, score, cut in rows}
        return [known.get(key) for key in keys]

    def put(self, pairs: Sequence[Pair], scores: Sequence[float], cut: Sequence[bool]) -> None:
        """Keep scores; all of them, or none if the process ends meanwhile. Raises R2medError."""
        rows = [(self.key(pair), score, was) for pair, score, was in zip(pairs, scores, cut, strict=True)]
        with self._opened() as connection:
            connection.executemany("INSERT OR REPLACE INTO scores VALUES (?, ?, ?)", rows)
