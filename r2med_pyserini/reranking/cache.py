"""What rerankers found, kept on disk by all that it depends on, so that nothing is scored, or asked for, twice."""

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from math import isfinite
from pathlib import Path

from ..errors import R2medError, system_error
from .pairs import Pair

_TABLE = "CREATE TABLE IF NOT EXISTS found (key BLOB PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"
_AT_ONCE = 500  # keys of one statement
_DAMAGED = ("SQLITE_NOTADB", "SQLITE_CORRUPT")
_PATIENCE = 60  # seconds to wait for another process that writes

Texts = Sequence[str]


class Cache:
    """Values that JSON can hold in an SQLite file, which several threads and processes may use at once.

    A value is kept by `recipe`, which is all that it depends on besides texts, and by those texts in their order. The
    file may be deleted at any time; caches with other recipes may share it.
    """

    def __init__(self, path: Path, recipe: dict):
        self._path = path
        self._prefix = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).digest()

    def key(self, texts: Texts) -> bytes:
        """What a value is kept under."""
        return hashlib.sha256(self._prefix + json.dumps(list(texts)).encode()).digest()

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self._path, timeout=_PATIENCE)) as connection, connection:
                connection.execute(_TABLE)
                yield connection
        except sqlite3.Error as error:
            damaged = getattr(error, "sqlite_errorname", None) in _DAMAGED
            hint = "; remove the file, and what it holds is asked for again" if damaged else ""
            raise R2medError(f"{self._path}: {error}{hint}") from error
        except OSError as error:
            raise R2medError(system_error(error)) from error

    def lookup(self, wanted: Sequence[Texts]) -> list:
        """The value kept for each of several texts; None where there is none. Raises R2medError."""
        if not self._path.is_file():
            return [None] * len(wanted)
        keys, known = [self.key(texts) for texts in wanted], {}
        with self._opened() as connection:
            for start in range(0, len(keys), _AT_ONCE):
                some = keys[start : start + _AT_ONCE]
                marks = ",".join("?" * len(some))
                known |= dict(connection.execute(f"SELECT key, value FROM found WHERE key IN ({marks})", some))
        return [_value(known.get(key)) for key in keys]

    def keep(self, found: Sequence[Texts], values: Sequence[object]) -> None:
        """Keep a value for each of several texts; all of them, or none if the process ends meanwhile.

        Raises R2medError.
        """
        rows = [(self.key(texts), json.dumps(value)) for texts, value in zip(found, values, strict=True)]
        with self._opened() as connection:
            connection.executemany("INSERT OR REPLACE INTO found VALUES (?, ?)", rows)


def _value(text: object) -> object:
    """A value as it was kept; None for what cannot have been kept so."""
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None


def _score(value: object) -> tuple[float, bool] | None:
    """A score, and whether its pair was cut; None for anything else."""
    if not isinstance(value, list) or len(value) != 2 or not isinstance(value[1], bool):
        return None
    number = isinstance(value[0], (int, float)) and not isinstance(value[0], bool) and isfinite(value[0])
    return (float(value[0]), value[1]) if number else None


class ScoreCache(Cache):
    """Scores of pairs. `recipe` has the facts about the reranker, its revision, lengths and precision."""

    def get(self, pairs: Sequence[Pair]) -> list[tuple[float, bool] | None]:
        """Score, and whether the pair was cut, of each pair that is known; None of the others. Raises R2medError."""
        return [_score(value) for value in self.lookup(pairs)]

    def put(self, pairs: Sequence[Pair], scores: Sequence[float], cut: Sequence[bool]) -> None:
        """Keep the scores that are numbers; all of them, or none if the process ends meanwhile. Raises R2medError."""
        rows = [row for row in zip(pairs, scores, cut, strict=True) if isfinite(row[1])]
        self.keep([pair for pair, _, _ in rows], [(float(score), bool(was)) for _, score, was in rows])
