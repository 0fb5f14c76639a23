"""Only what has to be done is done: after changes, damage, kills, and beside another process."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from r2med_pyserini.paths import MINI, Workspace

from .helpers import LEXICAL, R2MED, Result, built, environment, r2med_in, run_files, succeed, write_random_dataset

KILLS = 12
INDEXES = {condition: "lucene-exact" if condition == "bm25-official" else "lucene" for condition in LEXICAL}


@dataclass
class Project:
    """A suite of two datasets, `one` and `two`, and a workspace in which it is run."""

    suite: Path
    workspace: Workspace

    def run(self, *words: str | Path, conditions: tuple[str | Path, ...] = LEXICAL) -> Result:
        return succeed(self.workspace, "run", *conditions, "--suite", self.suite, *words)

    def edit(self, name: str, old: str, new: str) -> None:
        """Change the first occurrence of a text in a file of dataset `one`."""
        path = self.suite / "one" / name
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    def index(self, kind: str = "lucene", dataset: str = "one") -> Path:
        return self.workspace.index(kind, "suite", dataset)

    def leftovers(self) -> list[Path]:
        places = ("collections", "indexes", "runs")
        return [path for place in places for path in (self.workspace.root / place).rglob(".tmp.*")]


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Project:
    """Every condition on copies of two datasets of mini."""
    root = tmp_path_factory.mktemp("finished")
    shutil.copytree(MINI / "biology", root / "suite" / "one")
    shutil.copytree(MINI / "medqa-diag", root / "suite" / "two")
    project = Project(root / "suite", Workspace(root / "work"))
    project.workspace.root.mkdir()
    project.run()
    return project


@pytest.fixture
def project(finished, tmp_path) -> Project:
    """A finished project of the test's own."""
    copy = Project(tmp_path / "suite", Workspace(tmp_path / "work"))
    shutil.copytree(finished.suite, copy.suite)
    shutil.copytree(finished.workspace.root, copy.workspace.root)
    return copy


@pytest.fixture
def fresh(finished, tmp_path) -> Project:
    """The same suite with an empty workspace."""
    (tmp_path / "work").mkdir()
    return Project(finished.suite, Workspace(tmp_path / "work"))


def stages(*verbs: str, dataset: str = "one") -> list[str]:
    """The stages of all conditions on one dataset, as `built` gives them."""
    every = {
        "convert": [""],
        "index": [f" {kind}" for kind in set(INDEXES.values())],
        "search": [f" {condition}" for condition in LEXICAL],
        "evaluate": [f" {condition}" for condition in LEXICAL],
    }
    return sorted(f"{verb} suite/{dataset}{detail}" for verb in verbs for detail in every[verb])


def nothing_to_do(project: Project) -> bool:
    """Whether a dry run says so."""
    *lines, total = project.run("--dry-run").out.splitlines()
    return total == f"0 of {len(lines)} stages to do" and not any(line.startswith("to do") for line in lines)


def flip_a_byte(path: Path) -> None:
    """Change one byte; size and modification time stay."""
    before = path.stat()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


# changes


def test_a_copied_project_is_up_to_date(project):
    assert built(project.run()) == []


def test_a_changed_document_rebuilds_its_dataset_only(project):
    project.edit("corpus.jsonl", "carbon monoxide".capitalize(), "Table saws cut fingers; carbon monoxide")
    assert built(project.run()) == stages("convert", "index", "search", "evaluate")


def test_a_changed_query_keeps_the_index(project):
    project.edit("query.jsonl", "table saw", "circular table saw and stomach")
    assert built(project.run()) == stages("convert", "search", "evaluate")


def test_a_changed_judgement_rebuilds_the_scores_only(project):
    before = project.workspace.scores("suite", "one", "bm25").read_bytes()
    row = (project.suite / "one" / "qrels.jsonl").read_text().splitlines()[0]
    project.edit("qrels.jsonl", row, json.dumps({**json.loads(row), "score": 0}))
    assert built(project.run()) == stages("convert", "evaluate")
    assert project.workspace.scores("suite", "one", "bm25").read_bytes() != before


def test_an_undone_change_brings_the_same_bytes_back(project, finished):
    project.edit("corpus.jsonl", "Carbon monoxide", "Nitrogen")
    project.run()
    assert run_files(project.workspace) != run_files(finished.workspace)
    project.edit("corpus.jsonl", "Nitrogen", "Carbon monoxide")
    project.run()
    assert run_files(project.workspace) == run_files(finished.workspace)


def test_a_changed_parameter_rebuilds_that_run_only(project, tmp_path):
    own = tmp_path / "mine.yaml"
    text = "title: mine\nindex: {kind: lucene}\nsearch: {model: bm25, k1: K1}\n"
    words = {"conditions": (own, *LEXICAL)}
    own.write_text(text.replace("K1", "1.2"))
    mine = [f"{verb} suite/{dataset} mine" for verb in ("evaluate", "search") for dataset in ("one", "two")]
    assert built(project.run(**words)) == mine
    own.write_text(text.replace("K1", "2"))
    assert built(project.run(**words)) == mine
    own.write_text(text.replace("K1", "2.0").replace("title: mine", "title: other words"))
    assert built(project.run(**words)) == []


