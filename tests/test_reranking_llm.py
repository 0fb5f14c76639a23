import json
import math
import os
import re
import socket
import threading
from dataclasses import replace

import pytest

from r2med_pyserini import rerankers
from r2med_pyserini.errors import R2medError
from r2med_pyserini.reranking import chat
from r2med_pyserini.reranking.base import Counts, Pair
from r2med_pyserini.reranking.cache import Cache, ScoreCache
from r2med_pyserini.reranking.llm import ListwiseRanker, PointwiseScorer

from .chat_server import PASSAGE, WAIT_S, ChatServer, Fault, by_weight

KEY = "sk-test-0123456789abcdef"
URL, KEY_VARIABLE, MODEL_VARIABLE = "TEST_BASE_URL", "TEST_API_KEY", "TEST_MODEL"
API = {
    "base_url": "http://127.0.0.1:9/v1",
    "base_url_variable": URL,
    "key_variable": KEY_VARIABLE,
    "model_variable": MODEL_VARIABLE,
}
POINTWISE = replace(rerankers.load("llm-pointwise"), api=API)
LISTWISE = replace(rerankers.load("llm-listwise"), api=API, window=4, stride=2)
DATASET = "biology"
ODDS = {f"document {number}": (number * 7) % 20 - 10.0 for number in range(20)}
PAIRS = [Pair("cough", document) for document in ODDS]


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """Nothing of the user's own environment takes part."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith(("OPENAI_", "R2MED_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    monkeypatch.setenv(MODEL_VARIABLE, "llm-1")
    monkeypatch.setattr(chat, "_PAUSE_S", 0.01)


@pytest.fixture
def server(monkeypatch):
    """A model that says yes to a document with the odds that ODDS has, and knows the order of numbered passages."""

    def tokens(prompt):
        odds = ODDS[re.search(r"^document \d+", prompt, re.MULTILINE)[0]]
        return {"yes": odds / 2 - 8, "no": -odds / 2 - 8, "maybe": -40.0}

    with ChatServer() as server:
        server.tokens, server.reply = tokens, lambda prompt: by_weight(prompt) or "yes"
        monkeypatch.setenv(URL, server.url)
        yield server


@pytest.fixture
def scores(tmp_path):
    return ScoreCache(tmp_path / "scores.sqlite", {})


@pytest.fixture
def kept(tmp_path):
    return Cache(tmp_path / "replies.sqlite", {})


def patience(kind: str) -> dict:
    """How long to wait for an answer that has trouble of a kind."""
    return {"timeout": 1.0 if kind == "time-out" else None}


def scorer(**how):
    return PointwiseScorer(POINTWISE, **{"retries": 0, **how})


def ranker(reranker=LISTWISE, **how):
    return ListwiseRanker(reranker, **{"retries": 0, "requests": 1, **how})


def score(scorer, pairs=PAIRS, advance=lambda n: None, **more):
    return scorer.score(pairs, DATASET, advance, **more)


def rank(ranker, documents, cache=None):
    return ranker.rank("cough", documents, DATASET, cache)


def failure(work, *arguments, **more) -> str:
    """The message of the error that ends it."""
    with pytest.raises(R2medError) as caught:
        work(*arguments, **more)
    assert KEY not in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def expected(pairs=PAIRS):
    return pytest.approx([ODDS[pair.document] for pair in pairs])


def wait_for_threads() -> None:
    for thread in threading.enumerate():
        if thread.name.startswith(("pairs-", "lists-")):
            thread.join(WAIT_S)


def unsupported(name: str, times: float = math.inf) -> Fault:
    """OpenAI's refusal of a parameter."""
    error = {"message": f"Unsupported: '{name}'", "param": name, "code": "unsupported_parameter"}
    return Fault("answer", 400, content=json.dumps({"error": error}), times=times)


