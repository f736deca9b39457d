"""Hints for a 404: the other server's interface that a path belongs to, or the similar path that is served here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

CHAT, TEXT, VECTORS = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
MODELS, SEE = "see /v1/models", "see /docs for what is"
TEXT_ONLY = "models here read and write text"
NOT_STORED = "conversations are not stored here; send the whole one to /v1/chat/completions or /v1/responses"
FOREIGN: tuple[tuple[str, str, str], ...] = (
    (r"/api/chat", "Ollama's", f"send {CHAT}"),
    (r"/api/generate", "Ollama's", f"send {TEXT}"),
    (r"/api/embed(dings)?", "Ollama's", f"send {VECTORS}"),
    (r"/api/(tags|ps|show)", "Ollama's", "see /v1/models"),
    (r"/api/(pull|push|create|copy|delete|version)", "Ollama's", "the operator says which models are loaded"),
    (r"/(v1|v2)/(chat|generate)", "Cohere's", f"send {CHAT}"),
    (r"/(v1|v2)/embed", "Cohere's", f"send {VECTORS}"),
    (r"/v1(beta)?/.*:(g|streamG)enerateContent", "Gemini's", f"send {CHAT}"),
    (r"/v1(beta)?/.*:(e|batchE)mbedContents?", "Gemini's", f"send {VECTORS}"),
    (r"/v1(beta)?/.*:countTokens", "Gemini's", "send /tokenize"),
    (r"/model/.*/(converse|invoke)(-stream|-with-response-stream)?", "Bedrock's", f"send {CHAT}"),
    (r"/openai/deployments/.*", "Azure's", f"send {CHAT}, with the deployment as `model`"),
    (r"/v1/fim/completions", "Mistral's", "the models served here write forward only"),
    (r"/(v1/)?(agents|ocr|classifications)(/.*)?", "Mistral's", f"send {CHAT}"),
    (r"/(generate(_stream)?)?", "TGI's", f"send {TEXT} or {CHAT}"),
    (r"/info", "TGI's", MODELS),
    (r"/completion", "llama.cpp's", f"send {TEXT}"),
    (r"/infill", "llama.cpp's", "the models served here write forward only"),
    (r"/(props|slots|lora-adapters)(/.*)?", "llama.cpp's", MODELS),
    (r"/(get_model_info|get_server_info|model_info|server_info)", "SGLang's", MODELS),
    (r"/classify", "vLLM's", "send /v1/moderations, or /v1/score"),
    (r"/pooling", "vLLM's", f"send {VECTORS}"),
    (r"/invocations", "SageMaker's", f"send {CHAT} or {VECTORS}"),
    (r"/v1/(images|audio|videos|realtime)(/.*)?", "OpenAI's", TEXT_ONLY),
    (r"/v1/(assistants|threads|conversations)(/.*)?", "OpenAI's", NOT_STORED),
    (r"/v1/fine_tuning(/.*)?", "OpenAI's", "nothing is trained here"),
    (r"/v1/vector_stores(/.*)?", "OpenAI's", "send documents in `sluicegate.context`"),
    (r"/v1/uploads(/.*)?", "OpenAI's", "send the whole file to /v1/files"),
    (r"/v1/(evals|containers|organization)(/.*)?", "OpenAI's", SEE),
    (r"/v1/complete", "Anthropic's older", "send /v1/messages"),
    (r"/v1/(skills|sessions|environments)(/.*)?", "Anthropic's", SEE),
)
_PATTERNS = tuple((re.compile(pattern), whose, instead) for pattern, whose, instead in FOREIGN)
LONGEST = 500


def hint_at(path: str) -> str:
    """Return the hint after `Not Found`; empty where the path belongs to no known interface."""
    for pattern, whose, instead in _PATTERNS:
        if len(path) <= LONGEST and pattern.fullmatch(path.rstrip("/") or "/"):
            return f"; that is {whose} interface, which is not served here: {instead}"
    return ""


def nearly(path: str, served: Iterable[str]) -> str:
    """Return the hint after `Not Found` for a path that is none of `served`: the similar one, or where all are listed.

    A client given a wrong base URL asks for a path with `/v1` missing, or with a part of it twice.
    """
    known = [one for one in served if one.startswith("/v1/") and "{" not in one] if len(path) <= LONGEST else []
    if f"/v1{path}" in known:
        return f"; did you mean /v1{path}? Put /v1 at the end of the client's base URL"
    for one in sorted(known, key=len, reverse=True):
        if path != one and (path.endswith(one) or path.startswith(f"{one}/")):
            return f"; did you mean {one}? The client adds a part of it that its base URL has too"
    near = get_close_matches(path.lower(), known, 1, 0.85)
    return f"; did you mean {near[0]}?" if near else "; see /docs for what is served"
