"""Whatever characters a context has and whatever a tokenizer does to them, the rules hold.

What is expected is worked out here from the tokenizer's own spans, character by character.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)
from transformers import PreTrainedTokenizerFast

from lightwork.tasks.extractive.examples import Answer, Example
from lightwork.tasks.extractive.spans import candidate_rows
from lightwork.tasks.extractive.windows import WindowOptions, Windows, build_windows
from tests.tasks.made import TEXTS, Columns, byte_tokenizer, examples, label_text, word_tokenizer

CLS_FIRST = ("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1")
CLS_LAST = ("$A [SEP] [CLS]:2", "$A [SEP] $B:1 [SEP]:1 [CLS]:2")
"""The layout of XLNet, which also pads on the left."""


def layout(tokenizer: Tokenizer, templates: tuple[str, str], side: str) -> Any:
    """A fast tokenizer whose special tokens stand where ``templates`` say."""
    tokenizer.post_processor = processors.TemplateProcessing(
        single=templates[0], pair=templates[1], special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        padding_side=side,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
    )


def unigram(normalizer: Any, *, cls_last: bool) -> Any:
    """Unigram as SentencePiece makes it: ``\u2581`` for a blank, glued to the word after it."""
    pieces = ["\u2581", "\u2581the", "\u2581harbour", "er", "ry", "\u2581f", *"abehorstu.,\u5854"]
    vocabulary = [(token, 0.0) for token in ("[PAD]", "[UNK]", "[CLS]", "[SEP]")]
    vocabulary += [(piece, -1.0 - len(piece) / 9) for piece in dict.fromkeys(pieces)]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=1))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    if cls_last:
        return layout(tokenizer, CLS_LAST, "left")
    return layout(tokenizer, CLS_FIRST, "right")


def sentencepiece_like() -> Any:
    """As for XLNet: full NFKC, and runs of blanks become one."""
    parts = [normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    return unigram(normalizers.Sequence(parts), cls_last=True)


def decomposed_characters() -> Any:
    """Every character of the decomposed text is a token, combining marks in canonical order."""
    tokenizer = Tokenizer(
        models.WordLevel({"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3}, "[UNK]")
    )
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    return layout(tokenizer, CLS_FIRST, "right")


MADE: dict[str, Callable[[], Any]] = {
    "byte-level": lambda: byte_tokenizer(TEXTS[:2]),
    "unigram, NFKC": sentencepiece_like,
    "unigram": lambda: unigram(normalizers.Lowercase(), cls_last=False),
    "characters, NFD": decomposed_characters,
    "words, last": lambda: word_tokenizer(TEXTS, cls_last=True),
}


@pytest.fixture(scope="module", params=["wordpiece, lower case", *MADE])
def tokenizer(request: pytest.FixtureRequest) -> Any:
    """WordPiece strips accents and lowers case; the others are above."""
    if request.param in MADE:
        return MADE[request.param]()
    return request.getfixturevalue("wordpiece")


PIECES = st.sampled_from(
    [
        *(
            "the",
            "harbour",
            " ferry",
            "Zoe\u0308",
            "a\u0323\u0301",
            "a\u0301\u0323",
            "q\u0307\u0323",
        ),
        *(
            "\U0001f469\u200d\U0001f469\u200d\U0001f467",
            "\U0001f9d1\U0001f3fd",
            "\U0001f1e6\U0001f1f6",
        ),
        *(" ", "  ", "\t", "\r\n", "\x1c", "\x85", "\xa0", "\u1680", "\u2003", "\u2028", "\u3000"),
        *("\u200b", "\ufeff", "\u202e", "\x00", "\x10", "\ufffd", "\xad", "\U000e0041", "\u2581"),
        *(
            "\u0645\u0631\u062d\u0628\u0627",
            "\u05e9\u05dc\u05d5\u05dd",
            "\ufdfa",
            "\ufb01",
            "\u0130",
        ),
        *("\uff21\uff13", "\uac00", "\u1100\u1161", "\u671b\u6c5f\u5854", "\u212b", "\u01c5", "."),
    ]
)
UNICODE = st.lists(PIECES | st.text(max_size=3), max_size=30).map("".join)
VISIBLE = UNICODE.filter(str.strip)


@dataclass(frozen=True)
class Drawn:
    """A question on a context, and how to cut it."""

    context: str
    gold: Answer
    question: str
    options: WindowOptions
    special: int

    @property
    def items(self) -> Any:
        """The question, and one that is impossible, so that no window is left out."""
        asked = Example("q", self.question, self.context, (self.gold,), impossible=False)
        return examples(asked, Example("none", "Who?", "Nobody.", (), impossible=True))


@st.composite
def drawn(draw: st.DrawFn, special: int) -> Drawn:
    context = draw(VISIBLE)
    first = draw(st.integers(0, len(context.rstrip()) - 1))
    last = draw(st.integers(first + 1, len(context)).filter(lambda n: context[first:n].strip()))
    stride, longest = draw(st.integers(0, 9)), draw(st.integers(0, 6))
    size = special + longest + stride + draw(st.integers(1, 12))
    return Drawn(
        context,
        Answer(context[first:last], first),
        draw(VISIBLE),
        WindowOptions(size, stride, longest),
        special,
    )


def ids_of(tokenizer: Any, text: str) -> list[int]:
    """What the tokenizer makes of a text by itself."""
    return list(tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids)


def room_of(tokenizer: Any, case: Drawn) -> int:
    """Places for context tokens in a window."""
    asked = len(ids_of(tokenizer, case.question.strip()))
    return case.options.max_length - case.special - min(asked, case.options.max_question_length)


def shown(tokenizer: Any, context: str) -> list[set[int]]:
    """Of each token the places of its characters that are no blanks."""
    spans = tokenizer.backend_tokenizer.encode(context, add_special_tokens=False).offsets
    return [{n for n in range(*span) if not context[n].isspace()} for span in spans]


def expected_label(tokens: list[set[int]], gold: Answer) -> tuple[int, int] | None:
    """First and last token that share a character with the answer."""
    assert gold.start is not None
    own = set(range(gold.start, gold.start + len(gold.text)))
    found = [number for number, places in enumerate(tokens) if places & own]
    return (found[0], found[-1]) if found else None


def widest(tokens: list[set[int]], context: str) -> str:
    """From the first to the last visible character of a run of tokens."""
    places = set().union(*tokens)
    return context[min(places) : max(places) + 1] if places else ""


def of_first(windows: Windows) -> list[int]:
    """The windows of the first example."""
    return [n for n, number in enumerate(Columns(windows).column("example")) if number == 0]


@given(data=st.data())
@settings(deadline=None, max_examples=40)
def test_every_token_is_in_a_window_and_their_number_is_as_said(
    tokenizer: Any, data: st.DataObject
) -> None:
    case = data.draw(drawn(tokenizer.num_special_tokens_to_add(pair=True)))
    windows = build_windows(case.items, tokenizer, case.options, training=False)
    rows, options = Columns(windows), case.options
    ids = ids_of(tokenizer, case.context)
    asked = ids_of(tokenizer, case.question.strip())[: options.max_question_length]
    room = room_of(tokenizer, case)
    step = room - options.stride
    own = of_first(windows)
    assert len(own) == 1 + math.ceil(max(0, len(ids) - room) / step)
    for number, window in enumerate(own):
        inside = slice(rows.column("context_first")[window], rows.column("context_last")[window])
        tokens = rows.row("input_ids", window).tolist()
        assert tokens[inside] == ids[number * step : number * step + room]
        special = (tokenizer.cls_token_id, tokenizer.sep_token_id)
        assert [token for token in tokens[: inside.start] if token not in special] == asked
        assert len(tokens) == case.special + len(asked) + len(tokens[inside])
        assert tokens[rows.column("cls")[window]] == tokenizer.cls_token_id
    assert number * step + room >= len(ids)


@given(data=st.data())
@settings(deadline=None, max_examples=60)
def test_a_label_gives_the_characters_of_the_answer_back(
    tokenizer: Any, data: st.DataObject
) -> None:
    case = data.draw(drawn(tokenizer.num_special_tokens_to_add(pair=True)))
    windows = build_windows(case.items, tokenizer, case.options, training=True)
    rows, own = Columns(windows), of_first(windows)
    tokens = shown(tokenizer, case.context)
    label = expected_label(tokens, case.gold)
    told = [label_text(windows, window) for window in own]
    slices: list[str | None] = [None] * len(own)
    room = room_of(tokenizer, case)
    if label is not None:
        text = widest(tokens[label[0] : label[1] + 1], case.context)
        for number in range(len(own)):
            first = number * (room - case.options.stride)
            if first <= label[0] and label[1] < first + room:
                slices[number] = text
        if label[1] - label[0] < case.options.stride:
            assert text in slices
        assert windows.summary.get("off_border_answers", 0) == (text != case.gold.text)
    assert told == slices
    assert windows.summary.get("cut_answers", 0) == (not any(slices))
    for window, told_there in zip(own, told, strict=True):
        if told_there is None:
            assert rows.row("input_ids", window)[rows.column("start")[window]] == 2
            assert rows.column("end")[window] == rows.column("start")[window]


@given(data=st.data())
@settings(deadline=None, max_examples=40)
def test_every_candidate_is_a_slice_from_visible_to_visible(
    tokenizer: Any, data: st.DataObject
) -> None:
    case = data.draw(drawn(tokenizer.num_special_tokens_to_add(pair=True)))
    windows = build_windows(case.items, tokenizer, case.options, training=False)
    rows, own = Columns(windows), of_first(windows)
    padded = case.options.max_length + 2
    left = tokenizer.padding_side == "left"
    shift = padded - torch.from_numpy(rows.column("tokens")[own]) if left else 0
    names = ("context_first", "context_last", "cls")
    batch = {name: torch.from_numpy(rows.column(name)[own]).long() + shift for name in names}
    batch |= {"example": torch.zeros(len(own)), "window": torch.tensor(own)}
    starts, ends = torch.randn(2, len(own), padded, generator=torch.Generator().manual_seed(5))
    found = candidate_rows(starts, ends, batch, n_best=50, max_answer_tokens=8, no_answer=False)
    tokens, step = shown(tokenizer, case.context), room_of(tokenizer, case) - case.options.stride
    for _, window, first, last, *_ in found:
        offsets = rows.row("offsets", window).tolist()
        start, end = offsets[2 * first], offsets[2 * last + 1]
        at = own.index(window) * step
        expected = widest(tokens[at + first : at + last + 1], case.context)
        assert case.context[start:end] == expected
        assert (start < end) == bool(expected)
