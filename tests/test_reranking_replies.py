import math
from itertools import pairwise

import pytest

from r2med_pyserini.reranking.replies import conclusion, first_tokens, log_odds, order, text, windows

ANSWERS = ("yes", "no")
BAD = (-math.inf, math.nan, "-1.0", None, True)
THINKING = {"type": "thinking", "thinking": "[3]"}


class TestOdds:
    @pytest.mark.parametrize(
        ("listed", "odds"),
        [
            ({"yes": -0.5, "no": -2.0}, 1.5),
            ({"no": -0.1, "yes": -3.1, "maybe": -9.0}, -3.0),
            ({"Yes": -0.5, "NO": -2.0}, 1.5),
            ({" yes": -0.5, "\nNo ": -2.0}, 1.5),
            ({"▁yes": -0.5, "Ġno": -2.0}, 1.5),
            ({"yes": -0.5, "maybe": -4.0, "perhaps": -6.0}, 5.5),  # no is at most as likely as perhaps
            ({"perhaps": -6.0, "no": -0.5, "maybe": -4.0}, -5.5),
            ({"maybe": -0.1, "no": -6.0}, 0.0),  # yes is at most as likely as no
            ({"yesterday": -0.1, "yes": -1.0, "nothing": -1.2, "no": -3.0}, 2.0),
        ],
    )
    def test_the_odds_are_those_of_the_two_answers(self, listed, odds):
        assert log_odds(list(listed.items()), ANSWERS) == pytest.approx(odds, abs=1e-12)

    def test_variants_are_added_up(self):
        listed = [("yes", math.log(0.2)), ("Yes", math.log(0.3)), (" YES", math.log(0.1)), ("no", math.log(0.15))]
        assert log_odds(listed, ANSWERS) == pytest.approx(math.log(0.6 / 0.15))

    def test_what_is_very_unlikely_is_no_trouble(self):
        assert log_odds([("yes", -9999.0), (" yes", -9999.0), ("no", -0.0)], ANSWERS) == pytest.approx(
            -9999 + math.log(2)
        )

    @pytest.mark.parametrize("listed", [[], [("Is", -0.1), ("yess", -1.0)], [("", -0.1)]])
    def test_without_either_there_are_no_odds(self, listed):
        assert log_odds(listed, ANSWERS) is None

    def test_answers_may_be_other_words(self):
        assert log_odds([("Wahr", -1.0), ("falsch", -2.0)], ("wahr", "Falsch")) == 1.0

    @pytest.mark.parametrize(
        "logprobs",
        [
            None, [], "x", {}, {"content": None}, {"content": []}, {"content": [None]}, {"content": [{}]},
            {"content": [{"top_logprobs": None}]}, {"content": [{"top_logprobs": "yes"}]},
            {"content": [{"top_logprobs": [None, {}, {"token": 1.0, "logprob": -1.0}, {"token": "yes"}]}]},
            {"content": [{"top_logprobs": [{"token": "yes", "logprob": bad} for bad in BAD]}]},
        ],
    )  # fmt: skip
    def test_what_is_no_list_of_tokens_counts_as_none(self, logprobs):
        assert first_tokens({"logprobs": logprobs}) == []
        assert first_tokens({}) == []

    def test_only_the_first_token_counts(self):
        content = [{"top_logprobs": [{"token": word, "logprob": -1.0}]} for word in ("yes", "no")]
        assert first_tokens({"logprobs": {"content": content}}) == [("yes", -1.0)]


class TestText:
    @pytest.mark.parametrize(
        ("content", "found"),
        [
            ("[1] > [2]", "[1] > [2]"),
            (None, ""),
            ("", ""),
            ([], ""),
            ([THINKING, {"type": "text", "text": "[1] "}, {"type": "text", "text": "[2]"}], "[1] [2]"),
            (["[1]", None, {"type": "text"}, {"type": "text", "text": None}], ""),
        ],
    )  # fmt: skip
    def test_content_may_be_a_text_or_parts(self, content, found):
        assert text({"message": {"content": content}}) == found

    @pytest.mark.parametrize(
        ("reply", "rest"),
        [
            ("[2] > [1]", "[2] > [1]"),
            ("<think>[1] looks better than [2]</think>\n\n[2] > [1]\n", "[2] > [1]"),
            ("[1] first?</think>[2] > [1]", "[2] > [1]"),  # the template has written the beginning
            ("<think>a</think>[1]<think>b</think>[2]", "[2]"),
            ("<think>[1] looks better", ""),
            ("<think></think>", ""),
            ("a</think> [2] > [1] <think> or [1]", "[2] > [1]"),
        ],
    )
    def test_thoughts_are_dropped(self, reply, rest):
        assert conclusion(reply) == rest


