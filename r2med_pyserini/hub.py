"""Bring a dataset's raw files here: from the Hugging Face Hub, or from a folder that the user has; and verify them.

Downloads go through huggingface_hub and its cache, which resumes what was interrupted and honours HF_ENDPOINT, HF_HOME,
HF_TOKEN and HF_HUB_OFFLINE.
"""

import errno
import re
import shutil
import sys
from pathlib import Path

from .artifacts import sha256
from .errors import BadInput, R2medError
from .jsonl import Faults
from .paths import CORPUS_FILE, QRELS_FILE, QUERY_FILE
from .rawfiles import locate, missing
from .suites import Dataset
from .textio import lines
from .trec import judgement_rows

_SHA256 = re.compile(r"[0-9a-f]{64}")
_ELSEWHERE = "r2med data --from FOLDER (or try --suite mini)"
_AGAIN = "run the same command again: it goes on from what has arrived"


class Hub:
    """The Hub's client for one plan: once the Hub cannot be reached, the other datasets fail at once."""

    def __init__(self) -> None:
        self._unreachable: str | None = None

    def fetch(self, dataset: Dataset, folder: Path) -> None:
        """Download the three files of a dataset at its pinned revision into `folder`, and verify them.

        Raises R2medError with one sentence that says what went wrong and what to do.
        """
        for name in (CORPUS_FILE, QUERY_FILE, QRELS_FILE):
            shutil.copyfile(self._download(dataset, name), folder / name)
        verify(dataset, folder, again=_AGAIN)

    def _download(self, dataset: Dataset, name: str) -> Path:
        """The file in the Hub's cache, fetched unless it is there."""
        import huggingface_hub
        from huggingface_hub.utils import disable_progress_bars

        if not sys.stderr.isatty():
            disable_progress_bars()
        if self._unreachable:
            raise R2medError(f"{dataset.name}: {name}: {self._unreachable}")
        try:
            path = huggingface_hub.hf_hub_download(dataset.repo, name, repo_type="dataset", revision=dataset.revision)
        except Exception as error:  # the client lets errors of several libraries through, not all of one family
            status, text = _explain(error, dataset)
            if status is None:
                self._unreachable = text
            raise R2medError(f"{dataset.name}: {name}: {text}") from error
        return _undamaged(Path(path), f"{dataset.name}: {name}")


def _undamaged(path: Path, what: str) -> Path:
    """`path`, after a look at its hash: the Hub names large files by theirs, and so does its cache."""
    blob = path.resolve()
    if _SHA256.fullmatch(blob.name) and sha256(blob) != blob.name:
        path.unlink()
        blob.unlink(missing_ok=True)
        raise R2medError(f"{what} arrived damaged and was thrown away; run the same command again")
    return path


def adopt(dataset: Dataset, source: Path, folder: Path) -> None:
    """Copy the three files from the folder `source`, where the user put them, into `folder`, and verify them.

    Raises R2medError if one is missing, BadInput if they are not the published ones.
    """
    lacking = missing(source)
    if lacking:
        raise R2medError(
            f"{dataset.name}: {source} lacks {', '.join(lacking)}; add it, or move the folder out of the way"
        )
    if source == dataset.raw:  # the folder is about to be replaced: whatever else the user keeps in it stays
        shutil.copytree(source, folder, dirs_exist_ok=True)
    else:
        for path in locate(source).values():
            shutil.copyfile(path, folder / path.name)
    verify(dataset, folder, again=f"see whether {source} holds revision {dataset.revision} of {dataset.repo}")


def verify(dataset: Dataset, folder: Path, again: str) -> None:
    """Hold the numbers of rows against the published ones; BadInput names every difference, and says `again`."""
    expected = {CORPUS_FILE: dataset.documents, QUERY_FILE: dataset.queries, QRELS_FILE: dataset.qrels}
    faults = []
    for name, path in locate(folder).items():
        rows = judgement_rows(path, Faults()) if name == QRELS_FILE else lines(path)
        found = sum(1 for _ in rows)
        if expected[name] is not None and found != expected[name]:
            wanted = f"{expected[name]:,} at revision {dataset.revision}"
            faults.append(f"{dataset.name}: {path.name} has {found:,} rows, but there are {wanted}")
    if faults:
        raise BadInput([*faults, f"The files were not taken; {again}"])


def find_source(dataset: Dataset, folder: Path, alone: bool) -> Path:
    """The folder below `folder` (or itself, for a dataset fetched `alone`) that holds a dataset's files.

    Raises R2medError if there is none.
    """
    places = [folder / dataset.slug, folder / dataset.name, *([folder] if alone else [])]
    for place in places:
        if CORPUS_FILE in locate(place):
            return place
    raise R2medError(f"{dataset.name}: no {CORPUS_FILE} in {', '.join(map(str, places))}")


def _explain(error: Exception, dataset: Dataset) -> tuple[int | None, str]:
    """What an error of the Hub's client means for the user: the HTTP status, if there was an answer, and a sentence."""
    from huggingface_hub import constants, errors

    page = f"{constants.ENDPOINT}/datasets/{dataset.repo}"
    cause = error.__cause__ or error.__context__
    status = _status(error) or (_status(cause) if cause else None)
    if isinstance(error, errors.GatedRepoError) or status in (401, 403):
        text = f"{page} wants a login (HTTP {status}): set HF_TOKEN to a token that may read it, or run `hf auth login`"
    elif isinstance(error, errors.RevisionNotFoundError):
        text = f"{page} has no revision {dataset.revision}; get the files elsewhere, and use {_ELSEWHERE}"
    elif status == 404:
        text = f"{page} has no such file at revision {dataset.revision} (HTTP 404)"
    elif status == 429:
        text = f"{constants.ENDPOINT} asks to wait (HTTP 429, too many requests): {_AGAIN} later"
    elif status is not None:
        text = f"{constants.ENDPOINT} answered HTTP {status}: {_AGAIN} later"
    elif constants.is_offline_mode():
        text = f"HF_HUB_OFFLINE is set, and the file is not in the cache: unset it, or use {_ELSEWHERE}"
    elif isinstance(error, OSError) and error.errno == errno.ENOSPC:
        text = f"no space left on the disk of {constants.HF_HUB_CACHE} (HF_HOME moves it); {_AGAIN} when there is"
    else:
        what = " ".join(str(cause if isinstance(error, errors.LocalEntryNotFoundError) and cause else error).split())
        text = f"no answer from {constants.ENDPOINT} ({what or type(error).__name__}); {_AGAIN}, or use {_ELSEWHERE}"
    return status, text


def _status(error: BaseException) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)
