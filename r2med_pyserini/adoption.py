"""Raw files that the user has, or that have just arrived: verifying them, and taking them over."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from .artifacts import sha256
from .errors import BadInput, R2medError
from .jsonl import Faults
from .paths import CORPUS_FILE, MANIFEST, QRELS_FILE, QUERY_FILE
from .rawfiles import locate, missing
from .suites import Dataset
from .textio import lines
from .trec import judgement_rows

ELSEWHERE = "r2med data --from FOLDER (or try --suite mini)"


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


def keep_guests(old: Path, fetched: Mapping[str, str], folder: Path) -> None:
    """Copy what a user keeps in `old`, which `folder` is about to replace: nothing of theirs is to be lost.

    `fetched` tells the files that were made by us: name -> SHA-256. One whose hash has changed since is kept as
    `NAME.changed`.
    """
    for path in sorted(old.rglob("*")) if old.is_dir() else ():
        name = path.relative_to(old)
        kept = folder / name
        if not path.is_file() or name == Path(MANIFEST):
            continue
        if str(name) in fetched or kept.exists():
            if sha256(path) in (fetched.get(str(name)), sha256(kept) if kept.exists() else None):
                continue
            kept = kept.with_name(f"{kept.name}.changed")
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, kept)