class TestOrder:
    @pytest.mark.parametrize(
        ("reply", "ranked", "repaired"),
        [
            ("[2] > [1] > [4] > [3]", [2, 1, 4, 3], False),
            ("[2]>[1]>[4]>[3]", [2, 1, 4, 3], False),
            ("2 > 1 > 4 > 3", [2, 1, 4, 3], False),
            ("2, 1, 4, 3", [2, 1, 4, 3], False),
            ("2,1,4,3", [2, 1, 4, 3], False),
            ("2 1 4 3", [2, 1, 4, 3], False),
            ("2\n1\n4\n3\n", [2, 1, 4, 3], False),
            ("[2, 1, 4, 3]", [2, 1, 4, 3], False),
            ("[2 > 1 > 4 > 3]", [2, 1, 4, 3], False),
            ("Passage 2 is best, then come 1 and 4, and 3 is last.", [2, 1, 4, 3], False),
            ("Passage 2 > Passage 1 > Passage 4 > Passage 3", [2, 1, 4, 3], False),
            ("The 4 passages, ranked: [2] > [1] > [4] > [3] (of 4)", [2, 1, 4, 3], False),
            ("Of 4 passages the order is 2 > 1 > 4 > 3", [2, 1, 4, 3], False),
            ("**[2]** > **[1]** > **[4]** > **[3]**", [2, 1, 4, 3], False),
            ("1. [2]\n2. [1]\n3. [4]\n4. [3]", [2, 1, 4, 3], False),
            ("[02] > [1] > [4] > [3]", [2, 1, 4, 3], False),
            ("[2] > [2] > [9]", [2, 1, 3, 4], True),
            ("[3]", [3, 1, 2, 4], True),
            ("[4] > [2]", [4, 2, 1, 3], True),
            ("[4] > [2] > [4] > [2] > [1] > [3]", [4, 2, 1, 3], True),
            ("[1] > [2] > [3] > [4] > [5]", [1, 2, 3, 4], True),
            ("[0] > [3] > [1] > [2] > [4]", [3, 1, 2, 4], True),
            ("[9] > [3]", [3, 1, 2, 4], True),
            ("[99] is not there, but 3 > 2 is", [3, 2, 1, 4], True),
            ("[" + "9" * 5000 + "] > [3]", [3, 1, 2, 4], True),
            ("-3", [3, 1, 2, 4], True),
        ],
        ids=lambda value: str(value)[:30],
    )
    def test_numbers_are_found_and_the_rest_is_completed(self, reply, ranked, repaired):
        assert order(reply, 4) == ([place - 1 for place in ranked], repaired)

    @pytest.mark.parametrize("reply", ["", "  ", "Sorry, I cannot.", "[9] > [10]", "0", "[]", "[a] > [b]", "7 of 9"])
    def test_a_reply_that_names_no_passage(self, reply):
        assert order(reply, 4) is None


class TestWindows:
    @pytest.mark.parametrize(
        ("count", "size", "stride", "found"),
        [
            (0, 4, 2, []),
            (1, 4, 2, []),
            (2, 4, 2, [(0, 2)]),
            (4, 4, 2, [(0, 4)]),
            (5, 4, 2, [(1, 5), (0, 3)]),
            (6, 4, 2, [(2, 6), (0, 4)]),
            (8, 4, 2, [(4, 8), (2, 6), (0, 4)]),
            (8, 4, 3, [(4, 8), (1, 5), (0, 2)]),
            (40, 20, 10, [(20, 40), (10, 30), (0, 20)]),
        ],
    )
    def test_they_move_up_from_the_end(self, count, size, stride, found):
        assert windows(count, size, stride) == found

    @pytest.mark.parametrize(("size", "stride"), [(20, 10), (5, 1), (3, 2), (2, 1)])
    def test_every_document_is_seen_and_neighbours_overlap(self, size, stride):
        for count in range(2, 60):
            found = windows(count, size, stride)
            assert (found[0][1], found[-1][0]) == (count, 0)
            assert all(start < below < end for (below, _), (start, end) in pairwise(found))
            assert all(2 <= end - start <= size for start, end in found)
