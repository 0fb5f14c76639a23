import json
import re
from collections import Counter
from itertools import chain

import pytest

from r2med_pyserini.collection import convert, warnings
from r2med_pyserini.paths import CORPUS_FILE, MINI, QRELS_FILE, QUERY_FILE, RAW_FILES, Collection

SLUGS = sorted(path.name for path in MINI.iterdir() if path.is_dir())
CASES = ("pmc-treatment", "pmc-clinical", "iiyi-clinical")
KEYS = {
    CORPUS_FILE: ["id", "text"],
    QUERY_FILE: ["id", "text", "doc_id", "answer", "body_system"],
    QRELS_FILE: ["q_id", "p_id", "score"],
}


def rows(slug, name):
    return [json.loads(line) for line in (MINI / slug / name).read_bytes().decode().split("\n")[:-1]]


def words(text):
    return re.findall(r"\w+", text.lower())


def every(name):
    return list(chain.from_iterable(rows(slug, name) for slug in SLUGS))


def relevant(slug):
    found = {}
    for row in rows(slug, QRELS_FILE):
        found.setdefault(row["q_id"], []).append(row["p_id"])
    return found


def test_the_datasets_have_r2meds_names():
    assert SLUGS == [
        "bioinformatics", "biology", "iiyi-clinical", "medical-sciences",
        "medqa-diag", "medxpertqa-exam", "pmc-clinical", "pmc-treatment",
    ]  # fmt: skip


@pytest.mark.parametrize("slug", SLUGS)
class TestDataset:
    def test_it_consists_of_the_three_files(self, slug):
        assert {path.name for path in (MINI / slug).iterdir()} == set(RAW_FILES)

    @pytest.mark.parametrize("name", RAW_FILES)
    def test_the_keys_are_r2meds_in_r2meds_order(self, slug, name):
        assert {tuple(row) for row in rows(slug, name)} == {tuple(KEYS[name])}

    @pytest.mark.parametrize("name", RAW_FILES)
    def test_lines_end_with_a_line_feed(self, slug, name):
        data = (MINI / slug / name).read_bytes()
        assert data.endswith(b"\n") and b"\r" not in data and b"\n\n" not in data

    def test_it_is_large_enough(self, slug):
        assert len(rows(slug, QUERY_FILE)) >= 8
        assert len(rows(slug, CORPUS_FILE)) >= 48

    def test_documents_have_40_to_120_words(self, slug):
        lengths = {row["id"]: len(row["text"].split()) for row in rows(slug, CORPUS_FILE)}
        assert {identifier: length for identifier, length in lengths.items() if not 40 <= length <= 120} == {}

    @pytest.mark.parametrize("name", [CORPUS_FILE, QUERY_FILE])
    def test_ids_are_strings_and_unique(self, slug, name):
        identifiers = [row["id"] for row in rows(slug, name)]
        assert {type(identifier) for identifier in identifiers} == {str}
        assert len(set(identifiers)) == len(identifiers)

    def test_texts_are_unique(self, slug):
        texts = [" ".join(words(row["text"])) for name in (CORPUS_FILE, QUERY_FILE) for row in rows(slug, name)]
        assert len(set(texts)) == len(texts)

    def test_every_query_has_1_to_4_relevant_documents(self, slug):
        counts = {query: len(documents) for query, documents in relevant(slug).items()}
        assert counts.keys() == {row["id"] for row in rows(slug, QUERY_FILE)}
        assert set(counts.values()) <= {1, 2, 3, 4}

    def test_relevant_documents_are_in_the_corpus_once_each(self, slug):
        known = {row["id"] for row in rows(slug, CORPUS_FILE)}
        for documents in relevant(slug).values():
            assert len(set(documents)) == len(documents)
            assert set(documents) <= known

    def test_scores_are_1(self, slug):
        assert {repr(row["score"]) for row in rows(slug, QRELS_FILE)} == {"1"}

    def test_doc_ids_are_those_of_the_qrels(self, slug):
        assert {row["id"]: sorted(row["doc_id"]) for row in rows(slug, QUERY_FILE)} == {
            query: sorted(documents) for query, documents in relevant(slug).items()
        }

    def test_the_query_does_not_name_the_answer(self, slug):
        for row in rows(slug, QUERY_FILE):
            assert row["answer"].strip()
            assert " ".join(words(row["answer"])) not in " ".join(words(row["text"])), row["id"]

    def test_it_converts_without_a_warning(self, slug, tmp_path):
        health = convert(MINI / slug, Collection(tmp_path))
        assert warnings(health) == []
        assert health["documents"] == len(rows(slug, CORPUS_FILE))
        assert health["relevant"] == health["judgements"] == len(rows(slug, QRELS_FILE))


@pytest.mark.parametrize("slug", CASES)
def test_queries_of_the_case_datasets_are_long(slug):
    lengths = [len(row["text"].split()) for row in rows(slug, QUERY_FILE)]
    assert sum(lengths) / len(lengths) >= 150


@pytest.mark.parametrize("name", [CORPUS_FILE, QUERY_FILE])
@pytest.mark.parametrize("sort", ["\t", "\n", '"', "[^\x00-\x7f]"], ids=["tab", "line break", "quote", "non-ASCII"])
def test_texts_hold_what_line_based_tools_stumble_over(name, sort):
    assert any(re.search(sort, row["text"]) for row in every(name))


def test_some_ids_are_not_ascii():
    assert any(not row["id"].isascii() for row in every(CORPUS_FILE) + every(QUERY_FILE))


def test_no_two_documents_share_many_word_4_grams():
    documents = [(slug, row["id"], row["text"]) for slug in SLUGS for row in rows(slug, CORPUS_FILE)]
    grams = [set(zip(*(words(text)[start:] for start in range(4)), strict=False)) for *_, text in documents]
    holders = {}
    for number, some in enumerate(grams):
        for gram in some:
            holders.setdefault(gram, []).append(number)
    shared = Counter(
        (one, other) for numbers in holders.values() for place, one in enumerate(numbers) for other in numbers[:place]
    )
    assert len(grams) == len(every(CORPUS_FILE))
    too_near = {
        (documents[one][:2], documents[other][:2]): count
        for (one, other), count in shared.items()
        if count > 0.12 * min(len(grams[one]), len(grams[other]))
    }
    assert too_near == {}
