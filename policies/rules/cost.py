"""Money: the pools at their largest, budgets and the labels a bill is read by."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rules import facts, links
from rules.kinds import (
    BUCKET,
    BUDGET,
    CLUSTER,
    NODE_POOL,
    SECRET,
)
from rules.model import DROP, Guard, Resource, Setting, Severity, Stack, rule
from rules.pools import (
    TPU_POOL,
    max_chips,
    price,
)


@rule(
    "TPU-17",
    "The TPU pools at their largest stay within the month's budget.",
    severity=Severity.HIGH,
    on=CLUSTER,
    whole_stack=True,
    fix="Make the pools smaller, or raise monthlyBudgetUsd in the profile.",
    url=links.BUDGETS,
    settings={
        "monthlyBudgetUsd": Setting("number", 0, "USD a month for TPU chips; 0 does not judge"),
    },
    guards=[
        Guard("autoscaling", {"maxNodeCount": 100_000}, on=TPU_POOL),
    ],
)
def within_budget(cluster: Resource, stack: Stack, settings: dict[str, Any]) -> Iterator[str]:
    budget = settings["monthlyBudgetUsd"]
    if not budget or cluster is not stack.of(CLUSTER)[0]:
        return
    total = 0.0
    for pool in stack.of(TPU_POOL):
        chips, usd = max_chips(pool), price(pool)
        if chips is None or usd is None:
            yield (
                f"pool {pool.name} has no known size or price: it is not in the sum; check it by "
                "hand"
            )
            continue
        total += chips * usd * facts.HOURS_PER_MONTH
    if total > budget:
        yield (
            f"TPU chips at their largest cost {total:,.0f} USD a month at list price, the budget "
            f"is {budget:,.0f}: make the pools smaller or raise monthlyBudgetUsd"
        )


@rule(
    "TPU-38",
    "The project has a budget that warns somebody.",
    severity=Severity.MEDIUM,
    on=CLUSTER,
    whole_stack=True,
    fix="Add a billing Budget with thresholds up to 1.0 and a notification channel.",
    url=links.BUDGETS,
    settings={"external": Setting("boolean", False, "the budget is kept outside this stack")},
    guards=[Guard((), DROP, on=BUDGET), Guard("thresholdRules", [], on=BUDGET)],
)
def budget_warns(cluster: Resource, stack: Stack, settings: dict[str, Any]) -> Iterator[str]:
    if settings["external"] or not stack.of(TPU_POOL) or cluster is not stack.of(CLUSTER)[0]:
        return
    for budget in stack.of(BUDGET):
        told = budget.raw("allUpdatesRule.monitoringNotificationChannels") or budget.raw(
            "allUpdatesRule.pubsubTopic"
        )
        if told and budget.each("thresholdRules"):
            return
    yield "no billing Budget with thresholds and a channel: add one, or set `external`"


_LABEL = re.compile(r"[a-z0-9_-]{1,63}")


@rule(
    "TPU-18",
    "What costs money carries the labels the bill is read by.",
    severity=Severity.LOW,
    on=CLUSTER | NODE_POOL | BUCKET | SECRET,
    fix="Add the missing labels.",
    url=links.BUDGETS,
    settings={
        "labels": Setting(
            "array", ["managed-by", "stack"], "labels to demand, such as team or cost-center"
        )
    },
    guards=[
        Guard("resourceLabels", DROP, on=CLUSTER),
        Guard("nodeConfig.resourceLabels", DROP, on=NODE_POOL),
        Guard("labels", DROP, on=BUCKET | SECRET),
    ],
)
def cost_labels(thing: Resource, settings: dict[str, Any]) -> Iterator[str]:
    path = {"Cluster": "resourceLabels", "NodePool": "nodeConfig.resourceLabels"}.get(
        thing.type.rpartition(":")[2], "labels"
    )
    missing = [key for key in settings["labels"] if not thing.has((*path.split("."), key))]
    if missing:
        yield f"{path} lacks {', '.join(missing)}: add them"
    for key, value in thing.fields(path):
        text = value.text()
        if text is not None and not _LABEL.fullmatch(text):
            yield f"{path}.{key} has a value with other signs than a-z, 0-9, _ and -"


RULES = [
    within_budget,
    budget_warns,
    cost_labels,
]
