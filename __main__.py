"""The stack, in the order it is built: configuration, components, outputs."""

import pulumi
import pulumi_gcp as gcp

from catalog.jobs import Job
from catalog.names import node_tag
from catalog.zones import is_ai_zone
from components.cluster import Cluster, ClusterArgs, Exclusion
from components.kubernetes import cluster_provider
from components.network import Network, NetworkArgs
from components.observability import Observability, ObservabilityArgs, Watched
from components.operators import Operators, OperatorsArgs
from components.project import ProjectServices, ProjectServicesArgs
from components.queues import Queues, QueuesArgs, Share
from components.secrets import HuggingFaceToken, HuggingFaceTokenArgs
from components.serving.disaggregated import Disaggregated, DisaggregatedArgs
from components.serving.metrics_adapter import MetricsAdapter, MetricsAdapterArgs
from components.serving.namespace import ServingNamespace, ServingNamespaceArgs
from components.serving.server_home import ServerHome, ServerHomeArgs
from components.serving.single_host import SingleHost, SingleHostArgs
from components.slice_controller import SliceController, SliceControllerArgs
from components.sliced_job import SlicedJob, SlicedJobArgs
from components.smoke import SliceSmoke, SliceSmokeArgs, SmokeJob
from components.storage import ModelStore, ModelStoreArgs, Reader, Staged, Staging, StagingArgs
from components.tpu_pool import (
    DynamicSlicePools,
    DynamicSlicePoolsArgs,
    Site,
    TpuPool,
    TpuPoolArgs,
)
from config.load import hugging_face_token, load
from config.outline import cost_per_hour, describe, endpoint, queue_table, slice_table
from config.queueing import QUEUE
from config.servers import Server, hub_secret, needs_adapter, servers
from config.sizes import most_nodes, pods_per_node
from config.sliced import SlicedServer, alert_note, sliced_endpoint, sliced_servers
from config.tpu_pools import DynamicPool, cube

stack = load()
project, region = stack.project, stack.location.region

google = gcp.Provider("google", project=project, region=region)
shared = pulumi.ResourceOptions(providers=[google], protect=stack.protect)

services = ProjectServices(
    "services",
    ProjectServicesArgs(project=project, ai_zones=is_ai_zone(stack.location.zone)),
    pulumi.ResourceOptions(providers=[google]),
)

network = Network(
    stack.name,
    NetworkArgs(
        project=project,
        region=region,
        mtu=stack.network.mtu,
        nodes=stack.network.nodes,
        pods=stack.network.pods,
        services=stack.network.services,
        proxy_only=stack.network.proxy_only,
        control_plane=stack.network.control_plane,
        node_tag=node_tag(stack.name),
        after=[services.services["compute"]],
    ),
    shared,
)

cluster = Cluster(
    stack.name,
    ClusterArgs(
        project=project,
        region=region,
        system_zones=stack.location.system_zones,
        network=network.network,
        subnetwork=network.subnetwork,
        autopilot=stack.cluster.autopilot,
        control_plane=stack.network.control_plane,
        channel=stack.cluster.channel,
        version=stack.cluster.version,
        slice_controller=stack.slices_dynamically,
        external_access=stack.cluster.access.external,
        authorized_networks=stack.cluster.access.authorized_networks,
        window_starts=stack.cluster.maintenance.window.starts,
        window_ends=stack.cluster.maintenance.window.ends,
        window_recurrence=stack.cluster.maintenance.window.recurrence,
        exclusions=[
            Exclusion(name=key, scope=each.scope, starts=each.starts, ends=each.ends)
            for key, each in stack.cluster.maintenance.exclusions.items()
        ],
        system_machine=stack.cluster.system_pool.machine,
        system_min=stack.cluster.system_pool.min,
        system_max=stack.cluster.system_pool.max,
        labels=stack.resource_labels,
        deletion_protection=stack.protect,
        extra=stack.cluster.extra,
        after=[services],
    ),
    shared,
)

site = Site(
    project=project,
    region=region,
    zone=stack.location.zone,
    stack=stack.name,
    cluster=cluster.cluster_id,
    node_account=cluster.node_account,
    labels=stack.resource_labels,
    after=[services.services["compute"]],
)
pools: dict[str, list[pulumi.Resource]] = {}
for key, pool in stack.tpu_pools.items():
    if stack.cluster.autopilot:
        continue
    if isinstance(pool, DynamicPool):
        made: pulumi.Resource = DynamicSlicePools(
            key,
            DynamicSlicePoolsArgs(
                site=site,
                slice=pool.slice,
                pods_per_node=pods_per_node(pool, stack.network.pods),
                placement_type=pool.placement_type,
                reservations=pool.reservations(project),
                extra=pool.extra,
            ),
            shared,
        )
    else:
        made = TpuPool(
            key,
            TpuPoolArgs(
                site=site,
                slice=pool.slice,
                pods_per_node=pods_per_node(pool, stack.network.pods),
                placement_type=pool.placement_type,
                min_slices=pool.slices.min,
                max_slices=pool.slices.max,
                reservation=pool.reservation(project),
                spot=pool.capacity.kind == "spot",
                flex_start_hours=pool.flex_start_hours,
                extra=pool.extra,
            ),
            shared,
        )
    pools[key] = [made]