# What befalls a request, and what is said of it.
TROUBLES = {
    "time-out": (Fault("hang"), "did not answer within 1 s (set R2MED_API_TIMEOUT to wait longer)"),
    "reset": (Fault("reset"), "is out of reach, or broke off"),
    "half an answer": (Fault("half"), "is out of reach, or broke off"),
    "429": (Fault("answer", 429, content='{"error": "slow down"}'), "asks to wait, or the account is used up (HTTP"),
    "500": (Fault("answer", 500, content="<html>Oops</html>"), "failed (HTTP 500)"),
    "page": (Fault(content="<!DOCTYPE html><html>Log in</html>"), "the answer is not JSON, or not all of it: '<!DOC"),
    "cut off": (Fault(content='{"choices": [{"mess'), "the answer is not JSON, or not all of it: '{\"choices\":"),
    "nothing": (Fault(content=""), "the answer is not JSON, or not all of it: ''"),
    "list": (Fault(content="[]"), "the answer holds no message: '[]'"),
    "no choices": (Fault(content='{"choices": []}'), "the answer holds no message: '{\"choices\": []}'"),
    "no message": (Fault(content='{"choices": [{"text": "yes"}]}'), "the answer holds no message: "),
    "odd content": (Fault(content='{"choices": [{"message": {"content": 7}}]}'), "the answer holds no message: "),
    "error inside": (Fault(content='{"error": {"message": "provider down"}}'), "holds no message: provider down"),
    "too long": (Fault("answer", 400, content='{"error": "too many tokens"}'), "refuses the prompt (HTTP 400: too"),
}  # fmt: skip
END = {
    401: f"refuses the key (HTTP 401: so it is): is {KEY_VARIABLE} right?",
    402: "refuses the prompt (HTTP 402: so it is)",
    404: "does not exist, or serves no model 'llm-1' (HTTP 404: so it is)",
}


class TestPointwise:
    def test_a_score_is_the_odds_of_yes_against_no(self, server):
        done = []
        scored = score(scorer(), advance=done.append)
        assert scored.scores == expected()
        assert scored.cut == [False] * 20
        assert scored.failed == {}
        assert done == [1] * 20

    def test_what_is_asked(self, server):
        score(scorer(), PAIRS[:1])
        (request,) = server.requests
        system, user = POINTWISE.render(DATASET, *PAIRS[0])
        assert request.path == "/v1/chat/completions"
        assert request.headers["authorization"] == f"Bearer {KEY}"
        assert request.body == {
            "model": "llm-1",
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
            "temperature": 0,
            "max_tokens": 1,
            "logprobs": True,
            "top_logprobs": 20,
        }

    def test_answers_in_reverse_come_to_the_right_pairs(self, server):
        server.line_up = 5
        assert score(scorer(requests=5), PAIRS[:5]).scores == expected(PAIRS[:5])
        assert server.most_at_once == 5

    def test_many_requests_are_in_flight_and_never_more_than_wanted(self, server):
        assert score(scorer(requests=3), PAIRS * 5).scores == expected(PAIRS * 5)
        assert server.most_at_once <= 3
        assert len(server.requests) == 100

    def test_no_pairs_need_neither_server_nor_key(self, monkeypatch):
        monkeypatch.delenv(KEY_VARIABLE)
        assert score(scorer(), []).scores == []

    def test_a_document_that_is_cut_is_counted(self, server):
        words = POINTWISE.document_words
        pairs = [Pair("q", "document 1 " + "x " * more) for more in (words - 2, words - 1)]
        assert score(scorer(), pairs).cut == [False, True]

    def test_the_answer_may_be_no_text_at_all(self, server):
        server.reply = lambda prompt: None
        assert score(scorer()).scores == expected()

    @pytest.mark.parametrize(("name", "noted"), [("llm-1", "llm-1"), ("", "api"), (None, "api")])
    def test_the_precision_is_the_name_of_the_model(self, monkeypatch, name, noted):
        monkeypatch.delenv(MODEL_VARIABLE)
        if name is not None:
            monkeypatch.setenv(MODEL_VARIABLE, name)
        assert (scorer().precision, ranker().precision) == (noted, noted)


