"""Fetch files of a repository on the Hugging Face Hub, whatever they are for, and say what went wrong in one sentence.

Downloads go through huggingface_hub and its cache, which keeps every file that has arrived (but not the one under way
when the process ends) and honours HF_ENDPOINT, HF_HOME, HF_TOKEN and HF_HUB_OFFLINE.
"""

import hashlib
import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock

from .artifacts import sha256
from .errors import R2medError

AGAIN = "run the same command again: it keeps what has arrived"
_SHA256, _GIT_SHA1 = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{40}")
_LOOKS = 2  # tries before the Hub is held to be out of reach


@dataclass(frozen=True)
class Repository:
    """A repository at a pinned revision (the 40 digits of a commit).

    `kind` is "dataset" or "model"; `label` is what messages call it; `elsewhere` is what a user without the Hub may
    use instead, as the words after "or use".
    """

    label: str
    kind: str
    id: str
    revision: str
    elsewhere: str

    @property
    def page(self) -> str:
        """Where people look at it."""
        from huggingface_hub import constants

        return f"{constants.ENDPOINT}/{'' if self.kind == 'model' else f'{self.kind}s/'}{self.id}"

    @property
    def snapshot(self) -> Path:
        """Where the cache has its files, or would have them.

        Source of the layout: https://huggingface.co/docs/huggingface_hub/guides/manage-cache
        """
        from huggingface_hub import constants  # takes 20 ms, the parts that could tell take 200

        folder = f"{self.kind}s--{self.id.replace('/', '--')}"
        return Path(constants.HF_HUB_CACHE).expanduser().resolve() / folder / "snapshots" / self.revision


class HubClient:
    """The Hub's client for one command: once the Hub cannot be reached, only what is in the cache is had."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._looked = False
        self._unreachable: str | None = None

    def download(self, repository: Repository, name: str, anew: bool = False) -> Path:
        """The file in the Hub's cache, fetched unless it is there (in any case, if `anew`), its hash being right.

        Raises R2medError with one sentence that says what went wrong and what to do.
        """
        import huggingface_hub
        from huggingface_hub import constants

        where = {"repo_type": repository.kind, "revision": repository.revision}
        cached = huggingface_hub.try_to_load_from_cache(repository.id, name, **where)
        if anew or not isinstance(cached, str):
            url = huggingface_hub.hf_hub_url(repository.id, name, **where)
            self._look(repository, partial(huggingface_hub.get_hf_file_metadata, url))
        known = self._unreachable
        try:
            if anew and known is None and not constants.is_offline_mode():
                forget(repository.snapshot / name)  # a file that is no link would stay, whatever arrives
            path = huggingface_hub.hf_hub_download(
                repository.id, name, **where, force_download=anew, local_files_only=known is not None
            )
        except Exception as error:  # the client lets errors of several libraries through, not all of one family
            raise self._told(error, known, repository, f"{name}: ") from error
        return _undamaged(Path(path), f"{repository.label}: {name}")

    def files(self, repository: Repository) -> dict[str, int]:
        """The files that a repository has at its revision, and their sizes in bytes. Raises R2medError.

        The Hub is asked only if the cache does not know; the answer stays there.
        """
        known_files = files_known(repository)
        if known_files is not None:
            return known_files
        import huggingface_hub

        where = {"repo_type": repository.kind, "revision": repository.revision}
        self._look(repository, partial(huggingface_hub.repo_info, repository.id, **where))
        if self._unreachable:
            raise R2medError(f"{repository.label}: {self._unreachable}")
        try:
            # Downloading no file is the client's way to remember the list. It hides why it got none where it has some
            # of the files, and where the cache cannot be written it forgets.
            huggingface_hub.snapshot_download(repository.id, **where, allow_patterns=[], tqdm_class=_no_bar())
            known_files = files_known(repository)
            if known_files is None:
                known_files = _sizes(huggingface_hub.list_repo_tree(repository.id, **where, recursive=True))
        except Exception as error:  # as above
            raise self._told(error, None, repository, missing=f"the {repository.kind}") from error
        return known_files

    def _told(
        self, error: Exception, known: str | None, repository: Repository, name: str = "", missing: str = "the file"
    ) -> R2medError:
        unreachable, text = (True, known) if known else _explain(error, repository, missing)
        if unreachable:
            self._unreachable = text
        return R2medError(f"{repository.label}: {name}{text}")

    def _look(self, repository: Repository, ask: Callable[..., object]) -> None:
        """See, once, whether the Hub can be reached; `ask` makes a request with the `timeout` that it is given.

        Otherwise a download would wait for minutes before it gives up, and a list for ever.
        """
        from huggingface_hub import constants, errors, utils

        with self._lock:
            if self._looked:
                return
            self._looked = True
            utils.logging.set_verbosity_error()  # it tells of every retry; we say what came of it
            if not sys.stderr.isatty():
                utils.disable_progress_bars()
            if constants.is_offline_mode():
                return
            for _ in range(_LOOKS):
                self._unreachable = None
                try:
                    ask(timeout=constants.HF_HUB_ETAG_TIMEOUT)
                except Exception as error:  # the client lets errors of several libraries through
                    no_hub = isinstance(error, (errors.FileMetadataError, json.JSONDecodeError))
                    if _status(error) is None and not no_hub and not _is_of_this_machine(error):
                        self._unreachable = _no_answer(error, repository)
                        continue
                return


def files_known(repository: Repository) -> dict[str, int] | None:
    """What `HubClient.files` says, if that is in the cache; asks nobody."""
    if not repository.snapshot.parents[1].is_dir():
        return None
    from huggingface_hub import errors, get_cached_repo_tree, utils

    utils.logging.set_verbosity_error()  # it tells of a list that it cannot read; we get another
    try:
        return _sizes(get_cached_repo_tree(repository.id, repo_type=repository.kind, revision=repository.revision))
    except errors.CachedRepoTreeNotFoundError:
        return None


def forget(path: Path) -> None:
    """Remove a file from the Hub's cache: what it holds, and the link to that."""
    path.resolve().unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def _sizes(tree) -> dict[str, int]:
    """Name -> size of what the client tells of a repository; folders, which have no size, left out."""
    return {entry.path: entry.size for entry in tree if hasattr(entry, "size")}


