"""Bring a dataset's raw files here: from the Hugging Face Hub, or from a folder that the user has; and verify them.

Downloads go through huggingface_hub and its cache, which keeps every file that has arrived (but not the one under way
when the process ends) and honours HF_ENDPOINT, HF_HOME, HF_TOKEN and HF_HUB_OFFLINE.
"""

import hashlib
import re
import shutil
import sys
from pathlib import Path

from .artifacts import sha256
from .errors import BadInput, R2medError
from .jsonl import Faults
from .paths import CORPUS_FILE, QRELS_FILE, QUERY_FILE, RAW_FILES
from .rawfiles import locate, missing
from .suites import Dataset
from .textio import lines
from .trec import judgement_rows

_SHA256, _GIT_SHA1 = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{40}")
_ELSEWHERE = "r2med data --from FOLDER (or try --suite mini)"
_AGAIN = "run the same command again: it goes on from what has arrived"
_ANEW = f"run the same command again, which fetches them anew, or use {_ELSEWHERE}"


class Hub:
    """The Hub's client for one plan: once the Hub cannot be reached, only what is in the cache is had."""

    def __init__(self) -> None:
        self._unreachable: str | None = None

    def fetch(self, dataset: Dataset, folder: Path) -> None:
        """Download the three files of a dataset at its pinned revision into `folder`, and verify them.

        Raises R2medError with one sentence that says what went wrong and what to do.
        """
        paths = {name: self._download(dataset, name) for name in RAW_FILES}
        for name, path in paths.items():
            shutil.copyfile(path, folder / name)
        try:
            verify(dataset, folder, again=_ANEW)
        except BadInput:
            for path in paths.values():  # else the cache would serve them again and again
                _forget(path)
            raise

    def _download(self, dataset: Dataset, name: str) -> Path:
        """The file in the Hub's cache, fetched unless it is there."""
        import huggingface_hub
        from huggingface_hub.utils import disable_progress_bars

        if not sys.stderr.isatty():
            disable_progress_bars()
        known = self._unreachable
        where = {"repo_type": "dataset", "revision": dataset.revision, "local_files_only": known is not None}
        try:
            path = huggingface_hub.hf_hub_download(dataset.repo, name, **where)
        except Exception as error:  # the client lets errors of several libraries through, not all of one family
            unreachable, text = (True, known) if known else _explain(error, dataset)
            if unreachable:
                self._unreachable = text
            raise R2medError(f"{dataset.name}: {name}: {text}") from error
        return _undamaged(Path(path), f"{dataset.name}: {name}")


def _undamaged(path: Path, what: str) -> Path:
    """`path`, after a look at its hash: the cache names files as the Hub does, large ones by SHA-256, others as git."""
    blob = path.resolve()
    damaged = (_SHA256.fullmatch(blob.name) and sha256(blob) != blob.name) or (
        _GIT_SHA1.fullmatch(blob.name) and _git_sha1(blob) != blob.name
    )
    if damaged:
        _forget(path)
        raise R2medError(f"{what} arrived damaged and was thrown away; run the same command again")
    return path


def _git_sha1(path: Path) -> str:
    """What `git hash-object` says."""
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _forget(path: Path) -> None:
    """Remove a file from the Hub's cache: what it holds, and the link to that."""
    path.resolve().unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def adopt(dataset: Dataset, source: Path, folder: Path) -> None:
    """Verify the three files in the folder `source`, where the user put them, and copy them into `folder`.

    Raises R2medError if one is missing, BadInput if they are not the published ones.
    """
    lacking = missing(source)
    if lacking:
        raise R2medError(
            f"{dataset.name}: {source} lacks {', '.join(lacking)}; add it, or move the folder out of the way"
        )
    verify(dataset, source, again=f"see whether {source} holds revision {dataset.revision} of {dataset.repo}")
    if source == dataset.raw:  # the folder is about to be replaced: whatever else the user keeps in it stays
        shutil.copytree(source, folder, dirs_exist_ok=True)
    else:
        for path in locate(source).values():
            shutil.copyfile(path, folder / path.name)


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


def _explain(error: Exception, dataset: Dataset) -> tuple[bool, str]:
    """What an error of the Hub's client means for the user: whether there is no Hub to be had, and a sentence."""
    from huggingface_hub import constants, errors

    page = f"{constants.ENDPOINT}/datasets/{dataset.repo}"
    cause = error.__cause__ or error.__context__
    status = _status(error) or (_status(cause) if cause else None)
    unreachable = False
    if isinstance(error, errors.GatedRepoError) or status in (401, 403):
        text = f"{page} wants a login (HTTP {status}): set HF_TOKEN to a token that may read it, or run `hf auth login`"
    elif isinstance(error, errors.RevisionNotFoundError):
        text = f"{page} has no revision {dataset.revision}; get the files elsewhere, and use {_ELSEWHERE}"
    elif isinstance(error, errors.RepositoryNotFoundError):
        text = f"there is no {page} (HTTP {status}); get the files elsewhere, and use {_ELSEWHERE}"
    elif status == 404:
        text = f"{page} has no such file at revision {dataset.revision} (HTTP 404)"
    elif status == 429:
        text = f"{constants.ENDPOINT} asks to wait (HTTP 429, too many requests); later, {_AGAIN}"
    elif status is not None:
        text = f"{constants.ENDPOINT} answered HTTP {status}; later, {_AGAIN}"
    elif constants.is_offline_mode():
        text = f"HF_HUB_OFFLINE is set, and the file is not in the cache: unset it, or use {_ELSEWHERE}"
    elif isinstance(error, OSError) and error.errno and not isinstance(error, (ConnectionError, TimeoutError)):
        text = f"cannot be kept in {constants.HF_HUB_CACHE} ({error.strerror}): mend that, or set HF_HOME, and {_AGAIN}"
    elif isinstance(cause, errors.FileMetadataError):
        text = f"what answers at {constants.ENDPOINT} is not the Hub (a proxy, or a login page?); {_AGAIN}"
    elif isinstance(error, errors.LocalEntryNotFoundError):
        unreachable = True
        text = f"no answer from {constants.ENDPOINT} ({_reason(cause or error)}); {_AGAIN}, or use {_ELSEWHERE}"
    else:
        text = f"the download from {constants.ENDPOINT} broke off ({_reason(error)}); {_AGAIN}, or use {_ELSEWHERE}"
    return unreachable, text


def _reason(error: BaseException) -> str:
    """The first line of an error's text, or its kind if it has none."""
    return next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")


def _status(error: BaseException) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)