class TestPointwiseFailures:
    @pytest.mark.parametrize("kind", TROUBLES)
    def test_one_failed_request_costs_one_score(self, server, scores, kind):
        fault, words = TROUBLES[kind]
        server.fail(replace(fault, only="document 3\n"))
        done = []
        scored = score(scorer(**patience(kind)), PAIRS[:6], advance=done.append, cache=scores)
        assert list(scored.failed) == [3]
        assert f"{server.url}/chat/completions" in scored.failed[3]
        assert words in scored.failed[3]
        assert math.isnan(scored.scores.pop(3))
        assert scored.scores == expected(PAIRS[:3] + PAIRS[4:6])
        assert done == [1] * 6
        assert [found is None for found in scores.get(PAIRS[:6])] == [False, False, False, True, False, False]

    @pytest.mark.parametrize("kind", TROUBLES)
    def test_if_all_fail_that_is_an_error(self, server, kind):
        fault, words = TROUBLES[kind]
        server.fail(fault)
        message = failure(score, scorer(**patience(kind)), PAIRS[:3])
        assert message.startswith("not one of 3 pairs could be scored: ")
        assert words in message
        scored = score(scorer(**patience(kind)), PAIRS[:3], known=1)
        assert len(scored.failed) == 3
        assert all(map(math.isnan, scored.scores))

    @pytest.mark.parametrize("kind", [kind for kind in TROUBLES if kind != "too long"])
    def test_trouble_that_passes_costs_nothing(self, server, kind):
        fault, _ = TROUBLES[kind]
        server.fail(replace(fault, times=1, headers={"Retry-After": "0.01"}))
        scored = score(scorer(retries=2, requests=1, **patience(kind)), PAIRS[:3])
        assert (scored.scores, scored.failed) == (expected(PAIRS[:3]), {})
        assert len(server.requests) == 4

    def test_too_many_requests_is_waited_out_as_the_server_asks(self, server):
        server.refuse(429, "slow down", times=1, Retry_After="1")
        assert score(scorer(retries=1), PAIRS[:1]).scores == expected(PAIRS[:1])
        first, second = server.requests
        assert second.at - first.at >= 1  # by itself, the client tries again after half a second

    def test_nobody_listens(self, monkeypatch):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        monkeypatch.setenv(URL, f"http://127.0.0.1:{port}/v1")
        message = failure(score, scorer())
        assert f"http://127.0.0.1:{port}/v1/chat/completions is out of reach, or broke off (" in message
        assert "Connection refused" in message
        assert f"is {URL} right?; {chat.PATIENCE} requests in a row have failed (0 of the 20 pairs" in message

    @pytest.mark.parametrize("status", END)
    @pytest.mark.parametrize("after", [0, 2])
    def test_what_all_requests_would_meet_ends_it_at_once(self, server, scores, status, after):
        server.fail(Fault("answer", status, content='{"error": "so it is"}', after=after))
        message = failure(score, scorer(requests=1), cache=scores)
        assert message == (
            f"{server.url}/chat/completions {END[status]} "
            f"({after} of the 20 pairs of this part are scored; the same command goes on from there)"
        )
        wait_for_threads()
        assert len(server.requests) == after + 1

    def test_refused_at_first_it_is_the_key_and_later_it_is_the_text(self, server):
        server.refuse(403, "no")
        assert "refuses the key (HTTP 403: no)" in failure(score, scorer(requests=1))
        assert len(server.requests) == 1
        server.faults.clear()
        server.fail(Fault("answer", 403, only="document 3\n"))
        assert list(score(scorer(requests=1)).failed) == [3]

    @pytest.mark.parametrize("kind", ["500", "reset", "page"])
    def test_a_server_that_dies_half_way_ends_it_and_what_was_answered_is_kept(self, server, scores, kind):
        server.fail(replace(TROUBLES[kind][0], after=7))
        message = failure(score, scorer(requests=1), cache=scores)
        assert (
            f"; {chat.PATIENCE} requests in a row have failed (7 of the 20 pairs of this part are scored; " in message
        )
        wait_for_threads()
        assert len(server.requests) == 7 + chat.PATIENCE
        assert [entry[0] for entry in scores.get(PAIRS[:7])] == expected(PAIRS[:7])
        assert scores.get(PAIRS[7:]) == [None] * 13

    def test_now_and_then_a_failure_is_not_the_end(self, server):
        for number in range(1, 20, 2):
            server.fail(Fault("answer", 500, only=f"document {number}\n"))
        assert sorted(score(scorer(requests=1), PAIRS * 2).failed) == list(range(1, 40, 2))

    def test_many_refused_texts_are_not_the_end_of_the_server(self, server):
        server.fail(Fault("answer", 400, after=1, times=2 * chat.PATIENCE))
        assert len(score(scorer(requests=1), PAIRS * 2).failed) == 2 * chat.PATIENCE

    def test_interrupted_nothing_more_is_sent_and_what_was_answered_is_kept(self, server, scores):
        def interrupt(count):
            assert server.hanging.wait(WAIT_S)
            raise KeyboardInterrupt

        server.fail(Fault("late", only="document 1\n"))
        with pytest.raises(KeyboardInterrupt):
            score(scorer(requests=1), PAIRS, interrupt, cache=scores)
        server.resume.set()
        wait_for_threads()
        assert len(server.requests) == 2
        assert [entry is not None for entry in scores.get(PAIRS[:2])] == [True, False]

    @pytest.mark.parametrize("variable", [MODEL_VARIABLE, KEY_VARIABLE])
    def test_what_the_environment_lacks_is_named_before_anything_is_sent(self, monkeypatch, variable):
        monkeypatch.delenv(variable)
        monkeypatch.delenv(URL, raising=False)
        assert failure(score, scorer()).startswith(f"llm-pointwise: set {variable} to ")

    def test_a_refusal_is_shown_without_the_key(self, server):
        server.refuse(401, f"no such key: {KEY}")
        assert "(HTTP 401: no such key: ***)" in failure(score, scorer())


