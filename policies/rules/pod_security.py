"""The Pod Security Standards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rules import links
from rules.kinds import (
    CONTAINER,
    PLAIN_POD,
    POD,
    TPU_POD,
    Container,
    Pod,
)
from rules.model import DROP, Guard, Severity, rule

BASELINE = links.pss("baseline")
RESTRICTED = links.pss("restricted")


@rule(
    "POD-01",
    "No privileged containers.",
    severity=Severity.HIGH,
    on=CONTAINER,
    fix="Remove securityContext.privileged; GKE gives TPU devices to ordinary containers.",
    url=links.POD_SECURITY,
    refs=[BASELINE, links.cis("4.2.1"), links.checkov("CKV_K8S_16"), links.trivy("KSV-0017")],
    guards=[Guard("securityContext.privileged", True)],
)
def not_privileged(container: Container) -> Iterator[str]:
    if container.flag("securityContext.privileged") is True:
        yield f"{container.title} is privileged: remove it; GKE gives TPU devices without it"


@rule(
    "POD-02",
    "No host namespaces.",
    severity=Severity.HIGH,
    on=POD,
    fix="Remove hostNetwork, hostPID and hostIPC; use an emptyDir in memory for shared memory.",
    url=links.POD_SECURITY,
    refs=[BASELINE, links.checkov("CKV_K8S_19"), links.trivy("KSV-0009")],
    guards=[Guard("hostNetwork", True), Guard("hostPID", True), Guard("hostIPC", True)],
)
def no_host_namespaces(pod: Pod) -> Iterator[str]:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.flag(field) is True:
            yield f"{pod.at(field)} is on: remove it"


@rule(
    "POD-03",
    "No host ports and no host paths.",
    severity=Severity.HIGH,
    on=POD,
    fix="Use Services and emptyDir, CSI or ephemeral volumes.",
    url=links.POD_SECURITY,
    refs=[BASELINE, links.checkov("CKV_K8S_26"), links.trivy("KSV-0023")],
    guards=[
        Guard("volumes", [{"name": "host", "hostPath": {"path": "/var"}}]),
        Guard(("containers", 0, "ports"), [{"containerPort": 80, "hostPort": 80}]),
    ],
)
def no_host_access(pod: Pod) -> Iterator[str]:
    for volume in pod.each("volumes"):
        if volume.has("hostPath"):
            yield f"{volume.at()} is a hostPath: use an emptyDir, CSI or ephemeral volume"
    for container in pod.containers:
        for port in container.each("ports"):
            if port.number("hostPort"):
                yield f"{port.at('hostPort')} is set: use a Service"


@rule(
    "POD-04",
    "Volumes are of kinds that reach no host.",
    severity=Severity.MEDIUM,
    on=POD,
    fix=(
        "Use configMap, csi, downwardAPI, emptyDir, ephemeral, persistentVolumeClaim, projected "
        "or secret."
    ),
    url=links.POD_SECURITY,
    refs=[RESTRICTED],
    guards=[Guard("volumes", [{"name": "nfs", "nfs": {"server": "x", "path": "/"}}])],
)
def volume_kinds(pod: Pod) -> Iterator[str]:
    allowed = {
        "name", "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral",
        "persistentVolumeClaim", "projected", "secret",
    }  # fmt: skip
    for volume in pod.each("volumes"):
        for kind, value in volume.fields():
            if kind not in allowed and value.value is not None:
                yield f"{volume.at(kind)}: use configMap, csi, emptyDir or another kind of the list"


@rule(
    "POD-05",
    "Containers cannot gain privileges.",
    severity=Severity.MEDIUM,
    on=CONTAINER,
    fix="Set securityContext.allowPrivilegeEscalation to false.",
    url=links.POD_SECURITY,
    refs=[RESTRICTED, links.checkov("CKV_K8S_20"), links.trivy("KSV-0001")],
    guards=[
        Guard("securityContext.allowPrivilegeEscalation", True),
        Guard("securityContext.allowPrivilegeEscalation", DROP),
    ],
)
def no_escalation(container: Container) -> Iterator[str]:
    if container.flag("securityContext.allowPrivilegeEscalation") is not False:
        yield f"{container.title}: set securityContext.allowPrivilegeEscalation to false"


@rule(
    "POD-06",
    "Containers drop all capabilities.",
    severity=Severity.MEDIUM,
    on=CONTAINER,
    fix="Set securityContext.capabilities.drop to [ALL] and add at most NET_BIND_SERVICE.",
    url=links.POD_SECURITY,
    refs=[RESTRICTED, links.checkov("CKV_K8S_37"), links.trivy("KSV-0106")],
    guards=[
        Guard("securityContext.capabilities.drop", []),
        Guard("securityContext.capabilities", DROP),
        Guard("securityContext.capabilities.add", ["SYS_ADMIN"]),
    ],
)
def no_capabilities(container: Container) -> Iterator[str]:
    granted = container.node("securityContext.capabilities")
    if "ALL" not in granted.texts("drop"):
        yield f"{container.title}: set {granted.at('drop')} to [ALL]"
    extra = set(granted.texts("add")) - {"NET_BIND_SERVICE"}
    if extra:
        yield f"{container.title}: remove {', '.join(sorted(extra))} from capabilities.add"


def _runs_as_root(container: Container) -> bool:
    own, pod = container.node("securityContext"), container.pod.node("securityContext")
    non_root = own.flag("runAsNonRoot")
    user = own.number("runAsUser")
    if non_root is None:
        non_root = pod.flag("runAsNonRoot")
    if user is None:
        user = pod.number("runAsUser")
    return non_root is not True or user == 0


def _pod_wide(pod: Pod) -> bool:
    return not any(
        c.has(("securityContext", key))
        for c in pod.containers
        for key in ("runAsNonRoot", "runAsUser")
    )


@rule(
    "POD-07",
    "Pods without TPUs run as an ordinary user.",
    severity=Severity.MEDIUM,
    on=PLAIN_POD,
    fix="Set securityContext.runAsNonRoot to true and a runAsUser other than 0.",
    url=links.POD_SECURITY,
    refs=[RESTRICTED, links.checkov("CKV_K8S_23"), links.trivy("KSV-0012")],
    guards=[
        Guard("securityContext", {"runAsNonRoot": False}, when=_pod_wide),
        Guard("securityContext.runAsUser", 0, when=_pod_wide),
        Guard(("containers", 0, "securityContext", "runAsNonRoot"), False),
    ],
)
def ordinary_user(pod: Pod) -> Iterator[str]:
    for container in pod.containers:
        if _runs_as_root(container):
            yield f"{container.title} may run as root: set runAsNonRoot and a runAsUser above 0"


def _seccomp(profile: Any) -> Callable[[Any], Any]:
    """A change that gives a pod and all its containers one seccomp profile, or none."""

    def change(spec: Any) -> Any:
        if isinstance(spec, list):
            return [change(item) for item in spec]
        if not isinstance(spec, dict):
            return spec
        kept = {k: change(v) for k, v in spec.items() if k != "seccompProfile"}
        return kept | ({"seccompProfile": profile} if profile and "seccompProfile" in spec else {})

    return change


@rule(
    "POD-08",
    "Pods run under the default seccomp profile.",
    severity=Severity.MEDIUM,
    on=POD,
    fix="Set securityContext.seccompProfile.type to RuntimeDefault.",
    url=links.POD_SECURITY,
    refs=[RESTRICTED, links.cis("4.6.2"), links.checkov("CKV_K8S_31"), links.trivy("KSV-0030")],
    guards=[
        Guard((), _seccomp({"type": "Unconfined"})),
        Guard((), _seccomp(None)),
    ],
)
def seccomp(pod: Pod) -> Iterator[str]:
    fine = {"RuntimeDefault", "Localhost"}
    path = "securityContext.seccompProfile.type"
    for container in pod.containers:
        profile = container.text(path) or pod.text(path)
        if profile not in fine:
            yield f"{container.title}: set {pod.at(path)} to RuntimeDefault"


@rule(
    "POD-09",
    "The root file system is read-only.",
    severity=Severity.LOW,
    on=CONTAINER,
    fix="Set securityContext.readOnlyRootFilesystem and mount emptyDirs where the program writes.",
    url=links.POD_SECURITY,
    refs=[links.checkov("CKV_K8S_22"), links.trivy("KSV-0014")],
    guards=[
        Guard("securityContext.readOnlyRootFilesystem", False),
        Guard("securityContext.readOnlyRootFilesystem", DROP),
    ],
)
def read_only_root(container: Container) -> Iterator[str]:
    if container.flag("securityContext.readOnlyRootFilesystem") is not True:
        yield f"{container.title}: set securityContext.readOnlyRootFilesystem to true"


@rule(
    "POD-10",
    "Pods set only safe sysctls and leave /proc masked.",
    severity=Severity.MEDIUM,
    on=POD,
    fix="Set node-wide sysctls on the node pool (nodeConfig.linuxNodeConfig.sysctls).",
    url=links.NODE_CONFIG,
    refs=[BASELINE, links.trivy("KSV-0026")],
    guards=[
        Guard("securityContext.sysctls", [{"name": "vm.max_map_count", "value": "1"}]),
        Guard(("containers", 0, "securityContext", "procMount"), "Unmasked"),
    ],
)
def safe_sysctls(pod: Pod) -> Iterator[str]:
    safe = {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
    }
    for sysctl in pod.each("securityContext.sysctls"):
        name = sysctl.text("name")
        if name not in safe:
            yield f"{sysctl.at()} sets {name}: set it on the node pool's linuxNodeConfig.sysctls"
    for container in pod.containers:
        if container.text("securityContext.procMount") not in {None, "Default"}:
            yield f"{container.title}: remove securityContext.procMount"


@rule(
    "POD-21",
    "TPU pods run as an ordinary user.",
    severity=Severity.LOW,
    on=TPU_POD,
    fix="Set runAsNonRoot with writable HF_HOME and cache volumes; the public vLLM image is root.",
    url=links.POD_SECURITY,
    refs=[RESTRICTED],
    guards=[Guard(("containers", 0, "securityContext", "runAsUser"), 0)],
)
def ordinary_tpu_user(pod: Pod) -> Iterator[str]:
    for container in pod.containers:
        if _runs_as_root(container):
            yield (
                f"{container.title} may run as root: set runAsNonRoot and give HF_HOME and the "
                "compile cache writable volumes"
            )


RULES = [
    not_privileged,
    no_host_namespaces,
    no_host_access,
    volume_kinds,
    no_escalation,
    no_capabilities,
    ordinary_user,
    seccomp,
    read_only_root,
    safe_sysctls,
    ordinary_tpu_user,
]
