"""The address ranges of the stack."""

from typing import Annotated, Any

from pydantic import Field

from config.fields import Cidr, Section, Whole

JUMBO_MTU = 8896
"""Largest MTU of a VPC; Google advises it for TPU traffic between hosts."""


class NetworkExtra(Section):
    """Arguments of the provider's network resources that this schema does not model."""

    vpc: dict[str, Any] = Field(default_factory=dict)
    """Of its Network, in snake case."""
    subnetwork: dict[str, Any] = Field(default_factory=dict)
    """Of the nodes' Subnetwork, in snake case: flow logs, say."""
    router: dict[str, Any] = Field(default_factory=dict)
    """Of its Router, in snake case."""
    nat: dict[str, Any] = Field(default_factory=dict)
    """Of its RouterNat, in snake case: addresses of your own, say."""


class Network(Section):
    """Ranges of nodes, pods, services, load-balancer proxies and control plane."""

    nodes: Cidr
    """Primary range of the subnet: one address per node."""
    pods: Cidr
    """Fixed when the cluster is made: size it for a whole block on the first day."""
    services: Cidr
    """Cluster addresses of Services."""
    proxy_only: Cidr
    """Where internal load balancers send their requests from."""
    control_plane: Cidr
    """A /28; webhooks are called from it."""
    mtu: Annotated[Whole, Field(ge=1300, le=JUMBO_MTU)] = JUMBO_MTU
    """The provider does not check MTU; the API accepts 1300 to 8896."""
    extra: NetworkExtra = NetworkExtra()
    """Arguments for the provider, as they are."""
