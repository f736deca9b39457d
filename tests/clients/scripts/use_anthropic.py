"""anthropic."""

import time

import anthropic
from features import CITY, PLAIN, REAL, SAID, SCRIPTED, SUNNY, feature, run
from features import CLARA as FIELDS
from person import CLARA, Person

real = anthropic.Anthropic(base_url=REAL, api_key="none", max_retries=0)
scripted = anthropic.Anthropic(base_url=SCRIPTED, api_key="none", max_retries=0)
COLD = {"model": "bundled", "max_tokens": 200, "extra_body": {"temperature": 0}}
SHORT = {"model": "scripted", "max_tokens": 200}
WEATHER = {"name": "get_weather", "input_schema": CITY}


@feature("messages")
def messages() -> None:
    assert scripted.messages.create(messages=SAID, **SHORT).content[0].text == PLAIN


@feature("messages, streamed")
def streamed() -> None:
    with scripted.messages.stream(messages=SAID, **SHORT) as stream:
        assert "".join(stream.text_stream) == PLAIN


@feature("messages, schema")
def schema() -> None:
    assert real.messages.parse(messages=SAID, output_format=Person, **COLD).parsed_output == CLARA


@feature("messages, tool demanded")
def tool_demanded() -> None:
    save = {"name": "save_person", "input_schema": Person.model_json_schema()}
    called = real.messages.create(messages=SAID, tools=[save], tool_choice={"type": "any"}, **COLD)
    assert called.stop_reason == "tool_use" and called.content[0].input == FIELDS


@feature("messages, tools, streamed")
def tools() -> None:
    with scripted.messages.stream(messages=SAID, tools=[WEATHER], **SHORT) as stream:
        kinds = [event.type for event in stream]
        first = stream.get_final_message()
    assert "input_json" in kinds
    [use] = [block for block in first.content if block.type == "tool_use"]
    assert use.input == {"city": "Oslo"}
    result = {"type": "tool_result", "tool_use_id": use.id, "content": "sunny"}
    history = [*SAID, {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    second = scripted.messages.create(messages=history, tools=[WEATHER], **SHORT)
    assert second.content[0].text == SUNNY


@feature("tool runner")
def tool_runner() -> None:
    @anthropic.beta_tool
    def get_weather(city: str) -> str:
        """Return the weather in a city.

        Args:
            city: its name
        """
        return f"sunny in {city}"

    runner = scripted.beta.messages.tool_runner(messages=SAID, tools=[get_weather], **SHORT)
    assert runner.until_done().content[0].text == SUNNY


@feature("count_tokens")
def count_tokens() -> None:
    assert real.messages.count_tokens(model="bundled", messages=SAID).input_tokens > 10


def ended(batch):
    while batch.processing_status != "ended":
        time.sleep(0.1)
        batch = scripted.messages.batches.retrieve(batch.id)
    return batch


def lines(*models: str):
    return [
        {"custom_id": f"n{i}", "params": {"model": model, "max_tokens": 20, "messages": SAID}}
        for i, model in enumerate(models)
    ]


@feature("batches")
def batches() -> None:
    batch = ended(scripted.messages.batches.create(requests=lines("scripted", "nope", "scripted")))
    counts = batch.request_counts
    assert (counts.succeeded, counts.errored, counts.processing) == (2, 1, 0), counts
    found = {row.custom_id: row.result for row in scripted.messages.batches.results(batch.id)}
    assert found["n0"].message.content[0].text == PLAIN
    assert found["n1"].error.error.type == "not_found_error"


@feature("batches, cancelled, listed and removed")
def batches_cancelled() -> None:
    batch = scripted.messages.batches.create(requests=lines(*["scripted"] * 300))
    scripted.messages.batches.cancel(batch.id)
    batch = ended(scripted.messages.batches.retrieve(batch.id))
    counts = batch.request_counts
    assert counts.succeeded + counts.canceled == 300, counts
    kinds = [row.result.type for row in scripted.messages.batches.results(batch.id)]
    assert (kinds.count("succeeded"), kinds.count("canceled")) == (counts.succeeded, counts.canceled)
    assert batch.id in [one.id for one in scripted.messages.batches.list(limit=1)]
    scripted.messages.batches.delete(batch.id)
    assert batch.id not in [one.id for one in scripted.messages.batches.list()]


@feature("web search by the server", refused="unsupported_tool")
def web_search() -> None:
    scripted.messages.create(messages=SAID, tools=[{"type": "web_search_20250305", "name": "web_search"}], **SHORT)


@feature("errors")
def errors() -> None:
    try:
        real.messages.create(model="nope", max_tokens=9, messages=SAID)
    except anthropic.NotFoundError as error:
        assert error.body["error"]["type"] == "not_found_error" and error.request_id
    else:
        raise AssertionError("an unknown model was answered")


run()
