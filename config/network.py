"""The address ranges of the stack."""

from typing import Annotated

from pydantic import Field

from config.fields import Cidr, Section

JUMBO_MTU = 8896
"""Largest MTU of a VPC; Google advises it for TPU traffic between hosts."""


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
    mtu: Annotated[int, Field(ge=1300, le=JUMBO_MTU)] = JUMBO_MTU
    """The provider does not check MTU; the API accepts 1300 to 8896."""
