"""Templates of `sluicegate plugins new`: for each slot a working stage and its test.

`$name` is the stage's name in the configuration, `$Class` that of its class, `$module` that of the package.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sluicegate.plugins.contract.names import SlotName


@dataclass(frozen=True, slots=True)
class Skeleton:
    """`imports`: names of `plugins` that the stage uses. `made`: how `register` makes the stage from `settings` and
    `registry`. `tested`: how the test makes it. `doubles`: names of `sluicegate.plugins.testing` that this takes."""

    imports: tuple[str, ...]
    body: str
    made: str = "$Class(**settings)"
    tested: str = "$Class()"
    doubles: tuple[str, ...] = ()
    table: str = ""
    """Lines for the stage's table in the configuration."""


MODERATE = '''
class $Class:
    """Replaces `word` while the answer streams.

    Not covered: other spellings of it. Say here what your rail does not see.
    """

    def __init__(self, word: str = "nightingale") -> None:
        if not word:
            raise ValueError("`word` must not be empty")
        self.name = "$name"
        self.word = word
        self.properties = RailProperties(
            version="1",
            look_back=0,
            hold_back=len(word) - 1,
            budget_s=0.005,
            examples=(
                RailExample(f"about {word}, in short", forbidden=(word,)),
                RailExample(f"about {word[:-1]} or {word[1:]}"),
            ),
        )

    def open(self, request: Request, caller: Caller, channel: Channel) -> RailSession:
        return Session(self.word)


class Session:
    """One channel of one answer. All state lives here; the rail is shared by every request."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.waiting = ""  # text that is not settled
        self.offset = 0  # where it begins in the whole answer

    def feed(self, text: str) -> Verdict:
        self.waiting += text
        return self.settle(len(self.waiting) - self.begun())

    def close(self) -> Verdict:
        return self.settle(len(self.waiting))

    def begun(self) -> int:
        """Length of the longest end of the text that the word begins with: only this has to wait."""
        return max(n for n in range(len(self.word)) if self.waiting.endswith(self.word[:n]))

    def settle(self, end: int) -> Verdict:
        spans, at = [], self.waiting.find(self.word)
        while at >= 0:
            start = self.offset + at
            spans.append(Span(start, start + len(self.word), "$name"))
            at = self.waiting.find(self.word, at + len(self.word))
        self.waiting, self.offset = self.waiting[end:], self.offset + end
        return Verdict(self.offset, tuple(spans))
'''

SCREEN = '''
class $Class:
    """Refuses requests that name `word`.

    Not covered: other spellings of it. Say here what your rail does not see.
    """

    def __init__(self, word: str = "nightingale") -> None:
        self.word = word
        examples = (RailExample(f"tell me about {word}", forbidden=(word,)), RailExample("tell me about birds"))
        self.properties = RailProperties(version="1", budget_s=0.1, examples=examples, reads="texts")

    async def screen(self, request: Request, caller: Caller) -> ScreenResult:
        found = [text.place for text in texts_of(request) if self.word in text.text]
        if found:
            return ScreenResult("block", f"it names what must not be named in {found[0]}", told=f"mend {found[0]}")
        return ScreenResult()
'''

ADMIT = '''
class $Class:
    """Lets everyone in; raise a `RequestError` (`PermissionDenied`, `RateLimited` ...) to refuse."""

    async def admit(self, request: Request, caller: Caller) -> Caller:
        return caller
'''

ROUTE = '''
class $Class:
    """The model that was asked for, else `default`, else the first that is served."""

    def __init__(self, default: str = "") -> None:
        self.default = default

    async def route(self, request: Request, caller: Caller, models: Mapping[str, ServedModel]) -> str:
        if request.model in models:
            return request.model
        return self.default if self.default in models else next(iter(models))
'''

ASSEMBLE = '''
class $Class:
    """One line a message, and the role whose turn it is."""

    async def assemble(self, request: Request, model: ServedModel) -> Prompt:
        text = "".join(f"{message.role}: {message.content}\\n" for message in request.messages) + "assistant: "
        token_ids = tuple(model.tokenizer(text, add_special_tokens=False)["input_ids"])
        if len(token_ids) >= model.context_length:
            raise ContextLengthExceeded(f"the prompt has {len(token_ids)} tokens, {model.context_length} fit")
        return Prompt(text, token_ids)
'''

