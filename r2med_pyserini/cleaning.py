"""Removing what r2med made, and nothing else.

What rerankers found (`.r2med-cache/scores`) stays: replies of services may have cost money.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .artifacts import LOCKS, MANIFESTS, TEMPORARY, Artifact, artifact_path
from .paths import Workspace
from .vectors import remove_parts


@dataclass(frozen=True)
class Parts:
    """Shards of vectors in the folder `path`, which have not been put together yet."""

    path: Path

    def remove(self) -> None:
        """Delete them, and the folder if nothing else is in it."""
        remove_parts(self.path)


def made_here(workspace: Workspace) -> list[Artifact | Parts]:
    """What r2med made below a workspace: whatever has a manifest, what a killed build left of it, parts of vectors."""
    found: dict[Path, Artifact | Parts] = {}
    for folder, is_folder in _places(workspace):
        lost = (folder / path.stem for path in (folder / MANIFESTS).glob("*.json"))  # a user removed the file itself
        for path in sorted({*folder.iterdir(), *lost}):
            artifact = Artifact(artifact_path(path), is_folder)
            if artifact.made_by() is not None or not artifact.is_tidy():
                found[artifact.path] = artifact
    parts = _all_parts(workspace)
    if parts.is_dir():
        found |= {path: Parts(path) for path in sorted(parts.iterdir()) if path.is_dir()}
    return list(found.values())


def _all_parts(workspace: Workspace) -> Path:
    return workspace.parts(Path("any")).parent


def _places(workspace: Workspace) -> Iterator[tuple[Path, bool]]:
    """The folders that hold artifacts, and whether these are folders."""
    if workspace.collections.is_dir():
        yield from ((path, True) for path in sorted(workspace.collections.iterdir()) if path.is_dir())
    if workspace.indexes.is_dir():
        yield workspace.indexes, True
    if workspace.runs.is_dir():
        yield workspace.runs, False


def remove(workspace: Workspace, made: list[Artifact | Parts]) -> None:
    """Delete them, and the folders of locks, manifests and caches as far as they are empty then."""
    for thing in made:
        thing.remove()
    for own in (workspace.hashes, *workspace.hashes.parent.glob(f"{TEMPORARY}*.{workspace.hashes.name}")):
        own.unlink(missing_ok=True)
    for folder in {thing.path.parent for thing in made}:
        for own in (*(folder / LOCKS).glob("*.lock"), *(folder / MANIFESTS).glob(f"{TEMPORARY}*")):
            own.unlink(missing_ok=True)
        ours = folder == _all_parts(workspace) or folder.parent == workspace.collections
        for path in (folder / LOCKS, folder / MANIFESTS, *([folder] if ours else [])):
            with suppress(OSError):  # something of the user's is in it
                path.rmdir()
    with suppress(OSError):
        workspace.hashes.parent.rmdir()
