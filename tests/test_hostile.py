"""Careless users, odd files, hostile places: nothing is lost, and nothing crashes. No Java here."""

import fcntl
import gzip
import json
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from r2med_pyserini import collection, conditions, lucene, recording, validation
from r2med_pyserini.artifacts import Artifact, Hashes
from r2med_pyserini.cleaning import made_here, remove
from r2med_pyserini.commands import PLAIN, for_cell
from r2med_pyserini.conditions import Condition, Recorded
from r2med_pyserini.errors import BadInput, R2medError, UsageError
from r2med_pyserini.evaluation import evaluate
from r2med_pyserini.importing import import_dataset
from r2med_pyserini.lexical_stages import serves as index_serves
from r2med_pyserini.paths import Collection, Workspace
from r2med_pyserini.plan import prepare
from r2med_pyserini.stages import Stage, execute
from r2med_pyserini.trec import read_qrels, read_run

from .conftest import Result, write_rows

PROJECT = Path(__file__).parents[1]
ON_BIOLOGY = ("--suite", "mini", "--dataset", "biology")
OWN = "title: own\nindex: {kind: lucene}\nsearch: {model: bm25}\n"
BIG = ["abcdefg"] * 5_000
LONG = "x" * 20_000
NOT_UTF8 = b"caf\xe9"


def says(done: Result, status: int, *words: str) -> None:
    """It ended with this status and one clear message that holds these words."""
    assert (done.status, done.err.count("Error: ")) == (status, 1), done
    assert "Traceback" not in done.err + done.out
    for word in words:
        assert word in done.err


@pytest.fixture
def hashes(tmp_path) -> Hashes:
    return Hashes(tmp_path / ".cache" / "hashes.json")


def built(text: str) -> Callable[[Path], None]:
    """Builds a file, or a folder of one file `a`."""
    return lambda path: (path / "a" if path.is_dir() else path).write_text(text)


def everything(folder: Path) -> dict[str, bytes]:
    """What a folder holds: name -> content, of folders and links too."""
    content = {}
    for path in folder.rglob("*"):
        link = str(path.readlink()).encode() if path.is_symlink() else None
        content[path.relative_to(folder).as_posix()] = link or (b"" if path.is_dir() else path.read_bytes())
    return content


# Nothing of a user's is lost: cleaning


MINE = [
    ".cache/x", ".tmp.mine", "notes.txt", "runs/.tmp.mine", "indexes/.tmp.mine/segments_1", "runs/.cache/x",
    "runs/run.mini-biology.mine.txt", "indexes/lucene.mini-biology/notes.txt", "indexes/lucene.mini-biology/sub/.x",
    "indexes/lucene.mini-biology.bak/a", "collections/mini/biology/corpus/more.jsonl", "collections/mini/.hidden",
    "collections/.tmp.mine/x", "runs/.manifests/mine.json", "runs/.locks/mine", ".r2med-cache/mine", "data/r2med/x",
]  # fmt: skip


def test_clean_leaves_everything_that_r2med_did_not_make(workspace, r2med, hashes):
    assert r2med("data", *ON_BIOLOGY).status == 0
    Artifact(workspace.index("lucene", "mini", "biology"), folder=True).make({"v": 1}, built("x"), hashes)
    Artifact(workspace.run("mini", "biology", "bm25"), folder=False).make({"v": 1}, built("x"), hashes)
    for name in MINE:
        path = workspace.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    assert r2med("clean", "--yes").out == "removed 3\n"
    left = {name for name, content in everything(workspace.root).items() if content}
    assert left == set(MINE)


@pytest.mark.parametrize(
    "name",
    [
        "ABSOLUTE",
        "../../../keep",
        "a/../../../../keep",
        "none",
        "a/none",
        pytest.param("link/keep"),
        *(pytest.param(name) for name in (".", "", "sub", "a\0b", "\ud800", LONG)),
    ],
    ids=lambda name: ascii(name[:20]),
)
def test_clean_follows_no_manifest_out_of_the_artifact(tmp_path, hashes, name):
    keep, workspace = tmp_path / "keep", Workspace(tmp_path / "work")
    keep.write_text("mine")
    index = Artifact(workspace.index("lucene", "mini", "biology"), folder=True)
    index.make({"v": 1}, built("x"), hashes)
    (index.path / "sub").mkdir()
    (index.path / "link").symlink_to(tmp_path)
    files = {str(keep) if name == "ABSOLUTE" else name: "0" * 64}
    (index.path / "manifest.json").write_text(json.dumps({"recipe": {"v": 1}, "files": files}))
    remove(workspace, made_here(workspace))
    assert keep.read_text() == "mine"
    assert not index.is_current({"v": 1}, hashes)


@pytest.mark.parametrize("name", ["ABSOLUTE", "../keep", "x/../../keep"])
def test_clean_follows_no_manifest_of_a_run_out_of_its_folder(tmp_path, hashes, name):
    keep, workspace = tmp_path / "work" / "keep", Workspace(tmp_path / "work")
    run = Artifact(workspace.run("mini", "biology", "bm25"), folder=False)
    run.make({"v": 1}, built("x"), hashes)
    keep.write_text("mine")
    manifest = run.path.parent / ".manifests" / f"{run.path.name}.json"
    files = {str(keep) if name == "ABSOLUTE" else name: "0" * 64}
    manifest.write_text(json.dumps({"recipe": {"v": 1}, "files": files}))
    remove(workspace, made_here(workspace))
    assert keep.read_text() == "mine"


def test_clean_does_not_go_through_a_link_in_an_index(tmp_path, hashes, write):
    keep, workspace = write("elsewhere/keep", "mine"), Workspace(tmp_path / "work")
    index = Artifact(workspace.index("lucene", "mini", "biology"), folder=True)
    index.make({"v": 1}, built("x"), hashes)
    (index.path / "link").symlink_to(keep.parent)
    remove(workspace, made_here(workspace))
    assert keep.read_text() == "mine"


# Nothing of a user's is lost: suites among the outputs


@pytest.mark.parametrize("place", ["collections", "collections/mini", "indexes", "runs/deep/er"])
def test_a_suite_among_the_outputs_is_refused(workspace, make_dataset, place):
    folder = workspace.root / place / "tiny"
    shutil.copytree(make_dataset(), folder)
    outputs = workspace.root / place.split("/")[0]
    with pytest.raises(UsageError, match=f"^{folder} lies in {outputs}, where outputs go: move it elsewhere$"):
        prepare(str(folder))


@pytest.mark.parametrize("command", ["run bm25", "data", "eval run.txt --dataset tiny"])
def test_a_suite_among_the_outputs_is_refused_and_its_files_stay(workspace, r2med, make_dataset, command):
    folder = workspace.collections / "tiny" / "tiny"  # where its own collection would go
    shutil.copytree(make_dataset(), folder)
    before = everything(workspace.root)
    says(r2med(*command.split(), "--suite", folder), 2, f"{folder} lies in {workspace.collections}, where outputs go")
    assert everything(workspace.root) == before


@pytest.mark.parametrize("link", ["suite", "outputs"])
def test_a_link_does_not_hide_that_a_suite_lies_among_the_outputs(workspace, make_dataset, tmp_path, link):
    folder = make_dataset()
    if link == "suite":
        shutil.copytree(folder, workspace.collections / "tiny")
        folder = tmp_path / "linked"
        folder.symlink_to(workspace.collections / "tiny")
    else:
        workspace.collections.symlink_to(folder.parent)
    with pytest.raises(UsageError, match="where outputs go"):
        prepare(str(folder))


def test_a_dataset_that_is_itself_the_folder_of_outputs_is_refused(workspace, make_dataset):
    shutil.copytree(make_dataset(), workspace.runs)
    with pytest.raises(UsageError, match="where outputs go"):
        prepare(str(workspace.root))