RECALL = '''
class $Class:
    """Keeps the last `entries` answers in memory. It must never raise: a cache that is down answers None."""

    def __init__(self, entries: int = 1000) -> None:
        self.entries = entries
        self.kept: dict[CacheKey, tuple[Answer, ...]] = {}

    async def look_up(self, key: CacheKey) -> tuple[Answer, ...] | None:
        return self.kept.get(key)

    async def store(self, key: CacheKey, answers: tuple[Answer, ...]) -> None:
        self.kept[key] = answers
        while len(self.kept) > self.entries:
            del self.kept[next(iter(self.kept))]
'''

WRAPPING = '''
class $Class:
    """Stands around another stage of the same slot; start and close are passed on to it."""

    def __init__(self, inner: $Protocol) -> None:
        self.inner = inner

    async def start(self) -> None:
        if isinstance(self.inner, Lifecycle):
            await self.inner.start()

    async def close(self) -> None:
        if isinstance(self.inner, Lifecycle):
            await self.inner.close()
'''

CONSTRAIN = f"""{WRAPPING.replace("$Protocol", "Constrainer")}
    @property
    def unconstrained(self) -> Constraint | None:
        return self.inner.unconstrained

    async def compile(self, constraint: Constraint, model: ServedModel) -> CompiledGrammar:
        return await self.inner.compile(constraint, model)
"""

GENERATE = f"""{WRAPPING.replace("$Protocol", "Generator")}
    @property
    def models(self) -> Mapping[str, ServedModel]:
        return self.inner.models

    async def generate(self, job: Job) -> Generation:
        return await self.inner.generate(job)

    def stats(self) -> Mapping[str, float]:
        return self.inner.stats()
"""

RETRIEVE = '''
class $Class:
    """Finds notes that share words with the question. Raise where you could not look: an empty list means that there is
    nothing. Documents are screened after this, and belong to whoever may ask: mind `caller.tenant`."""

    def __init__(self, notes: tuple[str, ...] = ("Parcel 17 lies in Aarhus.",)) -> None:
        self.notes = tuple(notes)

    async def retrieve(self, request: Request, caller: Caller) -> list[Document]:
        asked = set(question_of(request).lower().split())
        shared = {note: len(asked & set(note.lower().rstrip(".").split())) for note in self.notes}
        best = sorted((note for note in self.notes if shared[note]), key=lambda note: -shared[note])
        return [Document(note, "$name", float(shared[note])) for note in best]
'''

RECORD = '''
class $Class:
    """Counts how requests ended. Never keep a text, an answer or a key without being asked to."""

    def __init__(self) -> None:
        self.ended: Counter[str] = Counter()

    async def record(self, outcome: Outcome) -> None:
        self.ended[outcome.error or "answered"] += 1
'''

SKELETONS: Mapping[SlotName, Skeleton] = {
    "admit": Skeleton(("Caller", "Request"), ADMIT),
    "screen": Skeleton(
        ("Caller", "RailExample", "RailProperties", "Request", "ScreenResult", "texts_of"),
        SCREEN,
        table='word = "nightingale"\n',
    ),
    "route": Skeleton(("Caller", "Request", "ServedModel"), ROUTE, table='default = ""\n'),
    "retrieve": Skeleton(
        ("Caller", "Document", "Request", "question_of"), RETRIEVE, table='notes = ["Parcel 17 lies in Aarhus."]\n'
    ),
    "assemble": Skeleton(("ContextLengthExceeded", "Prompt", "Request", "ServedModel"), ASSEMBLE),
    "recall": Skeleton(("Answer", "CacheKey"), RECALL, table="entries = 1000\n"),
    "constrain": Skeleton(
        ("CompiledGrammar", "Constrainer", "Constraint", "Lifecycle", "ServedModel"),
        CONSTRAIN,
        made='$Class(registry.build("constrain", "grammar", settings))',
        tested="$Class(Unconstrained())",
        doubles=("Unconstrained",),
    ),
    "generate": Skeleton(
        ("Generation", "Generator", "Job", "Lifecycle", "ServedModel"),
        GENERATE,
        made='$Class(registry.build("generate", "engine", settings))',
        tested="$Class(ScriptedModel())",
        doubles=("ScriptedModel",),
    ),
    "moderate": Skeleton(
        ("Caller", "Channel", "RailExample", "RailProperties", "RailSession", "Request", "Span", "Verdict"),
        MODERATE,
        table='word = "nightingale"\n',
    ),
    "record": Skeleton(("Outcome",), RECORD),
}
