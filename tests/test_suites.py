import pytest

from r2med_pyserini.errors import MissingData, UsageError
from r2med_pyserini.paths import CORPUS_FILE, MINI, QRELS_FILE, QUERY_FILE, RAW_FILES
from r2med_pyserini.suites import Dataset, Suite, builtin_names, load_suite, require_data

SLUGS = (
    "biology", "bioinformatics", "medical-sciences", "medxpertqa-exam",
    "medqa-diag", "pmc-treatment", "pmc-clinical", "iiyi-clinical",
)  # fmt: skip


def slugs(suite):
    return tuple(dataset.slug for dataset in suite.datasets)


class TestBuiltIn:
    def test_the_names(self):
        assert builtin_names() == ("r2med", "mini")

    @pytest.mark.parametrize("name", ["r2med", "mini"])
    def test_the_eight_datasets(self, workspace, name):
        suite = load_suite(name, workspace)
        assert slugs(suite) == SLUGS
        assert suite.name == suite.argument == name

    def test_only_mini_is_a_sample(self, workspace):
        assert [load_suite(name, workspace).sample for name in ("r2med", "mini")] == [False, True]

    def test_only_the_data_of_an_embedded_suite_lies_in_the_package(self, workspace):
        for name in builtin_names():
            within = [dataset.raw.is_relative_to(MINI) for dataset in load_suite(name, workspace).datasets]
            assert within == [name == "mini"] * 8

    def test_the_data_of_mini_is_all_there(self, workspace):
        suite = load_suite("mini", workspace)
        assert [dataset.missing() for dataset in suite.datasets] == [[]] * 8
        require_data(suite, suite.datasets)

    def test_mini_does_not_claim_what_was_published_of_r2med(self, workspace):
        for dataset in load_suite("mini", workspace).datasets:
            assert dataset.repo is dataset.revision is dataset.words is None
            assert dataset.queries is dataset.documents is dataset.qrels is None

    def test_r2med_has_the_published_numbers(self, workspace):
        datasets = load_suite("r2med", workspace).datasets
        assert sum(dataset.queries for dataset in datasets) == 876
        biology = datasets[0]
        assert (biology.queries, biology.documents, biology.qrels) == (103, 57359, 374)

    def test_r2med_is_pinned(self, workspace):
        for dataset in load_suite("r2med", workspace).datasets:
            assert dataset.repo == f"R2MED/{dataset.name}"
            assert len(dataset.revision) == 40 and int(dataset.revision, 16)

    def test_the_data_of_r2med_lies_in_the_workspace(self, workspace):
        raw = {dataset.slug: dataset.raw for dataset in load_suite("r2med", workspace).datasets}
        assert raw == {slug: workspace.root / "data" / "r2med" / slug for slug in SLUGS}

    def test_short_names_tell_the_datasets_apart(self, workspace):
        shorts = [dataset.short for dataset in load_suite("r2med", workspace).datasets]
        assert len(set(shorts)) == 8
        assert max(map(len, shorts)) <= 8

    @pytest.mark.parametrize("name", ["min", "r2-med", "R2MED", "MINI"])
    def test_an_unknown_name_gets_a_suggestion(self, workspace, name):
        with pytest.raises(UsageError) as caught:
            load_suite(name, workspace)
        assert f"no suite {name!r}" in str(caught.value)
        assert "did you mean" in str(caught.value)
        assert "r2med, mini" in str(caught.value)

    def test_a_folder_that_is_not_there_is_no_suite(self, workspace, tmp_path):
        with pytest.raises(UsageError, match="no suite"):
            load_suite(str(tmp_path / "none"), workspace)


