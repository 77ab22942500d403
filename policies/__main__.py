"""Starts the policy pack."""

from __future__ import annotations

import sys

from pulumi_policy import PolicyPack

import decode_once
from pack import NAME, chosen_profile, initial_config, policies
from profiles import ProfileError

try:
    profile = chosen_profile()
except ProfileError as error:
    sys.exit(f"{NAME} policy pack: {error}")
decode_once.install()
PolicyPack(
    NAME,
    policies(profile),
    initial_config=initial_config(profile),
    description="Rules for GKE, Cloud TPU and vLLM stacks.",
    display_name=f"tpuserve ({profile.name})",
)
