"""Removing what r2med made, and nothing else."""

import shutil
from contextlib import suppress
from pathlib import Path

from .artifacts import Artifact
from .paths import Workspace


def made_here(workspace: Workspace) -> list[Artifact]:
    """The artifacts below a workspace: whatever has a manifest."""
    places = [(workspace.root / "collections", "*/*", True), (workspace.root / "indexes", "*", True),
              (workspace.root / "runs", "*", False)]  # fmt: skip
    found = []
    for folder, pattern, is_folder in places:
        candidates = (Artifact(path, is_folder) for path in sorted(folder.glob(pattern)) if path.is_dir() == is_folder)
        found += [artifact for artifact in candidates if artifact.recipe() is not None]
    return found


def remove(workspace: Workspace, artifacts: list[Artifact]) -> None:
    """Delete them, with the locks, temporaries and caches beside them."""
    for artifact in artifacts:
        artifact.remove()
    for folder in {artifact.path.parent for artifact in artifacts}:
        for leftover in [*folder.glob(".tmp.*"), folder / ".locks", folder / ".manifests"]:
            shutil.rmtree(leftover, ignore_errors=True)
            Path(leftover).unlink(missing_ok=True)
        if folder.parent == workspace.root / "collections":
            with suppress(OSError):  # a user's own file is in it
                folder.rmdir()
    shutil.rmtree(workspace.hashes.parent, ignore_errors=True)
