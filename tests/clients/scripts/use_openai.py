"""openai."""

import io
import json
import time

import openai
from features import CLARA as FIELDS
from features import EMBEDDER, PLAIN, REAL, SAID, SCRIPTED, SUNNY, WEATHER, feature, run
from person import CLARA, Person

real = openai.OpenAI(base_url=f"{REAL}/v1", api_key="none", max_retries=0)
scripted = openai.OpenAI(base_url=f"{SCRIPTED}/v1", api_key="none", max_retries=0)
COLD = {"model": "bundled", "temperature": 0}


@feature("chat")
def chat() -> None:
    assert scripted.chat.completions.create(model="scripted", messages=SAID).choices[0].message.content == PLAIN


@feature("chat, schema")
def chat_schema() -> None:
    found = real.chat.completions.parse(messages=SAID, response_format=Person, **COLD)
    assert found.choices[0].message.parsed == CLARA


@feature("chat, schema, streamed")
def chat_schema_streamed() -> None:
    with real.chat.completions.stream(messages=SAID, response_format=Person, **COLD) as stream:
        pieces = [event.delta for event in stream if event.type == "content.delta"]
    assert len(pieces) > 1 and Person.model_validate_json("".join(pieces)) == CLARA


@feature("chat, tool demanded")
def tool_demanded() -> None:
    tool = openai.pydantic_function_tool(Person, name="save_person")
    called = real.chat.completions.parse(
        messages=SAID, tools=[tool], tool_choice="required", parallel_tool_calls=False, **COLD
    )
    assert called.choices[0].message.tool_calls[0].function.parsed_arguments == CLARA


@feature("chat, tools")
def tools() -> None:
    first = scripted.chat.completions.create(model="scripted", messages=SAID, tools=[WEATHER])
    [call] = first.choices[0].message.tool_calls
    assert json.loads(call.function.arguments) == {"city": "Oslo"}
    history = [*SAID, first.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
    second = scripted.chat.completions.create(model="scripted", messages=history, tools=[WEATHER])
    assert second.choices[0].message.content == SUNNY


@feature("chat, tools, streamed")
def tools_streamed() -> None:
    with scripted.chat.completions.stream(model="scripted", messages=SAID, tools=[WEATHER]) as stream:
        kinds = {event.type for event in stream}
    assert "tool_calls.function.arguments.done" in kinds


@feature("completions")
def completions() -> None:
    found = scripted.completions.create(model="scripted", prompt="Say it.", max_tokens=20)
    assert found.choices[0].text == PLAIN


@feature("responses")
def responses() -> None:
    assert scripted.responses.create(model="scripted", input="Say it.", store=False).output_text == PLAIN


@feature("responses, schema")
def responses_schema() -> None:
    assert real.responses.parse(input=SAID, text_format=Person, **COLD).output_parsed == CLARA


@feature("responses, tools, streamed")
def responses_tools() -> None:
    tool = {"type": "function", "name": "get_weather", "parameters": WEATHER["function"]["parameters"]}
    with scripted.responses.stream(model="scripted", input=SAID, tools=[tool]) as stream:
        kinds = {event.type for event in stream}
        [call] = [item for item in stream.get_final_response().output if item.type == "function_call"]
    assert "response.function_call_arguments.delta" in kinds
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    second = scripted.responses.create(model="scripted", input=[*SAID, call, result], tools=[tool])
    assert second.output_text == SUNNY


@feature("responses, input tokens")
def input_tokens() -> None:
    assert real.responses.input_tokens.count(model="bundled", input="Hello there").input_tokens > 1


@feature("responses, stored", refused="responses are not stored here")
def stored() -> None:
    scripted.responses.delete("resp_1")


@feature("embeddings")
def embeddings() -> None:
    found = real.embeddings.create(model=EMBEDDER, input=["one", "two"])
    assert [len(one.embedding) for one in found.data] == [32, 32]


@feature("moderations")
def moderations() -> None:
    assert real.moderations.create(input="hello").results[0].flagged is False


@feature("models")
def models() -> None:
    assert "bundled" in {model.id for model in real.models.list()}


@feature("files and batches")
def batches() -> None:
    body = {"model": "scripted", "messages": SAID}
    line = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": body}
    file = scripted.files.create(file=io.BytesIO(json.dumps(line).encode()), purpose="batch")
    batch = scripted.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
    while batch.status not in ("completed", "failed"):
        time.sleep(0.1)
        batch = scripted.batches.retrieve(batch.id)
    [row] = scripted.files.content(batch.output_file_id).text.splitlines()
    assert json.loads(row)["response"]["body"]["choices"][0]["message"]["content"] == PLAIN


@feature("asynchronous")
async def asynchronous() -> None:
    client = openai.AsyncOpenAI(base_url=f"{REAL}/v1", api_key="none", max_retries=0)
    found = await client.chat.completions.parse(messages=SAID, response_format=Person, **COLD)
    assert found.choices[0].message.parsed.model_dump() == FIELDS


@feature("images", refused="models here read and write text")
def images() -> None:
    real.images.generate(model="bundled", prompt="a cat")


@feature("errors")
def errors() -> None:
    try:
        real.chat.completions.create(model="nope", messages=SAID)
    except openai.NotFoundError as error:
        assert error.code == "model_not_found" and error.request_id
    else:
        raise AssertionError("an unknown model was answered")


run()
