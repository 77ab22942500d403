"""What load is put on: how many clients, how long, which prompts."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

_WORDS = (
    "the river runs past old houses and a market where people buy bread fish and fruit each day "
    "while children play near the bridge and boats carry stone wood and wine to the sea far away "
    "in winter snow covers every roof and smoke rises slowly over the quiet town until spring comes"
).split()
_VARIANTS = 32
_MARK = "@@number@@"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One load: `clients` send requests one after the other for `seconds`.

    `prompt_tokens` are sizes drawn at random, about one word a token. `rate` caps the arrivals at
    so many a second on average, Poisson distributed; None sends as fast as answers come. `warmup`
    seconds at the start are left out of the figures. The seed fixes prompts and arrivals; it is
    never sent, as the TPU path of vLLM refuses per-request seeds.
    """

    clients: int = 8
    seconds: float = 60
    prompt_tokens: tuple[int, ...] = (128,)
    prompt: str | None = None
    max_tokens: int = 128
    chat: bool = False
    stream: bool = True
    ignore_eos: bool = False
    rate: float | None = None
    warmup: float = 0
    timeout: float = 300
    grace: float = 10
    """Seconds that requests under way may still take when the time is up."""
    seed: int = 0

    @property
    def path(self) -> str:
        return "/chat/completions" if self.chat else "/completions"


@dataclass
class Prompts:
    """Request bodies, ready to send: no JSON is made while the clock runs.

    Each prompt starts with its number, so that no prefix cache answers for the model. A prompt
    given in the plan is sent as it is, always the same.
    """

    plan: Plan
    model: str
    _bodies: list[tuple[bytes, bytes]] = field(init=False)
    _draw: random.Random = field(init=False)
    _number: int = field(init=False)

    def __post_init__(self) -> None:
        self._draw = random.Random(self.plan.seed)  # noqa: S311  repeatable, not secret
        self._number = self._draw.randrange(10**8)
        if self.plan.prompt is not None:
            self._bodies = [self._body(self.plan.prompt)]
            return
        self._bodies = [
            self._body(" ".join([_MARK, *self._draw.choices(_WORDS, k=max(0, size - 1))]))
            for size in self.plan.prompt_tokens
            for _ in range(_VARIANTS)
        ]

    def next(self) -> bytes:
        head, tail = self._draw.choice(self._bodies)
        self._number += 1
        return b"%b%d%b" % (head, self._number, tail) if tail else head

    def _body(self, prompt: str) -> tuple[bytes, bytes]:
        body: dict[str, object] = {
            "model": self.model,
            "max_tokens": self.plan.max_tokens,
            "temperature": 0,
        }
        if self.plan.chat:
            body["messages"] = [{"role": "user", "content": prompt}]
        else:
            body["prompt"] = prompt
        if self.plan.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        if self.plan.ignore_eos:
            body["ignore_eos"] = True
        head, _, tail = json.dumps(body).partition(_MARK)
        return head.encode(), tail.encode()


def arrivals(plan: Plan) -> Iterator[float]:
    """Seconds from the start at which requests are due; all zero without a rate."""
    draw = random.Random(plan.seed + 1)  # noqa: S311  repeatable, not secret
    due = 0.0
    while True:
        yield due
        if plan.rate is not None:
            due += draw.expovariate(plan.rate)