# Nothing of a user's is lost: what lies where an output goes


def a_file(path: Path) -> None:
    path.write_text("mine")


def a_folder(path: Path) -> None:
    (path / "deep").mkdir(parents=True)
    (path / "deep" / "notes.txt").write_text("mine")


def a_link(path: Path) -> None:
    a_folder(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def a_dangling_link(path: Path) -> None:
    path.symlink_to("nowhere")


@pytest.mark.parametrize("is_folder", [True, False], ids=["for a folder", "for a file"])
@pytest.mark.parametrize("put", [a_file, a_folder, a_link, a_dangling_link])
def test_what_somebody_put_where_an_output_goes_stays(tmp_path, hashes, put, is_folder):
    place = tmp_path / "out" / "thing.x"
    place.parent.mkdir()
    put(place)
    before = everything(tmp_path)
    with pytest.raises(R2medError, match=r"thing\.x is there, but r2med did not make it: move it out of the way"):
        Artifact(place, is_folder).make({"v": 1}, built("ours"), hashes)
    after = {name: content for name, content in everything(tmp_path).items() if ".locks" not in name}
    assert after == before


@pytest.mark.parametrize("name", ["notes.txt", "sub/notes.txt", "sub/.deep/notes.txt", "a.bak"])
@pytest.mark.parametrize("recipe", [{"v": 1}, {"v": 2}], ids=["same recipe", "new recipe"])
def test_what_somebody_put_into_an_artifact_is_named_and_stays(tmp_path, hashes, name, recipe):
    artifact = Artifact(tmp_path / "out", folder=True)
    artifact.make({"v": 1}, built("ours"), hashes)
    mine = artifact.path / name
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_text("mine")
    before = everything(artifact.path)
    with pytest.raises(R2medError) as caught:
        artifact.make(recipe, built("new"), hashes)
    assert str(caught.value) == f"{mine} is not r2med's, and would be lost: move it out of {artifact.path}"
    assert everything(artifact.path) == before
    assert artifact.is_tidy()


def test_a_finders_file_in_an_artifact_changes_nothing(tmp_path, hashes):
    artifact = Artifact(tmp_path / "out", folder=True)
    artifact.make({"v": 1}, built("ours"), hashes)
    (artifact.path / ".DS_Store").write_text("x")
    assert artifact.is_current({"v": 1}, hashes)
    assert artifact.make({"v": 2}, built("new"), hashes) is True


def test_a_finders_file_in_an_artifact_changes_nothing_after_clean_either(tmp_path, hashes):
    workspace = Workspace(tmp_path / "work")
    index = Artifact(workspace.index("lucene", "mini", "biology"), folder=True)
    index.make({"v": 1}, built("x"), hashes)
    (index.path / ".DS_Store").write_text("x")
    remove(workspace, made_here(workspace))
    assert index.make({"v": 1}, built("x"), hashes) is True


@pytest.mark.parametrize("name", [".notes", "mine/.notes"])
def test_a_hidden_file_of_a_users_in_an_artifact_is_not_lost(tmp_path, hashes, name):
    artifact = Artifact(tmp_path / "out", folder=True)
    artifact.make({"v": 1}, built("ours"), hashes)
    mine = artifact.path / name
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine")
    with suppress(R2medError):  # as for files that are not hidden
        artifact.make({"v": 2}, built("new"), hashes)
    assert mine.exists()


def test_a_folder_that_is_linked_into_an_artifact_is_not_emptied(tmp_path, hashes, write):
    keep, artifact = write("elsewhere/keep", "mine"), Artifact(tmp_path / "out", folder=True)
    artifact.make({"v": 1}, built("ours"), hashes)
    (artifact.path / "link").symlink_to(keep.parent)
    artifact.make({"v": 2}, built("new"), hashes)
    assert keep.read_text() == "mine"


def test_a_collection_that_r2med_did_not_make_is_refused(workspace, r2med, make_dataset, write):
    mine = write("work/collections/tiny/tiny/notes.txt", "mine")
    says(r2med("data", "--suite", make_dataset()), 1, f"{mine.parent} is there, but r2med did not make it")
    assert mine.read_text() == "mine"


def test_an_index_that_r2med_did_not_make_is_refused(workspace, r2med, make_dataset, write):
    mine = write("work/indexes/lucene.tiny-tiny/segments_1", "mine")
    says(r2med("run", "bm25", "--suite", make_dataset()), 1, f"{mine.parent} is there, but r2med did not make it")
    assert everything(mine.parent) == {"segments_1": b"mine"}


@pytest.mark.parametrize("name", ["notes.txt", "corpus/more.jsonl"])
def test_a_file_among_a_collections_is_named_and_stays(workspace, r2med, make_dataset, name):
    folder = make_dataset()
    assert r2med("data", "--suite", folder).status == 0
    mine = workspace.collection("tiny", "tiny").root / name
    mine.write_text("mine")
    with (folder / "corpus.jsonl").open("a") as file:
        file.write('{"id": "d4", "text": "chest pain"}\n')
    says(r2med("data", "--suite", folder), 1, f"{mine} is not r2med's, and would be lost")
    assert mine.read_text() == "mine"


# Nothing of a user's is lost: virtual environments


STUB = """#!/bin/sh
# Claims to be a good Python; makes something like a virtual environment, and only notes what pip is to do.
case "$1 $2" in
"--version "*) echo Python 3.12.0 ;;
"-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && touch "$3/pyvenv.cfg" ;;
"-m pip") echo "$@" >>"$(dirname "$0")/pip.log" ;;
esac
"""


@pytest.fixture
def set_up(tmp_path, write):
    """Runs setup.sh for a folder of the test's."""
    stub = write("stub/python3", STUB)
    stub.chmod(0o755)

    def set_up(venv: Path) -> subprocess.CompletedProcess:
        words = ["sh", PROJECT / "scripts" / "setup.sh", venv, stub, "nothing"]
        return subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)

    return set_up


@pytest.mark.parametrize("put", [a_file, a_folder, a_link, Path.mkdir])
@pytest.mark.parametrize("name", ["mine", "my folder"])
def test_setup_does_not_replace_what_is_no_virtual_environment(tmp_path, set_up, put, name):
    put(tmp_path / name)
    before = everything(tmp_path)
    done = set_up(tmp_path / name)
    assert done.returncode == 1
    assert f"Error: {tmp_path / name} is there and is no virtual environment; move it away" in done.stderr
    assert everything(tmp_path) == before


@pytest.mark.parametrize("name", [".venv", "my venv"])
@pytest.mark.parametrize("broken", [False, True])
def test_setup_makes_a_virtual_environment_and_replaces_a_broken_one(tmp_path, set_up, name, broken):
    if broken:
        (tmp_path / name).mkdir()
        (tmp_path / name / "pyvenv.cfg").touch()
        (tmp_path / name / "old").touch()
    assert set_up(tmp_path / name).returncode == 0
    made = sorted(everything(tmp_path / name))
    assert made == ["bin", "bin/pip.log", "bin/python", "pyvenv.cfg"]


def test_setup_that_cannot_make_a_virtual_environment_leaves_nothing(tmp_path, set_up):
    stub = tmp_path / "stub" / "python3"
    stub.write_text(STUB.replace(' && touch "$3/pyvenv.cfg"', " && false"))
    assert set_up(tmp_path / ".venv").returncode == 1
    assert not (tmp_path / ".venv").exists()


