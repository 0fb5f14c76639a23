"""Keeping one loaded model: it serves all datasets, and never lies in memory beside the next one."""

from collections.abc import Callable, Hashable
from threading import Lock


class Last[Key: Hashable, Model]:
    """Hands out what `load` makes of a key, and keeps the last."""

    def __init__(self, load: Callable[[Key], Model]):
        self._load, self._lock = load, Lock()
        self._key: Key | None = None
        self._model: Model | None = None

    def get(self, key: Key) -> Model:
        """The model of a key, loaded unless it is the last. Raises what `load` raises."""
        with self._lock:
            if self._key != key:
                self._key = self._model = None  # its memory is free before the next model wants some
                self._model = self._load(key)
                self._key = key
            return self._model

    def release(self) -> None:
        """Forget the model, and so free its memory."""
        with self._lock:
            self._key = self._model = None
