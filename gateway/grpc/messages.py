"""The messages of `sluicegate_v1.proto`, made from its compiled descriptor when this module is imported.

protoc's own Python modules refuse every protobuf library older than the compiler that wrote them; a descriptor is read
by all. `python -m tools.compile_proto` writes the descriptor and the types of `messages.pyi` anew.
"""

from __future__ import annotations

from importlib import resources
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_set = descriptor_pb2.FileDescriptorSet.FromString(
    (resources.files("sluicegate.gateway.grpc") / "sluicegate_v1.binpb").read_bytes()
)
DESCRIPTOR = descriptor_pool.Default().AddSerializedFile(_set.file[0].SerializeToString())


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(DESCRIPTOR.message_types_by_name[name])


GenerateRequest = _message("GenerateRequest")
Choices = _message("Choices")
Message = _message("Message")
Tool = _message("Tool")
ToolCall = _message("ToolCall")
GenerateResponse = _message("GenerateResponse")
Choice = _message("Choice")
TokenLogprob = _message("TokenLogprob")
Usage = _message("Usage")
StreamEvent = _message("StreamEvent")
Opening = _message("Opening")
Delta = _message("Delta")
CallDelta = _message("CallDelta")
Closing = _message("Closing")
EmbedRequest = _message("EmbedRequest")
EmbedResponse = _message("EmbedResponse")
Embedding = _message("Embedding")
