"""Models on two roles: what is known of their answers, how slices pack, which versions belong."""

import re
from dataclasses import replace

import pytest

from catalog.compatibility import TABLE, judge, kind_of, longest_local_prefill
from catalog.disaggregated import (
    HYBRID_FLAGS,
    MULTI_HOST_SCRIPTS,
    OWNED_FLAGS,
    ROLE_ENVIRONMENT,
    ROLE_FLAGS,
    ROLES,
    RoleSettings,
    disagreements,
    flag_of,
    role_engine,
    script,
)
from catalog.groups import Group, leader_worker_set, smallest_pod
from catalog.images import by_digest, version_of
from catalog.models import MODELS
from catalog.packing import Wanted, pack, super_slices
from catalog.partitions import slice_of
from catalog.router import RELEASES, chart_values, picker_config, sidecar_arguments
from catalog.serving import OWNED_FLAGS as ENGINE_FLAGS
from catalog.serving import Engine
from catalog.vllm import environment_error, flag_error, release

HYBRID, FULL = (
    MODELS["Qwen/Qwen3.5-397B-A17B-FP8"],
    MODELS["Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8"],
)
LATENT = MODELS["deepseek-ai/DeepSeek-R1"]


class TestCompatibility:
    @pytest.mark.parametrize(
        ("model", "version", "verdict"),
        [
            (HYBRID, (0, 26, 0), "refuse"),
            (HYBRID, (0, 27, 0), "refuse"),
            (HYBRID, (0, 29, 0), "refuse"),
            (HYBRID, (0, 30, 0), "needs proof"),
            (HYBRID, (0, 32, 0), "needs proof"),
            (HYBRID, (0, 33, 0), "needs proof"),
            (HYBRID, None, "refuse"),
            (FULL, (0, 25, 0), "refuse"),
            (FULL, (0, 26, 0), "ok"),
            (FULL, (0, 28, 0), "refuse"),
            (FULL, (0, 32, 0), "ok"),
            (FULL, (0, 33, 0), "needs proof"),
            (FULL, None, "refuse"),
            (LATENT, (0, 29, 0), "refuse"),
            (LATENT, (0, 32, 0), "needs proof"),
        ],
    )
    def test_a_model_and_a_release_have_a_verdict(
        self, model: object, version: tuple[int, int, int] | None, verdict: str
    ) -> None:
        assert judge(model, version).verdict == verdict  # type: ignore[arg-type]

    def test_every_row_gives_its_reason_and_source_and_a_way_out(self) -> None:
        bare = [row for row in TABLE if not row.reason or not str(row.source)]
        assert bare == []
        assert [row for row in TABLE if row.verdict != "ok" and not row.fix] == []

    def test_kinds_follow_from_the_shape(self) -> None:
        kinds = [kind_of(model) for model in (HYBRID, FULL, LATENT)]
        assert kinds == ["hybrid", "full-attention", "latent"]

    @pytest.mark.parametrize(
        ("tag", "version"),
        [
            ("v0.32.0@sha256:" + "0" * 64, (0, 32, 0)),
            ("0.30.1-tpu", (0, 30, 1)),
            ("v0.29-tpu@sha256:" + "0" * 64, (0, 29, 0)),
            ("v0.32", (0, 32, 0)),
            ("v0.32rc1", None),
            ("20260430", None),
            ("latest", None),
        ],
    )
    def test_a_release_is_read_from_a_tag(
        self, tag: str, version: tuple[int, int, int] | None
    ) -> None:
        assert version_of(f"r/vllm-tpu:{tag}") == version

    @pytest.mark.parametrize(
        "image",
        [
            "docker.io/vllm/vllm-tpu:nightly-20260430-18ed615-5b39b26",
            "docker.io/vllm/vllm-tpu:nightly-20260430-18ed615-5b39b26@sha256:" + "1" * 64,
            "docker.io/vllm/vllm-tpu:v0.29-tpu@sha256:" + "1" * 64,
            "docker.io/vllm/vllm-tpu@sha256:" + "1" * 64,
        ],
        ids=["the codelab's", "the codelab's by digest", "between two fixes", "a digest alone"],
    )
    def test_no_model_is_served_by_an_image_that_is_known_bad_or_unknown(self, image: str) -> None:
        verdicts = {judge(model, version_of(image)).verdict for model in (HYBRID, FULL, LATENT)}
        assert verdicts == {"refuse"}

    def test_the_longest_local_prefill_leaves_room_for_a_prompt_that_is_moved(self) -> None:
        assert longest_local_prefill(32768) == 10581
        assert longest_local_prefill(512) == 0


