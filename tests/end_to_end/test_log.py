"""Reproduction logs of real runs, from a real checkout that holds a copy of the package; `show` and `regressions`."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pytest

from r2med_pyserini.artifacts import sha256
from r2med_pyserini.paths import PACKAGE, Workspace
from r2med_pyserini.reproductions import log_of, read
from r2med_pyserini.suites import slugs

from .helpers import Result, environment, r2med_in, run_files, succeed

PAGE = "https://github.com/owner/name"
WHO = {f"GIT_{role}_{what}": "a@b" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
MINI = ("--suite", "mini")
RECORDED = "biology: {nDCG@10: 0.2671,"  # of bm25, on the sample


@dataclass(frozen=True)
class Clone:
    """A checkout of the package, and the workspace whose runs it logs."""

    root: Path
    workspace: Workspace

    @property
    def log(self) -> Path:
        return log_of("mini", self.root / "docs")

    @property
    def records(self) -> list[Path]:
        return sorted((self.root / "docs").glob("logs/*/*"))

    @property
    def commit(self) -> str:
        return self.git("rev-parse", "HEAD").strip()

    def git(self, *words: str) -> str:
        command = ["git", "-C", str(self.root), *words]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **WHO})
        return done.stdout

    def r2med(self, *words: str | Path) -> Result:
        """`r2med WORDS...` of the code in the checkout."""
        command = [sys.executable, "-m", PACKAGE.name, *map(str, words)]
        env = environment(self.workspace)
        done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=self.root, check=False)
        assert "Traceback" not in done.stderr
        return Result(done.returncode, done.stdout, done.stderr)

    def edit(self, name: str, old: str, new: str) -> None:
        """Change a file of the package, and commit that."""
        path = self.root / PACKAGE.name / name
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1
        path.write_text(text.replace(old, new), encoding="utf-8")
        self.git("commit", "--quiet", "--all", "--message", "two")


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Workspace:
    """Runs of two conditions on the whole sample."""
    workspace = Workspace(tmp_path_factory.mktemp("finished"))
    succeed(workspace, "run", "bm25", "qld", *MINI, "--threads", "2")
    return workspace


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    """A checkout to be copied."""
    root = tmp_path_factory.mktemp("template") / "clone"
    shutil.copytree(PACKAGE, root / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    (root / ".gitignore").write_text("__pycache__/\n")
    clone = Clone(root, Workspace(root))
    clone.git("init", "--quiet")
    clone.git("remote", "add", "origin", "git@github.com:owner/name.git")
    clone.git("add", ".")
    clone.git("commit", "--quiet", "--message", "one")
    return root


@pytest.fixture
def clone(template, finished, tmp_path) -> Clone:
    """A checkout of its own, and a workspace of its own with the finished runs."""
    shutil.copytree(template, tmp_path / "clone", symlinks=True)
    shutil.copytree(finished.root, tmp_path / "work", symlinks=True)
    return Clone(tmp_path / "clone", Workspace(tmp_path / "work"))


def refused(done: Result, *words: str) -> None:
    assert done.status == 1 and done.out == "", done
    for word in words:
        assert word in done.err


class TestLog:
    def test_what_is_verified_is_logged_once(self, clone):
        done = clone.r2med("log", "@Some-One", *MINI)
        assert (done.status, done.err) == (0, "")
        today = date.today().isoformat()
        (record,) = clone.records
        assert record.name == f"{today}-Some-One-{clone.commit[:7]}.json"
        for name in ("bm25", "qld"):
            (entry,) = read(clone.log)[name]
            assert (entry.handle, entry.date, entry.commit) == ("Some-One", today, clone.commit[:7])
            assert (entry.commit_page, entry.okish) == (f"{PAGE}/commit/{clone.commit}", False)
            assert clone.log.parent / entry.record == record
        before = {path: path.read_bytes() for path in (clone.log, record)}
        for words in (("some-one",), ("Some-One", "bm25")):
            done = clone.r2med("log", *words, *MINI)
            assert done.status == 0 and "bm25: logged already, on" in done.out and "nothing to add" in done.out
        assert {path: path.read_bytes() for path in (clone.log, *clone.records)} == before

    def test_the_record_says_what_the_runs_are(self, clone):
        assert clone.r2med("log", "a", "bm25", *MINI).status == 0
        record = json.loads(clone.records[0].read_text(encoding="utf-8"))
        assert (record["handle"], record["commit"], record["repository"]) == ("a", clone.commit, PAGE)
        assert {"Python", "Java", "anserini", "r2med-pyserini", "pytrec-eval-terrier"} <= record["versions"].keys()
        assert record["machine"] and record["models"] == {}
        assert list(record["conditions"]) == ["bm25"] and record["data"].keys() == set(slugs())
        for slug, cell in record["conditions"]["bm25"]["datasets"].items():
            scores = json.loads(clone.workspace.scores("mini", slug, "bm25").read_text())
            assert cell["run"] == sha256(clone.workspace.run("mini", slug, "bm25"))
            assert (cell["verdict"], cell["scores"], cell["judged"]) == ("OK", scores["mean"], scores["judged"])
            assert record["data"][slug]["qrels"] == sha256(clone.workspace.collection("mini", slug).qrels)
        text = clone.records[0].read_text(encoding="utf-8")
        assert str(clone.root) not in text and str(clone.workspace.root) not in text

    def test_one_condition_after_another_and_another_user(self, clone):
        clone.r2med("log", "a", "qld", *MINI)
        clone.r2med("log", "a", "bm25", *MINI)
        clone.r2med("log", "b", "bm25", *MINI)
        found = {name: [entry.handle for entry in entries] for name, entries in read(clone.log).items()}
        assert found == {"bm25": ["a", "b"], "qld": ["a"]} and list(found) == ["bm25", "qld"]
        of_a, of_b = (json.loads(path.read_text(encoding="utf-8"))["conditions"] for path in clone.records)
        assert set(of_a) == {"bm25", "qld"} and set(of_b) == {"bm25"}

    def test_another_folder(self, clone, tmp_path):
        docs = tmp_path / "own docs"
        docs.mkdir()
        assert clone.r2med("log", "a", "bm25", *MINI, "--docs", docs).status == 0
        assert list(read(log_of("mini", docs))) == ["bm25"] and not clone.log.exists()

    def test_the_suites_do_not_mix(self, clone):
        refused(clone.r2med("log", "a"), "there is no run of suite r2med here")
        refused(clone.r2med("log", "a", "bm25"), "bm25: no run on all datasets")


class TestRefused:
    """Nothing is logged, and the reason is told."""

    @pytest.fixture(autouse=True)
    def unlogged(self, clone):
        yield
        assert not clone.log.exists() and clone.records == []

    def test_a_tree_that_is_not_clean(self, clone):
        with (clone.root / PACKAGE.name / "trec.py").open("a") as file:
            file.write("# other\n")
        (clone.root / "notes.txt").write_text("")
        (clone.root / "docs").mkdir()
        (clone.root / "docs" / "page.md").write_text("")
        done = clone.r2med("log", "a", *MINI)
        refused(done, f"is not just commit {clone.commit[:7]}: notes.txt, {PACKAGE.name}/trec.py differ")

    def test_no_checkout(self, clone):
        shutil.rmtree(clone.root / ".git")
        refused(clone.r2med("log", "a", *MINI), "git checkout of r2med-pyserini")

    def test_no_handle(self, clone):
        done = clone.r2med("log", "a--b", *MINI)
        assert done.status == 2 and "'a--b' is no GitHub handle" in done.err

    def test_a_run_that_was_edited(self, clone):
        run = clone.workspace.run("mini", "biology", "bm25")
        run.write_text(run.read_text(encoding="utf-8").replace(" 1 ", " 1  ", 1), encoding="utf-8")
        done = clone.r2med("log", "a", "bm25", "qld", *MINI)
        refused(done, "bm25: a run that does not match its manifest (was it edited?) on biology;", "`r2med run bm25")
        assert "qld" not in done.err

    def test_a_run_of_which_the_manifest_was_edited_too(self, clone):
        run = clone.workspace.run("mini", "biology", "bm25")
        old = sha256(run)
        lines = run.read_text(encoding="utf-8").splitlines(keepends=True)
        run.write_text("".join(lines[1:]), encoding="utf-8")
        manifest = run.parent / ".manifests" / f"{run.name}.json"
        manifest.write_text(manifest.read_text(encoding="utf-8").replace(old, sha256(run)), encoding="utf-8")
        refused(clone.r2med("log", "a", "bm25", *MINI), "bm25: no current scores of the run on biology")

    def test_scores_that_were_edited_with_all_that_guards_them(self, clone):
        scores = clone.workspace.scores("mini", "biology", "bm25")
        old = sha256(scores)
        scores.write_text(scores.read_text(encoding="utf-8").replace("0.2670977", "0.2970977"), encoding="utf-8")
        manifest = scores.parent / ".manifests" / f"{scores.name}.json"
        manifest.write_text(manifest.read_text(encoding="utf-8").replace(old, sha256(scores)), encoding="utf-8")
        refused(
            clone.r2med("log", "a", "bm25", *MINI), "the scores kept of its run on biology are not those of the run"
        )

    def test_a_dataset_that_was_not_run(self, clone):
        clone.workspace.run("mini", "biology", "bm25").unlink()
        refused(clone.r2med("log", "a", "bm25", *MINI), "bm25: no run on biology; `r2med run bm25 --suite mini`")

    def test_a_run_that_is_out_of_date(self, clone):
        clone.edit("conditions/bm25.yaml", "k1: 0.9", "k1: 0.8")
        refused(clone.r2med("log", "a", "bm25", *MINI), "bm25: no current run", "on all datasets")

    def test_scores_that_fail(self, clone):
        clone.edit("conditions/bm25.yaml", RECORDED, RECORDED.replace("0.2671", "0.2771"))
        said = "bm25: verdict FAIL: nDCG@10 on biology is 0.2671, recorded 0.2771"
        refused(clone.r2med("log", "a", "bm25", *MINI, "--okish"), said)

    def test_scores_with_nothing_to_compare(self, clone):
        digest = re.search(
            r"data: \{biology: (\w+)", (PACKAGE / "conditions" / "bm25.yaml").read_text(encoding="utf-8")
        )
        clone.edit("conditions/bm25.yaml", digest[0], digest[0].replace(digest[1], "0" * 12))
        refused(clone.r2med("log", "a", "bm25", *MINI), "bm25: verdict NEW: no figures", "on biology")


def test_scores_that_are_nearly_ok(clone):
    clone.edit("conditions/bm25.yaml", RECORDED, RECORDED.replace("0.2671", "0.2673"))
    refused(clone.r2med("log", "a", "bm25", *MINI), "bm25: verdict OKish: nDCG@10 on biology", "--okish logs it")
    done = clone.r2med("log", "a", *MINI)
    assert done.status == 0 and "Warning: not logged: bm25: verdict OKish" in done.err
    assert list(read(clone.log)) == ["qld"]
    assert clone.r2med("log", "a", *MINI, "--okish").status == 0
    found = {name: [entry.okish for entry in entries] for name, entries in read(clone.log).items()}
    assert found == {"bm25": [True], "qld": [False]}
    (record,) = clone.records
    assert json.loads(record.read_text(encoding="utf-8"))["conditions"]["bm25"]["verdict"] == "OKish"


class TestVerifyLog:
    @pytest.fixture
    def record(self, clone) -> Path:
        assert clone.r2med("log", "a", "bm25", *MINI).status == 0
        return clone.records[0]

    def test_the_runs_that_it_is_of(self, clone, record):
        done = clone.r2med("verify-log", record)
        assert (done.status, done.err) == (0, "") and "all 8 runs are here, and score what it says" in done.out

    def test_runs_that_were_made_anew_elsewhere(self, clone, record, tmp_path):
        (tmp_path / "elsewhere").mkdir()
        other = Clone(clone.root, Workspace(tmp_path / "elsewhere"))
        done = other.r2med("verify-log", record)
        assert done.status == 1 and done.out.count("is not here; make it with `r2med run bm25 --suite mini`") == 8
        succeed(other.workspace, "run", "bm25", *MINI, "--threads", "2")
        assert other.r2med("verify-log", record).status == 0

    def test_what_differs_is_said(self, clone, record):
        run = clone.workspace.run("mini", "biology", "bm25")
        lines = run.read_text(encoding="utf-8").splitlines(keepends=True)
        run.write_text("".join(lines[3:]), encoding="utf-8")
        said = json.loads(record.read_text(encoding="utf-8"))
        said["conditions"]["bm25"]["datasets"]["iiyi-clinical"]["scores"]["MRR"] += 0.1
        said["versions"]["anserini"] = "1.0.0"
        record.write_text(json.dumps(said), encoding="utf-8")
        done = clone.r2med("verify-log", record)
        assert done.status == 1
        wrong = [line for line in done.out.splitlines() if line.startswith("bm25 on ")]
        assert "bm25 on biology: the run's SHA-256 is another here" in wrong
        assert any(
            re.match(r"bm25 on biology: nDCG@10 is 0\.2671 in the record, 0\.\d+ by the run here", w) for w in wrong
        )
        assert any(line.startswith("bm25 on iiyi-clinical: MRR is ") for line in wrong)
        assert {line.split(":")[0] for line in wrong} == {"bm25 on biology", "bm25 on iiyi-clinical"}
        assert "(made with anserini '1.0.0'; here it is '" in done.out

    def test_no_record(self, clone, record):
        done = clone.r2med("verify-log", clone.log)
        assert done.status == 1 and "cannot be read" in done.err


class TestShow:
    ASKED = (*MINI, "--dataset", "biology", "--query", "0")

    def test_in_the_terminal(self, finished):
        done = succeed(finished, "show", *self.ASKED, "--condition", "bm25", "--condition", "qld", "--top", "3")
        lines = done.out.splitlines()
        assert lines[0].startswith("Query 0 of biology") and max(map(len, lines)) <= 80
        assert re.search(r"^bm25 +qld$", done.out, re.MULTILINE) and "2 relevant documents:" in lines
        before = run_files(finished)
        assert succeed(finished, "show", *self.ASKED, "--top", "3").out == done.out
        assert run_files(finished) == before

    def test_as_a_page(self, finished, tmp_path):
        done = succeed(finished, "show", *self.ASKED, "--html", tmp_path / "page.html")
        assert done.out == f"{tmp_path / 'page.html'}\n"
        assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")

    def test_a_query_that_is_not_there(self, finished):
        done = r2med_in(finished, "show", *MINI, "--dataset", "biology", "--query", "00")
        assert done.status == 2 and "no query '00' in biology; did you mean '0'?" in done.err