@pytest.fixture
def make(tmp_path):
    """Runs make in a copy of the project, whose r2med writes what it is called with, a word a line."""
    if not shutil.which("make"):
        pytest.skip("needs make")
    project = tmp_path / "project"
    (project / ".venv" / "bin").mkdir(parents=True)
    for name in ("Makefile", "setup.cfg"):
        shutil.copy(PROJECT / name, project)
    shutil.copytree(PROJECT / "scripts", project / "scripts")
    stub = project / ".venv" / "bin" / "r2med"
    stub.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    stub.chmod(0o755)
    (project / ".venv" / ".installed").touch()

    def make(*words: str | Path, cwd: Path = project, **variables: str) -> Result:
        ours = ("MAKE", "MFLAGS", "SUITE", "VENV", "PYTHON", "ARGS")  # set if make itself runs the tests
        env = {name: value for name, value in os.environ.items() if not name.startswith(ours)} | variables
        done = subprocess.run(["make", *words], capture_output=True, text=True, cwd=cwd, env=env, check=False)
        return Result(done.returncode, done.stdout, done.stderr)

    make.project = project
    return make


@pytest.mark.parametrize("put", [a_file, a_folder])
def test_distclean_removes_nothing_but_a_virtual_environment(make, put):
    put(make.project / "mine")
    make("distclean", "VENV=mine")
    assert (make.project / "mine").exists()


def test_distclean_removes_the_virtual_environment(make):
    (make.project / ".venv" / "pyvenv.cfg").touch()
    assert make("distclean").out == "clean\n--yes\n"
    assert not (make.project / ".venv").exists() and (make.project / "Makefile").exists()


def test_distclean_quotes_the_name_of_the_virtual_environment(make):
    assert "rm -rf 'my venv'" in make("-n", "distclean", "VENV=my venv").out.replace('"', "'")


def test_distclean_of_a_name_with_a_blank_does_not_take_its_parts(make):
    for name in ("my", "venv"):
        (make.project / name).mkdir()
    make("distclean", "VENV=my venv")
    assert (make.project / "my").exists() and (make.project / "venv").exists()


def test_setup_by_make_does_not_replace_a_folder_of_a_users(make, write):
    write("stub/python3", STUB).chmod(0o755)
    mine = write("project/mine/notes.txt", "mine")
    done = make("setup", "VENV=mine", f"PYTHON={mine.parents[2] / 'stub' / 'python3'}")
    assert done.status != 0 and "is no virtual environment" in done.err
    assert everything(mine.parent) == {"notes.txt": b"mine"}


# Make passes on what it is given


ODD_SUITES = [
    "it's",
    'a "b" c',
    "a;touch x",
    "a $(touch x) b",
    "$HOME ${HOME} $$",
    "`touch x`",
    "a\\b",
    "a ",
    "a#b",
    "*",
]


@pytest.mark.parametrize("suite", ODD_SUITES)
@pytest.mark.parametrize("target", ["report", "bm25-all"])
def test_make_passes_the_suite_of_the_environment_on_untouched(make, target, suite):
    done = make(target, SUITE=suite)
    assert done.out.split("\n") == [*(["report"] if target == "report" else ["target", target]), "--suite", suite, ""]
    assert not (make.project / "x").exists()


@pytest.mark.parametrize("suite", ODD_SUITES)
def test_make_passes_the_suite_of_its_command_line_on_untouched(make, suite):
    """Make itself wants $ doubled there."""
    for words in (["report"], ["bm25-all"]):
        assert make(*words, f"SUITE={suite.replace('$', '$$')}").out.endswith(f"\n--suite\n{suite}\n")
    assert not (make.project / "x").exists()


def test_make_help_works_from_another_folder(make, tmp_path):
    name = "project"
    done = make("-f", tmp_path / name / "Makefile", "help", cwd=tmp_path)
    assert (done.status, done.err) == (0, "")
    assert "  make demo  " in done.out and "  make distclean  " in done.out


# Inputs that change meanwhile


@pytest.fixture
def raw(write) -> Path:
    return write("raw.txt", "A")


@pytest.fixture(params=[True, False], ids=["folder", "file"])
def reading(request, tmp_path, hashes, raw):
    """Makes a stage that copies `raw` and then does something else; the file with the copy."""

    def reading(meanwhile: Callable[[], object] = lambda: None, tools: tuple[Stage, ...] = ()) -> Stage:
        def build(path: Path) -> None:
            built(raw.read_text())(path)
            meanwhile()

        artifact = Artifact(tmp_path / "out" / "copy", folder=request.param)
        return Stage("copy", "x", artifact, lambda: {"raw": hashes.of(raw)}, build, tools=tools)

    return reading


def copied(stage: Stage) -> str | None:
    path = stage.artifact.path / "a" if stage.artifact.folder else stage.artifact.path
    return path.read_text() if path.exists() else None


@pytest.mark.parametrize("before", [None, "old"])
def test_an_input_that_changes_while_it_is_read_publishes_nothing(reading, hashes, raw, before):
    if before:
        raw.write_text(before)
        reading().make(hashes)
        raw.write_text("A")
    stage = reading(lambda: raw.write_text("B"))
    with pytest.raises(R2medError, match=r"copy: what it is made from changed meanwhile; run the same command again"):
        stage.make(hashes)
    assert (copied(stage), stage.is_current(hashes), stage.artifact.is_tidy()) == (before, False, True)


def test_the_next_attempt_takes_what_came_meanwhile(reading, hashes, raw):
    with pytest.raises(R2medError, match="changed meanwhile"):
        reading(lambda: raw.write_text("B")).make(hashes)
    stage = reading()
    assert stage.make(hashes) is True
    assert (copied(stage), stage.is_current(hashes)) == ("B", True)


def test_an_input_that_vanishes_while_it_is_read_publishes_nothing(reading, hashes, raw):
    stage = reading(raw.unlink)
    with pytest.raises(R2medError, match="No such file"):
        stage.make(hashes)
    assert (copied(stage), stage.artifact.is_tidy()) == (None, True)


def test_an_input_that_is_only_touched_meanwhile_is_no_change(reading, hashes, raw):
    stage = reading(lambda: (raw.rename(raw.with_name("x")), raw.write_text("A")))
    assert stage.make(hashes) is True
    assert copied(stage) == "A"


@pytest.fixture
def index(tmp_path, hashes) -> Stage:
    """A tool that was made of documents 1."""
    artifact = Artifact(tmp_path / "out" / "index", folder=True)
    wanted = {"docs": 1, "docvectors": False}
    stage = Stage("index", "x", artifact, lambda: wanted, built("1"), on_demand=True, serves=index_serves)
    stage.make(hashes)
    return stage


@pytest.mark.parametrize(
    "swap",
    [
        lambda tool, hashes: tool.make({"docs": 2, "docvectors": False}, built("2"), hashes),
        lambda tool, hashes: tool.make({"docs": 2, "docvectors": True}, built("2"), hashes),
        lambda tool, hashes: (tool.path / "a").write_text("2"),
        lambda tool, hashes: tool.remove(),
    ],
    ids=["other documents", "and document vectors", "damaged", "removed"],
)
def test_a_search_in_an_index_that_is_swapped_meanwhile_publishes_nothing(reading, index, hashes, swap):
    stage = reading(lambda: swap(index.artifact, hashes), tools=(index,))
    with pytest.raises(R2medError, match="changed meanwhile"):
        stage.make(hashes)
    assert (copied(stage), stage.artifact.is_tidy()) == (None, True)


def test_an_index_of_the_same_documents_that_serves_as_well_is_no_change(reading, index, hashes):
    richer = {"docs": 1, "docvectors": True}
    stage = reading(lambda: index.artifact.make(richer, built("1 with vectors"), hashes), tools=(index,))
    assert stage.make(hashes) is True