class TestPacking:
    @pytest.mark.parametrize(
        ("blocks", "wanted", "fits"),
        [
            ([2], [("2x2x1", 32)], True),
            ([2], [("2x2x1", 33)], False),
            ([2], [("2x2x2", 8), ("4x4x4", 1)], True),
            ([2], [("2x2x2", 9), ("4x4x4", 1)], False),
            ([2], [("4x4x8", 1)], True),
            ([1, 1], [("4x4x8", 1)], False),
            ([2], [("4x4x8", 1), ("2x2x1", 1)], False),
            ([1], [("2x2x1", 1), ("2x4x4", 1), ("2x2x4", 1), ("2x2x2", 1), ("2x2x1", 1)], True),
            ([], [("2x2x1", 1)], False),
        ],
    )
    def test_slices_fit_or_do_not(
        self, blocks: list[int], wanted: list[tuple[str, int]], fits: bool
    ) -> None:
        found = pack(blocks, [Wanted(purpose="p", shape=s, count=n) for s, n in wanted])
        assert found.fits is fits
        taken = sum(64 - cube.free for cube in found.cubes)
        assert taken + found.free_chips == 64 * sum(blocks)

    def test_whole_cubes_stay_whole_as_long_as_they_can(self) -> None:
        found = pack([3], [Wanted(purpose="p", shape="2x2x1", count=17)])
        assert found.free_cubes == [1]
        assert found.still_possible()["4x4x4"] == 1
        assert "4x4x8" not in found.still_possible()

    def test_every_legal_super_slice_is_told_and_no_other(self) -> None:
        shapes = ["4x4x4", "4x4x8", "4x4x12", "4x8x8", "4x4x16"]
        assert sorted(of.shape for of in super_slices(4)) == sorted(shapes)
        assert "8x8x8" in {of.shape for of in super_slices(8)}
        found = pack([4, 1], []).still_possible()
        assert [found.get(shape) for shape in shapes] == [5, 2, 1, 1, 1]

    def test_what_is_left_over_is_named(self) -> None:
        found = pack([1], [Wanted(purpose="qwen decode", shape="2x4x4", count=3)])
        assert found.left_over == {("qwen decode", "2x4x4"): 1}


def engine(shape: str) -> Engine:
    return Engine(
        model=HYBRID,
        image="r/vllm-tpu:v0.32.0",
        weights="gs://b/f",
        slice=slice_of(shape),
        tensor_parallel=8,
        max_model_len=4096,
        max_num_seqs=16,
        utilization=0.9,
    )


FREE_FOR_BOTH = frozenset(
    """
    --additional-config --attention-config --aux-output-config --compilation-config
    --cp-kv-cache-interleave-size --dcp-kv-cache-interleave-size
    --diffusion-config --ec-manager-config --ec-transfer-config
    --enable-mamba-cache-stochastic-rounding --engram-config --eplb-config
    --fault-tolerance-config --generation-config --kernel-config
    --kv-cache-dtype-skip-layers --kv-events-config
    --kv-sharing-fast-prefill --mamba-backend --mamba-cache-dtype --mamba-cache-philox-rounds
    --mamba-ssm-cache-dtype --mamba-ssu-algorithm --model-loader-extra-config
    --override-generation-config --per-request-spec-decode-metrics --pooler-config
    --prefix-cache-retention-interval --prefix-caching-hash-algo --profiler-config
    --quantization-config --reasoning-config --specialize-active-lora
    --structured-outputs-config --watermark-config --weight-transfer-config
    """.split()
)
"""Looked at one by one: a stack may give them, to both roles alike, and they leave transfer and
cache mode as they are."""


