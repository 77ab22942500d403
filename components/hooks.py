"""What the engine asks when an operation on the cluster failed: again, or where to look.

Why a gate is an object and not a Job or a pause: docs/adr/0020.
"""

import asyncio
from collections.abc import Sequence

import pulumi

PATIENCE_SECONDS = 300
"""Webhooks answer 10 to 60 s after their pod is Ready (kubernetes-sigs/kueue issue 13036); a
mounted certificate may take a kubelet 90 s more."""
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 5.0

NO_ANSWER = (
    "failed calling webhook",
    "failed to call webhook",
    "conversion webhook for",
    "no endpoints available for service",
)
"""The API server's words where nobody answered; a webhook that says no is not among them."""

GIVEN_UP = ("timed out waiting", "condition was not met", "deadline exceeded")
"""The provider's and Helm's words when a wait is over. A webhook that does not answer may use them,
too, so that is looked at first."""


def pause(attempts: int) -> float | None:
    """Seconds until the next attempt; None once patience is over."""
    waited = sum(_pause(each) for each in range(1, attempts))
    return None if waited >= PATIENCE_SECONDS else _pause(attempts)


def _pause(attempt: int) -> float:
    return float(min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (attempt - 1)))


def unanswered(errors: Sequence[str]) -> bool:
    """Whether the newest error says that a webhook did not answer."""
    return bool(errors) and any(word in errors[0] for word in NO_ANSWER)


def until_answered(name: str, webhook: str, look: str) -> pulumi.ResourceHookBinding:
    """Sends an object again until `webhook` answers; `look` is what to run when it never does."""

    async def again(args: pulumi.ErrorHookArgs) -> bool:
        if not unanswered(args.errors):
            return False
        seconds = pause(len(args.errors))
        if seconds is None:
            pulumi.log.error(
                f"{webhook} did not answer for {PATIENCE_SECONDS} s. Look with: {look}. Is port "
                "9443 of the nodes open to the control plane?"
            )
            return False
        pulumi.log.info(f"waiting for {webhook} to answer (attempt {len(args.errors)})")
        await asyncio.sleep(seconds)
        return True

    return pulumi.ResourceHookBinding(on_error=[pulumi.ErrorHook(name, again)])


def explained(name: str, what: str, look: str, why: str) -> pulumi.ResourceHookBinding:
    """Tells where to look when the wait for an object, or for its end, is given up."""

    def tell(args: pulumi.ErrorHookArgs) -> bool:
        if unanswered(args.errors):
            pulumi.log.error(
                f"{what}: a webhook did not answer; the error names it, and its pods may be "
                "restarting. Run the update again."
            )
        elif any(word in args.errors[0].lower() for word in GIVEN_UP):
            if args.failed_operation == "delete":
                pulumi.log.error(
                    f"{what} does not go: something still holds a finalizer on it. Look with: "
                    f"{look}. Finalizers are never removed here: a Slice would leave its links "
                    "behind."
                )
            else:
                pulumi.log.error(f"{what}: {why}. Look with: {look}")
        return False

    return pulumi.ResourceHookBinding(on_error=[pulumi.ErrorHook(name, tell)])
