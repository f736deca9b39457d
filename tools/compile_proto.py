"""Write what is made of `gateway/grpc/sluicegate_v1.proto`: its descriptor, and the types of its messages.

    python -m tools.compile_proto

A test fails where what is in the repository is not what this writes.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from grpc_tools import protoc

FOLDER = Path(__file__).resolve().parent.parent / "gateway" / "grpc"
NAME = "sluicegate_v1"


def write(folder: Path = FOLDER) -> None:
    """Write `sluicegate_v1.binpb` and `messages.pyi` to `folder`. Raises `RuntimeError` for what is no proto file."""
    included = resources.files("grpc_tools") / "_proto"
    outputs = [f"--descriptor_set_out={folder / NAME}.binpb", f"--pyi_out={folder}"]
    status = protoc.main(["protoc", f"-I{FOLDER}", f"-I{included}", *outputs, str(FOLDER / f"{NAME}.proto")])
    if status:
        raise RuntimeError(f"protoc ended with status {status}")
    (folder / f"{NAME}_pb2.pyi").rename(folder / "messages.pyi")


if __name__ == "__main__":
    write()
