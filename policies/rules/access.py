"""Roles inside the cluster and the accounts pods run under."""

from __future__ import annotations

from collections.abc import Iterator

from rules import links
from rules.cluster import GOLDEN
from rules.kinds import (
    BINDINGS,
    POD,
    ROLES,
    Pod,
)
from rules.model import (
    DROP,
    Guard,
    Resource,
    Severity,
    rule,
)


@rule(
    "RBAC-01",
    "No wildcards in roles and no cluster-admin.",
    severity=Severity.CRITICAL,
    on=ROLES | BINDINGS,
    fix="List the verbs, groups and resources that are used.",
    url=links.RBAC,
    refs=[links.cis("4.1.1"), links.cis("4.1.3"), links.trivy("KSV-0044"), links.trivy("KSV-0111")],
    guards=[
        Guard(("rules", 0, "verbs"), ["*"], on=ROLES),
        Guard(("rules", 0, "resources"), ["*"], on=ROLES),
        Guard(("rules", 0, "apiGroups"), ["*"], on=ROLES),
        Guard("roleRef.name", "cluster-admin", on=BINDINGS),
    ],
)
def no_wildcards(role: Resource) -> Iterator[str]:
    for entry in role.each("rules"):
        for field in ("verbs", "resources", "apiGroups"):
            if "*" in entry.texts(field):
                yield f"{entry.at(field)} is *: list what is used"
    if role.text("roleRef.name") == "cluster-admin":
        yield "roleRef is cluster-admin: bind a role with what is used"


@rule(
    "RBAC-02",
    "No role for everyone.",
    severity=Severity.CRITICAL,
    on=BINDINGS,
    fix="Bind named accounts or groups.",
    url=links.RBAC,
    refs=[links.cis("4.1.8"), links.cis("4.1.10"), GOLDEN],
    guards=[Guard(("subjects", 0, "name"), "system:authenticated")],
)
def no_role_for_everyone(binding: Resource) -> Iterator[str]:
    everyone = {"system:authenticated", "system:unauthenticated", "system:anonymous"}
    for subject in binding.each("subjects"):
        if subject.text("name") in everyone:
            yield f"{subject.at('name')} is {subject.text('name')}: bind named accounts or groups"


@rule(
    "RBAC-03",
    "Secrets are read by name.",
    severity=Severity.HIGH,
    on=ROLES,
    fix="Set resourceNames, or keep the rule in a Role of one namespace.",
    url=links.RBAC,
    refs=[links.cis("4.1.2"), links.trivy("KSV-0041"), links.checkov("CKV2_K8S_5")],
    guards=[
        Guard("rules", [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]}],
              when=lambda r: r.type.endswith(":ClusterRole")),
    ],
)  # fmt: skip
def secrets_by_name(role: Resource) -> Iterator[str]:
    if not role.type.endswith(":ClusterRole"):
        return
    for entry in role.each("rules"):
        reads = {"get", "list", "watch"} & set(entry.texts("verbs"))
        if "secrets" in entry.texts("resources") and reads and not entry.raw("resourceNames"):
            yield f"{entry.at()} reads every secret of the cluster: use a Role, or resourceNames"


@rule(
    "RBAC-04",
    "No role can raise itself.",
    severity=Severity.HIGH,
    on=ROLES,
    fix="Remove escalate, bind, impersonate and nodes/proxy; name the webhooks that are written.",
    url=links.RBAC,
    refs=[links.cis("4.1.7"), links.checkov("CKV_K8S_155"), links.checkov("CKV_K8S_158")],
    guards=[
        Guard(("rules", 0, "verbs"), ["escalate"]),
        Guard(("rules", 0, "verbs"), ["impersonate"]),
        Guard(("rules", 0, "resources"), ["nodes/proxy"]),
    ],
)
def no_escalation(role: Resource) -> Iterator[str]:
    for entry in role.each("rules"):
        for verb in {"escalate", "bind", "impersonate"} & set(entry.texts("verbs")):
            yield f"{entry.at('verbs')} has {verb}: remove it"
        if "nodes/proxy" in entry.texts("resources"):
            yield f"{entry.at('resources')} has nodes/proxy: remove it"
        writes = {"create", "update", "patch", "delete"} & set(entry.texts("verbs"))
        webhooks = {"mutatingwebhookconfigurations", "validatingwebhookconfigurations"}
        if writes and webhooks & set(entry.texts("resources")) and not entry.raw("resourceNames"):
            yield f"{entry.at()} writes every webhook configuration: set resourceNames"


@rule(
    "KSA-01",
    "Pods carry an API token only where they use it.",
    severity=Severity.MEDIUM,
    on=POD,
    fix="Set automountServiceAccountToken to false in the pod template.",
    url=links.RBAC,
    refs=[links.cis("4.1.5"), links.checkov("CKV_K8S_38"), links.trivy("KSV-0036")],
    guards=[
        Guard("automountServiceAccountToken", True, when=lambda p: p.asks_tpu),
        Guard("automountServiceAccountToken", DROP, when=lambda p: p.asks_tpu),
    ],
)
def no_token(pod: Pod) -> Iterator[str]:
    if pod.asks_tpu and pod.flag("automountServiceAccountToken") is not False:
        yield f"{pod.at('automountServiceAccountToken')} is on: model servers need no API token"


@rule(
    "KSA-02",
    "Pods run under an account of their own.",
    severity=Severity.MEDIUM,
    on=POD,
    fix="Set serviceAccountName.",
    url=links.RBAC,
    refs=[links.cis("4.1.4"), links.checkov("CKV_K8S_41")],
    guards=[Guard("serviceAccountName", DROP), Guard("serviceAccountName", "default")],
)
def own_account(pod: Pod) -> Iterator[str]:
    if pod.text("serviceAccountName") in {None, "", "default"}:
        yield f"{pod.at('serviceAccountName')} is default: make an account for the workload"


RULES = [
    no_wildcards,
    no_role_for_everyone,
    secrets_by_name,
    no_escalation,
    no_token,
    own_account,
]
