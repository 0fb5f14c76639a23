"""Finished workspaces that tests may read, and copy, but not change."""

from pathlib import Path

import pytest

from r2med_pyserini.paths import Workspace

from .helpers import LEXICAL, r2med_in, succeed


@pytest.fixture(scope="session")
def mini(tmp_path_factory) -> Workspace:
    """Every condition on every dataset of the mini suite."""
    workspace = Workspace(tmp_path_factory.mktemp("mini"))
    done = r2med_in(workspace, "run", "--all", "--suite", "mini", "--threads", "2")
    assert "Error" not in done.err  # its exit status is a matter of the scores: see test_cli.py
    assert workspace.run("mini", "biology", "qld").is_file(), done.err
    return workspace


@pytest.fixture(scope="session")
def lexical_mini(tmp_path_factory) -> Workspace:
    """Every lexical condition on every dataset of the mini suite, which takes a few seconds only."""
    workspace = Workspace(tmp_path_factory.mktemp("lexical-mini"))
    succeed(workspace, "run", *LEXICAL, "--suite", "mini", "--threads", "2")
    return workspace


@pytest.fixture(scope="session")
def med_runs(tmp_path_factory, med: Path) -> Workspace:
    """Every lexical condition on MED."""
    workspace = Workspace(tmp_path_factory.mktemp("med"))
    succeed(workspace, "run", *LEXICAL, "--suite", med)
    return workspace
