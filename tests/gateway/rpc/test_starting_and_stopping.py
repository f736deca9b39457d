"""How the gRPC server starts, tells its health, shows its methods, renews its certificate and stops."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from sluicegate.gateway.config import load
from sluicegate.gateway.grpc import messages
from sluicegate.gateway.server import check_bind, welcome
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import ConfigurationError, Trouble
from tests.gateway.rpc.calling import Client, Refusal, asking, ended_with, refused, spoken
from tests.gateway.test_renewal import Pair
from tests.waiting import until
from tools.compile_proto import write

FOLDER = Path(messages.__file__).parent
SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING


def health_of(client: Client, service: str = "") -> int:
    return health_pb2_grpc.HealthStub(client.channel).Check(health_pb2.HealthCheckRequest(service=service)).status


# --- the proto file -----------------------------------------------------------------------------------------------


def test_what_is_made_of_the_proto_file_is_what_it_says(tmp_path: Path) -> None:
    """`python -m tools.compile_proto` was run after the last change."""
    write(tmp_path)
    made, kept = (
        descriptor_pb2.FileDescriptorSet.FromString((folder / "sluicegate_v1.binpb").read_bytes())
        for folder in (tmp_path, FOLDER)
    )
    assert made == kept
    for name in messages.DESCRIPTOR.message_types_by_name:
        assert getattr(messages, name).DESCRIPTOR.full_name == f"sluicegate.v1.{name}"
        assert f"class {name}(" in (FOLDER / "messages.pyi").read_text("utf-8")


def test_a_client_can_be_made_from_the_proto_file_alone(tmp_path: Path) -> None:
    """As other languages make theirs; the one in `examples` does it when it starts."""
    example = Path(__file__).parents[3] / "examples" / "grpc" / "client.py"
    with spoken(script=["Hello", " back"]) as (app, _):
        command = [sys.executable, str(example), app.runtime.progress.grpc, "scripted", "Hi"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Hello back\n")


# --- start --------------------------------------------------------------------------------------------------------


def test_nothing_listens_and_nothing_is_imported_where_nobody_asked() -> None:
    code = (
        "import sys; from sluicegate.gateway.testing import TestApp\n"
        "with TestApp() as app: app.ask(); print(repr(app.runtime.progress.grpc), 'grpc' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == ["''", "False"]


def test_an_address_that_is_taken_is_a_mistake_that_is_named() -> None:
    with spoken() as (app, _):
        port = int(app.runtime.progress.grpc.rpartition(":")[2])
        with pytest.raises(RuntimeError) as caught, spoken(grpc_table={"port": port}):
            pass
    assert isinstance(caught.value.__cause__, ConfigurationError)
    assert f"127.0.0.1:{port}" in str(caught.value.__cause__)
    assert "[grpc] port" in str(caught.value.__cause__)


def test_missing_libraries_are_named_with_the_extra(monkeypatch: Any) -> None:
    for name in [name for name in sys.modules if name.startswith("sluicegate.gateway.grpc")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(RuntimeError) as caught, TestApp(settings={"grpc": {"enabled": True, "port": 0}}):
        pass
    assert "sluicegate[grpc]" in str(caught.value.__cause__)


def test_times_and_sizes_that_grpc_has_no_numbers_for_are_as_large_as_it_has() -> None:
    server = {"heartbeat_s": 1e9, "stall_s": 1e9, "head_s": 1e9, "max_body_bytes": 2**40, "max_head_bytes": 2**40}
    with spoken(server=server) as (_, client):
        assert client.generate(asking()).choices


def test_an_address_for_others_needs_keys() -> None:
    settings = load(overrides={"grpc": {"enabled": True, "host": "0.0.0.0"}})
    with pytest.raises(ConfigurationError, match=r"refusing to listen on 0\.0\.0\.0"):
        check_bind(settings)
    check_bind(load(overrides={"grpc": {"enabled": False, "host": "0.0.0.0"}}))
    keys = [{"id": "one", "key": "secret-one"}]
    check_bind(load(overrides={"grpc": {"enabled": True, "host": "0.0.0.0"}, "keys": keys}))
    said = welcome("m", ("127.0.0.1", 1), keyed=False, console=False, grpc="127.0.0.1:50051")
    assert "gRPC     127.0.0.1:50051" in said


# --- health and reflection ----------------------------------------------------------------------------------------


def test_health_follows_readiness() -> None:
    """Trouble that refuses, a start that is not over, the phase before a stop; whoever watches learns of each."""
    with spoken() as (app, client):
        progress, found = app.runtime.progress, []
        watch = health_pb2_grpc.HealthStub(client.channel).Watch(health_pb2.HealthCheckRequest())
        listener = threading.Thread(target=lambda: found.extend(iter_status(watch)), daemon=True)
        listener.start()
        until(lambda: found == [SERVING] and health_of(client) == SERVING)
        for name, value, usual in (("leaving", "stops soon", ""), ("state", "starting", "ready")):
            setattr(progress, name, value)
            until(lambda: health_of(client) == NOT_SERVING)
            setattr(progress, name, usual)
            until(lambda: health_of(client) == SERVING)
        troubles: list[Trouble] = []
        app.runtime.troubles.watch("disk", lambda: troubles)
        troubles.append(Trouble("slow"))
        assert health_of(client, "sluicegate.v1.Sluicegate") == SERVING
        troubles.append(Trouble("full", refuses=True))
        until(lambda: health_of(client) == NOT_SERVING)
        assert refused(lambda: health_of(client, "other")).code is grpc.StatusCode.NOT_FOUND
    listener.join(60)
    assert found[0] == SERVING
    assert NOT_SERVING in found


def iter_status(watch: Any) -> Any:
    try:
        for answer in watch:
            yield answer.status
    except grpc.RpcError:
        return


def test_calls_before_all_is_ready_are_sent_elsewhere() -> None:
    with spoken() as (app, client):
        app.runtime.progress.state = "starting generate engine"
        found = refused(lambda: client.generate(asking()))
        assert (found.reason, found.retry) == (("UNAVAILABLE", "OVERLOADED"), 1.0)
        app.runtime.progress.state = "ready"


def test_methods_are_shown_to_who_has_a_key() -> None:
    with spoken(keys=[{"id": "one", "key": "secret-one"}], pipeline={"admit": ["api-keys"]}) as (_, client):
        with pytest.raises(grpc.RpcError) as caught:
            ProtoReflectionDescriptorDatabase(client.channel).get_services()
        assert Refusal(caught.value).reason == ("UNAUTHENTICATED", "MISSING_API_KEY")
        assert health_of(client) == SERVING  # probes have no key
    with spoken() as (_, client):
        found = ProtoReflectionDescriptorDatabase(client.channel)
        assert "sluicegate.v1.Sluicegate" in found.get_services()
        assert found.FindFileContainingSymbol("sluicegate.v1.GenerateRequest").name == "sluicegate_v1.proto"
    with spoken(grpc_table={"reflection": False}) as (_, client), pytest.raises(grpc.RpcError) as caught:
        ProtoReflectionDescriptorDatabase(client.channel).get_services()
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


# --- certificates -------------------------------------------------------------------------------------------------


def test_a_new_certificate_is_shown_to_new_connections(tmp_path: Path) -> None:
    """One that does not fit leaves the old in force."""
    pair, other = Pair(tmp_path), Pair(tmp_path, "other")
    pair.make(1)
    other.make(2)
    server = {"tls_cert": pair.cert, "tls_key": pair.key, "renew_s": 0.05}

    def answered(trusted: str) -> bool:
        credentials = grpc.ssl_channel_credentials(Path(trusted).read_bytes())
        port = app.runtime.progress.grpc.rpartition(":")[2]
        client = Client(f"localhost:{port}", credentials=credentials)
        code = ended_with(lambda: client.generate(asking(), timeout=10))
        client.channel.close()
        assert code in (None, grpc.StatusCode.UNAVAILABLE)
        return code is None

    with spoken(server=server) as (app, _):
        assert answered(pair.cert)
        old = Path(pair.cert).read_bytes()
        (tmp_path / "old.pem").write_bytes(old)
        Path(pair.cert).write_bytes(Path(other.cert).read_bytes())  # half a pair
        until(lambda: "certificate" in str(app.runtime.readiness.troubles) or answered(str(tmp_path / "old.pem")))
        assert answered(str(tmp_path / "old.pem"))
        Path(pair.key).write_bytes(Path(other.key).read_bytes())
        until(lambda: answered(other.cert))
        assert not answered(str(tmp_path / "old.pem"))


def test_only_clients_of_the_authority_are_let_in(tmp_path: Path) -> None:
    server, client_pair, stranger = Pair(tmp_path), Pair(tmp_path, "client"), Pair(tmp_path, "stranger")
    for number, pair in enumerate((server, client_pair, stranger), start=1):
        pair.make(number)
    tables = {"tls_cert": server.cert, "tls_key": server.key, "tls_client_ca": client_pair.cert}
    trusted = Path(server.cert).read_bytes()
    with spoken(server=tables) as (app, _):
        for pair, let_in in ((client_pair, True), (stranger, False), (None, False)):
            own = (Path(pair.key).read_bytes(), Path(pair.cert).read_bytes()) if pair else (None, None)
            client = Client(
                f"localhost:{app.runtime.progress.grpc.rpartition(':')[2]}",
                credentials=grpc.ssl_channel_credentials(trusted, *own),
            )
            if let_in:
                assert client.generate(asking()).choices
            else:
                assert refused(lambda client=client: client.generate(asking(), timeout=10)).code is (
                    grpc.StatusCode.UNAVAILABLE
                )
            client.channel.close()


# --- stop ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ends_itself", [True, False])
def test_a_stop_lets_streams_end_and_ends_what_takes_longer(ends_itself: bool) -> None:
    """With UNAVAILABLE, which clients send elsewhere: a stream that was cut is never a success."""
    script = ["x"] * (20 if ends_itself else 100_000)
    drain_s = 60.0 if ends_itself else 0.3
    with spoken(server={"drain_s": drain_s}, script=script, delay_s=0.02) as (app, client):
        call = client.stream(asking())
        next(call)
        app._server.should_exit = True
        if ends_itself:
            events = list(call)
            assert events[-1].HasField("closing")
        else:
            found = refused(lambda: list(call))
            assert found.reason == ("UNAVAILABLE", "OVERLOADED")
            assert "shutting down" in found.message
        app._thread.join(60)
        assert not app._thread.is_alive()
    [outcome] = app.outcomes
    assert (outcome.error is None) is ends_itself


def test_whoever_watches_health_does_not_keep_a_gateway_from_stopping() -> None:
    with spoken(server={"drain_s": 3600.0}) as (app, client):
        watch = health_pb2_grpc.HealthStub(client.channel).Watch(health_pb2.HealthCheckRequest())
        assert next(watch).status == SERVING
        app._server.should_exit = True
        assert [answer.status for answer in watch] == [NOT_SERVING]
        app._thread.join(120)
        assert not app._thread.is_alive()