class TestRoles:
    @pytest.mark.parametrize("shape", ["2x2x1", "2x2x2"])
    @pytest.mark.parametrize("role", ROLES)
    def test_every_flag_and_name_exists_in_the_pinned_release(self, shape: str, role: str) -> None:
        made = role_engine(engine(shape), role, RoleSettings())  # type: ignore[arg-type]
        assert [flag_error(each) for each in made.arguments[2:] if flag_error(each)] == []
        assert [name for name in made.environment if environment_error(name)] == []
        read = release().environment | {"TPU_KV_TRANSFER_PORT", "TPU_SIDE_CHANNEL_PORT"}
        tpu = [name for name in made.environment if name.startswith("TPU_")]
        assert [name for name in tpu if name not in read] == []

    def test_two_servers_that_differ_in_the_cache_are_found_out(self) -> None:
        prefill, decode = (role_engine(engine("2x2x1"), role, RoleSettings()) for role in ROLES)
        assert disagreements(prefill, decode) == []
        for change, words in (
            ({"tensor_parallel": 4}, "--tensor-parallel-size"),
            ({"kv_dtype": "fp8"}, "--kv-cache-dtype"),
            ({"max_model_len": 8192}, "--max-model-len"),
            ({"image": "other"}, "image"),
            ({"extra_arguments": ("--block-size=64",)}, "--block-size"),
        ):
            found = disagreements(prefill, replace(decode, **change))
            assert any(words in each for each in found), change

    @pytest.mark.parametrize(
        "spoilt",
        [
            "--no-enable-expert-parallel",
            "--pipeline-parallel-size=2",
            "--data-parallel-size=2",
            "--decode-context-parallel-size=2",
            "--additional-config={}",
            "--model-impl=auto",
            "--kv-cache-dtype-skip-layers=1",
            "--quantization-config={}",
            "--enable-lora",
            "--a-flag-of-a-release-to-come",
        ],
    )
    def test_any_flag_of_one_role_alone_is_a_disagreement(self, spoilt: str) -> None:
        shared = replace(engine("2x2x1"), extra_arguments=("--enable-expert-parallel",))
        prefill, decode = (role_engine(shared, role, RoleSettings()) for role in ROLES)
        other = replace(decode, extra_arguments=(*decode.extra_arguments, spoilt))
        (found,) = disagreements(prefill, other)
        assert found.startswith(flag_of(spoilt))

    @pytest.mark.parametrize(
        "name",
        ["MODEL_IMPL_TYPE", "VLLM_MLA_DISABLE", "NEW_MODEL_DESIGN", "REQUANTIZE_WEIGHT_DTYPE",
         "MLA_KV_PACKING_SIZE", "A_NAME_TO_COME"],
    )  # fmt: skip
    def test_any_name_of_one_role_alone_is_a_disagreement(self, name: str) -> None:
        own = RoleSettings(extra_environment={name: "other"})
        prefill = role_engine(engine("2x2x1"), "prefill", RoleSettings())
        decode = role_engine(engine("2x2x1"), "decode", own)
        (found,) = disagreements(prefill, decode)
        assert found.startswith(name)

    def test_a_role_has_its_own_steps_and_logs(self) -> None:
        own = RoleSettings(
            max_num_seqs=8,
            max_num_batched_tokens=64,
            extra_arguments=tuple(sorted(ROLE_FLAGS)),
            extra_environment=dict.fromkeys(ROLE_ENVIRONMENT, "1"),
        )
        prefill = role_engine(engine("2x2x1"), "prefill", own)
        decode = role_engine(engine("2x2x1"), "decode", RoleSettings())
        assert disagreements(prefill, decode) == []

    def test_every_flag_that_may_touch_the_transfer_is_decided(self) -> None:
        near = {each for each in release().flags if re.search("spec|mamba|prefix|kv-|config", each)}
        decided = OWNED_FLAGS | HYBRID_FLAGS | ENGINE_FLAGS | ROLE_FLAGS
        assert sorted(near - decided - FREE_FOR_BOTH) == []
        assert sorted(FREE_FOR_BOTH & decided) == []

    def test_a_hybrid_model_alone_is_started_with_what_its_state_needs(self) -> None:
        asked = {"--enable-prefix-caching", "--no-disable-hybrid-kv-cache-manager"}
        for model, given in ((HYBRID, asked), (FULL, set())):
            made = role_engine(replace(engine("2x2x1"), model=model), "decode", RoleSettings())
            assert asked & set(made.arguments) == given

    def test_the_script_that_joins_hosts_moved_with_a_release(self) -> None:
        assert script((0, 32, 0)) == MULTI_HOST_SCRIPTS[0][1]
        assert script((0, 11, 1)) == MULTI_HOST_SCRIPTS[-1][1]

    def test_a_group_of_several_hosts_has_a_template_for_each_kind_of_pod(self) -> None:
        of = slice_of("2x2x2")
        group = Group(
            name="g", namespace="n", queue="q", priority="high", slice=of, labels={"a": "b"},
            leader_labels={"pool": "p"}, leader=smallest_pod(of), worker=smallest_pod(of),
        )  # fmt: skip
        spec = leader_worker_set(group)["spec"]["leaderWorkerTemplate"]
        assert "pool" in spec["leaderTemplate"]["metadata"]["labels"]
        assert "pool" not in spec["workerTemplate"]["metadata"]["labels"]
        same = (
            spec[each]["metadata"]["annotations"] for each in ("leaderTemplate", "workerTemplate")
        )
        first, second = same
        assert first == second
        assert "kueue.x-k8s.io/podset-group-name" in first