kubernetes = cluster_provider("kubernetes", cluster)
on_cluster = pulumi.ResourceOptions(providers=[google, kubernetes])

queueing = stack.queueing
if queueing is not None:
    operators = Operators(
        "operators",
        OperatorsArgs(
            releases=queueing.releases.set,
            namespaces=queueing.every_namespace,
            nodes=most_nodes(stack.cluster, stack.tpu_pools),
            replicas=min(2, stack.cluster.system_pool.min),
            pods_ready_minutes=queueing.pods_ready_minutes,
            after=[cluster.ready],
        ),
        on_cluster,
    )
    controller = SliceController(
        "slice-controller",
        SliceControllerArgs(
            image=queueing.slice_controller.image,
            cpu=queueing.slice_controller.cpu,
            memory=queueing.slice_controller.memory,
            activation_minutes=queueing.slice_controller.activation_minutes,
            retry_seconds=queueing.slice_controller.retry_seconds,
            partition_health=queueing.slice_controller.partition_health,
            after=operators.definitions,
        ),
        on_cluster,
    )
    queues = Queues(
        "queues",
        QueuesArgs(
            queue=QUEUE,
            shares={
                key: Share(namespaces=namespaces, chips=share)
                for key, (namespaces, share) in queueing.shares(stack.tpu_pools).items()
            },
            cohort=queueing.cohort,
            shapes=queueing.shapes,
            cube=cube(),
            cpu=queueing.cpu_jobs.cpu,
            memory=queueing.cpu_jobs.memory,
            priorities=queueing.priorities,
            stop=queueing.stop,
            kueue=[operators.kueue],
            slice_controller=controller.ready,
            after=[cluster.ready],
        ),
        on_cluster,
    )
    # Workloads alone wait for chips; whatever else is sent to a webhook waits until it answers.
    slices_ready = [
        *operators.ready,
        *queues.ready,
        *(part for parts in pools.values() for part in parts),
    ]
    rules = queueing.queue(stack.tpu_pools)
    for key, said in queueing.jobs.items():
        SlicedJob(
            key,
            SlicedJobArgs(
                queue=rules,
                home=queues.namespaces[said.namespace],
                job=Job(name=key, queue=QUEUE, **dict(said)),
                after=slices_ready,
            ),
            on_cluster,
        )
    if queueing.smoke is not None:
        quiet = queueing.smoke.namespace or queueing.every_namespace[0]
        smoke = SliceSmoke(
            "smoke",
            SliceSmokeArgs(
                queue=rules,
                home=queues.namespaces[quiet],
                namespace=quiet,
                image=queueing.smoke.image,
                sub=SmokeJob(**dict(queueing.smoke.sub)),
                super=SmokeJob(**dict(queueing.smoke.super)),
                compute_seconds=queueing.smoke.seconds,
                admitted_seconds=60 * (queueing.slice_controller.activation_minutes + 4),
                after=slices_ready,
            ),
            on_cluster,
        )
        pulumi.export("smoke", smoke.expected)
    pulumi.export("queues", queue_table(queueing, stack.tpu_pools))
    pulumi.export("slices", slice_table(queueing, stack.tpu_pools))

