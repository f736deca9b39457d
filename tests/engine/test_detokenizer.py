"""Same as `tokenizer.decode` of the whole, but incremental; a code point is never split."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from sluicegate.engine import Detokenizer
from sluicegate.engine.text.choice_text import ChoiceText
from sluicegate.engine.text.stopping import StopChecker
from tests.engine.tiny_models import byte_tokenizer

TEXTS = st.text(alphabet=st.sampled_from('ab the ins{":}é€漢字🙂👩‍👩‍👧'), max_size=40)


@cache
def sentencepiece_like() -> PreTrainedTokenizerFast:
    """Make a tokenizer of Llama-2's kind: a few pieces, the rest as bytes `<0x..>`, a leading space stripped."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "b", "▁the", "é", "▁a"]
    tokenizer = Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, [], byte_fallback=True))
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(steps)
    tokenizer.add_special_tokens(["<s>", "</s>"])
    tokenizer.add_tokens([AddedToken(text, normalized=True) for text in ("▁▁", "<td>", "x▁<", "<0x41>")])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")


@cache
def wordpiece() -> PreTrainedTokenizerFast:
    pieces = ["[UNK]", "the", "##in", "##g", "cat", ".", "漢"]
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


@cache
def byte_level() -> PreTrainedTokenizerFast:
    tokenizer = byte_tokenizer()
    tokenizer.add_tokens([AddedToken("<tool>", special=False), AddedToken("<hid>", special=True)])
    return tokenizer


def pieces_of(tokenizer: PreTrainedTokenizerFast, ids: list[int]) -> list[str]:
    stream = Detokenizer(tokenizer).stream()
    return [*(stream.feed(token) for token in ids), stream.close()]


def whole(tokenizer: PreTrainedTokenizerFast, ids: list[int]) -> str:
    return str(tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(0, 267), max_size=30))
def test_any_tokens_of_a_byte_level_tokenizer_join_to_the_whole(ids: list[int]) -> None:
    """Also malformed bytes, special tokens and added tokens, in any order."""
    assert "".join(pieces_of(byte_level(), ids)) == whole(byte_level(), ids)


@settings(max_examples=100, deadline=None)
@given(TEXTS)
def test_no_piece_of_valid_text_holds_half_a_code_point(text: str) -> None:
    ids = byte_level().encode(text, add_special_tokens=False)
    pieces = pieces_of(byte_level(), ids)
    assert "".join(pieces) == text
    assert "\ufffd" not in "".join(pieces)


@pytest.mark.parametrize("make", [byte_level, sentencepiece_like])
def test_text_that_is_cut_within_a_code_point_ends_before_it(make: Callable[[], PreTrainedTokenizerFast]) -> None:
    ids = make().encode("é日🙂", add_special_tokens=False)
    for length in range(len(ids)):
        stream = Detokenizer(make()).stream()
        text = "".join(stream.feed(token) for token in ids[:length]) + stream.close(cut=True)
        assert "é日🙂".startswith(text)


def test_an_answer_cut_by_its_length_has_no_replacement_character_and_all_its_tokens() -> None:
    ids = byte_level().encode("a🙂", add_special_tokens=False)[:-1]
    for reason, expected in (("length", "a"), ("stop", "a\ufffd")):
        choice = ChoiceText(0, Detokenizer(byte_level()).stream(), StopChecker(()))
        for token in ids:
            choice.feed(token, None)
        piece = choice.last_piece(reason, stopped=False)  # type: ignore[arg-type]
        assert (piece.text, piece.token_ids) == (expected, tuple(ids))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(st.integers(259, 266).map(lambda i: [i]), TEXTS.map(lambda t: [3 + b for b in t.encode()]))))
def test_byte_fallback_tokens_of_valid_text_join_to_the_whole(parts: list[list[int]]) -> None:
    """Also tokens that were added, as Gemma's runs of spaces are."""
    ids = [token for part in parts for token in part]
    assert "".join(pieces_of(sentencepiece_like(), ids)) == whole(sentencepiece_like(), ids)


def test_malformed_byte_fallback_becomes_one_replacement_for_each_malformed_part() -> None:
    ids = [3 + 0xE6, 3 + 0xBC, 260, 3 + 0xFF, 3 + 0x41]
    assert "".join(pieces_of(sentencepiece_like(), ids)) == "\ufffda\ufffdA"


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 6), max_size=20))
def test_a_tokenizer_whose_text_depends_on_neighbours_joins_to_the_whole(ids: list[int]) -> None:
    assert "".join(pieces_of(wordpiece(), ids)) == whole(wordpiece(), ids)


def test_token_bytes_are_exact_even_for_part_of_a_code_point() -> None:
    tokenizer = byte_level()
    detokenizer = Detokenizer(tokenizer)
    ids = tokenizer.encode("é the", add_special_tokens=False)
    assert b"".join(detokenizer.token_bytes(token) for token in ids) == "é the".encode()
    assert detokenizer.token_bytes(ids[0]) == b"\xc3"
    assert detokenizer.token_text(ids[0]) == "\ufffd"
    assert detokenizer.token_bytes(257) == b"</s>"
    assert Detokenizer(sentencepiece_like()).token_bytes(262) == b" the"


@pytest.mark.parametrize("make", [byte_level, sentencepiece_like])
def test_special_tokens_are_hidden(make: object) -> None:
    tokenizer = make()  # type: ignore[operator]
    assert "".join(pieces_of(tokenizer, [tokenizer.eos_token_id, tokenizer.bos_token_id])) == ""


@given(
    st.lists(st.integers(0, 255), max_size=10),
    st.lists(st.sampled_from(["\ufffd", "a", "é", "aé", "\ufffda"]), min_size=1, max_size=2),
    st.lists(st.booleans(), min_size=10, max_size=10),
)
def test_tokens_beside_a_stop_string_do_not_depend_on_how_many_come_at_once(
    odd: list[int], stops: list[str], asked: list[bool]
) -> None:
    """A step brings one token, or several that were guessed or forced: ids are the same when pieces are asked for after
    each, at the end alone, or at some of them. A token whose text is not complete is given with it, or not at all."""
    tokenizer = byte_level()
    ids = [i for byte in odd for i in tokenizer.encode("aé")[byte % 3 : byte % 3 + 1]]

    def given_by(pieces: list[bool]) -> tuple[list[int], str]:
        choice = ChoiceText(0, Detokenizer(tokenizer).stream(), StopChecker(tuple(stops)))
        found: list[int] = []
        text, stopped = "", False
        for token, now in zip(ids, pieces, strict=False):
            stopped = choice.feed(token, None)
            if stopped:
                break
            if now and (piece := choice.piece()) is not None:
                found += piece.token_ids
                text += piece.text
        last = choice.last_piece("stop", stopped=stopped)
        return found + list(last.token_ids), text + last.text

    assert given_by([True] * 10) == given_by([False] * 10) == given_by(asked)


def test_spaces_of_an_added_token_are_spaces_in_text_and_in_masks() -> None:
    """They were written as `▁▁`, and a grammar took them for such letters."""
    tokenizer = sentencepiece_like()
    [spaces] = tokenizer.convert_tokens_to_ids(["▁▁"])
    assert Detokenizer(tokenizer).token_bytes(spaces) == b"  "
    assert "".join(pieces_of(tokenizer, [260, spaces, 261])) == whole(tokenizer, [260, spaces, 261]) == "a  b"