ONE = {"content": [{"token": "yes", "logprob": 0.0, "top_logprobs": [{"token": "yes", "logprob": 0.0}]}]}


class TestLogProbabilities:
    NONE = "the answers come without the log-probabilities of likely tokens"

    @pytest.mark.parametrize("logprobs", [None, {"content": []}, {"content": [{"token": "yes", "logprob": 0.0}]}, ONE])
    def test_a_server_that_gives_none_ends_it(self, server, logprobs):
        def alter(answer):
            answer["choices"][0]["logprobs"] = logprobs
            return answer

        server.alter = alter
        message = failure(score, scorer(requests=1))
        assert message.startswith(f"{server.url}/chat/completions: {self.NONE}")
        assert len(server.requests) == 1

    def test_one_answer_without_them_among_others_costs_one_score(self, server):
        tokens = server.tokens
        server.tokens = lambda prompt: None if "document 3\n" in prompt else tokens(prompt)
        scored = score(scorer(requests=1))
        assert list(scored.failed) == [3]
        assert self.NONE in scored.failed[3]

    @pytest.mark.parametrize("reply", [None, "", " \n"])
    def test_an_empty_answer_without_them_costs_one_score(self, server, reply):
        tokens = server.tokens
        server.tokens = lambda prompt: None if "document 0\n" in prompt else tokens(prompt)
        server.reply = lambda prompt: reply
        scored = score(scorer(requests=1))
        assert scored.failed == {0: f"{server.url}/chat/completions: the answer is empty"}

    def test_an_answer_that_begins_otherwise_costs_one_score(self, server):
        tokens = server.tokens
        server.tokens = lambda prompt: {"<think>": -0.1, "Well": -3} if "document 3\n" in prompt else tokens(prompt)
        scored = score(scorer())
        assert scored.failed == {
            3: f"{server.url}/chat/completions: the answer begins with '<think>', not with yes or no"
        }

    def test_a_model_that_thinks_first_is_told_of(self, server):
        server.tokens = lambda prompt: {"<think>": 0, "\n": -9}
        message = failure(score, scorer())
        assert message.startswith("not one of 20 pairs could be scored: ")
        assert message.endswith("the answer begins with '<think>', not with yes or no")

    def test_whole_numbers_are_numbers(self, server):
        server.tokens = lambda prompt: {" Yes": -1, "no": -3}
        assert score(scorer(), PAIRS[:1]).scores == [2.0]

    @pytest.mark.parametrize("name", ["logprobs", "top_logprobs"])
    def test_a_model_that_takes_no_such_parameter_ends_it(self, server, name):
        server.fail(unsupported(name))
        assert f"refuses the prompt (HTTP 400: Unsupported: '{name}')" in failure(score, scorer(requests=1))
        assert len(server.requests) == 1