def test_a_stage_whose_input_changes_does_not_keep_others_from_being_done(reading, index, hashes, raw):
    stage = reading(lambda: raw.write_text("B"))
    result = execute([stage, replace(index, on_demand=False)], 2, hashes)
    assert list(result.failed) == [stage] and len(result.done) == 1


@pytest.mark.parametrize("name", ["corpus.jsonl", "query.jsonl", "qrels.jsonl"])
def test_raw_files_that_change_while_they_are_converted(workspace, make_dataset, monkeypatch, name):
    folder, whole = make_dataset(), collection.convert

    def convert(*words):
        whole(*words)
        with (folder / name).open("a") as file:
            file.write("\n")

    monkeypatch.setattr(collection, "convert", convert)
    plan = prepare(str(folder))
    (error,) = plan.execute(lambda _: None).failed.values()
    assert "collections/tiny/tiny: what it is made from changed meanwhile" in str(error)
    assert not workspace.collection("tiny", "tiny").root.exists()


@pytest.mark.parametrize("swapped", ["index", "topics", "documents", None])
def test_a_run_is_not_published_unless_index_and_topics_stay(workspace, make_dataset, monkeypatch, swapped):
    files = workspace.collection("tiny", "tiny")

    def search(index, *_):
        if swapped == "index":
            Artifact(index, folder=True).make({"other": 1}, built("other"), Hashes(workspace.hashes))
        elif swapped:
            path = files.topics if swapped == "topics" else files.docs
            path.write_text(path.read_text() + "\n")
        yield "q1", ["d1"], [1.0]

    monkeypatch.setattr(lucene, "build", lambda corpus, folder, *_: built("index")(folder))
    monkeypatch.setattr(lucene, "search", search)
    plan = prepare(str(make_dataset()), conditions=[conditions.load("bm25")])
    failed = [str(error) for error in plan.execute(lambda _: None).failed.values()]
    run = workspace.run("tiny", "tiny", "bm25")
    assert run.exists() is (swapped is None)
    assert failed == ([f"{run}: what it is made from changed meanwhile; run the same command again"] if swapped else [])


# Grades far below zero


def test_grades_below_minus_1_are_as_minus_1(r2med, write):
    """In processes of their own: the library that computes the measures may crash."""
    run = write("run.txt", "".join(f"q{query} Q0 d{rank} {rank} {-rank} t\n" for query in (1, 2) for rank in range(50)))
    grades = {"-1": [-1], "-2": [-2], "others": [-5, -2, -1, -3, -1000]}
    found = {}
    for name, low in grades.items():
        rows = [
            f"q{query} 0 d{rank} {low[rank % len(low)] if rank % 3 else 2}\n" for query in (1, 2) for rank in range(70)
        ]
        done = r2med("eval", run, "--qrels", write(f"{name}.txt", "".join(rows)), "--per-query", "--format", "json")
        assert (done.status, done.err) == (0, ""), name
        found[name] = json.loads(done.out)
    assert all(scores == found["-1"] for scores in found.values())
    assert found["-1"]["mean"]["nDCG@10"] > 0


def test_a_query_whose_judgements_are_all_below_zero_scores_0(r2med, write):
    run, qrels = write("run.txt", "q1 Q0 d1 1 2 t\n"), write("qrels.txt", "q1 0 d1 -5\nq1 0 d2 -2\n")
    done = r2med("eval", run, "--qrels", qrels, "--measure", "nDCG@10", "--measure", "MAP")
    assert (done.status, done.out.split("\n")[:2]) == (0, ["nDCG@10\tall\t0.0000", "MAP\tall\t0.0000"])


# Ids that do not come through


ROWS = {
    "corpus.jsonl": {"id": "d1", "text": "chest pain"},
    "query.jsonl": {"id": "q1", "text": "pain"},
    "qrels.jsonl": {"q_id": "q1", "p_id": "d1", "score": 1},
}


@pytest.fixture
def convert(tmp_path):
    """Converts a dataset of a good row a file, with more rows in one of them; its health report."""

    def convert(name: str, *more: object) -> dict:
        raw = tmp_path / "raw"
        raw.mkdir()
        for file, row in ROWS.items():
            write_rows(raw / file, [row, *(more if file == name else ())])
        return collection.convert(raw, Collection(tmp_path / "converted"))

    return convert


KEYS = [("corpus.jsonl", "id"), ("query.jsonl", "id"), ("qrels.jsonl", "q_id"), ("qrels.jsonl", "p_id")]
BAD_IDS = ["a\0b", "\0", "a\x01", "\x1b[31m", "a\x1fb", "\x7f", "\ufeffa", "a\ufeff", "x" * 32_767, "é" * 16_384, ""]


@pytest.mark.parametrize(("name", "key"), KEYS)
@pytest.mark.parametrize("value", BAD_IDS, ids=lambda value: ascii(value[:12]))
def test_an_id_that_would_not_come_through_is_refused(convert, name, key, value):
    with pytest.raises(BadInput) as caught:
        convert(name, {**ROWS[name], key: value})
    (fault,) = caught.value.faults
    assert f"{name}:2: '{key}' is " in fault and "bytes without white space or control characters is wanted" in fault
    assert len(fault) < 500


@pytest.mark.parametrize(("name", "key"), KEYS)
@pytest.mark.parametrize(
    "value", ["x" * 32_766, "é" * 16_383, "a\u00a0b", "a\u2028b", "a\x85b", "😀", 10**4000], ids=lambda _: ""
)
def test_an_odd_id_that_comes_through_is_taken(convert, name, key, value):
    convert(name, {**ROWS[name], key: value, "text": "other"})


@pytest.mark.parametrize("value", ["a\x01", "a\x7f", "a\ufeff", "x" * 32_767], ids=lambda value: ascii(value[:12]))
@pytest.mark.parametrize("row", ["{} 0 d1 1", "q1 0 {} 1", "{}\td1\t1"])
def test_an_id_of_qrels_in_columns_that_would_not_come_through_is_refused(write, row, value):
    with pytest.raises(BadInput, match=r"qrels\.txt:2: '._id' is .*without white space or control characters"):
        read_qrels(write("qrels.txt", f"{row.format('x')}\n{row.format(value)}\n"))


@pytest.mark.parametrize("row", ["q1 Q0 d\0 1 1.0 t", "q\x001 Q0 d1 1 1.0 t", "q1 Q0 d1 1 1.0 t\0", "\0" * 40])
def test_a_run_with_a_nul_is_refused(write, row):
    with pytest.raises(BadInput, match=r"run\.txt:2: holds a NUL character"):
        read_run(write("run.txt", f"q1 Q0 d0 1 1.0 t\n{row}\n"))


def test_eval_of_a_run_with_a_nul_is_one_message(r2med, write):
    run, qrels = write("run.txt", "q1 Q0 d1\0x 1 1.0 t\n"), write("qrels.txt", "q1 0 d1 1\n")
    says(r2med("eval", run, "--qrels", qrels), 1, f"{run}:1: holds a NUL character")


# Pipes