def test_bm25_reuses_the_index_that_rm3_made(fresh, finished):
    fresh.run(conditions=("bm25-rm3",))
    assert built(fresh.run("--dataset", "one", conditions=("bm25",))) == [
        "evaluate suite/one bm25",
        "search suite/one bm25",
    ]
    assert run_files(fresh.workspace, "run.suite-one.bm25.*") == run_files(finished.workspace, "run.suite-one.bm25.*")


def test_rm3_after_bm25_adds_document_vectors_and_keeps_the_run_of_bm25(fresh, finished):
    fresh.run("--dataset", "one", conditions=("bm25",))
    again = fresh.run("--dataset", "one", conditions=("bm25-rm3", "bm25"))
    assert built(again) == ["evaluate suite/one bm25-rm3", "index suite/one lucene", "search suite/one bm25-rm3"]
    ours = run_files(fresh.workspace)
    assert ours == {name: content for name, content in run_files(finished.workspace).items() if name in ours}


def test_a_dry_run_foretells_what_is_done(fresh):
    fresh.run("--dataset", "one", conditions=("bm25",))
    words = {"conditions": ("bm25-rm3", "bm25")}
    shown = fresh.run("--dataset", "one", "--dry-run", **words).out
    foretold = sorted(" ".join(line.split()[2:]) for line in shown.splitlines() if line.startswith("to do"))
    assert foretold == built(fresh.run("--dataset", "one", **words))


# damage


@pytest.mark.parametrize("damage", [truncate, flip_a_byte, Path.unlink])
@pytest.mark.parametrize("name", ["run.suite-one.qld.txt", "run.suite-one.qld.scores.json"])
def test_a_damaged_run_or_score_is_mended(project, finished, name, damage):
    damage(project.workspace.root / "runs" / name)
    verb = "evaluate" if "scores" in name else "search"
    assert built(project.run()) == [f"{verb} suite/one qld"]
    assert run_files(project.workspace) == run_files(finished.workspace)


@pytest.mark.parametrize("damage", [truncate, flip_a_byte, Path.unlink])
def test_a_damaged_index_is_mended(project, finished, damage):
    damage(next(project.index().glob("*.doc")))
    project.workspace.run("suite", "one", "bm25-rm3").unlink()
    assert built(project.run()) == ["index suite/one lucene", "search suite/one bm25-rm3"]
    assert run_files(project.workspace) == run_files(finished.workspace)


@pytest.mark.parametrize("damage", [truncate, flip_a_byte, Path.unlink])
@pytest.mark.parametrize("name", ["corpus/docs.jsonl", "topics.json", "qrels.txt"])
def test_a_damaged_collection_is_mended_before_it_is_used(project, finished, name, damage):
    damage(project.workspace.collection("suite", "one").root / name)
    assert built(project.run()) == ["convert suite/one"]
    assert nothing_to_do(project)


def test_a_stray_file_in_an_index_is_neither_used_nor_lost(project):
    stray = project.index() / "_9.doc"
    stray.write_bytes(b"stray")
    project.workspace.run("suite", "one", "bm25").unlink()
    done = r2med_in(project.workspace, "run", *LEXICAL, "--suite", project.suite)
    assert (done.status, built(done)) == (1, [])
    assert f"{stray} is not r2med's, and would be lost" in done.err
    stray.unlink()
    assert built(project.run()) == ["search suite/one bm25"]


@pytest.mark.parametrize("place", ["run", "collection"])
def test_what_a_user_put_in_the_place_of_an_output_stays(fresh, place):
    if place == "run":
        mine = fresh.workspace.run("suite", "one", "bm25")
    else:
        mine = fresh.workspace.collection("suite", "one").root / "notes.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    done = r2med_in(fresh.workspace, "run", "bm25", "--suite", fresh.suite, "--dataset", "one")
    assert (done.status, mine.read_text()) == (1, "mine")
    assert "is there, but r2med did not make it: move it out of the way" in done.err


def test_an_index_whose_runs_are_there_is_not_missed(project, finished):
    shutil.rmtree(project.index())
    flip_a_byte(next(project.index("lucene-exact").glob("*.doc")))
    assert nothing_to_do(project)
    shown = project.run("--dry-run").out.splitlines()
    unneeded = sorted(" ".join(line.split()[2:]) for line in shown if line.startswith("not needed"))
    assert unneeded == stages("index")
    assert built(project.run()) == []
    assert not project.index().exists()
    assert run_files(project.workspace) == run_files(finished.workspace)


