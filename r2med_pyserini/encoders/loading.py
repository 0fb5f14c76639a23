"""Loading models with their libraries quiet, and nothing made up: weights that the files lack are an error.

transformers fills such weights with random numbers, and says so in a table that it logs, and nowhere else as
sentence-transformers uses it. Where several layers lack the same weight, their numbers are in braces:
encoder.layer.{0, 1}.output.dense.weight | MISSING (transformers 5, utils/loading_report.py).
"""

import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from ..errors import R2medError

_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_ROW = re.compile(r"^(\S[^|\n]*?) *\| *(MISSING|MISMATCH)\b", re.MULTILINE)
_MADE_UP = "newly initialized"  # stands in every report of missing weights, in older forms too
POOLER = "pooler."  # BERT's, for sentence pairs: no encoder here reads it
_LOGGERS = ("transformers.modeling_utils", "transformers", "sentence_transformers")


def require(module: str) -> None:
    """Raise R2medError unless a package of the extra `models` is installed."""
    if find_spec(module) is None:
        raise R2medError(f"the package {module} is not installed: pip install 'r2med-pyserini[models]'")


def check_vocabulary(name: str, folder: Path, tokenizer, network) -> None:
    """Raise R2medError if the tokenizer of a model can hardly be its own.

    transformers makes one up, of a handful of tokens, where its files are missing. Networks have room for a few more
    tokens than their tokenizers know.
    """
    known, room = len(tokenizer), network.get_input_embeddings().weight.shape[0]
    if known < room / 2:
        raise R2medError(
            f"model {name}: its tokenizer in {folder} knows {known:,} tokens, and its network {room:,}: "
            "tokenizer.json is missing, or that of another model"
        )


class _Reports(logging.Handler):
    """Keeps what transformers reports of weights; it says so in a log line only."""

    def __init__(self, unused: str | None) -> None:
        super().__init__(logging.WARNING)
        self._unused = unused
        self.wrong: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Find the names of weights that are missing, or of another shape, in a report."""
        text = _STYLE.sub("", record.getMessage())
        names = [name for name, _ in _ROW.findall(text)]
        if _MADE_UP in text and not names:
            names = ["they are not named"]
        self.wrong += [name for name in names if not self._unused or self._unused not in name]


@contextmanager
def loading(name: str, folder: Path, unused: str | None = POOLER) -> Iterator[None]:
    """Around the loading of model `name` from `folder`: without progress bars and warnings.

    Raises R2medError where the model's files cannot be loaded, or lack weights, which transformers would make up;
    those whose names hold `unused` may be lacking.
    """
    require("transformers")
    from transformers.utils import logging as their_logging

    bars = their_logging.is_progress_bar_enabled()
    reports, loggers = _Reports(unused), [logging.getLogger(logger) for logger in _LOGGERS]
    before = [(logger.level, logger.propagate, list(logger.handlers)) for logger in loggers]
    their_logging.disable_progress_bar()
    for logger in loggers:
        logger.handlers, logger.propagate = [reports], False
        logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except R2medError:
        raise
    except Exception as error:  # several libraries, and code of a repository's, each with errors of their own
        if not reports.wrong:
            reason = next(iter(str(error).splitlines()), "").strip()
            what = f"{type(error).__name__}: {reason}"
            raise R2medError(f"model {name} cannot be loaded from {folder}: {what}") from error
    finally:
        for logger, (level, propagate, handlers) in zip(loggers, before, strict=True):
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)
        if bars:
            their_logging.enable_progress_bar()
    if reports.wrong:
        shown = "; ".join(reports.wrong[:3]) + ("; ..." if len(reports.wrong) > 3 else "")
        raise R2medError(
            f"model {name}: its files in {folder} lack weights, or have them in another shape ({shown}): "
            "they are damaged, or do not belong together"
        )
