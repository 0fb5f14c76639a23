"""Rerankers: one way to ask for them, whatever runs them."""

from importlib.util import find_spec

from .. import weights
from ..encoders.base import Settings
from ..encoders.holding import Last
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


class Rerankers(Last[tuple[Reranker, bool], Scorer | Ranker]):
    """Rerankers, run as `settings` say; a key is a reranker, and whether it reads long passages in windows."""

    def __init__(self, settings: Settings):
        super().__init__(lambda key: load(key[0], settings, key[1]))
