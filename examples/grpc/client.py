"""Stream an answer over gRPC. The client's code is made from the proto file when it starts.

    pip install grpcio grpcio-tools grpcio-status googleapis-common-protos
    python client.py 127.0.0.1:50051 bundled "Invoice INV-2041, total 318.40 EUR." [schema.json]

The key, where the gateway needs one, comes from SLUICEGATE_API_KEY. Ctrl-C cancels the call, which ends the generation.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

PROTO = Path(__file__).resolve().parents[2] / "gateway" / "grpc" / "sluicegate_v1.proto"


def main(address: str, model: str, text: str, schema: str = "") -> int:
    sys.path.append(str(PROTO.parent))  # where grpc looks for proto files
    messages, services = grpc.protos_and_services(PROTO.name)
    request = messages.GenerateRequest(model=model, messages=[messages.Message(role="user", content=text)])
    if schema:
        request.json_schema = Path(schema).read_text("utf-8")
    key = os.environ.get("SLUICEGATE_API_KEY", "")
    metadata = [("authorization", f"Bearer {key}")] if key else []
    with grpc.insecure_channel(address) as channel:
        call = services.SluicegateStub(channel).Stream(request, timeout=60, metadata=metadata)
        try:
            return show(call)
        except grpc.RpcError as error:
            return explain(error)


def show(call: grpc.Call) -> int:
    """Print the answer as it comes. It is whole once `closing` has come, and not before."""
    for event in call:
        for delta in event.deltas:
            print(delta.content, end="", flush=True)
            if delta.HasField("refusal"):
                print(f"\nstopped by a rail: {delta.refusal}")
        if event.HasField("closing"):
            used = event.closing.usage
            print(f"\n{used.prompt_tokens} tokens in, {used.completion_tokens} out")
    return 0


def explain(error: grpc.RpcError) -> int:
    """Say what was refused, and which field was wrong or when to come back."""
    print(f"{error.code().name}: {error.details()}", file=sys.stderr)
    status = rpc_status.from_call(error)
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    for detail in status.details if status else ():
        if detail.Unpack(info):
            print(f"  {info.reason} {dict(info.metadata)}", file=sys.stderr)
        elif detail.Unpack(retry):
            print(f"  come back in {retry.retry_delay.ToTimedelta().total_seconds():g} s", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