@pytest.fixture
def judged(write) -> tuple[Path, Path]:
    """A run that does not fit into a pipe, and qrels."""
    queries = range(40)
    run = "".join(f"q{query} Q0 d{rank * 7 % 900} {rank} {-rank} t\n" for query in queries for rank in range(200))
    rows = [{"q_id": f"q{query}", "p_id": f"d{query}", "score": 1} for query in queries]
    return write("run.txt", run), write("qrels.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


def zipped(path: Path, wanted: bool) -> bytes:
    return gzip.compress(path.read_bytes()) if wanted else path.read_bytes()


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzipped"])
def test_eval_reads_pipes_as_files(r2med, judged, tmp_path, packed):
    pipes = []
    for path in judged:
        pipe = tmp_path / "pipes" / path.name
        pipe.parent.mkdir(exist_ok=True)
        os.mkfifo(pipe)
        threading.Thread(target=pipe.write_bytes, args=(zipped(path, packed),), daemon=True).start()
        pipes.append(pipe)
    done = r2med("eval", pipes[0], "--qrels", pipes[1])
    assert (done.status, done.err) == (0, "")
    assert done == r2med("eval", judged[0], "--qrels", judged[1])


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
@pytest.mark.parametrize(("run", "qrels"), [("cat", "gzip -c"), ("gzip -c", "cat")])
def test_eval_reads_process_substitutions_as_files(workspace, judged, write, run, qrels):
    columns = write("qrels.txt", "".join(f"q{query} 0 d{query} 1\n" for query in range(40)))
    words = f"eval <({run} {judged[0]}) --qrels <({qrels} {columns}) --compare <({run} {judged[0]})"
    command = ["bash", "-c", f"{shlex.quote(sys.executable)} -m r2med_pyserini {words} --measure MAP"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    scores = evaluate(read_qrels(columns), read_run(judged[0]), ("MAP",)).mean
    (line,) = re.findall("^MAP .*$", done.stdout, re.MULTILINE)
    assert line.split() == ["MAP", *[f"{scores['MAP']:.4f}"] * 2, "+0.0000", "0", "0", "40"]


def test_eval_reads_its_standard_input_as_a_file(workspace, judged):
    command = [sys.executable, "-m", "r2med_pyserini", "eval", "/dev/stdin", "--qrels", judged[1], "--measure", "MAP"]
    done = subprocess.run(command, input=zipped(judged[0], True), capture_output=True, check=False)
    scores = evaluate(read_qrels(judged[1]), read_run(judged[0]), ("MAP",)).mean
    assert done.stdout.decode().startswith(f"MAP\tall\t{scores['MAP']:.4f}\n")


def test_a_pipe_whose_first_byte_comes_alone_is_read_as_a_file():
    reading, writing = os.pipe()
    data = gzip.compress(b"q1 Q0 d1 1 1.5 t\n")

    def waiting() -> int:
        return struct.unpack("i", fcntl.ioctl(reading, termios.FIONREAD, bytes(4)))[0]

    def feed() -> None:
        os.write(writing, data[:1])
        while waiting():
            time.sleep(0.001)
        os.write(writing, data[1:])
        os.close(writing)

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        assert read_run(Path(f"/dev/fd/{reading}")) == {"q1": {"d1": 1.5}}
    finally:
        feeder.join()
        os.close(reading)


# Texts and messages that are too long


@pytest.mark.parametrize("name", ["corpus.jsonl", "query.jsonl"])
@pytest.mark.parametrize(
    "text",
    [
        "x" * 101,
        "é" * 101,
        pytest.param("😀" * 51),
    ],
    ids=lambda text: ascii(text[:1]),
)
def test_a_text_longer_than_anserini_reads_is_named(convert, monkeypatch, name, text):
    monkeypatch.setattr(collection, "MAX_TEXT", 100)
    with pytest.raises(BadInput, match=rf"{name}:2: 'text' has 1\d\d characters; Anserini reads at most 100$"):
        convert(name, {"id": "x", "text": text})


def test_a_text_as_long_as_anserini_reads_is_taken(convert, monkeypatch):
    monkeypatch.setattr(collection, "MAX_TEXT", 100)
    assert convert("corpus.jsonl", {"id": "x", "text": "é" * 100})["documents"] == 2


def test_the_limit_of_texts_is_that_of_jackson():
    assert collection.MAX_TEXT == 20_000_000


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("corpus.jsonl", {"id": "x", "text": BIG}),
        ("corpus.jsonl", {"id": BIG, "text": "x"}),
        ("corpus.jsonl", {"id": {LONG: BIG}, "text": "x"}),
        ("corpus.jsonl", {"id": LONG * 2, "text": "x"}),
        ("corpus.jsonl", f"[{', '.join(['7'] * 5_000)}]"),
        ("corpus.jsonl", LONG),
        ("corpus.jsonl", '{"id": "x", "text": "' + LONG),
        pytest.param("corpus.jsonl", {f"key{number}": 1 for number in range(5_000)}),
        pytest.param("corpus.jsonl", {LONG: 1}),
        ("query.jsonl", {"id": "x", "text": BIG}),
        ("query.jsonl", {"id": "x", "text": 10**4000}),
        ("qrels.jsonl", {"q_id": BIG, "p_id": "d1", "score": 1}),
        ("qrels.jsonl", {"q_id": "q1", "p_id": BIG, "score": 1}),
        ("qrels.jsonl", {"q_id": "q1", "p_id": "d1", "score": BIG}),
        ("qrels.jsonl", {"q_id": "q1", "p_id": "d1", "score": 10**4000}),
        ("qrels.jsonl", {"q_id": "q1", "p_id": "d1", "score": "1" * 5_000}),
        pytest.param("qrels.jsonl", {f"key{number}": 1 for number in range(5_000)}),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 20 else "",
)
def test_a_fault_of_a_huge_row_is_told_shortly(convert, name, row):
    with pytest.raises(BadInput) as caught:
        convert(name, row)
    assert f"{name}:2:" in str(caught.value) and len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("corpus.jsonl", [{"id": LONG, "text": "x"}, {"id": LONG, "text": "y"}]),
        ("qrels.jsonl", [{"q_id": LONG, "p_id": "d1", "score": score} for score in (1, 2)]),
    ],
)
def test_two_rows_of_a_huge_id_that_contradict_each_other_are_told_shortly(convert, name, rows):
    with pytest.raises(BadInput) as caught:
        convert(name, *rows)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("row", [{"id": "x", "text": "y", LONG: 1}, {"id": LONG, "text": ""}], ids=["key", "id"])
def test_a_note_on_a_huge_name_is_short(convert, row):
    (note,) = collection.warnings(convert("corpus.jsonl", row))
    assert len(note) < 1000


@pytest.mark.parametrize(
    "row",
    [
        "q1 Q0 d1 1 {} t",
        "q1 Q0 {0} 1 1 t\nq1 Q0 {0} 2 1 t",
        "{0} Q0 d1 1 1 t\n{0} Q0 d1 2 1 t",
    ],
    ids=["score", "document", "query"],
)
def test_a_fault_of_a_run_with_a_huge_column_is_told_shortly(write, row):
    with pytest.raises(BadInput) as caught:
        read_run(write("run.txt", row.format(LONG) + "\n"))
    assert len(str(caught.value)) < 1000


# Validating odd runs


def faults(path: Path) -> list[validation.Fault]:
    return validation.faults(path, {"q1"}, {"d1"}, 1000)


@pytest.mark.parametrize("rank", ["1" * 5_000, "0" * 5_000 + "1", "9" * 4_000, "-" + "1" * 5_000, "१", "1_0", "1e0"])
def test_a_rank_that_is_no_rank_is_a_fault(write, rank):
    (fault, *_) = faults(write("run.txt", f"q1 Q0 d1 {rank} 1.0 t\n"))
    assert (fault.kind, fault.line) == ("rank", 1)


@pytest.mark.parametrize("score", ["1" * 5_000, "1e999", "0x1p3", "1_0", "१", "1e", "--1"])
def test_a_score_that_is_no_number_is_a_fault(write, score):
    (fault, *_) = faults(write("run.txt", f"q1 Q0 d1 1 {score} t\n"))
    assert (fault.kind, fault.line) == ("score", 1)


def test_a_number_of_thousands_of_digits_is_a_score_if_it_is_finite(write):
    assert faults(write("run.txt", f"q1 Q0 d1 1 0.{'3' * 5_000} t\n")) == []


