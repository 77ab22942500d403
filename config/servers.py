"""What follows from what a stack says about its served models."""

from collections.abc import Mapping
from dataclasses import dataclass

from catalog import buckets
from catalog.autopilot import NODE_POOL, capacity_selector, slice_selector
from catalog.serving import Engine, Entry, Scale
from config import serving
from config.cluster import Cluster
from config.location import Location
from config.serving import InCluster, Internal, Public, SingleHost, single_hosts
from config.stack import Stack
from config.tpu_pools import FlexStart, Reservation, StaticPool

NODE_SECONDS = 1800
"""For a TPU node to appear and to pull an image of many gigabytes."""
FLEX_START_SECONDS = 3 * 3600
"""Flex-start waits for capacity; how long, nobody promises."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """A served model, and what it gets from pool, cluster and buckets."""

    said: SingleHost
    engine: Engine
    node_selector: Mapping[str, str]
    wait_for_node: int
    foreign_bucket: str | None
    """The bucket of weights that are not staged here."""

    @property
    def replicas(self) -> int | Scale:
        """A fixed count, or what it follows."""
        bounds = self.said.replicas
        if bounds.min == bounds.max:
            return bounds.max
        return Scale(
            min=bounds.min,
            max=bounds.max,
            metric=self.said.metric,
            target=self.said.metric_target,
        )

    @property
    def entry(self) -> Entry | None:
        """The load balancer in front, if there is one."""
        match self.said.exposure:
            case Public() as public:
                return Entry(
                    host=public.host,
                    certificate_map=public.certificate_map,
                    security_policy=public.security_policy,
                )
            case Internal():
                return Entry()
        return None

    @property
    def clients(self) -> tuple[str, ...]:
        """Namespaces of the cluster that may call."""
        exposure = self.said.exposure
        return exposure.clients if isinstance(exposure, InCluster) else ()


def servers(stack: Stack) -> dict[str, Server]:
    """The models on single hosts, by key."""
    weights = stack.storage.weights(stack.project, stack.name)
    found = {}
    for key, said in single_hosts(stack.serving).items():
        pool = stack.tpu_pools[said.pool]
        if not isinstance(pool, StaticPool):
            msg = f"{key} runs on a pool that slices dynamically"
            raise TypeError(msg)
        found[key] = Server(
            said=said,
            engine=said.engine(pool.slice, weights_bucket=weights, image=stack.images.model_server),
            node_selector=node_selector(said.pool, pool, stack.cluster, stack.location),
            wait_for_node=FLEX_START_SECONDS
            if isinstance(pool.capacity, FlexStart)
            else NODE_SECONDS,
            foreign_bucket=None if said.weights is None else buckets.split(said.weights)[0],
        )
    return found


def node_selector(
    key: str, pool: StaticPool, cluster: Cluster, location: Location
) -> dict[str, str]:
    """How a pod finds its pool, or tells Autopilot which node to make."""
    shape = slice_selector(pool.slice)
    if not cluster.autopilot:
        spot = {"cloud.google.com/gke-spot": "true"} if pool.capacity.kind == "spot" else {}
        return {**shape, NODE_POOL: key, **spot}
    reserved = pool.capacity if isinstance(pool.capacity, Reservation) else None
    return {
        **shape,
        **capacity_selector(
            pool.capacity.kind,
            zone=location.zone,
            reservation=None if reserved is None else reserved.name,
            project=None if reserved is None else reserved.project,
        ),
    }


def needs_adapter(stack: Stack) -> bool:
    """Whether an autoscaler of the stack reads its metric through an adapter."""
    return serving.needs_adapter(stack.serving, stack.cluster)


def hub_secret(stack: Stack, *, token: bool) -> str | None:
    """Name of the secret with the hub's token, when something is staged with one."""
    if not any(said.revision for said in stack.serving.values()):
        return None
    own = f"{stack.name}-hugging-face" if token else None
    return stack.storage.hugging_face_secret or own