class TestRouter:
    def test_the_default_is_pinned_by_digest(self) -> None:
        newest = RELEASES[0]
        assert by_digest(newest.picker)
        assert by_digest(newest.sidecar)
        assert newest.version in newest.picker
        assert newest.version in newest.sidecar

    @pytest.mark.parametrize("of", RELEASES, ids=lambda of: of.version)
    def test_the_configuration_is_of_the_version_the_picker_knows(self, of: object) -> None:
        config = picker_config(of, local_prefill_tokens=0)  # type: ignore[arg-type]
        assert config["apiVersion"] == "llm-d.ai/v1alpha1"
        declared = {each["type"] for each in config["plugins"]}
        used = {p["pluginRef"] for each in config["schedulingProfiles"] for p in each["plugins"]}
        assert used <= declared

    def test_short_prompts_may_stay_where_they_are_decoded(self) -> None:
        config = picker_config(RELEASES[0], local_prefill_tokens=256)
        deciders = [each for each in config["plugins"] if each["type"].endswith("pd-decider")]
        assert deciders == [
            {"type": "prefix-based-pd-decider", "parameters": {"nonCachedTokens": 256}}
        ]

    def test_a_sidecar_gets_the_flags_of_its_version(self) -> None:
        newest, older = (sidecar_arguments(of, engine_port=8200, pool="n/p") for of in RELEASES[:2])
        assert "--model-server-port=8200" in newest
        assert "--vllm-port=8200" in older

    def test_one_picker_runs_on_the_system_pool_and_owns_no_route(self) -> None:
        values = chart_values(
            RELEASES[0], picker="r/p/epp:v1@sha256:0", member_labels={"a": "b"},
            failure_mode="FailClose", local_prefill_tokens=0, cpus=4, memory_gib=8,
        )  # fmt: skip
        epp = values["router"]["epp"]
        assert epp["replicas"] == 1
        assert epp["image"] == {
            "registry": "r/p", "repository": "epp", "tag": "v1@sha256:0",
            "pullPolicy": "IfNotPresent",
        }  # fmt: skip
        assert values["httpRoute"] == {"create": False}
        assert values["provider"] == {"name": "none"}