served, sliced = servers(stack), sliced_servers(stack)
models: dict[str, Server | SlicedServer] = {**served, **sliced}
if models:
    store = ModelStore(
        stack.name,
        ModelStoreArgs(
            project=project,
            region=region,
            weights_bucket=stack.storage.weights(project, stack.name),
            cache_bucket=stack.storage.cache(project, stack.name),
            soft_delete_days=stack.storage.soft_delete_days,
            force_destroy=not stack.protect,
            labels=stack.resource_labels,
            readers={
                key: Reader(
                    namespace=server.said.namespace, account=key, bucket=server.foreign_bucket
                )
                for key, server in models.items()
            },
            after=[services.services["storage"]],
        ),
        shared,
    )
    hub_token = hugging_face_token()
    secret = hub_secret(stack, token=hub_token is not None)
    token = None
    if secret is not None:
        token = HuggingFaceToken(
            "hugging-face",
            HuggingFaceTokenArgs(
                project=project,
                region=region,
                secret=secret,
                token=hub_token,
                reader=store.stager,
                protect=stack.protect,
                after=[services.services["secretmanager"]],
            ),
            shared,
        )
    staging = Staging(
        "staging",
        StagingArgs(
            weights_bucket=store.weights,
            image=stack.images.staging,
            models={
                key: Staged(model=server.said.profile, revision=server.said.revision)
                for key, server in models.items()
                if server.said.revision is not None
            },
            token=token.path if token else None,
            after=[cluster.ready, *store.may_stage, *(token.ready if token else [])],
        ),
        on_cluster,
    )
    adapter = None
    if needs_adapter(stack):
        adapter = MetricsAdapter(
            "metrics-adapter",
            MetricsAdapterArgs(
                project=project,
                project_number=store.project_number,
                image=stack.images.metrics_adapter,
                after=[cluster.ready],
            ),
            on_cluster,
        )
    homes = {
        namespace: ServingNamespace(
            namespace, ServingNamespaceArgs(namespace=namespace), on_cluster
        )
        for namespace in sorted({server.said.namespace for server in served.values()})
    }
    hosts = {
        key: SingleHost(
            key,
            SingleHostArgs(
                project=project,
                project_number=store.project_number,
                region=region,
                subnetwork=network.subnetwork,
                proxy_only=stack.network.proxy_only,
                namespace=server.said.namespace,
                home=homes[server.said.namespace],
                engine=server.engine,
                node_selector=server.node_selector,
                replicas=server.replicas,
                wait_for_node=server.wait_for_node,
                cache_bucket=store.cache,
                script_image=stack.images.staging,
                entry=server.entry,
                entry_after=[network],
                clients=server.clients,
                api_key_secret=server.said.api_key_secret,
                adapter=adapter.ready if adapter else None,
                after=[
                    *store.may_read[key],
                    *staging.staged.get(key, ()),
                    *pools.get(server.said.pool, ()),
                ],
            ),
            on_cluster,
        )
        for key, server in served.items()
    }
    server_homes = {
        namespace: ServerHome(
            f"{namespace}-servers",
            ServerHomeArgs(namespace=queues.namespaces[namespace]),
            on_cluster,
        )
        for namespace in sorted({server.said.namespace for server in sliced.values()})
    }
    split = {
        key: Disaggregated(
            key,
            DisaggregatedArgs(
                project=project,
                project_number=store.project_number,
                region=region,
                subnetwork=network.subnetwork,
                proxy_only=stack.network.proxy_only,
                namespace=server.said.namespace,
                home=queues.namespaces[server.said.namespace],
                queue=rules,
                local_queue=queues.local_queues[server.said.namespace],
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
                entry_after=[network],
                api_key_secret=server.said.api_key_secret,
                cache_bucket=store.cache,
                script_image=stack.images.staging,
                scripts=server_homes[server.said.namespace].scripts,
                router_after=[cluster.ready],
                after=[*store.may_read[key], *staging.staged.get(key, ()), *slices_ready],
            ),
            on_cluster,
        )
        for key, server in sliced.items()
    }
    observability = Observability(
        "observability",
        ObservabilityArgs(
            project=project,
            cluster=stack.name,
            models={
                key: Watched(
                    namespace=server.said.namespace,
                    home=homes[server.said.namespace],
                    pod_labels=hosts[key].pod_labels,
                    startup_seconds=server.engine.startup_seconds,
                    server=hosts[key].serving,
                )
                for key, server in served.items()
            }
            | {
                key: Watched(
                    namespace=server.said.namespace,
                    home=server_homes[server.said.namespace],
                    pod_labels=split[key].pod_labels,
                    startup_seconds=server.startup_seconds,
                    note=alert_note(server, pulumi.get_stack()),
                    server=split[key].serving,
                )
                for key, server in sliced.items()
            },
            emails=stack.observability.emails,
            channels=stack.observability.channels,
            queue_alert=stack.observability.queue_alert,
            labels=stack.resource_labels,
            after=[services.services["monitoring"]],
        ),
        on_cluster,
    )
    pulumi.export(
        "endpoints",
        {key: {**endpoint(key, server), **hosts[key].way_in} for key, server in served.items()}
        | {
            key: {**sliced_endpoint(key, server), **split[key].way_in}
            for key, server in sliced.items()
        },
    )
    pulumi.export(
        "storage",
        {
            "weights": pulumi.Output.concat("gs://", store.weights),
            "cache": pulumi.Output.concat("gs://", store.cache),
            "models": {key: server.engine.weights for key, server in served.items()}
            | {key: server.weights for key, server in sliced.items()},
        },
    )
    pulumi.export("dashboards", {"serving": observability.dashboard})
    proof = " --accuracy" if any(server.needs_proof for server in sliced.values()) else ""
    pulumi.export("verify", f"python -m ops verify --stack {pulumi.get_stack()}{proof}")

pulumi.export(
    "cluster",
    {
        "project": project,
        "name": cluster.cluster_name,
        "location": region,
        "endpoint": cluster.endpoint,
        "credentials": pulumi.Output.concat(
            "gcloud container clusters get-credentials ",
            cluster.cluster_name,
            f" --location={region} --project={project} --dns-endpoint",
        ),
    },
)
pulumi.export(
    "network",
    {
        "network": network.network,
        "subnetwork": network.subnetwork,
        "proxyOnlySubnetwork": network.proxy_only_subnetwork,
    },
)
pulumi.export("tpuPools", {key: describe(pool) for key, pool in stack.tpu_pools.items()})
pulumi.export("costPerHour", cost_per_hour(stack))
pulumi.export(
    "versions",
    {
        "gke": stack.cluster.version,
        "channel": stack.cluster.channel,
        **(queueing.releases.model_dump() if queueing else {}),
    },
)