def _no_bar() -> type:
    """A progress bar that is not seen."""
    from huggingface_hub.utils import tqdm

    class NoBar(tqdm):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **{**kwargs, "disable": True})

    return NoBar


def _no_answer(error: BaseException, repository: Repository) -> str:
    from huggingface_hub import constants

    return f"no answer from {constants.ENDPOINT} ({_reason(error)}); {AGAIN}, or use {repository.elsewhere}"


def _undamaged(path: Path, what: str) -> Path:
    """`path`, after a look at its hash: the cache names files as the Hub does, large ones by SHA-256, others as git."""
    blob = path.resolve()
    damaged = (_SHA256.fullmatch(blob.name) and sha256(blob) != blob.name) or (
        _GIT_SHA1.fullmatch(blob.name) and _git_sha1(blob) != blob.name
    )
    if damaged:
        forget(path)
        raise R2medError(f"{what} arrived damaged and was thrown away; run the same command again")
    return path


def _git_sha1(path: Path) -> str:
    """What `git hash-object` says."""
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _explain(error: Exception, repository: Repository, missing: str) -> tuple[bool, str]:
    """What an error of the Hub's client means for the user: whether there is no Hub to be had, and a sentence.

    `missing` is what was wanted.
    """
    from huggingface_hub import constants, errors

    page, revision, elsewhere = repository.page, repository.revision, repository.elsewhere
    cause = error.__cause__ or error.__context__
    status = _status(error) or (_status(cause) if cause else None)
    unreachable = False
    if isinstance(error, errors.GatedRepoError) and repository.kind == "model":
        text = f"not open to everybody (HTTP {status}): accept its conditions at {page}, and set HF_TOKEN to your token"
    elif isinstance(error, errors.GatedRepoError) or status in (401, 403):
        text = f"{page} wants a login (HTTP {status}): set HF_TOKEN to a token that may read it (or unset a stale one)"
    elif isinstance(error, errors.RevisionNotFoundError):
        text = f"{page} has no revision {revision}; get the files elsewhere, and use {elsewhere}"
    elif isinstance(error, errors.RepositoryNotFoundError):
        text = f"there is no {page} (HTTP {status}); get the files elsewhere, and use {elsewhere}"
    elif status == 404:
        text = f"{page} has no such file at revision {revision} (HTTP 404)"
    elif status == 429:
        text = f"{constants.ENDPOINT} asks to wait (HTTP 429, too many requests); later, {AGAIN}"
    elif status is not None:
        text = f"{constants.ENDPOINT} answered HTTP {status}; later, {AGAIN}"
    elif constants.is_offline_mode():
        text = f"HF_HUB_OFFLINE is set, and {missing} is not in the cache: unset it, or use {elsewhere}"
    elif _is_of_this_machine(error):
        text = f"cannot be kept in {constants.HF_HUB_CACHE} ({error.strerror}): mend that, or set HF_HOME, and {AGAIN}"
    elif isinstance(cause, errors.FileMetadataError) or isinstance(error, json.JSONDecodeError):
        text = f"what answers at {constants.ENDPOINT} is not the Hub (a proxy, or a login page?); {AGAIN}"
    elif isinstance(error, errors.LocalEntryNotFoundError):
        unreachable = True
        text = _no_answer(cause or error, repository)
    else:
        text = f"the download from {constants.ENDPOINT} broke off ({_reason(error)}); {AGAIN}, or use {elsewhere}"
    return unreachable, text


def _is_of_this_machine(error: BaseException) -> bool:
    """Whether the disk refused, not the network."""
    return isinstance(error, OSError) and bool(error.errno) and not isinstance(error, (ConnectionError, TimeoutError))


def _reason(error: BaseException) -> str:
    """The first line of an error's text, or its kind if it has none."""
    return next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")


def _status(error: BaseException) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)
