"""Fetch a dataset's raw files from the Hugging Face Hub, and verify them.

Downloads go through huggingface_hub and its cache, which keeps every file that has arrived (but not the one under way
when the process ends) and honours HF_ENDPOINT, HF_HOME, HF_TOKEN and HF_HUB_OFFLINE.
"""

import hashlib
import re
import shutil
import sys
from pathlib import Path
from threading import Lock

from .adoption import ELSEWHERE, verify
from .artifacts import sha256
from .errors import BadInput, R2medError
from .paths import CORPUS_FILE, RAW_FILES
from .suites import Dataset

_SHA256, _GIT_SHA1 = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{40}")
_LOOKS = 2  # tries before the Hub is held to be out of reach
_AGAIN = "run the same command again: it keeps what has arrived"
_ANEW = f"run the same command again, which fetches them anew, or use {ELSEWHERE}"


class Hub:
    """The Hub's client for one plan: once the Hub cannot be reached, only what is in the cache is had."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._looked = False
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

        where = {"repo_type": "dataset", "revision": dataset.revision}
        cached = huggingface_hub.try_to_load_from_cache(dataset.repo, name, **where)
        with self._lock:
            if not self._looked and not isinstance(cached, str):
                self._look(dataset)
        known = self._unreachable
        try:
            path = huggingface_hub.hf_hub_download(dataset.repo, name, **where, local_files_only=known is not None)
        except Exception as error:  # the client lets errors of several libraries through, not all of one family
            unreachable, text = (True, known) if known else _explain(error, dataset)
            if unreachable:
                self._unreachable = text
            raise R2medError(f"{dataset.name}: {name}: {text}") from error
        return _undamaged(Path(path), f"{dataset.name}: {name}")

    def _look(self, dataset: Dataset) -> None:
        """See whether the Hub can be reached at all: a download would wait for it for minutes before giving up."""
        import huggingface_hub
        from huggingface_hub import constants, utils

        self._looked = True
        utils.logging.set_verbosity_error()  # it tells of every retry; we say what came of it
        if not sys.stderr.isatty():
            utils.disable_progress_bars()
        if constants.is_offline_mode():
            return
        url = huggingface_hub.hf_hub_url(dataset.repo, CORPUS_FILE, repo_type="dataset", revision=dataset.revision)
        for _ in range(_LOOKS):
            self._unreachable = None
            try:
                huggingface_hub.get_hf_file_metadata(url, timeout=constants.HF_HUB_ETAG_TIMEOUT)
            except Exception as error:  # the client lets errors of several libraries through
                answered = _status(error) is not None or isinstance(error, huggingface_hub.errors.FileMetadataError)
                if not answered and not _is_of_this_machine(error):
                    self._unreachable = _no_answer(error)
                    continue
            return


def _no_answer(error: BaseException) -> str:
    from huggingface_hub import constants

    return f"no answer from {constants.ENDPOINT} ({_reason(error)}); {_AGAIN}, or use {ELSEWHERE}"


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


def _explain(error: Exception, dataset: Dataset) -> tuple[bool, str]:
    """What an error of the Hub's client means for the user: whether there is no Hub to be had, and a sentence."""
    from huggingface_hub import constants, errors

    page = f"{constants.ENDPOINT}/datasets/{dataset.repo}"
    cause = error.__cause__ or error.__context__
    status = _status(error) or (_status(cause) if cause else None)
    unreachable = False
    if isinstance(error, errors.GatedRepoError) or status in (401, 403):
        text = f"{page} wants a login (HTTP {status}): set HF_TOKEN to a token that may read it (or unset a stale one)"
    elif isinstance(error, errors.RevisionNotFoundError):
        text = f"{page} has no revision {dataset.revision}; get the files elsewhere, and use {ELSEWHERE}"
    elif isinstance(error, errors.RepositoryNotFoundError):
        text = f"there is no {page} (HTTP {status}); get the files elsewhere, and use {ELSEWHERE}"
    elif status == 404:
        text = f"{page} has no such file at revision {dataset.revision} (HTTP 404)"
    elif status == 429:
        text = f"{constants.ENDPOINT} asks to wait (HTTP 429, too many requests); later, {_AGAIN}"
    elif status is not None:
        text = f"{constants.ENDPOINT} answered HTTP {status}; later, {_AGAIN}"
    elif constants.is_offline_mode():
        text = f"HF_HUB_OFFLINE is set, and the file is not in the cache: unset it, or use {ELSEWHERE}"
    elif _is_of_this_machine(error):
        text = f"cannot be kept in {constants.HF_HUB_CACHE} ({error.strerror}): mend that, or set HF_HOME, and {_AGAIN}"
    elif isinstance(cause, errors.FileMetadataError):
        text = f"what answers at {constants.ENDPOINT} is not the Hub (a proxy, or a login page?); {_AGAIN}"
    elif isinstance(error, errors.LocalEntryNotFoundError):
        unreachable = True
        text = _no_answer(cause or error)
    else:
        text = f"the download from {constants.ENDPOINT} broke off ({_reason(error)}); {_AGAIN}, or use {ELSEWHERE}"
    return unreachable, text


def _is_of_this_machine(error: BaseException) -> bool:
    """Whether the disk refused, not the network."""
    return isinstance(error, OSError) and bool(error.errno) and not isinstance(error, (ConnectionError, TimeoutError))


def _reason(error: BaseException) -> str:
    """The first line of an error's text, or its kind if it has none."""
    return next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")


def _status(error: BaseException) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)
