import pytest

from r2med_pyserini.artifacts import Hashes
from r2med_pyserini.conditions import load
from r2med_pyserini.errors import MissingData, UsageError
from r2med_pyserini.paths import CORPUS_FILE, QUERY_FILE, RAW_FILES
from r2med_pyserini.plan import digest, prepare
from r2med_pyserini.stages import TO_DO
from r2med_pyserini.suites import Dataset


@pytest.fixture
def hashes(tmp_path) -> Hashes:
    return Hashes(tmp_path / "hashes.json")


def of(folder) -> Dataset:
    return Dataset("d", "d", "d", folder)


class TestDigest:
    def test_it_is_short_and_the_same_for_the_same_bytes(self, make_dataset, hashes):
        found = {digest(of(make_dataset(name)), hashes) for name in ("one", "two")}
        assert len(found) == 1 and len(found.pop()) == 12

    @pytest.mark.parametrize("name", RAW_FILES)
    def test_every_file_counts(self, make_dataset, hashes, name):
        folder = make_dataset()
        before = digest(of(folder), hashes)
        (folder / name).write_bytes((folder / name).read_bytes() + b"\n")
        assert digest(of(folder), hashes) != before

    def test_files_that_swap_their_bytes_are_others(self, make_dataset, hashes):
        folder = make_dataset()
        before = digest(of(folder), hashes)
        (folder / CORPUS_FILE).rename(folder / "x")
        (folder / QUERY_FILE).rename(folder / CORPUS_FILE)
        (folder / "x").rename(folder / QUERY_FILE)
        assert digest(of(folder), hashes) != before

    def test_what_lies_beside_them_does_not_count(self, make_dataset, hashes):
        folder = make_dataset()
        before = digest(of(folder), hashes)
        (folder / "notes.txt").write_text("mine")
        assert digest(of(folder), hashes) == before

    @pytest.mark.parametrize("name", RAW_FILES)
    def test_there_is_none_unless_all_files_are_here(self, make_dataset, hashes, name):
        folder = make_dataset()
        (folder / name).unlink()
        assert digest(of(folder), hashes) is None


class TestPrepare:
    def test_every_condition_meets_every_dataset_in_the_order_given(self, workspace):
        plan = prepare("mini", ("medqa-diag", "biology"), conditions=[load("qld"), load("bm25")])
        cells = [(cell.condition.name, cell.dataset.slug) for cell in plan.cells]
        assert cells == [(name, slug) for name in ("qld", "bm25") for slug in ("biology", "medqa-diag")]
        assert set(plan.preview().values()) == {TO_DO}

    def test_conditions_share_what_they_can(self, workspace):
        plan = prepare("mini", ("biology",), conditions=[load("bm25"), load("bm25-rm3"), load("bm25-official")])
        assert [len(plan.only(verb)) for verb in ("fetch", "convert", "index", "search", "evaluate")] == [0, 1, 2, 3, 3]

    def test_without_conditions_the_data_are_converted(self, workspace):
        assert [stage.verb for stage in prepare("mini", ("biology",)).stages] == ["convert"]

    def test_the_benchmark_is_fetched_first(self, workspace):
        assert [stage.verb for stage in prepare("r2med", ("biology",)).stages] == ["fetch", "convert"]

    @pytest.mark.parametrize(("suite", "slugs"), [("minni", ()), ("mini", ("biolgy",))])
    def test_unknown_names_are_wrong_usage(self, workspace, suite, slugs):
        with pytest.raises(UsageError, match="did you mean"):
            prepare(suite, slugs)

    def test_missing_data_are_told_before_anything_is_done(self, workspace, make_dataset):
        folder = make_dataset()
        (folder / QUERY_FILE).unlink()
        with pytest.raises(MissingData, match=f"lacks {QUERY_FILE}"):
            prepare(str(folder))
        assert len(prepare(str(folder), need_data=False).stages) == 1

    def test_a_suite_whose_data_are_here_is_taken_from_no_folder(self, workspace, tmp_path):
        with pytest.raises(UsageError, match="--from is for suite r2med"):
            prepare("mini", source=tmp_path)

    def test_a_folder_to_take_from_must_be_there(self, workspace, tmp_path):
        with pytest.raises(UsageError, match="no such folder"):
            prepare("r2med", source=tmp_path / "none")

    def test_preparing_writes_nothing(self, workspace):
        prepare("mini", conditions=[load("bm25")])
        assert list(workspace.root.iterdir()) == []


class TestMeasures:
    @pytest.mark.parametrize(("name", "told"), [("bm25", True), ("bm25-official", False)])
    def test_only_what_a_run_is_deep_enough_for_is_evaluated(self, workspace, name, told):
        (cell,) = prepare("mini", ("biology",), conditions=[load(name)]).cells
        cell.scores.artifact.path.parent.mkdir()
        cell.run_path.write_text("")
        qrels = workspace.collection("mini", "biology").qrels
        qrels.parent.mkdir(parents=True)
        qrels.write_text("q1 0 d1 1\n")
        assert ("R@1000" in cell.scores.recipe()["measures"]) is told
        cell.scores.make(Hashes(workspace.hashes))
        assert ("R@1000" in cell.read().mean) is told
        assert (cell.read().judged, cell.read().evaluated, set(cell.read().mean.values())) == (1, 0, {0.0})