def test_validate_of_a_run_with_huge_numbers_is_no_crash(r2med, write):
    run = write("run.txt", f"q1 Q0 d1 {'1' * 5_000} {'2' * 5_000} t\n")
    done = r2med("validate", run, *ON_BIOLOGY)
    assert done.status == 1 and "Traceback" not in done.err
    assert f"{run}:1: rank " in done.out and f"{run}:1: score " in done.out


@pytest.mark.parametrize(
    "row",
    ["q1 Q0 d1 {} 1 t", "q1 Q0 d1 1 {} t", "q1 Q0 {} 1 1 t", "{} Q0 d1 1 1 t"],
    ids=["rank", "score", "doc", "query"],
)
def test_a_fault_of_a_huge_column_is_told_shortly_by_validate(write, row):
    assert max(len(fault.text) for fault in faults(write("run.txt", row.format(LONG) + "\n"))) < 1000


# Condition files that the YAML loader cannot build


def parsed(text: str) -> Condition:
    return conditions.parse(text, Path("own.yaml"))


@pytest.mark.parametrize(
    "value",
    [
        "2020-13-45", "2020-01-01T00:00:00+99:99", "2020-02-30 25:00:00", "!!int abc", "!!float abc", "!!bool abc",
        "!!timestamp abc", "!!binary é", "!!map abc", "!!map [a]", "!!set [a]", "!!omap [a]", "!!seq abc", "!!str [a]",
        "!!python/object/apply:os.getcwd []", "!unknown x", "=", "*nothing", '"\\ud800"', '"\\xzz"', "&a [*a]",
        "1" * 5_000, "[" * 2_000 + "]" * 2_000, "{a: " * 2_000 + "}" * 2_000, "[" * 900 + "]" * 900,
        "- " * 5_000 + "a", "? " * 5_000 + "a",
        pytest.param("!!float ''"),
        pytest.param("!!int ''"),
        pytest.param("1:" * 200 + "1.0"),
        pytest.param("0x" + "f" * 5_000),
        pytest.param("0b" + "1" * 20_000),
        pytest.param("1:" * 3_000 + "1"),
    ],
    ids=lambda value: value[:24],
)  # fmt: skip
@pytest.mark.parametrize("key", ["title", "k1"])
def test_a_value_that_yaml_cannot_build_is_bad_input(value, key):
    text = OWN.replace("title: own", f"title: {value}") if key == "title" else OWN.replace("bm25", f"bm25, k1: {value}")
    with pytest.raises(BadInput, match=r"^own\.yaml:"):
        parsed(text)


@pytest.mark.parametrize(
    "text",
    ["", "~", "[]", "{}", "a", "\0", "title: \0", "%YAML 9.9\n---\na: b", "--- a\n--- b", "<<: [1]\n", "? [a]\n: 1\n",
     "? !!set {a}\n: 1\n", "!!binary abc\n", OWN + "---\n" + OWN, OWN + "2020-01-01: 1\n", OWN + "<<: *nothing\n"],
    ids=ascii,
)  # fmt: skip
def test_a_file_that_is_no_condition_is_bad_input(text):
    with pytest.raises(BadInput, match=r"^own\.yaml"):
        parsed(text)


@pytest.mark.parametrize("text", ["2020-13-45", "[" * 200_000], ids=lambda text: text[:10])
def test_a_file_that_yaml_cannot_build_is_one_message(r2med, write, text):
    """In a process of its own: deep nesting may crash it."""
    says(r2med("run", write("own.yaml", f"title: {text}\n"), *ON_BIOLOGY), 1, "own.yaml", "not valid YAML")


@pytest.mark.parametrize(("key", "number"), [("k1", "1e-3"), ("k1", "1E3"), ("b", "1e-1"), ("b", "+2e-2")])
def test_a_number_that_yaml_takes_for_text_gets_a_hint(key, number):
    with pytest.raises(BadInput, match=rf"{key} is '.*'; a number, .* is wanted \(.*text: write 1\.0e-3\)"):
        parsed(OWN.replace("bm25", f"bm25, {key}: {number}"))


@pytest.mark.parametrize("word", ["abc", "1e", "'1,5'", "1_0e2"])
def test_what_is_no_number_gets_no_such_hint(word):
    with pytest.raises(BadInput) as caught:
        parsed(OWN.replace("bm25", f"bm25, k1: {word}"))
    assert "1.0e-3" not in str(caught.value)


def test_the_number_of_the_hint_is_taken():
    assert parsed(OWN.replace("bm25", "bm25, k1: 1.0e-3")).search.k1 == 0.001


FLOW = f"[{', '.join(BIG)}]"


@pytest.mark.parametrize(
    "text",
    [
        OWN.replace("bm25", f"bm25, k1: {FLOW}"),
        OWN.replace("bm25", f"bm25, hits: {'1' * 4_000}"),
        OWN.replace("bm25", f"bm25, b: {LONG}"),
        f"title: !!int {LONG}\n",
        *(
            pytest.param(text)
            for text in (
                OWN.replace("own", FLOW),
                OWN.replace("bm25", LONG),
                OWN.replace("{kind: lucene}", FLOW),
                OWN.replace("lucene", f"lucene, exact_lengths: {FLOW}"),
                OWN.replace("lucene", FLOW),
                OWN.replace("bm25", f"bm25, feedback: {FLOW}"),
                f"{FLOW}\n",
                f"{OWN}? {LONG}\n: 1\n",
                f"{OWN}published: {{source: r2med, retriever: {LONG}}}\n",
                f"{OWN}recorded: {{mini: {FLOW}}}\n",
                f"{OWN}recorded: {{mini: {{with: {{}}, data: {{}}, scores: {{biology: {{MRR: {FLOW}}}}}}}}}\n",
            )
        ),
    ],
    ids=lambda text: text.replace(FLOW, "FLOW").replace(LONG, "LONG").replace("\n", " ")[-60:],
)
def test_a_fault_of_a_huge_value_in_a_condition_file_is_told_shortly(text):
    with pytest.raises(BadInput) as caught:
        parsed(text)
    assert len(str(caught.value)) < 1000


# Recording into odd files


RECORDED = {"on": Recorded({"anserini": "2.2"}, {"yes": "0a1b"}, {"yes": {"MRR": 0.5}})}


def record(path: Path) -> Condition:
    """Put figures into a condition file, and read it again."""
    condition = conditions.load(str(path))
    recording.write(replace(condition, recorded=condition.recorded | RECORDED))
    return conditions.load(str(path))


