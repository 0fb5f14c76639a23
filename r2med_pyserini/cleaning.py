"""Removing what r2med made, and nothing else."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from .artifacts import LOCKS, MANIFESTS, TEMPORARY, Artifact, artifact_path
from .paths import Workspace


def made_here(workspace: Workspace) -> list[Artifact]:
    """The artifacts below a workspace: whatever has a manifest, and whatever a killed build left of one."""
    found = {}
    for folder, is_folder in _places(workspace):
        lost = (folder / path.stem for path in (folder / MANIFESTS).glob("*.json"))  # a user removed the file itself
        for path in sorted({*folder.iterdir(), *lost}):
            artifact = Artifact(artifact_path(path), is_folder)
            if artifact.made_by() is not None or not artifact.is_tidy():
                found[artifact.path] = artifact
    return list(found.values())


def _places(workspace: Workspace) -> Iterator[tuple[Path, bool]]:
    """The folders that hold artifacts, and whether these are folders."""
    if workspace.collections.is_dir():
        yield from ((path, True) for path in sorted(workspace.collections.iterdir()) if path.is_dir())
    if workspace.indexes.is_dir():
        yield workspace.indexes, True
    if workspace.runs.is_dir():
        yield workspace.runs, False


def remove(workspace: Workspace, artifacts: list[Artifact]) -> None:
    """Delete them, and the folders of locks, manifests and caches as far as they are empty then."""
    for artifact in artifacts:
        artifact.remove()
    for own in (workspace.hashes, *workspace.hashes.parent.glob(f"{TEMPORARY}*.{workspace.hashes.name}")):
        own.unlink(missing_ok=True)
    for folder in {artifact.path.parent for artifact in artifacts}:
        for own in (*(folder / LOCKS).glob("*.lock"), *(folder / MANIFESTS).glob(f"{TEMPORARY}*")):
            own.unlink(missing_ok=True)
        empty = [folder / LOCKS, folder / MANIFESTS, *([folder] if folder.parent == workspace.collections else [])]
        for path in empty:
            with suppress(OSError):  # something of the user's is in it
                path.rmdir()
    with suppress(OSError):
        workspace.hashes.parent.rmdir()
