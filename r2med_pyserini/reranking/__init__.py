"""Rerankers: one way to ask for them, whatever runs them."""

from importlib.util import find_spec
from threading import Lock

from .. import weights
from ..encoders.base import Settings
from ..errors import R2medError, UsageError
from ..rerankers import LLM_LISTWISE, LLM_POINTWISE, LORA_CLASSIFIER, Reranker
from .base import Ranker, Scorer


def check(reranker: Reranker, settings: Settings, windows: bool = False) -> None:
    """Raise UsageError or R2medError if a reranker must not, or cannot, be run so."""
    if reranker.remote_code and not settings.trust_remote_code:
        raise UsageError(
            f"reranker {reranker.name} runs code that its repository {reranker.id} brings, with all rights of yours: "
            "look at it, then say --trust-remote-code"
        )
    for place in reranker.repositories():
        weights.repository(reranker.name, *place)
    if reranker.loader == LORA_CLASSIFIER and find_spec("peft") is None:
        raise R2medError(f"reranker {reranker.name} wants the package peft: pip install 'r2med-pyserini[rankllama]'")
    if reranker.loader in (LLM_POINTWISE, LLM_LISTWISE):
        reranker.served_model()
        if windows:
            raise UsageError(f"reranker {reranker.name} reads no windows of passages: leave max_passage out")


def load(reranker: Reranker, settings: Settings, windows: bool) -> Scorer | Ranker:
    """A reranker that is ready; its files are fetched if need be. Raises R2medError."""
    check(reranker, settings, windows)
    if reranker.loader == LLM_POINTWISE:
        from .llm import PointwiseScorer

        return PointwiseScorer(reranker)
    if reranker.loader == LLM_LISTWISE:
        from .llm import ListwiseRanker

        return ListwiseRanker(reranker)
    from .local import LocalScorer

    return LocalScorer(reranker, settings, windows)


class Rerankers:
    """Hands out rerankers and keeps the last one, so that a model is loaded once for all datasets, and never two."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self._lock = Lock()
        self._key: tuple[str, bool] | None = None
        self._last: Scorer | Ranker | None = None

    def get(self, reranker: Reranker, windows: bool) -> Scorer | Ranker:
        """A reranker that is ready. Raises R2medError."""
        with self._lock:
            if self._key != (reranker.name, windows):
                self._key = self._last = None  # its memory is free before the next one wants some
                self._last = load(reranker, self.settings, windows)
                self._key = reranker.name, windows
            return self._last

    def release(self) -> None:
        """Forget the reranker, and so free its memory."""
        with self._lock:
            self._key = self._last = None