@pytest.mark.parametrize(
    "text",
    [
        f'"recorded": {{}}\n{OWN}',
        f'{OWN}"recorded": {{}}\n',
        f"{OWN}'recorded': {{}}\n",
        f"{OWN}recorded : {{}}\n",
        f"{OWN}? recorded\n: {{}}\n",
        f"{OWN}!!str recorded: {{}}\n",
        f"recorded: {{}}\n{OWN}",
        f"{OWN}recorded: {{}}\npublished: {{source: r2med, retriever: bm25}}\n",
        f'{OWN}recorded: {{}}\n"published": {{source: r2med, retriever: bm25}}\n',
        f"{OWN}recorded: {{}}\n? published\n: {{source: r2med, retriever: bm25}}\n",
        f"{OWN}...\n",
        f"{OWN}...\n# the end\n",
        "{title: own, index: {kind: lucene}, search: {model: bm25}}\n",
        "{title: own, index: {kind: lucene},\nsearch: {model: bm25},\nrecorded: {}}\n",
        '{"title": "own", "index": {"kind": "lucene"}, "search": {"model": "bm25"}}\n',
        "  " + OWN.rstrip().replace("\n", "\n  ") + "\n",
        OWN.replace("title: own\n", "") + "title: |\n  own",
        OWN.replace("title: own", 'title: "own\nrecorded: x"'),
    ],
    ids=lambda text: ascii(text.replace(OWN, "OWN "))[1:60],
)
def test_a_file_that_figures_cannot_be_put_into_stays_as_it_is(write, text):
    path = write("own.yaml", text)
    with pytest.raises(
        BadInput, match=r"own\.yaml: (cannot be added to; put this at its end|`recorded:` must be the last)"
    ):
        record(path)
    assert path.read_bytes() == text.encode()
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    "text",
    [
        OWN, OWN.rstrip(), f"---\n{OWN}", f"%YAML 1.1\n---\n{OWN}", f"\ufeff{OWN}", f"# recorded: no\n{OWN}",
        f"{OWN}\n\n", OWN.replace("title: own\n", "") + "title: |+\n  own\n  recorded: x\n\n\n",
        f"{OWN}# ü recorded:\n",
        OWN.replace("own", "'recorded: x'"),
        pytest.param(OWN.replace("\n", "\r\n")),
    ],
    ids=ascii,
)  # fmt: skip
def test_what_stands_before_the_figures_stays_as_it_is(write, text):
    path = write("own.yaml", text)
    assert record(path).recorded == RECORDED
    assert path.read_bytes().startswith(text.encode())


@pytest.mark.parametrize("block", ["recorded: {}  # by hand\n", "recorded: {}\n# a note of mine\n"])
def test_a_comment_at_the_end_is_not_lost(write, block):
    path = write("own.yaml", OWN + block)
    with pytest.raises(BadInput, match="comment"):
        record(path)
    assert path.read_text() == OWN + block


@pytest.mark.parametrize("mode", [0o644, 0o600, 0o664, 0o444])
def test_a_linked_file_stays_a_link_and_keeps_its_mode(write, tmp_path, mode):
    real, link = write("conditions/real.yaml", OWN), tmp_path / "own.yaml"
    real.chmod(mode)
    link.symlink_to("conditions/real.yaml")
    assert record(link).recorded == RECORDED
    assert link.is_symlink() and str(link.readlink()) == "conditions/real.yaml"
    assert real.stat().st_mode & 0o777 == mode and "recorded:" in real.read_text()
    assert [path.name for path in real.parent.iterdir()] == ["real.yaml"]


@pytest.mark.parametrize(
    "name", ["on", "off", "yes", "No", "y", "null", "NULL", "true", "123", "007", "0x1f", "0b1", "1e3", "1_000",
             "2020-01-01", "190-20-30", "A", "-".join("abc")]
)  # fmt: skip
def test_suites_and_datasets_that_yaml_takes_for_something_else_are_read_back(write, name):
    path = write("own.yaml", OWN)
    recorded = {name: Recorded({"anserini": "2.2"}, {name: "0123"}, {name: {"MRR": 0.5}})}
    recording.write(replace(conditions.load(str(path)), recorded=recorded))
    assert conditions.load(str(path)).recorded == recorded


# Importing odd files


