"""ollama's client, whose interface is its own."""

import ollama
from features import REAL, SAID, feature, run

client = ollama.Client(host=REAL)


@feature("chat", refused="/v1/chat/completions")
def chat() -> None:
    client.chat(model="bundled", messages=SAID)


@feature("generate", refused="/v1/completions")
def generate() -> None:
    client.generate(model="bundled", prompt="Say it.")


@feature("embed", refused="/v1/embeddings")
def embed() -> None:
    client.embed(model="bundled", input="Say it.")


@feature("list", refused="/v1/models")
def models() -> None:
    client.list()


run()