class TestParameters:
    def test_a_model_that_knows_another_name_for_the_length_is_asked_by_that(self, server):
        server.fail(unsupported("max_tokens", times=1))
        assert score(scorer(requests=1), PAIRS[:3]).scores == expected(PAIRS[:3])
        assert [request.body.get("max_tokens") for request in server.requests] == [1, None, None, None]
        assert [request.body.get("max_completion_tokens") for request in server.requests] == [None, 1, 1, 1]

    def test_a_model_that_takes_no_temperature_either_is_not_told_one(self, server):
        server.fail(unsupported("max_tokens", times=1), unsupported("temperature", times=1))
        assert rank(ranker(), numbered(3)).order == [2, 1, 0]
        assert [sorted(request.body) for request in server.requests] == [
            ["max_tokens", "messages", "model", "temperature"],
            ["max_completion_tokens", "messages", "model", "temperature"],
            ["max_completion_tokens", "messages", "model"],
        ]

    def test_two_threads_may_learn_it_at_once(self, server):
        server.is_about = lambda request, name: name in request.body
        server.fail(*(replace(unsupported(name), only=name) for name in ("max_tokens", "temperature")))
        assert score(scorer(requests=4)).scores == expected()
        assert server.requests[-1].body.keys() & {"max_tokens", "temperature"} == set()

    @pytest.mark.parametrize("name", ["max_tokens", "temperature", "messages"])
    def test_a_model_that_never_takes_it_ends_it(self, server, name):
        server.fail(unsupported(name))
        assert f"refuses the prompt (HTTP 400: Unsupported: '{name}')" in failure(score, scorer(requests=1))
        assert len(server.requests) == (1 if name == "messages" else 2)

    def test_a_length_that_is_too_large_is_no_other_name(self, server):
        error = {"message": "max_tokens is too large", "param": "max_tokens", "code": "invalid_value"}
        server.fail(Fault("answer", 400, content=json.dumps({"error": error})))
        assert "refuses the prompt (HTTP 400: max_tokens is too large)" in failure(score, scorer(requests=1), PAIRS[:2])
        assert len(server.requests) == 2


def numbered(count: int) -> list[str]:
    """Documents, of which the last ones weigh most."""
    return [f"text {number}" for number in range(count)]


def weights(server: ChatServer) -> list[list[int]]:
    """The weights of the passages that each request had."""
    return [[int(passage.split()[-1]) for _, passage in PASSAGE.findall(prompt)] for prompt in server.prompts()]


class TestListwise:
    def test_the_window_moves_up_and_carries_the_best(self, server):
        ranking = rank(ranker(), numbered(8))
        assert weights(server) == [[4, 5, 6, 7], [2, 3, 7, 6], [0, 1, 7, 6]]
        assert ranking.order == [7, 6, 1, 0, 3, 2, 5, 4]
        assert ranking.counts == Counts(windows=3, sent=3)

    def test_what_is_asked(self, server):
        rank(ranker(), numbered(3))
        (request,) = server.requests
        system, user = LISTWISE.render_list(DATASET, "cough", numbered(3))
        assert request.path == "/v1/chat/completions"
        assert request.body == {
            "model": "llm-1",
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
            "temperature": 0,
            "max_tokens": LISTWISE.max_tokens,
        }

    @pytest.mark.parametrize("count", [0, 1])
    def test_less_than_two_documents_are_ranked_already(self, monkeypatch, count):
        monkeypatch.delenv(KEY_VARIABLE)
        assert rank(ranker(), numbered(count)).order == list(range(count))

    def test_documents_with_the_same_text_stay_apart(self, server):
        assert rank(ranker(), ["text 1", "text 2", "text 1"]).order == [1, 0, 2]

    @pytest.mark.parametrize(
        ("reply", "order", "repaired"),
        [
            ("[2] > [1] > [4] > [3]", [1, 0, 3, 2], 0),
            ("<think>[1] or [4] first?</think>\n2 > 1 > 4 > 3", [1, 0, 3, 2], 0),
            ("[2] > [2] > [9]", [1, 0, 2, 3], 1),
            ("3", [2, 0, 1, 3], 1),
        ],
    )
    def test_replies_are_read_as_far_as_they_go(self, server, reply, order, repaired):
        server.reply = lambda prompt: reply
        ranking = rank(ranker(), numbered(4))
        assert (ranking.order, ranking.counts) == (order, Counts(1, 1, repaired=repaired))

    def test_several_lists_are_ranked_at_once_and_come_back_in_their_order(self, server):
        done = []
        server.line_up = 4
        lists = [(f"query {count}", numbered(count)) for count in (2, 4, 0, 8, 3)]
        rankings = ranker(requests=4).rank_all(lists, DATASET, advance=done.append)
        assert [ranking.order for ranking in rankings] == [
            [1, 0], [3, 2, 1, 0], [], [7, 6, 1, 0, 3, 2, 5, 4], [2, 1, 0],
        ]  # fmt: skip
        assert sorted(done) == [0, 2, 3, 4, 8]
        assert server.most_at_once == 4

    def test_the_usual_window_and_stride(self, server):
        ranking = rank(ranker(replace(LISTWISE, window=20, stride=10)), numbered(100))
        assert ranking.order[:10] == list(range(99, 89, -1))
        assert ranking.counts == Counts(windows=9, sent=9)


