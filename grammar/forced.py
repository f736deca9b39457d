"""Text that the grammar leaves no choice about, and the tokens a tokenizer would spell it with."""

from __future__ import annotations

from collections.abc import Iterable

from grammar.config import Config, Configs
from grammar.literals import Literals
from grammar.starts import Start
from grammar.tape import Tape
from grammar.threads import Choice, InLexeme, Thread
from grammar.vocabulary import Vocabulary

_MOST_BYTES = 256
_MOST_TEXT = 20_000


def forced_text(configs: Configs, config: Config, tape: Tape | None) -> bytes:
    """The bytes that must come next, as far as they are sure and in their usual spelling.

    A known string may always be spelled with escapes too; these spell the same text and are no choice. Stops
    wherever the text may end or a guard must be asked.
    """
    found = bytearray()
    while len(found) < _MOST_BYTES and not config.can_stop:
        byte = _only_byte(config.threads)
        if byte is None:
            break
        after, _ = configs.take(config, bytes([byte]), tape)
        if after is None:
            break
        found.append(byte)
        config = after
    return bytes(found)


def _only_byte(threads: Iterable[Thread]) -> int | None:
    """The one byte that all of `threads` go on with, None if there are several."""
    only: set[int] = set()
    for thread in threads:
        if isinstance(thread, Start):
            byte = _only_byte(thread.threads())
            if byte is None:
                return None
            only.add(byte)
        else:
            only |= _usual_bytes(thread)
        if len(only) > 1:
            return None
    return only.pop() if only else None


def _usual_bytes(thread: Thread) -> set[int]:
    """Bytes to go on with; several where that is not sure."""
    many = {0, 1}
    if isinstance(thread, Choice):
        return many if thread.guards else {byte for byte in thread.moves if thread.go(byte)}
    if isinstance(thread, InLexeme) and thread.lexeme.outcome(thread.state) is None:
        if isinstance(thread.lexeme, Literals):
            return thread.lexeme.usual(thread.state) or many
        return thread.lexeme.next_bytes(thread.state) or many
    return many


def canonical_tokens(vocabulary: Vocabulary, tokens: list[int], forced: bytes) -> list[int]:
    """What the tokenizer writes for `forced` after the text of `tokens`, without the last token, which what follows
    might still change; [] where `tokens` are not what the tokenizer would have written themselves."""
    if vocabulary.encode is None or len(forced) < 2:
        return []
    before = b"".join(vocabulary.words[token] for token in tokens)
    if len(before) > _MOST_TEXT:
        return []
    try:
        spelled = vocabulary.encode((before + forced).decode())
    except UnicodeDecodeError:
        return []
    added = spelled[len(tokens) : -1]
    text = b"".join(vocabulary.words[token] for token in added if token < len(vocabulary.words))
    if spelled[: len(tokens)] != tokens or not all(vocabulary.words[token] for token in added):
        return []
    return added if forced.startswith(text) else []
