"""What a stack tells its users, and the commands that come next."""

from collections.abc import Mapping
from typing import Any

import pulumi

from assembly.foundation import Foundation
from assembly.serving import Model
from assembly.weights import Weights
from components.observability import Observability
from config.outline import cost_per_hour, describe, endpoint, queue_table, slice_table
from config.queueing import Queueing
from config.servers import Server
from config.sliced import SlicedServer, sliced_endpoint
from config.stack import Stack


def of_foundation(stack: Stack, base: Foundation) -> dict[str, Any]:
    name, region = base.cluster.cluster_name, stack.location.region
    return {
        "cluster": {
            "project": stack.project,
            "name": name,
            "location": region,
            "endpoint": base.cluster.endpoint,
            "credentials": pulumi.Output.concat(
                "gcloud container clusters get-credentials ",
                name,
                f" --location={region} --project={stack.project} --dns-endpoint",
            ),
        },
        "network": {
            "network": base.network.network,
            "subnetwork": base.network.subnetwork,
            "proxyOnlySubnetwork": base.network.proxy_only_subnetwork,
        },
        "tpuPools": {key: describe(pool) for key, pool in stack.tpu_pools.items()},
        "costPerHour": cost_per_hour(stack),
        "versions": {
            "gke": stack.cluster.version,
            "channel": stack.cluster.channel,
            **(stack.queueing.releases.model_dump() if stack.queueing else {}),
        },
    }


def of_slicing(stack: Stack, queueing: Queueing) -> dict[str, Any]:
    return {
        "queues": queue_table(queueing, stack.tpu_pools),
        "slices": slice_table(queueing, stack.tpu_pools),
    }


def of_serving(
    served: Mapping[str, Server],
    sliced: Mapping[str, SlicedServer],
    models: Mapping[str, Model],
    weights: Weights,
    watching: Observability,
    *,
    stack_name: str,
) -> dict[str, Any]:
    endpoints = {key: endpoint(key, server) for key, server in served.items()}
    endpoints |= {key: sliced_endpoint(key, server) for key, server in sliced.items()}
    folders = {key: server.engine.weights for key, server in served.items()}
    folders |= {key: server.weights for key, server in sliced.items()}
    proof = " --accuracy" if any(server.needs_proof for server in sliced.values()) else ""
    return {
        "endpoints": {key: {**endpoints[key], **model.way_in} for key, model in models.items()},
        "storage": {
            "weights": pulumi.Output.concat("gs://", weights.store.weights),
            "cache": pulumi.Output.concat("gs://", weights.store.cache),
            "models": folders,
        },
        "dashboards": {"serving": watching.dashboard},
        "verify": f"python -m ops verify --stack {stack_name}{proof}",
    }
