"""Loading models with their libraries quiet, and nothing made up: weights that the files lack are an error."""

import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from ..errors import R2medError

_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_MISSING = re.compile(r"^(\S+)\s*\|\s*MISSING", re.MULTILINE)
_UNUSED = "pooler."  # BERT's, for sentence pairs: no encoder here reads it
_LOGGERS = ("transformers.modeling_utils", "transformers", "sentence_transformers")


def require(module: str) -> None:
    """Raise R2medError unless a package of the extra `models` is installed."""
    if find_spec(module) is None:
        raise R2medError(f"the package {module} is not installed: pip install 'r2med-pyserini[models]'")


class _Reports(logging.Handler):
    """Keeps what transformers reports of weights; it says so in a log line only."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.missing: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Find the names of missing weights in a line."""
        names = _MISSING.findall(_STYLE.sub("", record.getMessage()))
        self.missing += [name for name in names if _UNUSED not in name]


@contextmanager
def loading(name: str) -> Iterator[None]:
    """Around the loading of model `name`: without progress bars and warnings.

    Raises R2medError where the model's files cannot be loaded, or lack weights, which transformers would make up.
    """
    from transformers.utils import logging as their_logging

    bars = their_logging.is_progress_bar_enabled()
    reports, loggers = _Reports(), [logging.getLogger(logger) for logger in _LOGGERS]
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
        reason = next(iter(str(error).splitlines()), "")
        raise R2medError(f"model {name} cannot be loaded: {type(error).__name__}: {reason}") from error
    finally:
        for logger, (level, propagate, handlers) in zip(loggers, before, strict=True):
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)
        if bars:
            their_logging.enable_progress_bar()
    if reports.missing:
        shown = ", ".join(reports.missing[:3]) + (", ..." if len(reports.missing) > 3 else "")
        raise R2medError(
            f"model {name}: its files lack {len(reports.missing)} weights ({shown}): "
            "they are damaged, or of another architecture"
        )