class TestFolder:
    def test_every_sub_folder_with_a_corpus_is_a_dataset(self, workspace, make_dataset):
        for name in ("b", "A-1", "c_2"):
            parent = make_dataset(name).parent
        (parent / "notes").mkdir()
        (parent / "README.md").write_text("mine")
        suite = load_suite(str(parent), workspace)
        assert (suite.name, slugs(suite)) == ("raw", ("A-1", "b", "c_2"))
        assert [dataset.raw for dataset in suite.datasets] == [parent / slug for slug in ("A-1", "b", "c_2")]
        assert not suite.sample

    def test_a_folder_with_the_three_files_is_one_dataset(self, workspace, make_dataset):
        folder = make_dataset("tiny")
        suite = load_suite(str(folder), workspace)
        assert (suite.name, slugs(suite), suite.datasets[0].raw) == ("tiny", ("tiny",), folder)

    def test_sub_folders_of_a_dataset_are_not_looked_at(self, workspace, make_dataset, tmp_path):
        folder = make_dataset("tiny")
        make_dataset("other").rename(folder / "other")
        assert slugs(load_suite(str(folder), workspace)) == ("tiny",)

    @pytest.mark.parametrize("word", [".", "../tiny", "./", "../tiny/"])
    def test_a_relative_path_has_the_name_of_its_folder(self, workspace, make_dataset, monkeypatch, word):
        monkeypatch.chdir(make_dataset("tiny"))
        suite = load_suite(word, workspace)
        assert (suite.name, slugs(suite), suite.argument) == ("tiny", ("tiny",), word)

    @pytest.mark.parametrize("name", ["my data", "a.b", "-x", "_x", "é", "a*"])
    def test_a_name_that_would_make_odd_file_names_is_refused(self, workspace, make_dataset, name):
        folder = make_dataset(name)
        for path in (folder, folder.parent):
            with pytest.raises(UsageError, match="must consist of letters, digits, - and _") as caught:
                load_suite(str(path), workspace)
            assert repr(name) in str(caught.value)

    def test_the_name_of_the_suites_folder_is_checked_too(self, workspace, make_dataset, tmp_path):
        parent = make_dataset("tiny").parent
        renamed = parent.rename(tmp_path / "my data")
        with pytest.raises(UsageError, match="'my data'"):
            load_suite(str(renamed), workspace)

    @pytest.mark.parametrize("name", ["r2med", "mini"])
    def test_a_folder_named_like_a_built_in_suite_is_refused(self, workspace, make_dataset, name):
        with pytest.raises(UsageError, match="rename it"):
            load_suite(str(make_dataset(name)), workspace)

    def test_a_folder_without_a_dataset_is_refused(self, workspace, tmp_path):
        (tmp_path / "empty" / "sub").mkdir(parents=True)
        with pytest.raises(UsageError, match="holds no dataset") as caught:
            load_suite(str(tmp_path / "empty"), workspace)
        assert CORPUS_FILE in str(caught.value)

    def test_a_file_is_no_suite(self, workspace, write):
        with pytest.raises(UsageError, match="no suite"):
            load_suite(str(write("suite", "")), workspace)

    def test_links_to_folders_of_one_name_stay_two_datasets(self, workspace, make_dataset, tmp_path):
        (tmp_path / "mine").mkdir()
        for name in ("x", "y"):
            (tmp_path / "elsewhere" / name).mkdir(parents=True)
            target = make_dataset(name).rename(tmp_path / "elsewhere" / name / "files")
            (tmp_path / "mine" / name).symlink_to(target)
        assert slugs(load_suite(str(tmp_path / "mine"), workspace)) == ("x", "y")


class TestSelect:
    @pytest.fixture
    def suite(self, workspace) -> Suite:
        return load_suite("r2med", workspace)

    @pytest.mark.parametrize(
        ("words", "selected"),
        [
            ((), SLUGS),
            (("biology",), ("biology",)),
            (("Medical-Sciences",), ("medical-sciences",)),
            (("PMC-CLINICAL",), ("pmc-clinical",)),
            (("medqa-DIAG", "MedQA-Diag"), ("medqa-diag",)),
            (("iiyi-clinical", "biology"), ("biology", "iiyi-clinical")),
        ],
    )
    def test_datasets_go_by_slug_or_name_in_any_case_and_keep_their_order(self, suite, words, selected):
        assert tuple(dataset.slug for dataset in suite.select(words)) == selected

    def test_an_unknown_dataset_gets_a_suggestion(self, suite):
        with pytest.raises(UsageError, match=r"no dataset 'pmc-clinic' in suite r2med; did you mean 'pmc-clinical'\?"):
            suite.select(("pmc-clinic",))

    def test_several_unknown_datasets_are_reported_together(self, suite):
        with pytest.raises(UsageError) as caught:
            suite.select(("xyz", "biology", "bio-logy"))
        assert [line.split("'")[1] for line in str(caught.value).splitlines()] == ["xyz", "bio-logy"]

    def test_an_exact_name_goes_before_one_in_another_case(self, tmp_path):
        upper, lower = (Dataset(slug, slug, slug, tmp_path / slug) for slug in ("A", "a"))
        assert Suite("s", "s", (upper, lower), "s").select(("A",)) == (upper,)


class TestRequireData:
    def test_the_missing_files_of_a_folder_are_named(self, workspace, make_dataset):
        for name in ("a", "b", "c"):
            parent = make_dataset(name).parent
        (parent / "a" / QUERY_FILE).unlink()
        (parent / "c" / QUERY_FILE).unlink()
        (parent / "c" / QRELS_FILE).unlink()
        suite = load_suite(str(parent), workspace)
        with pytest.raises(MissingData) as caught:
            require_data(suite, suite.datasets)
        text = str(caught.value)
        assert f"{parent / 'a'}/ lacks {QUERY_FILE}" in text
        assert f"{parent / 'c'}/ lacks {QUERY_FILE}, {QRELS_FILE}" in text
        assert f"{parent / 'b'}/" not in text

    def test_only_the_datasets_asked_for_are_looked_at(self, workspace, make_dataset):
        for name in ("a", "b"):
            parent = make_dataset(name).parent
        (parent / "a" / QUERY_FILE).unlink()
        suite = load_suite(str(parent), workspace)
        require_data(suite, suite.select(("b",)))

    def test_data_that_can_be_fetched_need_not_be_there(self, workspace):
        suite = load_suite("r2med", workspace)
        assert all(len(dataset.missing()) == 3 for dataset in suite.datasets)
        require_data(suite, suite.datasets)

    def test_nothing_is_missing_from_a_whole_dataset(self, make_dataset):
        assert Dataset("d", "d", "d", make_dataset()).missing() == []

    @pytest.mark.parametrize("name", RAW_FILES)
    def test_a_folder_in_place_of_a_file_counts_as_missing(self, make_dataset, name):
        folder = make_dataset()
        (folder / name).unlink()
        (folder / name).mkdir()
        assert Dataset("d", "d", "d", folder).missing() == [name]
