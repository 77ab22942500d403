"""The load balancer in front of a model: inside the VPC, or on the internet with TLS."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as k8s

from catalog.serving import Entry

INTERNAL = "gke-l7-rilb"
PUBLIC = "gke-l7-global-external-managed"
REGIONAL_PUBLIC = "gke-l7-regional-external-managed"
PROGRAMMED_SECONDS = 900
"""A Gateway is programmed within a few minutes."""


@dataclass(frozen=True, kw_only=True)
class GatewayArgs:
    project: str
    region: str
    subnetwork: pulumi.Input[str]
    """Where an internal address is taken from."""
    namespace: pulumi.Input[str]
    entry: Entry
    after: Sequence[pulumi.Resource] = ()


class Gateway(pulumi.ComponentResource):
    """A reserved address and the Gateway that listens on it."""

    gateway: pulumi.Output[str]
    address: pulumi.Output[str]
    url: pulumi.Output[str]
    programmed: pulumi.Resource
    """Exists once the load balancer is there."""

    def __init__(
        self, name: str, args: GatewayArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuserve:serving:Gateway", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        first = child.merge(pulumi.ResourceOptions(depends_on=list(args.after)))

        entry = args.entry
        address: gcp.compute.Address | gcp.compute.GlobalAddress
        if entry.regional_certificate is not None:
            address = gcp.compute.Address(
                f"{name}-address",
                project=args.project,
                region=args.region,
                address_type="EXTERNAL",
                opts=first,
            )
        elif entry.public:
            address = gcp.compute.GlobalAddress(
                f"{name}-address", project=args.project, address_type="EXTERNAL", opts=first
            )
        else:
            address = gcp.compute.Address(
                f"{name}-address",
                project=args.project,
                region=args.region,
                subnetwork=args.subnetwork,
                address_type="INTERNAL",
                purpose="GCE_ENDPOINT",
                opts=first,
            )
        gateway = k8s.apiextensions.CustomResource(
            f"{name}-gateway",
            api_version="gateway.networking.k8s.io/v1",
            kind="Gateway",
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=name,
                namespace=args.namespace,
                annotations={
                    "pulumi.com/waitFor": "condition=Programmed",
                    "pulumi.com/timeoutSeconds": str(PROGRAMMED_SECONDS),
                    **_certificates(entry),
                },
            ),
            spec={
                "gatewayClassName": _class(entry),
                "listeners": [_listener(entry)],
                "addresses": [{"type": "NamedAddress", "value": address.name}],
            },
            opts=first,
        )

        self.gateway = pulumi.Output.from_input(name)
        self.address = address.address
        self.url = (
            pulumi.Output.from_input(f"https://{entry.host}")
            if entry.public
            else pulumi.Output.concat("http://", address.address)
        )
        self.programmed = gateway
        self.register_outputs({"address": self.address, "url": self.url})


def _class(entry: Entry) -> str:
    if entry.regional_certificate is not None:
        return REGIONAL_PUBLIC
    return PUBLIC if entry.public else INTERNAL


def _listener(entry: Entry) -> dict[str, object]:
    routes = {"namespaces": {"from": "Same"}}
    if not entry.public:
        return {"name": "http", "protocol": "HTTP", "port": 80, "allowedRoutes": routes}
    secured: dict[str, object] = {
        "name": "https",
        "protocol": "HTTPS",
        "port": 443,
        "hostname": entry.host,
        "allowedRoutes": routes,
    }
    if entry.regional_certificate is not None:
        secured["tls"] = {
            "mode": "Terminate",
            "options": {"networking.gke.io/cert-manager-certs": entry.regional_certificate},
        }
    return secured


def _certificates(entry: Entry) -> dict[str, str]:
    # The certificate map stands in for the listener's `tls`.
    if entry.certificate_map is None:
        return {}
    return {"networking.gke.io/certmap": entry.certificate_map}
