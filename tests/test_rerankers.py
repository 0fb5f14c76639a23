import json
import re

import pytest
import yaml

from r2med_pyserini.errors import BadInput, R2medError, UsageError
from r2med_pyserini.facts import TASKS_FILE
from r2med_pyserini.rerankers import PAIRS, RERANKERS_FILE, SERVED, TEXTS, Reranker, load, names, parse
from r2med_pyserini.suites import slugs

# THE RENDERINGS, written down from the protocol of R2MED's authors and the models' cards, not from the package's files.
# "mine" stands for a dataset that is not one of R2MED's.
TASK_OF = {
    "biology": "Given a Biology post, retrieve relevant passages that help answer the post",
    "bioinformatics": "Given a Bioinformatics post, retrieve relevant passages that help answer the post",
    "medical-sciences": "Given a Medical Science post, retrieve relevant passages that help answer the post",
    "medxpertqa-exam": "Given a Medical Exam, retrieve relevant passages that help answer the exam",
    "medqa-diag": "Given a Medical Exam, retrieve relevant passages that help answer the exam",
    "pmc-treatment": "Given a Clinical Case, retrieve relevant passages that help answer the case",
    "pmc-clinical": "Given a Clinical Case, retrieve similar cases that help diagnose the case",
    "iiyi-clinical": "Given a Clinical Case, retrieve similar cases that help diagnose the case",
    "mine": "Given a query, retrieve relevant passages that help answer the query",
}
QUERY = "Why do cells\ndie? {document}"
DOCUMENT = "Cells  die {query}\nby apoptosis. {task} {number}"
ON_ONE_LINE = "Cells die {query} by apoptosis. {task} {number}"
PLAIN = ("Why do cells\ndie? {document}", "Cells  die {query}\nby apoptosis. {task} {number}")
RANKLLAMA = (
    "query: Why do cells\ndie? {document}",
    "document: Cells  die {query}\nby apoptosis. {task} {number}",
)
MONOT5 = "Query: Why do cells\ndie? {document} Document: Cells  die {query}\nby apoptosis. {task} {number} Relevant:"
QWEN3 = {
    dataset: (
        "<|im_start|>system\n"
        "Judge whether the Document meets the requirements based on the Query and the Instruct provided. "
        'Note that the answer can only be "yes" or "no".<|im_end|>\n'
        "<|im_start|>user\n"
        f"<Instruct>: {task}\n"
        f"<Query>: {QUERY}\n"
        f"<Document>: {DOCUMENT}<|im_end|>\n"
        "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    )
    for dataset, task in TASK_OF.items()
}
POINTWISE = {
    dataset: (
        "You judge whether a passage serves a search task. Answer with one word, yes or no.",
        f"Search task: {task}\n\nQuery:\n{QUERY}\n\nPassage:\n{ON_ONE_LINE}\n\n"
        "Is this passage one to retrieve for the query? Answer yes or no.",
    )
    for dataset, task in TASK_OF.items()
}
LISTWISE = {
    dataset: (
        "You rank passages by how well they serve a search task. Answer with the numbers of the passages alone.",
        f"Search task: {task}\n\nQuery:\n{QUERY}\n\nThe 2 passages, each after its number:\n\n"
        f"[1] {ON_ONE_LINE}\n[2] It rains.\n\n"
        "Rank all 2 passages, the one to retrieve first for the query at the beginning. Write every number once, in "
        "square brackets, with > between them, such as [2] > [1]. Write nothing else.",
    )
    for dataset, task in TASK_OF.items()
}
RENDERINGS = {
    "monobert-large-msmarco": PLAIN,
    "bge-reranker-v2-m3": PLAIN,
    "rankllama-7b": RANKLLAMA,
    "ms-marco-minilm-l-6": PLAIN,
    "ms-marco-minilm-l-12": PLAIN,
    "mxbai-rerank-base": PLAIN,
    "mxbai-rerank-large": PLAIN,
    "qwen3-reranker-0.6b": QWEN3,
    "qwen3-reranker-4b": QWEN3,
    "qwen3-reranker-8b": QWEN3,
    "monot5-base": MONOT5,
    "monot5-3b": MONOT5,
    "llm-pointwise": POINTWISE,
    "llm-listwise": LISTWISE,
}
DATASETS = tuple(TASK_OF)


class TestRendering:
    def test_the_table_has_every_reranker_and_every_dataset(self):
        assert sorted(RENDERINGS) == list(names())
        assert (*slugs(), "mine") == DATASETS

    @pytest.mark.parametrize("name", RENDERINGS)
    @pytest.mark.parametrize("dataset", DATASETS)
    def test_exactly_this_reaches_the_tokenizer_or_the_server(self, name, dataset):
        wanted, reranker = RENDERINGS[name], load(name)
        wanted = wanted[dataset] if isinstance(wanted, dict) else wanted
        if name == "llm-listwise":
            assert reranker.render_list(dataset, QUERY, [DOCUMENT, "It\nrains."]) == wanted
        else:
            assert reranker.render(dataset, QUERY, DOCUMENT) == wanted

    @pytest.mark.parametrize("name", ["monot5-base", "qwen3-reranker-0.6b"])
    def test_what_stands_around_the_texts_makes_up_the_whole(self, name):
        before, between, after = load(name).around("biology")
        assert before + QUERY + between + DOCUMENT + after == load(name).render("biology", QUERY, DOCUMENT)

    def test_a_server_gets_only_the_first_words_of_a_document(self):
        document = " ".join(map(str, range(2000)))
        _, prompt = load("llm-pointwise").render("biology", document, document)
        assert "\n\nPassage:\n0 1 2 " in prompt and " 998 999\n\nIs this" in prompt
        assert f"\n\nQuery:\n{document}\n\n" in prompt
        _, prompt = load("llm-listwise").render_list("biology", "Why?", [document, document])
        assert " 298 299\n[2] 0 1 " in prompt and " 298 299\n\nRank all" in prompt

    def test_a_list_of_one_is_a_list(self):
        assert load("llm-listwise").render("mine", "Q", "D") == load("llm-listwise").render_list("mine", "Q", ["D"])

    def test_numbers_go_beyond_the_window_if_need_be(self):
        _, prompt = load("llm-listwise").render_list("mine", "Q", ["D"] * 30)
        assert prompt.count("] D\n") == 30 and "\n[30] D\n\nRank all 30 passages" in prompt


class TestPackage:
    def test_lengths_are_the_protocols_and_the_cards(self):
        lengths = {name: load(name).max_length for name in names()}
        assert lengths == {
            "monobert-large-msmarco": 512, "bge-reranker-v2-m3": 512, "rankllama-7b": 1024,
            "ms-marco-minilm-l-6": 512, "ms-marco-minilm-l-12": 512, "mxbai-rerank-base": 512,
            "mxbai-rerank-large": 512, "qwen3-reranker-0.6b": 8192, "qwen3-reranker-4b": 8192,
            "qwen3-reranker-8b": 8192, "monot5-base": 512, "monot5-3b": 512, "llm-pointwise": None,
            "llm-listwise": None,
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("wanted", "members"),
        [
            ({"positive": 1}, {"monobert-large-msmarco"}),
            ({"model_type": "bert"}, {"monobert-large-msmarco"}),
            ({"remote_code": True}, set()),
            ({"base_id": "meta-llama/Llama-2-7b-hf", "loader": "lora-classifier"}, {"rankllama-7b"}),
            ({"tokens": ("▁true", "▁false"), "loader": "monot5", "half": "bfloat16"}, {"monot5-base", "monot5-3b"}),
            (
                {"tokens": ("yes", "no"), "loader": "yes-no", "truncation": "passage-first"},
                {"qwen3-reranker-0.6b", "qwen3-reranker-4b", "qwen3-reranker-8b"},
            ),
            ({"tokens": ("yes", "no"), "loader": "llm-pointwise", "temperature": 0, "logprobs": 20}, {"llm-pointwise"}),
            ({"window": 20, "stride": 10, "document_words": 300, "temperature": 0}, {"llm-listwise"}),
            (
                {"loader": "cross-encoder", "truncation": "longest-first", "tokens": None, "tasks": None},
                {
                    "monobert-large-msmarco", "bge-reranker-v2-m3", "ms-marco-minilm-l-6", "ms-marco-minilm-l-12",
                    "mxbai-rerank-base", "mxbai-rerank-large",
                },
            ),
        ],
    )  # fmt: skip
    def test_what_is_peculiar_to_some_rerankers(self, wanted, members):
        for name in names():
            values = {key: getattr(load(name), key) for key in wanted}
            assert (values == wanted) is (name in members), name

    @pytest.mark.parametrize("name", RENDERINGS)
    def test_float16_is_not_used_where_it_overflows(self, name):
        reranker = load(name)
        wide = re.match("T5|Gemma|Qwen", str(reranker.facts.get("architecture")))
        assert reranker.half == (None if reranker.loader in SERVED else "bfloat16" if wide else "float16")

    def test_only_one_reranker_is_not_pinned_and_it_says_so(self):
        loose = [name for name in names() for _, revision in load(name).repositories() if revision is None]
        assert loose == ["rankllama-7b"]
        assert "revision" in load("rankllama-7b").facts["unconfirmed"]

    def test_an_adapter_needs_the_files_of_its_base_too(self):
        assert [repository for repository, _ in load("rankllama-7b").repositories()] == [
            "castorini/rankllama-v1-7b-lora-passage", "meta-llama/Llama-2-7b-hf",
        ]  # fmt: skip
        assert load("llm-pointwise").repositories() == []

    @pytest.mark.parametrize("name", RENDERINGS)
    def test_every_fact_has_a_source(self, name):
        facts = load(name).facts
        assert facts["source"] and isinstance(facts["unconfirmed"], list)
        for source in facts["source"]:
            assert source.startswith(("https://", "package ", "protocol of", "public code", "prompt of our own"))

    def test_an_unknown_name_gets_a_suggestion(self):
        with pytest.raises(UsageError, match=r"no reranker 'monot5-bas'; did you mean 'monot5-base'\? \(known: bge-"):
            load("monot5-bas")

    def test_rerankers_can_be_keys(self):
        assert len({load(name) for name in names()}) == len(names())


class TestRecipe:
    @pytest.mark.parametrize("name", RENDERINGS)
    def test_it_is_json(self, name):
        recipe = load(name).recipe("biology")
        assert json.loads(json.dumps(recipe)) == recipe

    def test_no_two_rerankers_have_the_same(self):
        recipes = [json.dumps(load(name).recipe("biology"), sort_keys=True) for name in names()]
        assert len(set(recipes)) == len(recipes)

    def test_a_dataset_matters_only_through_its_instruction(self):
        qwen3 = load("qwen3-reranker-0.6b")
        assert qwen3.recipe("biology") != qwen3.recipe("bioinformatics")
        assert qwen3.recipe("medqa-diag") == qwen3.recipe("medxpertqa-exam")
        assert load("monot5-base").recipe("biology") == load("monot5-base").recipe("pmc-clinical")

    def test_it_names_the_files(self):
        recipe = load("rankllama-7b").recipe("biology")
        assert recipe["base_revision"] == "01c7f73d771dfac7d292323805ebc428287df4f9" and "revision" not in recipe
        assert load("monobert-large-msmarco").recipe("biology")["positive"] == 1

    def test_what_is_only_for_people_does_not_count(self):
        text = RERANKERS_FILE.read_text(encoding="utf-8").replace("licence: llama2", "licence: another")
        one = parse(text, TASKS_FILE.read_text(encoding="utf-8"))["rankllama-7b"]
        assert one.facts["licence"] == "another"
        assert one.recipe("biology") == load("rankllama-7b").recipe("biology")

    @pytest.mark.parametrize("name", ["llm-pointwise", "llm-listwise"])
    def test_a_server_is_known_by_its_model_and_by_an_address_of_its_own(self, name, monkeypatch):
        monkeypatch.delenv("R2MED_LLM_MODEL", raising=False)
        monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
        reranker = load(name)
        bare = reranker.recipe("biology")
        assert not {"served_model", "server"} & bare.keys() and bare["temperature"] == 0
        with pytest.raises(R2medError, match=f"{name}: set R2MED_LLM_MODEL to the name of the server's model"):
            reranker.served_model()
        monkeypatch.setenv("R2MED_LLM_MODEL", " qwen3-8b ")
        monkeypatch.setenv("OPENAI_BASE_URL", "http://user:word@localhost:8000/v1/")
        assert reranker.served_model() == "qwen3-8b"
        recipe = reranker.recipe("biology")
        assert recipe == {**bare, "served_model": "qwen3-8b", "server": "http://localhost:8000/v1"}


TASKS = yaml.dump({"t": dict.fromkeys((*slugs(), "other"), "Find.")})
REVISION = "0123456789abcdef" * 2 + "01234567"
CROSS = {
    "files": {"id": "a/b", "revision": REVISION, "dtype": "float32"},
    "score": {"loader": "cross-encoder"},
    "text": {"max_length": 64},
    "facts": {"architecture": "BertModel", "parameters": "1M", "licence": "mit", "unconfirmed": []},
    "source": ["a card"],
}
LORA = {"files": {"base_id": "c/d", "base_revision": REVISION}, "score": {"loader": "lora-classifier"}}
TEXT = {
    "score": {"loader": "yes-no", "tokens": ["yes", "no"]},
    "text": {"prompt": "{task} {query} {document}?", "tasks": "t"},
}
POINT = {
    "files": None,
    "score": {"loader": "llm-pointwise", "tokens": ["yes", "no"], "temperature": 0, "max_tokens": 1, "logprobs": 5},
    "text": {"max_length": None, "system": "Judge.", "prompt": "{query} {document}"},
    "api": {"base_url": "u", "base_url_variable": "U", "key_variable": "K", "model_variable": "M"},
    "facts": {"architecture": None, "parameters": None, "licence": None},
}
LIST = {
    **POINT,
    "score": {"loader": "llm-listwise", "window": 4, "stride": 2, "temperature": 0.5, "max_tokens": 9},
    "text": {**POINT["text"], "prompt": "{query} {passages} {count} {count}", "passage": "{number}: {document}"},
}
UNPINNED = {"files": {"revision": "NULL"}, "facts": {"unconfirmed": ["revision"]}}


def changed(*changes: dict) -> dict:
    """CROSS with changes: section -> key -> value, or section -> value; None removes, "NULL" stands for a null."""
    value = {section: dict(part) if isinstance(part, dict) else part for section, part in CROSS.items()}
    for change in changes:
        for section, part in change.items():
            if isinstance(part, dict):
                merged = {**value.get(section, {}), **part}
                value[section] = {
                    key: None if given == "NULL" else given for key, given in merged.items() if given is not None
                }
            elif part is None:
                value.pop(section, None)
            else:
                value[section] = part
    return value


def of(*changes: dict) -> Reranker:
    return parse(yaml.dump({"m": changed(*changes)}), TASKS)["m"]


def faults_of(rerankers: object, tasks: str = TASKS) -> list[str]:
    with pytest.raises(BadInput) as caught:
        parse(rerankers if isinstance(rerankers, str) else yaml.dump(rerankers), tasks)
    return caught.value.faults


class TestParse:
    def test_what_is_left_out_is_as_usual(self):
        reranker = of()
        assert (reranker.query, reranker.document, reranker.truncation) == ("{query}", "{document}", "longest-first")
        assert (reranker.half, reranker.positive, reranker.query_length) == ("float16", None, None)
        assert not reranker.remote_code and reranker.api is None
        assert of(TEXT).truncation == "passage-first"

    @pytest.mark.parametrize(
        ("changes", "loaders"),
        [((), PAIRS), ((LORA,), PAIRS), ((TEXT,), TEXTS), ((POINT,), SERVED), ((LIST,), SERVED), ((UNPINNED,), PAIRS)],
    )
    def test_every_kind_of_reranker_is_understood(self, changes, loaders):
        assert of(*changes).loader in loaders

    def test_settings_beside_the_usual_ones(self):
        text = {"query_length": 9, "truncation": "passage-first", "query": "q: {query}"}
        reranker = of({"score": {"positive": 0}, "text": text, "files": {"remote_code": True, "half": "bfloat16"}})
        assert (reranker.positive, reranker.query_length, reranker.truncation) == (0, 9, "passage-first")
        assert (reranker.half, reranker.remote_code) == ("bfloat16", True)
        assert reranker.render("mine", "Q", "D") == ("q: Q", "D")
        assert reranker.recipe("mine")["positive"] == 0 and reranker.recipe("mine")["query_length"] == 9

    def test_a_task_is_put_where_it_belongs(self):
        assert of(TEXT).render("biology", "{task}", "D") == "Find. {task} D?"
        assert of(TEXT).around("biology") == ("Find. ", " ", "?")

    @pytest.mark.parametrize(
        ("change", "fault"),
        [
            ({"filez": {}}, "m: unknown key 'filez'; did you mean 'files'?"),
            ({"files": {"idd": "x"}}, "m: files: unknown key 'idd'; did you mean 'id'?"),
            ({"text": {"quary": "x"}}, "m: text: unknown key 'quary'; did you mean 'query'?"),
            ({"facts": {"license": "x"}}, "m: facts: unknown key 'license'; did you mean 'licence'?"),
            *(({section: None}, f"m: key {section!r} is missing") for section in CROSS),
            *(({"files": {key: None}}, f"m: files: key {key!r} is missing") for key in CROSS["files"]),
            *(({"facts": {key: None}}, f"m: facts: key {key!r} is missing") for key in CROSS["facts"]),
            ({"score": {"loader": None, "positive": 1}}, "m: score: key 'loader' is missing"),
            ({"score": {"loader": "cross-encodr"}}, "did you mean 'cross-encoder'?"),
            ({"score": {"loader": ["monot5"]}}, "m: loader: ['monot5'] is none of cross-encoder, lora-classifier,"),
            ({"score": []}, "m: score: a mapping is wanted, not []"),
            ({"text": {"max_length": None, "query_length": 3}}, "m: text: key 'max_length' is missing"),
            ({"text": 512}, "m: text: a mapping is wanted, not 512"),
            ({"source": []}, "m: source: where the facts are from is wanted"),
            ({"source": "a card"}, "m: source is 'a card'; a list of texts is wanted"),
            ({"note": 3}, "m: note is 3; a text is wanted"),
            ({"files": {"id": " "}}, "m: id is ' '; a text is wanted"),
            ({"files": {"model_type": 3}}, "m: model_type is 3; a text is wanted"),
            ({"files": {"dtype": "float8"}}, "m: dtype: 'float8' is none of"),
            ({"files": {"half": "float32"}}, "m: half: 'float32' is none of float16, bfloat16"),
            ({"files": {"remote_code": "yes"}}, "m: remote_code is 'yes'; true or false is wanted"),
            ({"files": {"revision": "main"}}, "m: revision is 'main'; 40 hexadecimal digits are wanted"),
            ({"files": {"revision": REVISION.upper()}}, "40 hexadecimal digits are wanted"),
            ({"files": {"revision": "NULL"}}, "40 hexadecimal digits are wanted (null only where `unconfirmed`"),
            ({**LORA, "files": {"base_id": "c/d"}}, "m: files: key 'base_revision' is missing"),
            ({**LORA, "files": {"base_id": "c/d", "base_revision": "x"}}, "m: base_revision is 'x'; 40 hexadecimal"),
            ({"files": LORA["files"]}, "m: files: unknown key 'base_id'"),
            ({"facts": {"unconfirmed": ["licenc"]}}, "m: facts: unconfirmed: no key 'licenc'; did you mean"),
            ({"facts": {"licence": "NULL"}}, "m: facts: licence is None; a text is wanted"),
            ({"score": {"positive": -1}}, "m: positive is -1; a whole number, 0 to 1,000, is wanted"),
            ({"score": {"positive": True}}, "m: positive is True; a whole number"),
            ({"score": {"tokens": ["a", "b"]}}, "m: score: unknown key 'tokens'"),
            ({"score": {"window": 20}}, "m: score: unknown key 'window'"),
            ({"text": {"max_length": "512"}}, "m: max_length is '512'; a whole number, 8 to 1,000,000, is wanted"),
            ({"text": {"max_length": "NULL"}}, "m: max_length is None; a whole number"),
            ({"text": {"truncation": "both"}}, "m: truncation: 'both' is none of longest-first, passage-first"),
            ({"text": {"tasks": "t"}}, "m: text: unknown key 'tasks'"),
            ({"text": {"query": "query: "}}, "m: query is 'query: '; {query}, in this order and once, are wanted"),
            ({"text": {"query": "{query} {query}"}}, "m: query is '{query} {query}'; {query}, in this order"),
            ({"text": {"document": "{query}"}}, "no braces are known but those of {document}"),
            ({"text": {"document": 3}}, "m: document is 3; a text is wanted"),
            ({"text": {"document": "{{document}}"}}, "no braces are known but those of {document}"),
            ({**TEXT, "text": {"tasks": "t"}}, "m: text: key 'prompt' is missing"),
            ({**TEXT, "text": {"prompt": "{query} {document}", "tasks": "t"}}, "m: tasks: there is a task set, but"),
            ({**TEXT, "text": {"prompt": "{task} {query} {document}"}}, "m: prompt has {task}, but `tasks` names no"),
            ({**TEXT, "text": {"prompt": TEXT["text"]["prompt"], "tasks": "u"}}, "m: tasks: 'u' is none of t"),
            ({**TEXT, "text": {"prompt": "{document} {query}"}}, "{query} and {document}, in this order and once, are"),
            (
                {**TEXT, "text": {"prompt": "{query} {document} {tsk}"}},
                "no braces are known but those of {query}, {doc",
            ),
            ({**TEXT, "score": {"loader": "yes-no"}}, "m: score: key 'tokens' is missing"),
            ({**TEXT, "score": {"loader": "yes-no", "tokens": ["yes"]}}, "m: tokens is ['yes']; the relevant and the"),
            ({**TEXT, "score": {"loader": "yes-no", "tokens": ["a", "a"]}}, "m: tokens is ['a', 'a']; the relevant"),
            ({**TEXT, "score": {"loader": "yes-no", "tokens": [True, False]}}, "m: tokens: an entry is True; a text"),
            ({**TEXT, "score": {"loader": "yes-no", "tokens": "yes"}}, "m: tokens is 'yes'; a list of texts is wanted"),
            ({**TEXT, "score": {**TEXT["score"], "positive": 1}}, "m: score: unknown key 'positive'"),
            ({**POINT, "files": CROSS["files"]}, "m: unknown key 'files'"),
            ({**POINT, "api": None}, "m: key 'api' is missing"),
            ({**POINT, "api": {"base_url": 3}}, "m: api: base_url is 3; a text is wanted"),
            ({**POINT, "api": {"base_url": "u"}}, "m: api: key 'model_variable' is missing"),
            ({"api": POINT["api"]}, "m: unknown key 'api'"),
            ({**POINT, "score": {**POINT["score"], "temperature": 3}}, "m: temperature is 3; a number, 0 to 2, is"),
            ({**POINT, "score": {**POINT["score"], "logprobs": 0}}, "m: logprobs is 0; a whole number"),
            ({**POINT, "text": {**POINT["text"], "system": "{query}"}}, "no braces are known but those of none"),
            ({**POINT, "text": {**POINT["text"], "system": ""}}, "m: system is ''; a text is wanted"),
            ({**LIST, "score": {**LIST["score"], "stride": 4}}, "m: stride 4 is not less than window 4: windows would"),
            ({**LIST, "score": {**LIST["score"], "window": 1.5}}, "m: window is 1.5; a whole number"),
            ({**LIST, "text": {**LIST["text"], "passage": "{document}"}}, "{number} and {document}, in this order"),
            ({**LIST, "text": {**LIST["text"], "passage": None}}, "m: text: key 'passage' is missing"),
            ({**LIST, "text": {**LIST["text"], "prompt": "{query} {document}"}}, "{query} and {passages}, in this"),
        ],
        ids=lambda value: None if isinstance(value, str) else json.dumps(value)[:60],
    )
    def test_a_faulty_reranker_is_explained(self, change, fault):
        found = faults_of({"m": changed(change)})
        assert any(fault in each for each in found), found
        assert all(each.startswith("rerankers.yaml: m: ") for each in found)

    @pytest.mark.parametrize("name", ["BGE", "a b", "a/b", "", "-a", 3])
    def test_a_name_makes_good_file_names(self, name):
        (fault,) = faults_of({name: changed()})
        assert f"reranker {name!r}: a name consists of" in fault

    def test_all_faults_of_both_files_are_reported_together(self):
        rerankers = {
            "m": changed({"files": {"revision": "main"}, "text": {"max_length": 0}, "source": []}),
            "n": changed(TEXT, {"text": {"tasks": "tt"}}),
        }
        found = faults_of(rerankers, TASKS.replace("biology:", "biolgy:"))
        assert [fault.split(":")[0] for fault in found] == ["rerankers.yaml"] * 4 + ["tasks.yaml"] * 2
        for words in ("revision is 'main'", "max_length is 0", "source:", "n: tasks", "'biolgy'", "'biology' is miss"):
            assert sum(words in fault for fault in found) == 1, words

    @pytest.mark.parametrize(
        ("rerankers", "fault"),
        [
            ("[]", "rerankers.yaml: a mapping from names to rerankers is wanted, not []"),
            ("m: 3", "rerankers.yaml: m: a mapping is wanted, not 3"),
            ("m: {}", "rerankers.yaml: m: key 'score' is missing"),
            ("m: {}\nm: {}", "key 'm' stands twice"),
            ("m: [1}", "rerankers.yaml:1:6: not valid YAML"),
        ],
    )
    def test_a_faulty_file_is_explained(self, rerankers, fault):
        assert fault in faults_of(rerankers)[0]
