"""Writes docs/policies.md from the rules and the profiles.

python policies/catalogue.py          print it
python policies/catalogue.py --write  write docs/policies.md
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

from profiles import NAMES, PACK_RULES, Profile, load
from rules import MODULES, RULES, facts

TARGET: Final = Path(__file__).parent.parent / "docs" / "policies.md"
SIGNS: Final = {"mandatory": "**M**", "advisory": "A", "disabled": "-"}

# What the sources ask for and no rule here demands.
LEFT_OUT: Final = (
    (
        "Secret payloads marked secret",
        "a policy sees plain text and cannot tell; tests of the graph do",
    ),
    (
        "No replacement or deletion of a protected thing",
        "a policy sees no operation: `ops gate` does",
    ),
    ("Kubernetes dashboard off (CIS GKE 5.10.1)", "GKE no longer has the add-on"),
    ("GKE Sandbox (CIS GKE 5.10.3)", "for untrusted code, which a model server is not"),
    ("Labels of clusters and pools (CKV_GCP_21)", "TPU-18 covers them with buckets and secrets"),
    ("Maintenance window exists", "TPU-15 and TPU-16"),
    ("imagePullPolicy Always (CKV_K8S_15)", "wrong for images named by digest"),
    ("User id above 10000 (CKV_K8S_40)", "POD-07 asks for any id but 0"),
    ("Federation bindings are narrow (CKV_GCP_118)", "no stack makes a workload identity pool"),
    ("The metadata server is out of reach", "Workload Identity needs it; NP-03 closes the rest"),
)

INTRO: Final = """\
# Policy catalogue

<!-- Written by `python policies/catalogue.py --write` from policies/rules and the profiles. -->

{count} rules judge what a stack declares, at every `pulumi preview` and `pulumi up`. They share no
code with the program: a component makes something true, a rule keeps it true for whatever came
another way.

```console
$ pulumi preview --policy-pack policies/run              # an executable, needs no language host
$ pulumi preview --policy-pack policies                  # a pack folder, needs the Python host
$ pulumi policy analyze --file state.json --policy-pack policies/run    # what exists already
```

`policies/run` takes the first Python that has pulumi-policy: `$TPUSERVE_POLICY_PYTHON`,
`policies/.venv`, the repository's `.venv`, `python3`. The folder form is run by the Python language
host; the official CLI brings it, a CLI built from tools/go.mod does not. It uses `policies/.venv`:

```console
$ python3 -m venv policies/.venv
$ policies/.venv/bin/pip install -r policies/requirements.txt
```

**Profiles.** `TPUSERVE_POLICY_PROFILE` names one of {profiles}, or a file. Without it
the pack is as strict as `prod`. The files in `policies/profiles` give each rule a level and may set
its settings and waivers. They have the form of `--policy-pack-config`, which wins over the variable
rule by rule. An unknown rule, setting or field of a profile stops the pack and is named.

**Levels.** **M** mandatory: the preview fails. A advisory: it is reported. - off.

**Waivers.** A finding may be accepted for a while, beside its rule:

```json
{waiver}
```

`resource` is a name or URN, `*` stands for any text. A waiver that has expired hides nothing and is
reported, as is one that hides nothing any more; those in use are listed too (PACK-02).

**Values not known yet.** At a first preview much is unknown: addresses, ids, members made from
them. A rule that needs such a value neither passes nor fails. All of them are told in one message
(PACK-01) and decided when the values exist.

**Whole-stack rules** (marked +) compare resources with one another. In `pulumi up` Pulumi runs them
after everything is made, so a preview has to come first.

**What stands behind them.** Machine types, topologies, version floors, zones and prices were read
on {read_on} (policies/rules/facts.py); PACK-03 says when they grow old. No rule was ever run
against Google Cloud.

**A rule of your own** is a function with `@rule` in a file of `policies/rules`, named in the file's
`RULES`, with a level in each profile. `guards` say how to break what it guards: the mutation proof
(`python policies/mutation.py graph.json`) breaks each in a recorded graph and expects a finding.
"""


def render() -> str:
    """The catalogue as Markdown."""
    profiles = [load(name) for name in NAMES]
    entry = {"resource": "kv-loader*", "reason": "raises a vfio limit", "until": "2027-03-31"}
    waiver = {"POD-01": {"enforcementLevel": "mandatory", "waivers": [entry]}}
    parts = [
        INTRO.format(
            count=len(RULES),
            profiles=", ".join(f"`{name}`" for name in NAMES),
            waiver=json.dumps(waiver, indent=2),
            read_on=facts.READ_ON,
        )
    ]
    parts += ["\n".join(_section(module, profiles)) for module in MODULES]
    parts += ["\n".join(_own(profiles)), "\n".join(_settings()), "\n".join(_left_out())]
    return "\n".join(parts)


def _section(module: ModuleType, profiles: Sequence[Profile]) -> Iterator[str]:
    title = (module.__doc__ or "").splitlines()[0].rstrip(".")
    yield f"## {title}"
    yield ""
    yield f"| Rule | Requirement, and what to do | Severity | {' | '.join(NAMES)} | Also asked by |"
    yield f"|---|---|---|{'---|' * len(NAMES)}---|"
    for rule in module.RULES:
        levels = " | ".join(SIGNS[profile.levels[rule.id]] for profile in profiles)
        refs = "; ".join(str(ref) for ref in rule.refs) or "-"
        mark = " +" if rule.whole_stack else ""
        yield (
            f"| [{rule.id}]({rule.url}){mark} | **{_cell(rule.title)}** {_cell(rule.fix)} | "
            f"{rule.severity.value} | {levels} | {_cell(refs)} |"
        )
    yield ""


def _own(profiles: Sequence[Profile]) -> Iterator[str]:
    titles = ("What could not be decided yet", "Waivers and settings", "Age of the tables")
    yield "## The pack about itself"
    yield ""
    yield f"| Rule | What it tells | {' | '.join(NAMES)} |"
    yield f"|---|---|{'---|' * len(NAMES)}"
    for name, title in zip(PACK_RULES, titles, strict=True):
        levels = " | ".join(SIGNS[profile.levels[name]] for profile in profiles)
        yield f"| {name} | {title} | {levels} |"
    yield ""


def _settings() -> Iterator[str]:
    yield "## Settings"
    yield ""
    yield "| Rule | Setting | Type | Default | Meaning |"
    yield "|---|---|---|---|---|"
    for rule in RULES:
        for key, setting in rule.settings.items():
            default = f"`{json.dumps(setting.default)}`"
            yield f"| {rule.id} | `{key}` | {setting.type} | {default} | {_cell(setting.help)} |"
    yield ""


def _left_out() -> Iterator[str]:
    yield "## Left out"
    yield ""
    yield "| Requirement | Why |"
    yield "|---|---|"
    for what, why in LEFT_OUT:
        yield f"| {what} | {why} |"
    yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    if "--write" in sys.argv:
        TARGET.write_text(render())
    else:
        sys.stdout.write(render())