class TestListwiseFailures:
    @pytest.mark.parametrize("kind", TROUBLES)
    def test_a_window_whose_request_fails_stays_as_it_was(self, server, kept, kind):
        fault, words = TROUBLES[kind]
        server.fail(replace(fault, only="text 2\n"))
        ranking = rank(ranker(**patience(kind)), numbered(8), kept)
        assert ranking.order == [0, 1, 2, 3, 7, 6, 5, 4]
        assert (ranking.counts.windows, ranking.counts.sent, ranking.counts.failed) == (3, 3, 2)
        assert f"{server.url}/chat/completions" in ranking.counts.reason
        assert words in ranking.counts.reason

    @pytest.mark.parametrize("kind", TROUBLES)
    def test_if_all_fail_that_is_an_error(self, server, kept, kind):
        fault, words = TROUBLES[kind]
        server.fail(fault)
        message = failure(ranker(**patience(kind)).rank_all, [("q", numbered(3)), ("r", numbered(4))], DATASET, kept)
        assert message.startswith("not one of 2 windows could be ranked: ")
        assert words in message

    @pytest.mark.parametrize(
        "reply", [None, "", " \n", "Sorry, I cannot.", "[9]", "<think>[2] > [1]", "<think>2</think>"]
    )
    def test_an_empty_reply_leaves_the_window_as_it_was(self, server, kept, reply):
        server.reply = lambda prompt: reply if "text 7" in prompt else by_weight(prompt)
        ranking = rank(ranker(), numbered(8), kept)
        assert ranking.order == [5, 4, 1, 0, 3, 2, 6, 7]
        assert ranking.counts == Counts(3, 3, empty=1, example=ranking.counts.example)
        assert ranking.counts.example in ("''", "'Sorry, I cannot.'", "'[9]'")

    def test_if_all_are_empty_that_is_an_error(self, server):
        server.reply = lambda prompt: "Sorry."
        message = failure(rank, ranker(), numbered(8))
        assert message == "not one of 3 windows could be ranked: the replies name no passage ('Sorry.')"

    def test_a_reply_whose_thoughts_took_all_its_room_is_told_of(self, server):
        def cut(answer):
            answer["choices"][0]["finish_reason"] = "length"
            return answer

        server.reply, server.alter = lambda prompt: "<think>Let me see: [1]", cut
        message = failure(rank, ranker(), numbered(3))
        assert message.endswith("the replies name no passage (cut at 4,096 tokens)")

    @pytest.mark.parametrize("status", END)
    def test_what_all_requests_would_meet_ends_it_at_once(self, server, status):
        server.fail(Fault("answer", status, content='{"error": "so it is"}', after=4))
        message = failure(ranker().rank_all, [("q", numbered(8)), ("r", numbered(8))], DATASET)
        assert message == (
            f"{server.url}/chat/completions {END[status]} "
            "(1 of the 2 lists were ranked; the same command goes on from there)"
        )
        wait_for_threads()
        assert len(server.requests) == 5

    def test_a_server_that_dies_half_way_ends_it_and_the_next_time_only_the_rest_is_sent(self, server, kept):
        lists = [(f"query {number}", numbered(8)) for number in range(10)]
        server.fail(Fault("reset", after=7))
        message = failure(ranker().rank_all, lists, DATASET, kept)
        assert f"; {chat.PATIENCE} requests in a row have failed (5 of the 10 lists were ranked; " in message
        server.faults.clear()
        server.requests.clear()
        rankings = ranker().rank_all(lists, DATASET, kept)
        assert len(server.requests) == 30 - 7
        assert [ranking.order for ranking in rankings] == [[7, 6, 1, 0, 3, 2, 5, 4]] * 10

    def test_interrupted_nothing_more_is_sent(self, server, kept):
        def interrupt(count):
            assert server.hanging.wait(WAIT_S)
            raise KeyboardInterrupt

        server.fail(Fault("late", only="query 1"))
        lists = [(f"query {number}", numbered(8)) for number in range(3)]
        with pytest.raises(KeyboardInterrupt):
            ranker().rank_all(lists, DATASET, kept, interrupt)
        server.resume.set()
        wait_for_threads()
        assert len(server.requests) == 3 + 1
        ranker().rank_all(lists, DATASET, kept)
        assert len(server.requests) == 9


