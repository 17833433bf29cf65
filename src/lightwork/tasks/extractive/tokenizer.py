"""The tokenizer of a pretrained model, or a small one trained on the data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from lightwork.errors import SettingsError
from lightwork.tasks.extractive.pretrained import from_library, locate, say_if_asked_for

SPECIAL_TOKENS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
"""In the order of their ids, from 0."""


def load_tokenizer(source: str) -> Any:
    """The fast tokenizer in a folder or of a hub name, as for ``pretrained.locate``.

    Raises ``SettingsError`` when there is none, it is not a fast one, or it cannot pad.
    """
    place = str(locate(source) or source)
    say_if_asked_for(source)
    with from_library(source, "tokenizer"):
        tokenizer = AutoTokenizer.from_pretrained(place, trust_remote_code=False)
    name = type(tokenizer).__name__
    # Without vocabulary files transformers makes a tokenizer that knows its special tokens only.
    if len(tokenizer.get_vocab()) <= len(tokenizer.all_special_ids):
        raise SettingsError(
            f"model.source {source!r}: there is no vocabulary for {name}; "
            "a model folder needs its tokenizer.json beside config.json"
        )
    if not getattr(tokenizer, "is_fast", False):
        raise SettingsError(
            f"model.source {source!r}: {name} knows no character offsets; take a model with a "
            "fast tokenizer (one with a tokenizer.json)"
        )
    if tokenizer.pad_token_id is None:
        raise SettingsError(
            f"model.source {source!r}: {name} has no padding token; take an encoder such as BERT"
        )
    return tokenizer


def train_tokenizer(texts: Iterable[str], vocabulary: int, folder: Path) -> None:
    """Train lower-casing WordPiece with at most ``vocabulary`` pieces, and save it in ``folder``.

    Text is treated as by BERT: accents go, Chinese characters are words of their own. The same
    texts give the same files. ``AutoTokenizer`` opens the folder.
    """
    kept = list(texts)
    learner = _untrained(models.WordPiece(unk_token=SPECIAL_TOKENS["unk_token"]))
    characters, inside = _alphabet(learner, kept, vocabulary // 3)
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary,
        # The trainer breaks ties by id, and gives characters inside words their ids in the order
        # of a hash map. Naming them here fixes the ids; the pieces are taken from it afterwards.
        special_tokens=[*SPECIAL_TOKENS.values(), *inside],
        initial_alphabet=characters,
        limit_alphabet=len(characters),
        show_progress=False,
    )
    learner.train_from_iterator(kept, trainer)
    pieces = models.WordPiece(learner.get_vocab(), unk_token=SPECIAL_TOKENS["unk_token"])
    tokenizer = _untrained(pieces)
    cls, sep = SPECIAL_TOKENS["cls_token"], SPECIAL_TOKENS["sep_token"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{cls} $A {sep}",
        pair=f"{cls} $A {sep} $B:1 {sep}:1",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in (cls, sep)],
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        **SPECIAL_TOKENS,
    )
    fast.save_pretrained(str(folder))


def _untrained(model: models.WordPiece) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def _alphabet(tokenizer: Tokenizer, texts: list[str], limit: int) -> tuple[list[str], list[str]]:
    """The ``limit`` most frequent characters, and ``##x`` for those that stand inside words."""
    words: Counter[str] = Counter()
    for text in texts:
        split = tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(text))
        words.update(word for word, _ in split)
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            counts[character] += count
    by_count = sorted(counts, key=lambda character: (-counts[character], character))
    kept = set(by_count[:limit])
    inside = {character for word in words for character in word[1:]}
    return sorted(kept), [f"##{character}" for character in sorted(kept & inside)]
