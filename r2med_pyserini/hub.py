"""Fetch a dataset's raw files from the Hugging Face Hub, and verify them."""

import shutil
from pathlib import Path

from .adoption import ELSEWHERE, verify
from .errors import BadInput
from .hubclient import HubClient, Repository, forget
from .paths import RAW_FILES
from .suites import Dataset

_ANEW = f"run the same command again, which fetches them anew, or use {ELSEWHERE}"


class Hub:
    """The Hub's datasets for one plan: once the Hub cannot be reached, only what is in the cache is had."""

    def __init__(self) -> None:
        self._client = HubClient()

    def fetch(self, dataset: Dataset, folder: Path) -> None:
        """Download the three files of a dataset at its pinned revision into `folder`, and verify them.

        Raises R2medError with one sentence that says what went wrong and what to do.
        """
        repository = Repository(dataset.name, "dataset", dataset.repo, dataset.revision, ELSEWHERE)
        paths = {name: self._client.download(repository, name) for name in RAW_FILES}
        for name, path in paths.items():
            shutil.copyfile(path, folder / name)
        try:
            verify(dataset, folder, again=_ANEW)
        except BadInput:
            for path in paths.values():  # else the cache would serve them again and again
                forget(path)
            raise
