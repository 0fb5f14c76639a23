"""Tokenizers of a few hundred tokens, built as the tokenizer.json files of the great families are.

Nothing is trained, as ties make training random: the tokens are the words of some sentences and their characters.
"""

import re
from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE, Unigram, WordPiece

SENTENCES = [
    "Chest pain that eases with rest points to angina, not to a heart attack.",
    "A cough with rusty sputum, fever and chills suggests pneumonia of one lobe.",
    "Night blindness may stem from a lack of vitamin A.",
    "Represent this sentence for searching relevant passages: Represent this passage\npassage: ",
    "Instruct: Given a medical query, retrieve relevant documents\nQuery: Which drug eases the pain?",
    "<|user|>\nRepresent the biology document for retrieval\n<|embed|>\nThe liver makes bile; the gall bladder keeps",
]
_BYTES = [f"<0x{number:02X}>" for number in range(256)]
_QWEN_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def wordpiece(begin: str = "[CLS]", end: str = "[SEP]", pad: str = "[PAD]", mask: str = "[MASK]") -> Tokenizer:
    """BERT's, and with other special tokens MPNet's."""
    normalizer, words = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    known = _words(words, map(normalizer.normalize_str, SENTENCES))
    letters = sorted(set("".join(known)))
    vocabulary = [pad, "[UNK]", begin, end, mask, *known, *letters, *(f"##{letter}" for letter in letters)]
    made = Tokenizer(WordPiece(_numbered(vocabulary), unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizer, words
    made.add_special_tokens([pad, "[UNK]", begin, end, mask])
    made.post_processor = processors.TemplateProcessing(
        single=f"{begin} $A {end}",
        pair=f"{begin} $A {end} $B:1 {end}:1",
        special_tokens=[(token, made.token_to_id(token)) for token in (begin, end)],
    )
    return made


def gpt_neox() -> Tokenizer:
    """GPT-NeoX's: of bytes, and nothing is put before or after a text."""
    return _byte_level(["<|endoftext|>", "<|padding|>"], pre_tokenizers.ByteLevel(add_prefix_space=False))


def qwen(end: str | None = None) -> Tokenizer:
    """Qwen's: of bytes; `end` is the token that is appended to a text, if any."""
    split = pre_tokenizers.Split(Regex(_QWEN_WORDS), "isolated")
    words = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    made = _byte_level(["<|endoftext|>", "<|im_start|>", "<|im_end|>"], words)
    if end:
        template = processors.TemplateProcessing(f"$A {end}", special_tokens=[(end, made.token_to_id(end))])
        made.post_processor = processors.Sequence([made.post_processor, template])
    return made


def _byte_level(special: list[str], words: pre_tokenizers.PreTokenizer) -> Tokenizer:
    known = _words(words, SENTENCES)
    vocabulary = _numbered([*special, *sorted(pre_tokenizers.ByteLevel.alphabet()), *_beginnings(known)])
    made = Tokenizer(BPE(vocabulary, _merges(known)))
    made.normalizer, made.pre_tokenizer = normalizers.NFC(), words
    made.add_special_tokens(special)
    made.post_processor = processors.ByteLevel(trim_offsets=False)
    return made


def llama() -> Tokenizer:
    """Llama's and Mistral's: a blank before each text, then a begin token, and no end token."""
    blanks = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return _sentencepiece_bpe(["<unk>", "<s>", "</s>"], "<s>", blanks)


def gemma() -> Tokenizer:
    """Gemma's: a begin token before each text, and no end token."""
    return _sentencepiece_bpe(["<pad>", "<eos>", "<bos>", "<unk>"], "<bos>", normalizers.Replace(" ", "▁"))


def _sentencepiece_bpe(special: list[str], begin: str, blanks: normalizers.Normalizer) -> Tokenizer:
    known = sorted(set(re.findall(r"▁?[^▁\n]+", "▁".join(SENTENCES).replace(" ", "▁"))))
    letters = sorted(set("".join(known)))
    vocabulary = _numbered([*special, *_BYTES, *_beginnings(known), *letters])
    made = Tokenizer(BPE(vocabulary, _merges(known), unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    made.normalizer = blanks
    made.add_special_tokens(special)
    made.post_processor = processors.TemplateProcessing(
        f"{begin} $A", f"{begin} $A {begin}:1 $B:1", [(begin, vocabulary[begin])]
    )
    return made


def xlm_roberta() -> Tokenizer:
    """XLM-RoBERTa's."""
    return _unigram(["<s>", "<pad>", "</s>", "<unk>"], "<s> $A </s>")


def t5() -> Tokenizer:
    """T5's, with a hundred sentinels at the end."""
    return _unigram(["<pad>", "</s>", "<unk>"], "$A </s>", [f"<extra_id_{number}>" for number in reversed(range(100))])


def _unigram(special: list[str], template: str, last: Iterable[str] = ()) -> Tokenizer:
    words = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    known = _words(words, SENTENCES)
    scores = dict.fromkeys(special, 0.0) | dict.fromkeys(sorted(set("".join(known))), -10.0)
    scores |= dict.fromkeys(known, -5.0) | dict.fromkeys(last, 0.0)
    made = Tokenizer(Unigram([*scores.items()], unk_id=special.index("<unk>")))
    made.pre_tokenizer = words
    made.add_special_tokens([*special, *last])
    around = [token for token in template.split() if token != "$A"]
    made.post_processor = processors.TemplateProcessing(
        template, special_tokens=[(token, made.token_to_id(token)) for token in around]
    )
    return made


def _words(splitter: pre_tokenizers.PreTokenizer, sentences: Iterable[str]) -> list[str]:
    return sorted({word for sentence in sentences for word, _ in splitter.pre_tokenize_str(sentence)})


def _beginnings(words: list[str]) -> list[str]:
    """All that comes of merging a word's characters one by one."""
    return [word[:length] for word in words for length in range(2, len(word) + 1)]


def _merges(words: list[str]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((begun[:-1], begun[-1]) for begun in _beginnings(words)))


def _numbered(tokens: Iterable[str]) -> dict[str, int]:
    return {token: number for number, token in enumerate(dict.fromkeys(tokens))}
