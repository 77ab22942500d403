"""The program behind tests/data/gcp-plan-matrix.json, read back from its rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.simcloud.harness import Declared, Ref

BASE = {
    "MTU": "8896",
    "ROUTING": "GLOBAL",
    "CIDR": "10.0.0.0/16",
    "PODS": "10.64.0.0/14",
    "PURPOSE": "REGIONAL_MANAGED_PROXY",
    "TOPO": "4x4x4",
    "MODE": "PROVISION_ONLY",
    "WPTYPE": "HIGH_THROUGHPUT",
    "POLNAME": "cube",
    "PREVIEW": "ENABLED",
    # The cloud answers an empty type where a policy is named: the only clean start.
    "PTYPE": "",
    "TPUTOPO": "4x4x8",
    "MACHINE": "tpu7x-standard-4t",
    "COUNT": "16",
    "MAX": "8",
    "LABEL": "cube",
    "RES": "SPECIFIC_RESERVATION",
    "MAINT": "PERIODIC",
    "CHANNEL": "RAPID",
    "DATAPATH": "ADVANCED_DATAPATH",
    "MASTER": "172.16.0.0/28",
    "CLUSTER": "tpu",
    "DELPROT": "",
    "SECRET": "1",
    "EFFECT": "NO_SCHEDULE",
    "NAT": "ALL_SUBNETWORKS_ALL_IP_RANGES",
    "DIST": "",
    "ROC": "",
}

NETWORK = "gcp:compute/network:Network fabric"
NODES = "gcp:compute/subnetwork:Subnetwork nodes"
ROUTER = "gcp:compute/router:Router edge"
CLUSTER = "gcp:container/cluster:Cluster tpu"
SECRET = "gcp:secretmanager/secret:Secret hf"


def program(changed: Mapping[str, str]) -> list[Declared]:
    """The resources with some settings changed."""
    unknown = changed.keys() - BASE.keys()
    assert not unknown, f"the matrix has a setting this program lacks: {unknown}"
    env = {**BASE, **changed}
    region = {"region": "us-central1"}
    workload: dict[str, Any] = {
        "type": env["WPTYPE"],
        "acceleratorTopology": env["TOPO"],
        "acceleratorTopologyMode": env["MODE"],
    }
    if env["DIST"]:
        workload["maxTopologyDistance"] = env["DIST"]
    return [
        Declared(
            "gcp:compute/network:Network",
            "fabric",
            {
                "name": "fabric",
                "autoCreateSubnetworks": False,
                "mtu": int(env["MTU"]),
                "routingMode": env["ROUTING"],
            },
        ),
        Declared(
            "gcp:compute/subnetwork:Subnetwork",
            "nodes",
            {
                "name": "nodes",
                "network": Ref(NETWORK),
                "ipCidrRange": env["CIDR"],
                "secondaryIpRanges": [{"rangeName": "pods", "ipCidrRange": env["PODS"]}],
                **region,
            },
        ),
        Declared(
            "gcp:compute/subnetwork:Subnetwork",
            "proxy",
            {
                "name": "proxy",
                "network": Ref(NETWORK),
                "ipCidrRange": "172.20.0.0/23",
                "purpose": env["PURPOSE"],
                "role": "ACTIVE",
                **region,
            },
        ),
        Declared(
            "gcp:compute/router:Router",
            "edge",
            {"name": "edge", "network": Ref(NETWORK), **region},
        ),
        Declared(
            "gcp:compute/routerNat:RouterNat",
            "egress",
            {
                "name": "egress",
                "router": Ref(ROUTER, "name"),
                "natIpAllocateOption": "AUTO_ONLY",
                "sourceSubnetworkIpRangesToNat": env["NAT"],
                **region,
            },
        ),
        Declared(
            "gcp:compute/resourcePolicy:ResourcePolicy",
            "cube",
            {"name": env["POLNAME"], "workloadPolicy": workload, **region},
        ),
        Declared(
            "gcp:compute/previewFeature:PreviewFeature",
            "alpha-api",
            {"name": "alpha-api", "activationStatus": env["PREVIEW"]},
        ),
        Declared(
            "gcp:container/cluster:Cluster",
            "tpu",
            {
                "name": env["CLUSTER"],
                "location": "us-central1",
                "network": Ref(NETWORK),
                "subnetwork": Ref(NODES),
                "initialNodeCount": 1,
                "removeDefaultNodePool": True,
                "deletionProtection": bool(env["DELPROT"]),
                "datapathProvider": env["DATAPATH"],
                "releaseChannel": {"channel": env["CHANNEL"]},
                "privateClusterConfig": {
                    "enablePrivateNodes": True,
                    "masterIpv4CidrBlock": env["MASTER"],
                },
            },
        ),
        Declared(
            "gcp:container/nodePool:NodePool",
            "cube",
            {
                "name": "cube",
                "cluster": Ref(CLUSTER),
                "nodeCount": int(env["COUNT"]),
                "placementPolicy": {
                    "type": env["PTYPE"],
                    "policyName": env["POLNAME"],
                    "tpuTopology": env["TPUTOPO"],
                },
                "nodeConfig": {
                    "machineType": env["MACHINE"],
                    "labels": {"pool": env["LABEL"]},
                    "reservationAffinity": {
                        "consumeReservationType": env["RES"],
                        "key": "compute.googleapis.com/reservation-name",
                        "values": ["block"],
                    },
                    "hostMaintenancePolicy": {"maintenanceInterval": env["MAINT"]},
                },
            },
            replace_on=("placementPolicy.type",) if env["ROC"] else (),
        ),
        Declared(
            "gcp:container/nodePool:NodePool",
            "spot",
            {
                "name": "spot",
                "cluster": Ref(CLUSTER),
                "autoscaling": {"minNodeCount": 0, "maxNodeCount": int(env["MAX"])},
                "nodeConfig": {
                    "machineType": "ct6e-standard-8t",
                    "spot": True,
                    "taints": [{"key": "spot", "value": "true", "effect": env["EFFECT"]}],
                },
            },
        ),
        Declared(
            "gcp:secretmanager/secret:Secret",
            "hf",
            {"secretId": "hf", "replication": {"auto": {}}},
        ),
        Declared(
            "gcp:secretmanager/secretVersion:SecretVersion",
            "hf",
            {"secret": Ref(SECRET), "secretData": env["SECRET"]},
        ),
    ]
