"""Replicas that follow the load, on a gauge of vLLM's own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as k8s

from catalog.serving import PORT, Scale

SCALE_DOWN_PERIOD_SECONDS = 300
SCALE_DOWN_SECONDS = 600
"""A replica costs minutes to get back, so it leaves only after ten without need."""
LONGEST_PERIOD_SECONDS = 1800
"""Most the API takes as the period of a policy (autoscaling/v2, HPAScalingPolicy)."""


@dataclass(frozen=True, kw_only=True)
class AutoscalerArgs:
    namespace: pulumi.Input[str]
    deployment: pulumi.Input[str]
    pod_labels: Mapping[str, str]
    scale: Scale
    replica_seconds: int
    """From the wish for a replica to its first answer: node, image, weights, programs."""
    managed: bool
    """GKE reads the metric from the pods itself; else the Stackdriver adapter hands it over."""
    after: Sequence[pulumi.Resource] = ()


class Autoscaler(pulumi.ComponentResource):
    """A HorizontalPodAutoscaler on one vLLM metric."""

    def __init__(
        self, name: str, args: AutoscalerArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuserve:serving:Autoscaler", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)

        waits = list(args.after)
        if args.managed:
            waits.append(
                k8s.apiextensions.CustomResource(
                    f"{name}-metric",
                    api_version="autoscaling.gke.io/v1beta1",
                    kind="AutoscalingMetric",
                    metadata=k8s.meta.v1.ObjectMetaArgs(name=name, namespace=args.namespace),
                    spec=_exposed(args),
                    opts=child,
                )
            )
        auto = k8s.autoscaling.v2
        auto.HorizontalPodAutoscaler(
            f"{name}-scale",
            metadata=k8s.meta.v1.ObjectMetaArgs(name=name, namespace=args.namespace),
            spec=auto.HorizontalPodAutoscalerSpecArgs(
                scale_target_ref=auto.CrossVersionObjectReferenceArgs(
                    api_version="apps/v1", kind="Deployment", name=args.deployment
                ),
                min_replicas=args.scale.min,
                max_replicas=args.scale.max,
                metrics=[
                    auto.MetricSpecArgs(
                        type="Pods",
                        pods=auto.PodsMetricSourceArgs(
                            metric=auto.MetricIdentifierArgs(name=metric_path(name, args)),
                            target=auto.MetricTargetArgs(
                                type="AverageValue", average_value=quantity(args.scale.target)
                            ),
                        ),
                    )
                ],
                behavior=auto.HorizontalPodAutoscalerBehaviorArgs(
                    scale_up=_one_each(scale_up_period(args.replica_seconds), stabilized=0),
                    scale_down=_one_each(SCALE_DOWN_PERIOD_SECONDS, stabilized=SCALE_DOWN_SECONDS),
                ),
            ),
            opts=child.merge(pulumi.ResourceOptions(depends_on=waits)),
        )
        self.register_outputs({})


def metric_path(name: str, args: AutoscalerArgs) -> str:
    """The metric as an autoscaler finds it; a wrong prefix or colon reads as `<unknown>`."""
    if args.managed:
        return f"autoscaling.gke.io|{name}|{_short(args.scale.metric)}"
    return f"prometheus.googleapis.com|{args.scale.metric}|gauge"


def scale_up_period(replica_seconds: int) -> int:
    """Seconds from one new replica to the next. A queue looks just as long while the last one still
    loads, so it gets its time, as far as the API allows."""
    return min(replica_seconds, LONGEST_PERIOD_SECONDS)


def quantity(target: float) -> str:
    """A Kubernetes quantity: whole, or in thousandths."""
    return str(int(target)) if target == int(target) else f"{round(target * 1000)}m"


def _short(metric: str) -> str:
    return metric.removeprefix("vllm:").replace("_", "-")


def _exposed(args: AutoscalerArgs) -> dict[str, object]:
    gauge = {"name": _short(args.scale.metric), "prometheusMetricName": args.scale.metric}
    container = {"endpoint": {"port": PORT, "path": "/metrics"}, "metrics": [{"gauge": gauge}]}
    selector = {"matchLabels": dict(args.pod_labels)}
    return {"metrics": [{"pod": {"selector": selector, "containers": [container]}}]}


def _one_each(seconds: int, *, stabilized: int) -> k8s.autoscaling.v2.HPAScalingRulesArgs:
    one = k8s.autoscaling.v2.HPAScalingPolicyArgs(type="Pods", value=1, period_seconds=seconds)
    return k8s.autoscaling.v2.HPAScalingRulesArgs(
        policies=[one], stabilization_window_seconds=stabilized
    )
