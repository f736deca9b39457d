"""Which clients are tried, what each is installed from, and which script drives it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

SCRIPTS = Path(__file__).parent / "scripts"


@dataclass(frozen=True, slots=True)
class Client:
    """`packages` of pip, or of npm where `script` ends in `.mjs`; the first is the one whose version is shown."""

    name: str
    packages: tuple[str, ...]
    script: str

    @property
    def npm(self) -> bool:
        return self.script.endswith(".mjs")

    @property
    def folder(self) -> Path:
        """Return the folder in which this client is installed, apart from the others: their newest versions want
        different packages."""
        return cache_folder() / self.name.replace("/", "-").replace(" ", "-")


def cache_folder() -> Path:
    """Return `SLUICEGATE_CLIENTS`, or a folder beside the caches of other programs."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("SLUICEGATE_CLIENTS") or caches / "sluicegate" / "clients")


def _client(name: str, packages: str, script: str = "") -> Client:
    return Client(name, tuple(packages.split()), script or f"use_{name.replace('-', '_')}.py")


CLIENTS = (
    _client("openai", "openai pydantic"),
    _client("anthropic", "anthropic"),
    _client("instructor", "instructor anthropic"),
    _client("langchain-openai", "langchain-openai"),
    _client("langchain-anthropic", "langchain-anthropic"),
    _client("llama-index", "llama-index-llms-openai-like llama-index-embeddings-openai-like"),
    _client("pydantic-ai", "pydantic-ai-slim[openai,anthropic]"),
    _client("openai-agents", "openai-agents"),
    _client("litellm", "litellm mcp"),  # its import needs mcp, which it does not declare
    _client("smolagents", "smolagents[openai]"),
    _client("haystack", "haystack-ai"),
    _client("autogen", "autogen-agentchat autogen-ext[openai]"),
    _client("mirascope", "mirascope[openai,anthropic]"),
    _client("magentic", "magentic"),
    _client("mistralai", "mistralai"),
    _client("cohere", "cohere"),
    _client("ollama", "ollama"),
    _client("huggingface_hub", "huggingface_hub"),
    _client("outlines", "outlines openai"),
    _client("guidance", "guidance openai"),
    _client("semantic-kernel", "semantic-kernel"),
    _client("dspy", "dspy numpy"),
    _client("agno", "agno openai"),
    _client("llm", "llm"),
    _client("strands", "strands-agents[openai]"),
    _client("langgraph", "langgraph langchain-openai"),
    _client("google-adk", "google-adk litellm mcp"),  # its litellm needs mcp, as above
    _client("crewai", "crewai"),
    _client("aisuite", "aisuite[openai]"),
    _client("mcp", "mcp"),
    _client("websockets", "websockets"),
    _client("curl", "", "use_curl.py"),
    _client("openai for JavaScript", "openai", "use_openai.mjs"),
    _client("anthropic for JavaScript", "@anthropic-ai/sdk", "use_anthropic.mjs"),
    _client("mcp for JavaScript", "@modelcontextprotocol/sdk", "use_mcp.mjs"),
    _client("Vercel AI SDK", "ai @ai-sdk/openai @ai-sdk/anthropic @ai-sdk/openai-compatible zod", "use_ai.mjs"),
    _client("LangChain for JavaScript", "@langchain/openai @langchain/core zod", "use_langchain.mjs"),
)
