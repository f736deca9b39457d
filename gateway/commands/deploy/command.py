"""`sluicegate deploy ray`: gateways and engines as deployments of Ray Serve, until stopped."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from sluicegate.plugins import ConfigurationError

LOCAL = "local"


def define(parser: argparse.ArgumentParser) -> None:
    """Add what can be deployed to."""
    kinds = parser.add_subparsers(required=True, metavar="WHERE")
    ray = kinds.add_parser("ray", help="Ray Serve: replicas of gateways and engines, scaled by load")
    ray.add_argument("--config", type=Path, metavar="FILE", help="TOML file; SLUICEGATE_* variables override it")
    ray.add_argument(
        "--address",
        default=LOCAL,
        help="Ray's cluster: `auto`, HOST:PORT or ray://HOST:PORT (default: one of its own)",
    )
    ray.add_argument("--name", default="sluicegate", help="of the Serve application (%(default)s)")
    ray.add_argument("--cpus", type=int, help="of the cluster on this machine (default: as many as it has)")
    ray.add_argument("--object-store-mb", type=int, default=256, help="of the cluster on this machine (%(default)s)")
    ray.add_argument("--detach", action="store_true", help="end once it serves; only with --address")
    ray.set_defaults(run=_ray)


def _ray(parsed: argparse.Namespace) -> int:
    if parsed.detach and parsed.address == LOCAL:
        raise ConfigurationError("--detach would end the cluster of this command with it; name one with --address")
    from sluicegate.gateway.config import load

    settings = load(parsed.config, os.environ)  # before the imports that take seconds
    try:
        import ray  # noqa: F401 - an extra of its own
    except ImportError as error:
        raise ConfigurationError(
            f"Ray is not installed ({error}); `pip install 'sluicegate[ray]'`, in an environment of its own where "
            "others are not to change"
        ) from error
    from sluicegate.gateway.commands.deploy.ray import Cluster, deploy

    return deploy(
        settings, Cluster(parsed.address, parsed.cpus, parsed.object_store_mb), parsed.name, detach=parsed.detach
    )
