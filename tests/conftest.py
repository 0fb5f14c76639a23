"""Fixtures that the whole suite shares: small datasets, a workspace, the command line in a process of its own."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from r2med_pyserini.paths import CORPUS_FILE, QRELS_FILE, QUERY_FILE, Workspace

MED = Path(__file__).parents[2] / "shared" / "collections" / "med"


@dataclass(frozen=True)
class Result:
    """What a command left: exit status, standard output and standard error."""

    status: int
    out: str
    err: str


@pytest.fixture
def workspace(tmp_path, monkeypatch) -> Workspace:
    """An empty workspace that this process and its children use."""
    root = tmp_path / "work"
    root.mkdir()
    monkeypatch.setenv("R2MED_HOME", str(root))
    return Workspace(root)


@pytest.fixture
def r2med(workspace):
    """Runs `r2med WORDS...` in a new process; `env` adds to its environment (None removes a variable)."""

    def run(*words: str | Path, env: dict[str, str | None] | None = None, timeout: float = 120) -> Result:
        environment = {**os.environ, **(env or {})}
        environment = {name: value for name, value in environment.items() if value is not None}
        command = [sys.executable, "-m", "r2med_pyserini", *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=timeout, check=False)
        return Result(done.returncode, done.stdout, done.stderr)

    return run


def write_rows(path: Path, rows: list) -> None:
    """Rows as JSON Lines; a row that is a str or bytes already is written as it stands."""
    with path.open("wb") as file:
        for row in rows:
            if isinstance(row, bytes):
                file.write(row)
            else:
                file.write((row if isinstance(row, str) else json.dumps(row, ensure_ascii=False)).encode() + b"\n")


@pytest.fixture
def make_dataset(tmp_path):
    """Writes a dataset in R2MED's layout and returns its folder; `corpus` and the others take rows or raw lines."""

    def make(name: str = "tiny", corpus: list = (), queries: list = (), qrels: list = ()) -> Path:
        folder = tmp_path / "raw" / name
        folder.mkdir(parents=True, exist_ok=True)
        write_rows(
            folder / CORPUS_FILE,
            list(corpus)
            or [
                {"id": "d1", "text": "Chest pain that eases with rest points to angina."},
                {"id": "d2", "text": "A cough with rusty sputum suggests pneumonia."},
                {"id": "d3", "text": "Night blindness may stem from a lack of vitamin A."},
            ],
        )
        write_rows(
            folder / QUERY_FILE,
            list(queries)
            or [
                {"id": "q1", "text": "chest pain at rest"},
                {"id": "q2", "text": "cough and fever"},
            ],
        )
        write_rows(
            folder / QRELS_FILE,
            list(qrels)
            or [
                {"q_id": "q1", "p_id": "d1", "score": 1},
                {"q_id": "q2", "p_id": "d2", "score": 1},
            ],
        )
        return folder

    return make  # fmt: skip


@pytest.fixture(scope="session")
def med() -> Path:
    """The real MED collection, where it is at hand."""
    if not MED.is_dir():
        pytest.skip("needs the MED collection, which is not part of the project")
    return MED


@pytest.fixture
def write(tmp_path):
    """Writes a file below the test's folder and returns its path."""

    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write
