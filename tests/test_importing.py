import json

import pytest

from r2med_pyserini.errors import BadInput, UsageError
from r2med_pyserini.importing import import_dataset

from .conftest import write_rows

CORPUS = [
    {"_id": "d1", "title": "Angina", "text": "Chest pain.", "metadata": {}},
    {"_id": "d2", "title": "", "text": "Ä"},
]
QUERIES = [{"_id": "q1", "text": "pain"}, {"_id": "q2", "text": "only in the training split"}]


@pytest.fixture
def beir(tmp_path):
    folder = tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    write_rows(folder / "corpus.jsonl", CORPUS)
    write_rows(folder / "queries.jsonl", QUERIES)
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t2\n")
    return folder


def rows(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_beirs_layout_becomes_r2meds(beir, tmp_path):
    new = tmp_path / "new"
    assert import_dataset(str(beir), new) == {"corpus.jsonl": 2, "query.jsonl": 1, "qrels.jsonl": 1}
    assert rows(new / "corpus.jsonl") == [{"id": "d1", "text": "Angina Chest pain."}, {"id": "d2", "text": "Ä"}]
    assert rows(new / "query.jsonl") == [{"id": "q1", "text": "pain"}]
    assert rows(new / "qrels.jsonl") == [{"q_id": "q1", "p_id": "d1", "score": 2}]


def test_an_imported_dataset_runs(beir, tmp_path, r2med):
    assert r2med("import", beir, tmp_path / "angina").out.startswith(f"{tmp_path / 'angina'}: 2 rows in corpus.jsonl")
    done = r2med("run", "bm25", "--suite", tmp_path / "angina")
    assert done.status == 0 and "1 of 1 judged queries" in done.out


def test_a_missing_split_names_those_that_are_there(beir, tmp_path):
    with pytest.raises(UsageError, match="splits here: test"):
        import_dataset(str(beir), tmp_path / "new", split="dev")


def test_an_existing_folder_is_left_alone(beir, tmp_path):
    (tmp_path / "new").mkdir()
    with pytest.raises(UsageError, match="exists already"):
        import_dataset(str(beir), tmp_path / "new")


def test_a_faulty_row_leaves_nothing_behind(beir, tmp_path):
    write_rows(beir / "corpus.jsonl", [*CORPUS, {"_id": "d3"}])
    with pytest.raises(BadInput, match=r"corpus\.jsonl:3: keys _id and text"):
        import_dataset(str(beir), tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["beir"]


def test_an_id_that_ir_datasets_does_not_know(tmp_path):
    with pytest.raises(UsageError, match="knows no dataset 'no/such'"):
        import_dataset("ir_datasets:no/such", tmp_path / "new")


def test_a_dataset_of_ir_datasets(tmp_path):
    ir_datasets = pytest.importorskip("ir_datasets")
    from ir_datasets.datasets.base import Dataset
    from ir_datasets.formats import BaseDocs, BaseQrels, BaseQueries, GenericDoc, GenericQuery, TrecQrel

    class Docs(BaseDocs):
        def docs_iter(self):
            return iter([GenericDoc("d1", "Chest pain."), GenericDoc("d2", "Cough.")])

        def docs_cls(self):
            return GenericDoc

    class Queries(BaseQueries):
        def queries_iter(self):
            return iter([GenericQuery("q1", "pain"), GenericQuery("q2", "unjudged")])

        def queries_cls(self):
            return GenericQuery

    class Qrels(BaseQrels):
        def qrels_iter(self):
            return iter([TrecQrel("q1", "d1", 1, "0")])

        def qrels_defs(self):
            return {}

    ir_datasets.registry.register("r2med-test", Dataset(Docs(), Queries(), Qrels()))
    import_dataset("ir_datasets:r2med-test", tmp_path / "new")
    assert rows(tmp_path / "new" / "corpus.jsonl")[1] == {"id": "d2", "text": "Cough."}
    assert rows(tmp_path / "new" / "query.jsonl") == [{"id": "q1", "text": "pain"}]
    assert rows(tmp_path / "new" / "qrels.jsonl") == [{"q_id": "q1", "p_id": "d1", "score": 1}]


def test_a_subset_without_judgements_is_refused(tmp_path):
    ir_datasets = pytest.importorskip("ir_datasets")
    from ir_datasets.datasets.base import Dataset

    ir_datasets.registry.register("r2med-empty", Dataset())
    with pytest.raises(UsageError, match="no docs and no queries and no qrels"):
        import_dataset("ir_datasets:r2med-empty", tmp_path / "new")
