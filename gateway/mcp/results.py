"""Convert results of tools into texts for the rails, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MAX_BLOCKS = 256


@dataclass(frozen=True, slots=True)
class ResultTexts:
    """A result split for the rails. `texts`: one for each block of content with text, then `structured` as JSON, if
    there is any. `blocks`: (block to pass on as it is, or None for a text; index of that text)."""

    blocks: tuple[tuple[Mapping[str, Any] | None, int], ...]
    texts: tuple[str, ...]
    structured: Mapping[str, Any] | None
    failed: bool
    left_out: tuple[str, ...]
    """Parts of the result that are not passed on, or that are passed on unread."""

    @classmethod
    def of(cls, result: Mapping[str, Any], *, media: bool) -> ResultTexts:
        """Read the texts of a result. Raises `ValueError` for more than `MAX_BLOCKS` blocks, and for NaN and infinity,
        which JSON does not have."""
        content = result.get("content") or []
        if len(content) > MAX_BLOCKS:
            raise ValueError(f"it has {len(content)} blocks of content, more than {MAX_BLOCKS}")
        blocks: list[tuple[Mapping[str, Any] | None, int]] = []
        texts: list[str] = []
        left_out: list[str] = []
        for block in content:
            text, kept, note = _read(block, media=media)
            if note:
                left_out.append(note)
            if text is not None:
                texts.append(text)
                blocks.append((None, len(texts) - 1))
            if kept is not None:
                blocks.append((kept, -1))
        structured = result.get("structuredContent")
        if structured is not None:
            texts.append(_as_json(structured))
        return cls(tuple(blocks), tuple(texts), structured, bool(result.get("isError")), tuple(left_out))

    @property
    def joined(self) -> tuple[str, ...]:
        """Return the texts of several blocks of content as agents join them; nothing for a single block."""
        count = len(self.texts) - (self.structured is not None)
        return joined(self.texts[:count]) if count > 1 else ()

    @property
    def shown(self) -> str:
        """Return all texts as one, for the run's memory."""
        return "\n".join(self.texts)

    def rebuilt(self, texts: Sequence[str]) -> dict[str, Any]:
        """Return the result with `texts` in place of its own. Raises `ValueError` if the structured part is then not
        JSON, or another type."""
        content = [
            kept if kept is not None else {"type": "text", "text": texts[number]} for kept, number in self.blocks
        ]
        content += [
            {"type": "text", "text": f"[not passed on: {note}]"} for note in self.left_out if "unread" not in note
        ]
        found: dict[str, Any] = {"content": content, "isError": self.failed}
        if self.structured is not None:
            again = json.loads(texts[-1])
            if type(again) is not type(self.structured):
                raise ValueError("structuredContent is another type of value")
            found["structuredContent"] = again
        return found


def joined(texts: Sequence[str]) -> tuple[str, ...]:
    """Return `texts` joined with nothing and with a line break between them."""
    return "".join(texts), "\n".join(texts)


def _as_json(structured: Mapping[str, Any]) -> str:
    try:
        return json.dumps(structured, ensure_ascii=False, allow_nan=False)
    except ValueError as error:  # agents would read null
        raise ValueError("its structuredContent has a number that JSON does not have, NaN or infinite") from error


def _read(block: Mapping[str, Any], *, media: bool) -> tuple[str | None, Mapping[str, Any] | None, str]:
    """Return (text to screen, block to pass on as it is, note about it)."""
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text", "")), None, ""
    if kind == "resource_link":
        said = [str(block[name]) for name in ("uri", "name", "title", "description") if block.get(name)]
        return "\n".join(said), None, ""
    resource = block.get("resource") if kind == "resource" else None
    if isinstance(resource, Mapping) and "text" in resource:
        return f"{resource.get('uri', '')}\n{resource['text']}".strip(), None, ""
    if kind in ("image", "audio"):
        return _media(str(kind), block, block.get("data"), media=media)
    if isinstance(resource, Mapping) and "blob" in resource:
        return _media("file", block, resource["blob"], media=media)
    return None, None, "content of a kind that is not known here"


def _media(
    kind: str, block: Mapping[str, Any], data: Any, *, media: bool
) -> tuple[None, Mapping[str, Any] | None, str]:
    size = len(str(data or "")) * 3 // 4
    if not media:
        return None, None, f"{kind} of {size} bytes, which no rail reads"
    bare = {name: block[name] for name in ("type", "data", "mimeType", "resource") if name in block}
    return None, bare, f"{kind} of {size} bytes, passed on unread"
