"""Scored questions: whether a model still knows what it knows when its caches are moved.

A cache that arrives damaged raises no error; the text is merely wrong. The questions are easy for
any model worth a slice, so a low score means the machinery, not the model.
"""

import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml

from ops.verify.api import Api
from ops.verify.checks import CheckFailedError, Context, Outcome, prompt_tokens, text_of

LOWEST = 0.7
"""Share that must be right; the least of the served models reaches 0.9 on such questions."""
TOO_FEW = f"below {LOWEST:.0%}: wrong weights, tokenizer or numerics"
LARGEST_LOSS = 0.08
"""What the way through two servers may cost against one alone: numerics differ a little."""
AT_ONCE = 8
LONGEST_ANSWER = 24

_WORD = re.compile(r"[^\w.]+")


@dataclass(frozen=True)
class Question:
    """What is asked, and the answers that count, the shortest form of each."""

    text: str
    answers: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Score:
    """How many were right, and what was said where one was not."""

    right: int
    asked: int
    wrong: tuple[tuple[str, str], ...]
    prompt_tokens: int
    """Of all questions together, as the server counts them."""

    @property
    def share(self) -> float:
        return self.right / self.asked

    def as_row(self) -> dict[str, Any]:
        wrong = [{"question": asked, "said": said} for asked, said in self.wrong]
        return {
            "right": self.right,
            "share": round(self.share, 4),
            "promptTokens": self.prompt_tokens,
            "wrong": wrong,
        }


@cache
def questions() -> tuple[str, tuple[Question, ...]]:
    """The text before every question, and the questions."""
    file = resources.files("ops.verify").joinpath("questions.yaml")
    table = yaml.safe_load(file.read_text("utf-8"))
    rows = [Question(text, tuple(map(str, answers))) for text, *answers in table["questions"]]
    return str(table["before"]), tuple(rows)


def score(api: Api, model: str, prompt: Callable[[str], str]) -> Score:
    """Ask everything once, greedily, each in a prompt of its own. Raises what servers' failures
    raise."""
    before, rows = questions()

    def ask(row: Question) -> tuple[str, int]:
        body = {
            "model": model,
            "prompt": prompt(f"{before}\nQ: {row.text}\nA:"),
            "max_tokens": LONGEST_ANSWER,
            "temperature": 0,
            "stop": ["\n"],
        }
        answer = api.post("/completions", body)
        return text_of(answer), prompt_tokens(answer)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(ask, rows))
    said = [(row, text) for row, (text, _) in zip(rows, answers, strict=True)]
    wrong = [(row.text, text) for row, text in said if not right(row, text)]
    return Score(
        right=len(rows) - len(wrong),
        asked=len(rows),
        wrong=tuple(wrong),
        prompt_tokens=sum(tokens for _, tokens in answers),
    )


def knows(context: Context) -> Outcome:
    """The check of a server by itself: loaded weights of the right model answer easy questions."""
    result = score(context.api, context.model or "", str)
    told = f"{result.right} of {result.asked} right"
    if result.share < LOWEST:
        raise CheckFailedError(
            f"{told}: {TOO_FEW}",
            "do not send traffic here; compare the weights with their revision",
            result.as_row(),
        )
    return Outcome(detail=told, observed=result.as_row())


def right(row: Question, said: str) -> bool:
    """Whether the first line holds one of the answers as whole words."""
    line = said.strip().split("\n", 1)[0]
    words = _words(line)
    return any(_within(_words(answer), words) for answer in row.answers)


def _words(text: str) -> list[str]:
    return [
        each.strip(".") for each in _WORD.split(text.lower().replace(",", "")) if each.strip(".")
    ]


def _within(part: Sequence[str], whole: Sequence[str]) -> bool:
    size = len(part)
    return any(list(whole[at : at + size]) == list(part) for at in range(len(whole) - size + 1))


def compare(routed: Score, direct: Score) -> str | None:
    """Why the answers are not to be trusted, or None."""
    if direct.share - routed.share > LARGEST_LOSS:
        return (
            f"{direct.share - routed.share:.0%} are lost on the way through two servers: caches or "
            "recurrent state arrive damaged"
        )
    if routed.share < LOWEST:
        return TOO_FEW
    return None
