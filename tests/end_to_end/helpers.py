"""What several files of the end-to-end tests use."""

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from r2med_pyserini.conditions import load, names
from r2med_pyserini.experiments import is_installed
from r2med_pyserini.paths import CORPUS_FILE, QRELS_FILE, QUERY_FILE, Workspace
from r2med_pyserini.specs import LUCENE

INSTALLED = tuple(name for name in names() if is_installed(load(name)))  # what `--all` means
LEXICAL = tuple(name for name in INSTALLED if (index := load(name).index) and index.kind == LUCENE)
R2MED = (sys.executable, "-m", "r2med_pyserini")


class Result(NamedTuple):
    status: int
    out: str
    err: str


def environment(workspace: Workspace) -> dict[str, str]:
    return {**os.environ, "R2MED_HOME": str(workspace.root)}


def r2med_in(workspace: Workspace, *words: str | Path) -> Result:
    """`r2med WORDS...` in a workspace that outlives a single test."""
    command = [*R2MED, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(workspace), timeout=400, check=False)
    return Result(done.returncode, done.stdout, done.stderr)


def succeed(workspace: Workspace, *words: str | Path) -> Result:
    done = r2med_in(workspace, *words)
    assert done.status == 0, done.err
    return done


def built(done: Result) -> list[str]:
    """The stages that a command did, as "search tiny/tiny bm25", sorted."""
    lines = re.findall(r"^\[ *\d+/\d+\] (\w+) +(.+)  \d+\.\d s$", done.err, re.MULTILINE)
    return sorted(f"{verb} {subject}" for verb, subject in lines)


def run_files(workspace: Workspace, pattern: str = "run.*") -> dict[str, bytes]:
    """Runs and scores by file name."""
    found = {path.name: path.read_bytes() for path in sorted((workspace.root / "runs").glob(pattern))}
    assert found
    return found


def hits(run: Path) -> dict[str, list[tuple[str, float]]]:
    """Query -> (document, score), as the run lists them."""
    found: dict[str, list[tuple[str, float]]] = {}
    for line in run.read_text(encoding="utf-8").split("\n")[:-1]:
        query, _, document, _, score, _ = line.split(" ")
        found.setdefault(query, []).append((document, float(score)))
    return found


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def write_dataset(folder: Path, corpus: dict[str, str], queries: dict[str, str], qrels: list[tuple[str, str]]) -> Path:
    """A dataset in R2MED's layout, from texts by id and pairs of query and relevant document."""
    folder.mkdir(parents=True)
    texts = ((CORPUS_FILE, corpus), (QUERY_FILE, queries))
    tables = {name: [{"id": key, "text": text} for key, text in table.items()] for name, table in texts}
    tables[QRELS_FILE] = [{"q_id": query, "p_id": document, "score": 1} for query, document in qrels]
    for name, table in tables.items():
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in table)
        (folder / name).write_text(lines, encoding="utf-8")
    return folder


def write_random_dataset(
    folder: Path, seed: int, documents: int, words: int, longest: int, queries: int, empty: float = 0.0
) -> Path:
    """Documents and queries of made-up words with skewed frequencies; some query words are in no document."""
    chance = random.Random(seed)
    known, unseen = [f"w{number}k" for number in range(words)], [f"u{number}k" for number in range(50)]
    weights = [1 / (rank + 1) for rank in range(words)]

    def text() -> str:
        return " ".join(chance.choices(known, weights, k=chance.randint(5, longest)))

    corpus = {f"d{number}": "" if chance.random() < empty else text() for number in range(documents)}
    topics = {}
    for number in range(queries):
        drawn = chance.choices(known, weights, k=chance.randint(1, 40)) + chance.choices(unseen, k=number % 3)
        topics[f"q{number}"] = " ".join(chance.sample(drawn, len(drawn)))
    qrels = [(query, document) for query in topics for document in chance.sample(sorted(corpus), 5)]
    return write_dataset(folder, corpus, topics, qrels)