class TestKeptReplies:
    def test_the_second_time_nothing_is_sent_and_the_notes_are_the_same(self, server, kept, monkeypatch):
        server.reply = lambda prompt: by_weight(prompt) if "text 7" in prompt else "[2]"
        first = rank(ranker(), numbered(6), kept)
        assert first.counts == Counts(2, 2, repaired=2)
        server.requests.clear()
        monkeypatch.delenv(KEY_VARIABLE)
        second = rank(ranker(), numbered(6), kept)
        assert server.requests == []
        assert second.order == first.order
        assert second.counts == Counts(2, 0, repaired=2)

    @pytest.mark.parametrize("fault", [Fault("answer", 500, only="text 7"), None])
    def test_what_failed_or_was_empty_is_asked_again(self, server, kept, fault):
        if fault:
            server.fail(fault)
        server.reply = lambda prompt: "" if "text 7" in prompt else by_weight(prompt)
        assert rank(ranker(), numbered(8), kept).order == [5, 4, 1, 0, 3, 2, 6, 7]
        server.faults.clear()
        server.requests.clear()
        server.reply = by_weight
        assert rank(ranker(), numbered(8), kept).order == [7, 6, 1, 0, 3, 2, 5, 4]
        assert weights(server) == [[4, 5, 6, 7], [2, 3, 7, 6], [0, 1, 7, 6]]

    @pytest.mark.parametrize(
        ("query", "documents", "sent"),
        [
            ("cough", numbered(4), 0),
            ("Cough", numbered(4), 1),
            ("cough", numbered(4)[::-1], 1),
            ("cough", numbered(3), 1),
            ("cough", ["text 0", "text 1", "text 2", "text  3"], 1),
        ],
    )
    def test_replies_are_kept_by_the_query_and_the_documents_in_their_order(self, server, kept, query, documents, sent):
        rank(ranker(), numbered(4), kept)
        server.requests.clear()
        ranker().rank(query, documents, DATASET, kept)
        assert len(server.requests) == sent

    def test_thoughts_are_not_kept(self, server, kept):
        server.reply = lambda prompt: f"<think>Well, [1]</think>{by_weight(prompt)}"
        rank(ranker(), numbered(3), kept)
        assert kept.lookup([("cough", *numbered(3))]) == ["[3] > [2] > [1]"]

    @pytest.mark.parametrize("value", [7, None, ["[1]"], "", "nothing"])
    def test_what_is_no_reply_is_not_taken_for_one(self, server, kept, value):
        kept.keep([("cough", *numbered(3))], [value])
        assert rank(ranker(), numbered(3), kept).order == [2, 1, 0]

    def test_without_a_cache_all_is_sent_again(self, server):
        assert rank(ranker(), numbered(4)) == rank(ranker(), numbered(4))
        assert len(server.requests) == 2


class TestCounts:
    def test_they_add_up_and_keep_the_first_words(self):
        total = sum([Counts(2, 1, repaired=1), Counts(3, 3, empty=1, failed=1, reason="a", example="b")], Counts())
        assert total == Counts(5, 4, repaired=1, empty=1, failed=1, reason="a", example="b")
        assert total + Counts(1, 1, failed=1, reason="c") == Counts(6, 5, 1, 1, 2, "a", "b")

    def test_a_user_is_told_what_matters(self):
        assert Counts(9, 9).sentences() == []
        assert Counts(1200, 9, 3, 2, 1, "HTTP 500", "'no'").sentences() == [
            "1 of 1,200 requests failed (HTTP 500): their passages keep their order",
            "2 of 1,200 replies named no passage ('no'): their passages keep their order",
            "3 of 1,200 replies did not name every passage once: completed",
        ]

    @pytest.mark.parametrize(
        ("counts", "useless"),
        [(Counts(), False), (Counts(2, 2, 0, 1, 1), True), (Counts(3, 2, 0, 1, 1), False), (Counts(1, 0), False)],
    )
    def test_whether_any_window_was_ranked(self, counts, useless):
        assert counts.useless is useless
