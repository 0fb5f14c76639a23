"""The same data gives the same bytes, whatever the number of threads and the order of lines."""

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from r2med_pyserini.paths import MINI, Workspace

from .helpers import LEXICAL, environment, r2med_in, run_files

HEAVY = ("torch", "transformers", "pyserini")
RUN_AND_LIST_MODULES = """
import json, sys
from r2med_pyserini import cli
sys.argv = ["r2med", "run", *sys.argv[1:], "--suite", "mini", "--dataset", "biology"]
try:
    cli.main()
except SystemExit:
    pass
print(json.dumps(sorted(sys.modules)))
"""


def shuffled_copy(source: Path, target: Path, names: tuple[str, ...]) -> None:
    """A copy of a dataset in which the lines of the named files stand in another order."""
    shutil.copytree(source, target)
    for name in names:
        lines = (source / name).read_bytes().splitlines(keepends=True)
        random.Random(11).shuffle(lines)
        (target / name).write_bytes(b"".join(lines))
        assert (target / name).read_bytes() != (source / name).read_bytes()


def lexical(workspace: Workspace) -> dict[str, bytes]:
    """Runs and scores of the lexical conditions."""
    kept = tuple(f".{name}.{ending}" for name in LEXICAL for ending in ("txt", "scores.json"))
    return {name: content for name, content in run_files(workspace).items() if name.endswith(kept)}


def renamed(files: dict[str, bytes], old: str, new: str) -> dict[str, bytes]:
    return {name.replace(f"run.{old}-", f"run.{new}-"): content for name, content in files.items()}


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_any_number_of_threads_gives_the_same_bytes(workspace, r2med, lexical_mini, threads):
    r2med("run", *LEXICAL, "--suite", "mini", "--threads", threads)
    assert run_files(workspace) == lexical(lexical_mini)


def test_a_run_does_not_depend_on_the_order_of_documents(workspace, r2med, lexical_mini, tmp_path):
    for folder in (path for path in MINI.iterdir() if path.is_dir()):
        shuffled_copy(folder, tmp_path / "shuffled" / folder.name, ("corpus.jsonl",))
    done = r2med("run", *LEXICAL, "--suite", tmp_path / "shuffled")
    assert done.status == 0
    assert renamed(run_files(workspace), "shuffled", "mini") == lexical(lexical_mini)


def test_a_run_on_med_does_not_depend_on_the_order_of_documents(workspace, r2med, med, med_runs, tmp_path):
    shuffled_copy(med, tmp_path / "shuffled" / "med", ("corpus.jsonl",))
    done = r2med("run", *LEXICAL, "--suite", tmp_path / "shuffled")
    assert done.status == 0
    assert renamed(run_files(workspace), "shuffled", "med") == run_files(med_runs)


def test_a_run_does_not_depend_on_the_order_of_queries_and_judgements(workspace, r2med, lexical_mini, tmp_path):
    for name in ("biology", "medqa-diag"):
        shuffled_copy(MINI / name, tmp_path / "shuffled" / name, ("query.jsonl", "qrels.jsonl"))
    done = r2med("run", *LEXICAL, "--suite", tmp_path / "shuffled")
    assert done.status == 0
    ours = renamed(run_files(workspace), "shuffled", "mini")
    assert ours == {name: content for name, content in run_files(lexical_mini).items() if name in ours}


def test_queries_come_in_the_order_of_their_ids(lexical_mini):
    lines = lexical_mini.run("mini", "medqa-diag", "bm25").read_text(encoding="utf-8").splitlines()
    queries = [line.split()[0] for line in lines]
    assert queries == sorted(queries)


def test_a_lexical_run_imports_nothing_heavy(workspace):
    process = [sys.executable, "-c", RUN_AND_LIST_MODULES, *LEXICAL]
    done = subprocess.run(process, capture_output=True, text=True, env=environment(workspace), check=True)
    modules = json.loads(done.stdout.splitlines()[-1])
    assert "r2med_pyserini.lucene" in modules
    assert not [module for module in modules if module.split(".")[0] in HEAVY]


def test_a_rerun_does_nothing(lexical_mini):
    def written(workspace: Workspace) -> dict[Path, int]:
        folders = ("collections", "indexes", "runs")
        return {path: path.stat().st_mtime_ns for name in folders for path in (workspace.root / name).rglob("*")}

    before = written(lexical_mini)
    done = r2med_in(lexical_mini, "run", *LEXICAL, "--suite", "mini")
    assert "[" not in done.err
    assert written(lexical_mini) == before
