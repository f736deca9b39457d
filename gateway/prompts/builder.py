"""Build the messages that a model reads from the templates and documents that a request names, in two steps.

    expand     before the rails: the template, examples and every document become messages that rails read
    arrange    once the model is known: documents that fit go into the last message, best at both ends

What is the same for many requests comes first, so that its KV blocks are reused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sluicegate.gateway.prompts.documents import CUT_NOTE, Count, Order, fitting, ordered, text_of, tokens_up_to
from sluicegate.gateway.prompts.lengths import encode
from sluicegate.gateway.prompts.summary import extractive, nearest, summariser
from sluicegate.gateway.prompts.templates import CONTEXT, PLAIN_FRAME, QUESTION, Template, Templates, rendered
from sluicegate.gateway.settings import PromptSettings
from sluicegate.plugins import Document, Message, Parts, Request, RequestError, ServedModel

Run = Callable[..., Awaitable[Any]]
"""Maps (bytes, function, arguments) to the function's result: the caller decides where it runs."""
CHARS_PER_TOKEN = 3
"""Characters counted as one token of another server's model; a low estimate, so that texts are rather overestimated."""
SUMMARY_SHARE = 0.25
TEMPLATE_TOKENS = 64
"""Allowance for the tokens that a chat template adds."""


async def at_once(nbytes: int, function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


@dataclass(frozen=True, slots=True)
class Arranged:
    """`request`: with the documents in its last message. `pieces`: what stands below each other there, with the number
    of the document, or None for the question's frame and a summary."""

    request: Request
    pieces: tuple[tuple[int | None, str], ...] = ()


class PromptBuilder:
    def __init__(self, settings: PromptSettings) -> None:
        """Read the templates and the order of documents. Raises `ConfigurationError`."""
        self.templates = Templates(settings.folder, settings.templates)
        self._order: Order = settings.order
        self._share = settings.context_share
        self._summarise = summariser(settings.summarise)

    def expand(self, request: Request, *, more: bool = False) -> Request:
        """Return `request` with template and documents as messages; unchanged if it was expanded. `more`: documents may
        come later. Raises `NotFound` for a template that is not there, `RequestError` for missing variables."""
        parts = request.parts
        if parts is None or parts.expanded:
            return request
        if not request.messages or request.messages[-1].role != "user":
            raise RequestError("a template or context needs a last message of the user, the question", param="messages")
        *before, last = request.messages
        if parts.template:
            template = self.templates.get(parts.template)
            parts = replace(parts, template=template.id, version=template.version)
            stable = self._stable(template, parts)
            parts, before = replace(parts, before=len(stable)), [*stable, *before]
        framed = replace(last, content=self._framed(parts, request, last.content, more=more))
        shown = self.shown(parts.documents)
        kept = tuple(Document("", "", document.score) for document in parts.documents)
        parts = replace(parts, documents=kept, expanded=True)
        return replace(request, messages=(*before, *shown, framed), parts=parts)

    def shown(self, documents: Sequence[Document]) -> list[Message]:
        """Return documents as messages of their own, as rails read them."""
        return [Message("user", text_of(document), name=document.source or None) for document in documents]

    def place(self, request: Request) -> str:
        """Return the mark that stands where documents will."""
        return _place(request)

    def without_place(self, request: Request, content: str) -> str:
        """Return `content` without the mark: there are no documents."""
        return content.replace(_place(request), "").lstrip("\n")

    async def arrange(self, request: Request, model: ServedModel, run: Run = at_once) -> Arranged:
        """Put the documents that fit into the last message. `request` was expanded, and may be arranged again for
        another model; what rails redacted stays redacted. `run` does the counting."""
        parts = request.parts
        if parts is None or not parts.documents:
            return Arranged(request)
        first = len(request.messages) - 1 - len(parts.documents)
        seen = request.messages[first:-1]
        documents = [
            Document(message.content, str(number), document.score)
            for number, (message, document) in enumerate(zip(seen, parts.documents, strict=True))
        ]
        before, last = request.messages[:first], request.messages[-1]
        shown, summary = await self._context(documents, parts, replace(request, messages=(*before, last)), model, run)
        context = "\n\n".join(filter(None, (*(document.text for document in shown), summary)))
        above, _, below = last.content.partition(_place(request))
        pieces = ((None, above), *((int(one.source), one.text) for one in shown), (None, summary), (None, below))
        content = last.content.replace(_place(request), context)
        made = replace(request, messages=(*before, replace(last, content=content)))
        return Arranged(made, tuple((number, text) for number, text in pieces if text.strip()))

    def _stable(self, template: Template, parts: Parts) -> list[Message]:
        """Return the messages that come first and depend on the variables alone."""
        system = rendered(self.templates.environment, template.system, parts.variables, template.id)
        examples = [m for u, a in template.examples for m in (Message("user", u), Message("assistant", a))]
        return [*([Message("system", system)] if system else []), *examples]

    def _framed(self, parts: Parts, request: Request, question: str, *, more: bool) -> str:
        """Return the question in its frame, with a mark where `arrange` puts the documents."""
        frame = self.templates.get(parts.template).user if parts.template else PLAIN_FRAME
        context = _place(request) if parts.documents or more else ""
        variables = {**parts.variables, CONTEXT: context, QUESTION: question}
        return rendered(self.templates.environment, frame, variables, parts.template or "none")

    async def _context(
        self, documents: list[Document], parts: Parts, request: Request, model: ServedModel, run: Run
    ) -> tuple[list[Document], str]:
        """Return the documents that are shown, in their order, and a summary of the others."""
        count, size = counter(model), request.nbytes or sum(len(document.text) for document in documents)
        budget, shown, left = await run(size, self._chosen, documents, parts, request, model, count)
        if (not left and not _was_cut(shown)) or self._summarise is None:
            return ordered(shown, self._order, documents), ""
        spared = int(budget * SUMMARY_SHARE)
        shown, left = await run(size, fitting, documents, budget - spared, count)
        whole = {document for document in shown if not document.text.endswith(CUT_NOTE)}
        rest = [document for document in documents if document not in whole]
        question = request.messages[-1].content
        if self._summarise is extractive:
            summary = await run(size, nearest, rest, question, spared, count)
        else:
            summary = await self._summarise(rest, question, spared, count)
        return ordered(shown, self._order, documents), summary

    def _chosen(
        self, documents: list[Document], parts: Parts, request: Request, model: ServedModel, count: Count
    ) -> tuple[int, list[Document], list[Document]]:
        budget = self._budget(parts, request, model, count)
        return budget, *fitting(documents, budget, count)

    def _budget(self, parts: Parts, request: Request, model: ServedModel, count: Count) -> int:
        """Return the tokens for documents: as asked, as the template says, or a share of the context; never more than
        the rest of the prompt and the answer leave."""
        template = self.templates.get(parts.template) if parts.template else None
        asked = parts.context_tokens or (template.context_tokens if template else None)
        context = model.context_length
        rest = sum(tokens_up_to(message.content, context, count) for message in request.messages)
        answer = request.sampling.max_tokens or model.context_length // 4
        room = model.context_length - rest - min(answer, model.context_length // 2) - TEMPLATE_TOKENS
        return max(0, min(asked or int(model.context_length * self._share), room))


def counter(model: ServedModel) -> Count:
    """Return a function that counts the tokens of a text for `model`."""
    if model.remote:
        return lambda text: -(-len(text) // CHARS_PER_TOKEN)
    tokenizer: Any = model.tokenizer
    return lambda text: len(encode(tokenizer, text, special=False))


def _was_cut(shown: Sequence[Document]) -> bool:
    return any(document.text.endswith(CUT_NOTE) for document in shown)


def _place(request: Request) -> str:
    """Return a mark that no caller can have written: the id was made here."""
    return f"[[context of {request.id}]]"