@pytest.fixture
def beir(tmp_path):
    """A folder in BEIR's layout, with more rows in a file."""

    def beir(corpus: tuple = (), queries: tuple = (), qrels: str = "q1\td1\t1\n") -> Path:
        folder = tmp_path / "beir"
        (folder / "qrels").mkdir(parents=True)
        write_rows(folder / "corpus.jsonl", [{"_id": "d1", "text": "x"}, *corpus])
        write_rows(folder / "queries.jsonl", [{"_id": "q1", "text": "x"}, *queries])
        (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{qrels}")
        return folder

    return beir


@pytest.mark.parametrize(
    "row",
    [
        *({"_id": value, "text": "x"} for value in (["d2"], {"a": 1}, None, True, 1.5)),
        *({"_id": value, "text": "x"} for value in ("d 2", " d2", "d\u00002", "", LONG * 2)),
        *({"_id": "d2", "text": value} for value in (["x"], {"a": 1}, 5, True, BIG)),
        *({"_id": "d2", "title": value, "text": "x"} for value in (["x"], {"a": 1}, 5, BIG)),
        {"_id": "d2"},
        {"text": "x"},
        "[]",
    ],
    ids=lambda row: ascii(row)[:40],
)  # fmt: skip
@pytest.mark.parametrize("name", ["corpus", "queries"])
def test_import_names_the_line_of_an_odd_row_and_leaves_no_folder(beir, tmp_path, name, row):
    with pytest.raises(BadInput) as caught:
        import_dataset(str(beir(**{name: (row,)})), tmp_path / "new")
    (fault,) = caught.value.faults
    assert fault.startswith(f"{tmp_path}/beir/{name}.jsonl:2: ") and len(fault) < 1000
    assert [path.name for path in tmp_path.iterdir()] == ["beir"]


def test_import_names_every_odd_row(beir, tmp_path):
    odd = ({"_id": ["d2"], "text": "x"}, {"_id": "d3", "text": ["x"]}, {"_id": "d 4", "text": "x"})
    with pytest.raises(BadInput) as caught:
        import_dataset(str(beir(odd)), tmp_path / "new")
    assert [fault.split("corpus.jsonl:")[1].split(":")[0] for fault in caught.value.faults] == ["2", "3", "4"]


def test_import_takes_ids_that_are_whole_numbers(beir, tmp_path):
    folder = beir(({"_id": 7, "text": "y"},), ({"_id": 8, "text": "z"},), "8\t7\t1\n")
    assert import_dataset(str(folder), tmp_path / "new") == {"corpus.jsonl": 2, "query.jsonl": 1, "qrels.jsonl": 1}
    lines = [json.loads(line) for name in ROWS for line in (tmp_path / "new" / name).read_text().splitlines()]
    assert lines[1:] == [{"id": "7", "text": "y"}, {"id": "8", "text": "z"}, {"q_id": "8", "p_id": "7", "score": 1}]


def test_import_of_queries_without_judgements_is_an_error(beir, tmp_path):
    with pytest.raises(BadInput, match="none of its queries has a judgement"):
        import_dataset(str(beir(qrels="q9\td1\t1\n")), tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["beir"]


@pytest.mark.parametrize("name", ["it's mine", "a;b $HOME"])
def test_the_command_that_import_shows_can_be_pasted(beir, tmp_path, r2med, name):
    done = r2med("import", beir(), tmp_path / name)
    hint = done.out.splitlines()[-1].removeprefix("Try it: ")
    assert shlex.split(hint) == ["r2med", "run", "bm25", "--suite", str(tmp_path / name)]


# Streams that are closed


def with_streams(closed: str, *words: str) -> Result:
    command = shlex.join([sys.executable, "-m", "r2med_pyserini", *words])
    done = subprocess.run(["sh", "-c", f"{command} {closed}"], capture_output=True, text=True, check=False)
    return Result(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- 2>&-", "<&- >&- 2>&-"])
def test_the_work_is_done_though_streams_are_closed(workspace, closed):
    done = with_streams(closed, "data", *ON_BIOLOGY)
    assert done.status == 0 and "Traceback" not in done.err + done.out
    files = workspace.collection("mini", "biology")
    assert files.docs.read_bytes().count(b"\n") > 10 and files.topics.read_text().startswith("{\n")
    assert ("convert" in done.err, "collections" in done.out) == ("2>&-" not in closed, " >&-" not in f" {closed}")


@pytest.mark.parametrize(("words", "status"), [("run bm52 --suite mini", 2), ("report --suite mini", 1)])
def test_a_failure_without_streams_has_its_exit_status(workspace, words, status):
    assert with_streams("<&- >&- 2>&-", *words.split()) == Result(status, "", "")


def test_a_prompt_without_streams_does_nothing(workspace, hashes):
    run = Artifact(workspace.run("mini", "biology", "bm25"), folder=False)
    run.make({"v": 1}, built("x"), hashes)
    assert with_streams("<&- >&- 2>&-", "clean").status == 1
    assert run.path.exists()


# Paths that are not UTF-8


def in_bytes(*words: str | bytes, **env: bytes | str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "r2med_pyserini", *words]
    environment = {**os.environb, **{os.fsencode(name): os.fsencode(value) for name, value in env.items()}}
    return subprocess.run(command, capture_output=True, env=environment, check=False)


@pytest.mark.parametrize("words", ["run bm25 --suite mini", "clean --yes", "doctor"])
def test_a_workspace_whose_name_is_not_utf8_is_one_clear_line(tmp_path, words):
    home = os.fsencode(tmp_path) + b"/" + NOT_UTF8
    done = in_bytes(*words.split(), R2MED_HOME=home)
    line = f"Error: the folder {home!r} has a name that is not UTF-8: rename it, or set R2MED_HOME\n"
    assert (done.returncode, done.stdout, done.stderr.decode()) == (1, b"", line)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def odd_suite(tmp_path, make_dataset) -> bytes:
    """A suite in a folder whose name is not UTF-8."""
    folder = os.fsencode(tmp_path) + b"/" + NOT_UTF8
    try:
        Path(os.fsdecode(folder)).mkdir()
    except OSError:
        pytest.skip("this file system wants UTF-8")
    shutil.copytree(make_dataset(), os.fsdecode(folder + b"/tiny"))
    return folder + b"/tiny"


@pytest.mark.parametrize(
    "words",
    [
        "data",
        *(pytest.param(words) for words in ("list", "run bm25 --display-commands")),
    ],
)
def test_a_suite_whose_path_is_not_utf8_is_no_crash(workspace, odd_suite, words):
    done = in_bytes(*words.split(), "--suite", odd_suite, PYTHONIOENCODING="utf-8:strict")
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)


# Manifests and hashes that are garbage


GARBAGE = ["[" * 200_000, '{"a":' * 200_000, "1" * 5_000, '{"recipe": {"v": 1}, "files": ' + "[" * 200_000, "\0", "NaN"]


@pytest.mark.parametrize("is_folder", [True, False])
@pytest.mark.parametrize(
    "text",
    [
        *GARBAGE, '{"recipe": {"v": 1}, "files": {}}', '{"recipe": {"v": 1}, "files": null}', '{"recipe": {"v": 1}}',
        '{"recipe": {"v": ' + "[" * 900 + "]" * 900 + '}, "files": {"a": "x"}}',
        '{"recipe": {"v": 1}, "files": {"a": 1}}', '{"recipe": {"v": 1}, "files": {"../a": "x"}}',
    ],
    ids=lambda text: ascii(text[:50]),
)  # fmt: skip
def test_an_artifact_with_an_odd_manifest_is_not_current_and_is_mended(tmp_path, hashes, text, is_folder):
    artifact = Artifact(tmp_path / "out" / "a", is_folder)
    artifact.make({"v": 1}, built("ours"), hashes)
    manifest = artifact.path / "manifest.json" if is_folder else artifact.path.parent / ".manifests" / "a.json"
    manifest.write_text(text)
    assert not artifact.is_current({"v": 1}, hashes)
    assert artifact.make({"v": 1}, built("ours"), hashes) is True
    assert artifact.is_current({"v": 1}, hashes)


def test_an_emptied_artifact_is_not_current_though_its_manifest_names_nothing(tmp_path, hashes):
    artifact = Artifact(tmp_path / "out", folder=True)
    artifact.make({"v": 1}, built("ours"), hashes)
    (artifact.path / "a").unlink()
    (artifact.path / "manifest.json").write_text('{"recipe": {"v": 1}, "files": {}}')
    assert not artifact.is_current({"v": 1}, hashes)
    assert artifact.make({"v": 1}, built("ours"), hashes) is True
    assert (artifact.path / "a").read_text() == "ours"


@pytest.mark.parametrize("text", ['{"recipe": {}, "files": {}}', "[" * 200_000], ids=["no files", "deep"])
def test_a_collection_with_an_odd_manifest_is_converted_anew(workspace, r2med, make_dataset, text):
    folder = make_dataset()
    r2med("data", "--suite", folder)
    manifest = workspace.collection("tiny", "tiny").root / "manifest.json"
    before, recorded = everything(workspace.collections), json.loads(manifest.read_text())
    manifest.write_text(text)
    done = r2med("data", "--suite", folder)
    assert (done.status, "convert  tiny/tiny" in done.err) == (0, True)
    again = json.loads(manifest.read_text())
    assert again | {"seconds": 0} == recorded | {"seconds": 0}
    manifest.write_bytes(before["tiny/tiny/manifest.json"])
    assert everything(workspace.collections) == before


@pytest.mark.parametrize("text", [*GARBAGE, "[]", '{"FILE": []}', '{"FILE": [1]}', '{"FILE": {}}', '{"FILE": null}'])
def test_garbage_for_hashes_is_ignored(write, text):
    path = write("f", "abc")
    memory = write("hashes.json", text.replace("FILE", str(path)))
    hashes = Hashes(memory)
    assert hashes.of(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    hashes.save()


def test_a_command_ignores_garbage_for_hashes(workspace, r2med, make_dataset):
    folder = make_dataset()
    workspace.hashes.parent.mkdir()
    workspace.hashes.write_text("[" * 200_000)
    done = r2med("data", "--suite", folder)
    assert (done.status, "Error" in done.err) == (0, False)
    assert "convert" not in r2med("data", "--suite", folder).err


# Commands that Pyserini cannot be given


@pytest.fixture
def commands(workspace, write):
    """The plain commands that stand for a condition of the user's."""

    def commands(model: str) -> str:
        condition = conditions.load(str(write("own.yaml", OWN.replace("bm25", model))))
        plan = prepare("mini", ("biology",), conditions=[condition])
        return "\n".join(for_cell(condition, plan.suite, plan.cells[0].dataset, workspace, PLAIN))

    return commands


@pytest.mark.parametrize("setting", ["k1: 0", "b: 0", "k1: 0.0", "k1: 0, b: 0"])
def test_query_side_bm25_with_a_zero_is_not_a_command_of_pyserinis(commands, setting):
    shown = commands(f"bm25qs, {setting}")
    assert shown.startswith("# Pyserini's command line takes a k1 or b of 0 for none given; use: r2med run ")
    assert "\n" not in shown


def test_what_is_said_instead_names_the_file_of_the_condition(workspace, r2med, write):
    own = write("my conditions/own.yaml", OWN.replace("bm25", "bm25qs, k1: 0"))
    shown = r2med("run", own, *ON_BIOLOGY, "--display-commands").out
    (line,) = re.findall("^# Pyserini.*$", shown, re.MULTILINE)
    assert shlex.split(line.partition("; use: ")[2]) == ["r2med", "run", str(own), *ON_BIOLOGY]
    assert "search.lucene" not in shown


@pytest.mark.parametrize("model", ["bm25qs", "bm25qs, k1: 0.1, b: 1", "bm25, k1: 0, b: 0"])
def test_other_settings_are_commands_of_pyserinis(commands, model):
    shown = commands(model)
    assert "pyserini.search.lucene" in shown and "#" not in shown
    assert ("--k1 0.0 --b 0.0" in shown) is ("k1: 0," in model)


def test_a_hint_for_a_condition_of_the_package_names_it_and_not_a_file(workspace, r2med):
    shown = r2med("run", "bm25-official", *ON_BIOLOGY, "--display-commands").out
    assert "use: r2med run bm25-official --suite mini --dataset biology\n" in shown
