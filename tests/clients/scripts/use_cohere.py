"""cohere."""

import cohere
from features import EMBEDDER, REAL, RERANKER, SAID, feature, run

client = cohere.ClientV2(api_key="none", base_url=REAL)


@feature("rerank")
def rerank() -> None:
    found = client.rerank(model=RERANKER, query="a cat", documents=["the cat", "a river"], top_n=1)
    assert len(found.results) == 1 and 0 <= found.results[0].relevance_score <= 1


@feature("chat", refused="/v1/chat/completions")
def chat() -> None:
    client.chat(model="bundled", messages=SAID)


@feature("embed", refused="/v1/embeddings")
def embed() -> None:
    client.embed(model=EMBEDDER, texts=["one"], input_type="search_query", embedding_types=["float"])


run()