def test_a_damaged_manifest_is_not_believed(project, finished):
    truncate(project.index() / "manifest.json")
    truncate(project.workspace.root / "runs" / ".manifests" / "run.suite-one.qld.txt.json")
    assert built(project.run()) == ["index suite/one lucene", "search suite/one qld"]
    assert run_files(project.workspace) == run_files(finished.workspace)


def test_a_damaged_cache_of_hashes_costs_nothing_but_time(project):
    truncate(project.workspace.hashes)
    assert built(project.run()) == []


# kills and company


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Project:
    """A finished project with some hundred documents a dataset, so that there is something to interrupt."""
    root = tmp_path_factory.mktemp("large")
    for seed, name in enumerate(("one", "two")):
        write_random_dataset(root / "suite" / name, seed, documents=400, words=2000, longest=200, queries=40)
    project = Project(root / "suite", Workspace(root / "work"))
    project.workspace.root.mkdir()
    project.run()
    return project


@pytest.fixture
def interrupted(large, tmp_path) -> Project:
    """The large suite with an empty workspace."""
    (tmp_path / "work").mkdir()
    return Project(large.suite, Workspace(tmp_path / "work"))


def start(project: Project, errors: int = subprocess.PIPE) -> subprocess.Popen:
    return subprocess.Popen(
        [*R2MED, "run", *LEXICAL, "--suite", project.suite, "--threads", "2"],
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        env=environment(project.workspace),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def check_what_is_called_done(project: Project, right: dict[str, bytes]) -> None:
    """Whatever a dry run calls done holds the bytes of an undisturbed run."""
    shown = project.run("--dry-run").out
    found = re.findall(r"^done +(search|evaluate) +suite/(\w+) (\S+)$", shown, re.MULTILINE)
    assert len(found) == len(re.findall(r"^done +(?:search|evaluate) ", shown, re.MULTILINE))
    for verb, dataset, condition in found:
        of = project.workspace.run if verb == "search" else project.workspace.scores
        path = of("suite", dataset, condition)
        assert path.read_bytes() == right[path.name]


def test_killing_it_again_and_again_does_no_harm(interrupted, large):
    chance, right, killed = random.Random(7), run_files(large.workspace), 0
    for attempt in count():
        assert attempt < 4 * KILLS
        process = start(interrupted, subprocess.DEVNULL)
        try:
            process.communicate(timeout=chance.uniform(0.1, 3))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            check_what_is_called_done(interrupted, right)
            killed += 1
        else:  # it was done before the kill: begin anew
            assert process.returncode == 0
            assert run_files(interrupted.workspace) == right
            succeed(interrupted.workspace, "clean", "--yes")
        if killed == KILLS:
            break
    interrupted.run()
    assert run_files(interrupted.workspace) == right
    assert interrupted.leftovers() == []


def leave_an_old_index(project: Project) -> None:
    """What a kill leaves that hits after the new index is in its place and before the old one is gone."""
    shutil.copytree(project.index(), project.index().with_name(f".tmp.old.{project.index().name}"))


def test_what_a_kill_left_of_an_index_is_gone_when_the_index_is_used(project):
    leave_an_old_index(project)
    project.workspace.run("suite", "one", "bm25").unlink()
    assert built(project.run()) == ["search suite/one bm25"]
    assert project.leftovers() == []


def test_what_a_kill_left_of_a_run_is_gone_with_the_next_command(project):
    run = project.workspace.run("suite", "one", "qld")
    run.with_name(f".tmp.new.{run.name}").write_text("half")
    assert built(project.run()) == []
    assert project.leftovers() == []


def test_cleaning_finds_what_a_kill_left(project):
    leave_an_old_index(project)
    shutil.rmtree(project.index())
    assert project.run("--dry-run")
    succeed(project.workspace, "clean", "--yes")
    left = [path for path in project.workspace.root.rglob("*") if path.is_file()]
    assert left == []


def test_two_processes_side_by_side_end_with_the_same_bytes(interrupted, large):
    both = [start(interrupted) for _ in range(2)]
    outputs = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert run_files(interrupted.workspace) == run_files(large.workspace)
    assert interrupted.leftovers() == []


def until_line(process: subprocess.Popen, verb: str) -> None:
    """Read progress until a stage of that verb has been done."""
    for line in process.stderr:
        if f" {verb} " in line:
            return
    raise AssertionError(f"it ended before any {verb}")


@pytest.mark.parametrize("verb", ["convert", "search"])
def test_control_c_ends_it_with_one_line_and_the_command_can_be_repeated(interrupted, large, verb):
    process = start(interrupted)
    until_line(process, verb)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    said = [line for line in err.splitlines() if line and not re.match(r"\[|\d+ s  ", line)]
    assert said == ["Interrupted. What is done is kept: the same command goes on from here."]
    interrupted.run()
    assert run_files(interrupted.workspace) == run_files(large.workspace)
