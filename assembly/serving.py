"""Model servers, on a host each or split over slices, and who watches them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assembly.foundation import Foundation
from assembly.slicing import Slicing
from assembly.weights import Weights
from catalog.disaggregated import ROLES
from components.observability import Observability, ObservabilityArgs, Watched, of_deployment
from components.serving.disaggregated import Disaggregated, DisaggregatedArgs
from components.serving.metrics_adapter import MetricsAdapter, MetricsAdapterArgs
from components.serving.namespace import ServingNamespace, ServingNamespaceArgs
from components.serving.server_home import ServerHome, ServerHomeArgs
from components.serving.single_host import SingleHost, SingleHostArgs
from config.servers import Server, needs_adapter
from config.sliced import SlicedServer, alert_advice
from config.stack import Stack


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model that is served: where it answers, and what is watched of it."""

    way_in: Mapping[str, Any]
    watched: Watched


def single_hosts(
    stack: Stack, served: Mapping[str, Server], base: Foundation, weights: Weights
) -> dict[str, Model]:
    adapter = None
    if needs_adapter(stack):
        adapter = MetricsAdapter(
            "metrics-adapter",
            MetricsAdapterArgs(
                project=stack.project,
                project_number=weights.store.project_number,
                image=stack.images.metrics_adapter,
                after=[base.cluster.ready],
            ),
            base.on_cluster,
        )
    homes = {
        namespace: ServingNamespace(
            namespace, ServingNamespaceArgs(namespace=namespace), base.on_cluster
        )
        for namespace in sorted({server.said.namespace for server in served.values()})
    }
    made = {
        key: SingleHost(
            key,
            SingleHostArgs(
                project=stack.project,
                project_number=weights.store.project_number,
                region=stack.location.region,
                subnetwork=base.network.subnetwork,
                proxy_only=stack.network.proxy_only,
                namespace=server.said.namespace,
                home=homes[server.said.namespace],
                engine=server.engine,
                node_selector=server.node_selector,
                replicas=server.replicas,
                wait_for_node=server.wait_for_node,
                cache_bucket=weights.store.cache,
                script_image=stack.images.staging,
                entry=server.entry,
                entry_after=[base.network],
                clients=server.clients,
                api_key_secret=server.said.api_key_secret,
                adapter=adapter.ready if adapter else None,
                after=[
                    *weights.store.may_read[key],
                    *weights.staging.staged.get(key, ()),
                    *(pool for name, pool in base.pools.items() if name == server.said.pool),
                ],
            ),
            base.on_cluster,
        )
        for key, server in served.items()
    }
    return {
        key: Model(
            way_in=made[key].way_in,
            watched=Watched(
                namespace=server.said.namespace,
                home=homes[server.said.namespace],
                pod_labels=made[key].pod_labels,
                advice=of_deployment(key, server.said.namespace, server.engine.startup_seconds),
                server=made[key].serving,
            ),
        )
        for key, server in served.items()
    }


def split_over_slices(
    stack: Stack,
    sliced: Mapping[str, SlicedServer],
    base: Foundation,
    slicing: Slicing,
    weights: Weights,
    *,
    stack_name: str,
) -> dict[str, Model]:
    homes = {
        namespace: ServerHome(
            f"{namespace}-servers",
            ServerHomeArgs(namespace=slicing.queues.namespaces[namespace]),
            base.on_cluster,
        )
        for namespace in sorted({server.said.namespace for server in sliced.values()})
    }
    made = {
        key: Disaggregated(
            key,
            DisaggregatedArgs(
                project=stack.project,
                project_number=weights.store.project_number,
                region=stack.location.region,
                subnetwork=base.network.subnetwork,
                proxy_only=stack.network.proxy_only,
                namespace=server.said.namespace,
                home=slicing.queues.namespaces[server.said.namespace],
                queue=slicing.rules,
                local_queue=slicing.queues.local_queues[server.said.namespace],
                engines=server.engines,
                version=server.version,
                replicas=server.replicas,
                spare=server.said.surges,
                router=server.said.router.release,
                picker=server.picker,
                sidecar=server.sidecar,
                failure_mode=server.said.router.failure_mode,
                local_prefill_tokens=server.said.router.local_prefill_tokens,
                picker_cpus=server.said.router.cpus,
                picker_memory_gib=server.said.router.memory_gib,
                answer_seconds=server.said.answer_seconds,
                entry=server.entry,
                entry_after=[base.network],
                api_key_secret=server.said.api_key_secret,
                cache_bucket=weights.store.cache,
                script_image=stack.images.staging,
                scripts=homes[server.said.namespace].scripts,
                router_after=[base.cluster.ready],
                after=[
                    *weights.store.may_read[key],
                    *weights.staging.staged.get(key, ()),
                    *slicing.ready,
                ],
            ),
            base.on_cluster,
        )
        for key, server in sliced.items()
    }
    return {
        key: Model(
            way_in=made[key].way_in,
            watched=Watched(
                namespace=server.said.namespace,
                home=homes[server.said.namespace],
                pod_labels=made[key].pod_labels,
                advice=alert_advice(key, server, stack_name),
                roles=ROLES,
                server=made[key].serving,
            ),
        )
        for key, server in sliced.items()
    }


def watch(stack: Stack, models: Mapping[str, Model], base: Foundation) -> Observability:
    return Observability(
        "observability",
        ObservabilityArgs(
            project=stack.project,
            cluster=stack.name,
            models={key: model.watched for key, model in models.items()},
            emails=stack.observability.emails,
            channels=stack.observability.channels,
            queue_alert=stack.observability.queue_alert,
            labels=stack.resource_labels,
            after=[base.services.services["monitoring"]],
        ),
        base.on_cluster,
    )
