"""What is seen of served models: scraping, one dashboard, alerts that say what to do."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as k8s

from catalog.router import ROLE_LABEL
from catalog.serving import PORT

SCRAPE = "15s"
COLUMNS = 48
HEIGHT = 16

CACHE_FULL = 0.95
MOST_RESTARTS = 3
READY_MINUTES = 10
QUEUE_MINUTES = 10


@dataclass(frozen=True, kw_only=True)
class Watched:
    """A served model: where it runs, and the labels that find its pods."""

    namespace: str
    home: pulumi.Resource
    """The namespace itself, which takes objects once it is there."""
    pod_labels: Mapping[str, str]
    advice: Mapping[str, str]
    """What a reader shall do, by kind of alert: absent, queue, restarts and cache-full."""
    roles: Sequence[str] = ()
    """Where an answer takes servers of several: values of ROLE_LABEL on their pods."""
    server: pulumi.Resource
    """Exists once it serves: before, no alert would say anything new."""


@dataclass(frozen=True, kw_only=True)
class ObservabilityArgs:
    project: str
    cluster: str
    models: Mapping[str, Watched]
    emails: Mapping[str, str]
    channels: Sequence[str]
    queue_alert: int
    labels: Mapping[str, str]
    after: Sequence[pulumi.Resource] = ()


class Observability(pulumi.ComponentResource):
    """Metrics, dashboard and alerts of everything a stack serves."""

    dashboard: pulumi.Output[str]
    """URL in the console."""

    def __init__(
        self, name: str, args: ObservabilityArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tpuserve:observability:Observability", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        first = child.merge(pulumi.ResourceOptions(depends_on=list(args.after)))

        for key, watched in args.models.items():
            k8s.apiextensions.CustomResource(
                f"{name}-{key}-metrics",
                api_version="monitoring.googleapis.com/v1",
                kind="PodMonitoring",
                metadata=k8s.meta.v1.ObjectMetaArgs(name=key, namespace=watched.namespace),
                spec={
                    "selector": {"matchLabels": dict(watched.pod_labels)},
                    "endpoints": [{"port": PORT, "path": "/metrics", "interval": SCRAPE}],
                    **(
                        {"targetLabels": {"fromPod": [{"from": ROLE_LABEL, "to": "role"}]}}
                        if watched.roles
                        else {}
                    ),
                },
                opts=child.merge(pulumi.ResourceOptions(depends_on=[watched.home])),
            )
        channels = [
            gcp.monitoring.NotificationChannel(
                f"{name}-{key}",
                project=args.project,
                display_name=f"{args.cluster}: {key}",
                type="email",
                labels={"email_address": address},
                user_labels=dict(args.labels),
                opts=first,
            )
            for key, address in args.emails.items()
        ]
        dashboard = gcp.monitoring.Dashboard(
            f"{name}-dashboard",
            project=args.project,
            dashboard_json=json.dumps(board(args.cluster, args.models), sort_keys=True),
            opts=first,
        )
        for key, watched in args.models.items():
            served = first.merge(pulumi.ResourceOptions(depends_on=[watched.server]))
            for alert, text in alerts(key, watched, args).items():
                gcp.monitoring.AlertPolicy(
                    f"{name}-{key}-{alert}",
                    project=args.project,
                    display_name=f"{args.cluster}: {text.title}",
                    severity=text.severity,
                    combiner="OR",
                    conditions=[_condition(text)],
                    documentation=gcp.monitoring.AlertPolicyDocumentationArgs(
                        content=text.advice,
                        mime_type="text/markdown",
                    ),
                    notification_channels=[*args.channels, *(each.id for each in channels)],
                    user_labels=dict(args.labels),
                    opts=served,
                )

        self.dashboard = dashboard.id.apply(
            lambda path: (
                "https://console.cloud.google.com/monitoring/dashboards/builder/"
                f"{path.rpartition('/')[2]}?project={args.project}"
            )
        )
        self.register_outputs({"dashboard": self.dashboard})


@dataclass(frozen=True, kw_only=True)
class Alert:
    """A condition that holds for so many minutes, and what a reader shall do."""

    title: str
    query: str
    minutes: int
    severity: str
    advice: str


def _condition(alert: Alert) -> gcp.monitoring.AlertPolicyConditionArgs:
    promql = gcp.monitoring.AlertPolicyConditionConditionPrometheusQueryLanguageArgs(
        query=alert.query,
        duration=f"{alert.minutes * 60}s",
        evaluation_interval="60s",
        # A metric without a value yet would be refused as unknown.
        disable_metric_validation=True,
    )
    return gcp.monitoring.AlertPolicyConditionArgs(
        display_name=alert.title, condition_prometheus_query_language=promql
    )


def alerts(key: str, watched: Watched, args: ObservabilityArgs) -> dict[str, Alert]:
    """What is watched of one model."""
    where = _matching(args.cluster, watched.namespace, key)
    waiting = f"vllm:num_requests_waiting{{{where}}}"
    container = (
        f'monitored_resource="k8s_container",cluster_name="{args.cluster}",'
        f'namespace_name="{watched.namespace}",container_name="vllm",pod_name=~"{key}-.*"'
    )
    return {
        **{
            f"no-{role}" if role else "no-replica": Alert(
                title=f"{key} has no ready {role or 'replica'}{' server' if role else ''}",
                # A server that does not answer cannot be scraped, and one that is gone has no
                # series.
                query=f"(sum(up{{{where}{_of(role)}}}) or vector(0)) < 1",
                minutes=READY_MINUTES,
                severity="CRITICAL",
                advice=watched.advice["absent"],
            )
            for role in watched.roles or ("",)
        },
        "queue": Alert(
            title=f"the queue of {key} grows",
            query=f"sum(avg_over_time({waiting}[10m])) > {args.queue_alert} "
            f"and sum(deriv({waiting}[10m])) > 0",
            minutes=QUEUE_MINUTES,
            severity="WARNING",
            advice=watched.advice["queue"],
        ),
        "restarts": Alert(
            title=f"{key} restarts again and again",
            query=f"sum(increase(kubernetes_io:container_restart_count{{{container}}}[30m])) "
            f">= {MOST_RESTARTS}",
            minutes=0,
            severity="CRITICAL",
            advice=watched.advice["restarts"],
        ),
        "cache-full": Alert(
            title=f"the KV cache of {key} is full",
            query=f"max(avg_over_time(vllm:kv_cache_usage_perc{{{where}}}[10m])) > {CACHE_FULL}",
            minutes=QUEUE_MINUTES,
            severity="WARNING",
            advice=watched.advice["cache-full"],
        ),
    }


def of_deployment(key: str, namespace: str, startup_seconds: int) -> dict[str, str]:
    """What to do about a model whose replicas are those of a Deployment."""
    look = f"kubectl -n {namespace}"
    return {
        "absent": f"Nobody is answered. `{look} get pods` shows whether a pod waits for a TPU "
        f"node (Pending), loads its model (up to {startup_seconds // 60} minutes), or fails: "
        f"`{look} logs deploy/{key} -c vllm --previous`.",
        "queue": f"More is asked than is answered. `{look} get hpa {key}` shows whether the "
        "autoscaler is at its maximum, `get pods` whether the TPU pool could give the nodes. "
        "Then raise `replicas.max` and the pool's `slices.max`.",
        "restarts": f"`{look} logs deploy/{key} -c vllm --previous` says why. RESOURCE_EXHAUSTED: "
        "lower `utilization`, `maxNumSeqs` or `maxModelLen`. 403 or 404 from the bucket: look at "
        "the grants and at the staged revision.",
        "cache-full": "Requests are preempted and computed again. Lower `maxModelLen` or "
        "`maxNumSeqs`, use `kvDtype: fp8`, or let more replicas share the load: `intent: latency` "
        "scales on this.",
    }


def _of(role: str) -> str:
    return f',role="{role}"' if role else ""


def _matching(cluster: str, namespace: str, job: str) -> str:
    # The collector calls a job what its PodMonitoring is called.
    return f'cluster="{cluster}",namespace="{namespace}",job="{job}"'


def board(cluster: str, models: Mapping[str, Watched]) -> dict[str, Any]:
    """The dashboard: a row of charts per question, a line per model or replica."""
    jobs = "|".join(models)
    where = f'cluster="{cluster}",job=~"{jobs}"'
    namespaces = "|".join(sorted({watched.namespace for watched in models.values()}))
    tpu = (
        f'monitored_resource="k8s_container",cluster_name="{cluster}",'
        f'namespace_name=~"{namespaces}"'
    )

    def rate(metric: str) -> str:
        return f"sum by (job) (rate({metric}{{{where}}}[1m]))"

    def quantiles(metric: str) -> dict[str, str]:
        buckets = f"sum by (le, job) (rate({metric}_bucket{{{where}}}[5m]))"
        return {
            f"p{round(q * 100)}": f"histogram_quantile({q}, {buckets})" for q in (0.5, 0.95, 0.99)
        }

    charts: list[tuple[str, str, dict[str, str]]] = [
        ("Requests waiting", "1", {"": f"vllm:num_requests_waiting{{{where}}}"}),
        ("Requests running", "1", {"": f"vllm:num_requests_running{{{where}}}"}),
        ("KV cache in use", "10^2.%", {"": f"vllm:kv_cache_usage_perc{{{where}}}"}),
        ("Preemptions", "1/s", {"": rate("vllm:num_preemptions_total")}),
        ("Time to first token", "s", quantiles("vllm:time_to_first_token_seconds")),
        ("Time per output token", "s", quantiles("vllm:request_time_per_output_token_seconds")),
        (
            "Tokens per second",
            "1/s",
            {
                "answered": rate("vllm:generation_tokens_total"),
                "read": rate("vllm:prompt_tokens_total"),
            },
        ),
        ("Replicas answering", "1", {"": f"sum by (job) (up{{{where}}})"}),
        (
            "TPU duty cycle",
            "%",
            {"": f"avg by (pod_name) (kubernetes_io:container_accelerator_duty_cycle{{{tpu}}})"},
        ),
        (
            "TPU memory in use",
            "By",
            {"": f"sum by (pod_name) (kubernetes_io:container_accelerator_memory_used{{{tpu}}})"},
        ),
    ]
    tiles = [
        {
            "xPos": COLUMNS // 2 * (index % 2),
            "yPos": HEIGHT * (index // 2),
            "width": COLUMNS // 2,
            "height": HEIGHT,
            "widget": _chart(title, unit, queries),
        }
        for index, (title, unit, queries) in enumerate(charts)
    ]
    return {
        "displayName": f"{cluster}: served models",
        "mosaicLayout": {"columns": COLUMNS, "tiles": tiles},
    }


def _chart(title: str, unit: str, queries: Mapping[str, str]) -> dict[str, Any]:
    return {
        "title": title,
        "xyChart": {
            "dataSets": [
                {
                    "plotType": "LINE",
                    "legendTemplate": legend,
                    "timeSeriesQuery": {"prometheusQuery": query, "unitOverride": unit},
                }
                for legend, query in queries.items()
            ]
        },
    }
