"""Finished workspaces that tests may read, and copy, but not change."""

from pathlib import Path

import pytest

from r2med_pyserini.paths import Workspace

from .helpers import succeed


@pytest.fixture(scope="session")
def mini(tmp_path_factory) -> Workspace:
    """Every condition on every dataset of the mini suite."""
    workspace = Workspace(tmp_path_factory.mktemp("mini"))
    succeed(workspace, "run", "--all", "--suite", "mini", "--threads", "2")
    return workspace


@pytest.fixture(scope="session")
def med_runs(tmp_path_factory, med: Path) -> Workspace:
    """Every condition on MED."""
    workspace = Workspace(tmp_path_factory.mktemp("med"))
    succeed(workspace, "run", "--all", "--suite", med)
    return workspace
