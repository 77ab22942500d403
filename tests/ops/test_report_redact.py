"""Nothing secret gets out: marked, known, or merely looking like it."""

import base64
import json
from pathlib import Path

import pytest

from ops.preview.redact import MARK, Redactor, secrets_of_config
from ops.preview.values import HIDDEN
from tests.ops.previews import EVENTS, plan, recorded, step

TOKENS = {
    "Hugging Face": "hf_" + "aB3" * 12,
    "Google API key": "AIza" + "x_Y-9" * 7,
    "Google OAuth": "ya29." + "a0Ab" * 10,
    "GitHub": "ghp_" + "A1b2" * 9,
    "GitHub, fine-grained": "github_pat_" + "A1b2_" * 6,
    "AWS": "AKIA" + "ABCD" * 4,
    "Slack": "xoxb-" + "123456-abcdef",
    "JSON web token": "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "private key": "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----",
    "cut private key": "-----BEGIN PRIVATE KEY-----\nMIIEow",
}


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS.keys())
def test_text_that_looks_like_a_secret_is_blanked(token: str) -> None:
    text = Redactor().text(f"before {token} after")
    assert token not in text
    assert MARK in text
    assert text.startswith("before ")


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer abcdef123456",
        "HF_TOKEN=not-a-known-form",
        "https://me:pa55word@host/path",
    ],
)
def test_what_follows_a_telling_label_is_blanked(text: str) -> None:
    assert MARK in Redactor().text(text)


@pytest.mark.parametrize(
    "text",
    [
        "max-num-batched-tokens=8192 is a flag",
        "secretKeyRef: name hf, key token",
        "sha256:" + "a" * 64,
        "urn:pulumi:prod::tpuserve::gcp:secretmanager/secret:Secret::hf-token",
        "serviceAccount:nodes@my-project.iam.gserviceaccount.com",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert Redactor().text(text) == text


def test_people_are_not_named() -> None:
    assert Redactor().text("member user:ada@example.com added") == f"member user:{MARK} added"


@pytest.mark.parametrize(
    "form",
    [
        lambda value: value,
        lambda value: base64.b64encode(value.encode()).decode(),
        json.dumps,
        lambda value: value.replace("/", "%2F").replace("+", "%2B").replace('"', "%22"),
    ],
    ids=["plain", "base64", "json", "url"],
)
def test_the_stacks_own_secrets_are_blanked_in_every_form(form: object) -> None:
    value = 'p/q+r"s-tuvw'
    assert callable(form)
    written = form(value)
    assert written.strip('"') not in Redactor([value]).text(f"x {written} y")


def test_a_short_value_is_not_blanked_everywhere() -> None:
    assert Redactor(["prod"]).text("stack prod") == "stack prod"


def test_secrets_are_read_from_what_pulumi_config_prints() -> None:
    printed = {
        "tpuserve:huggingFaceToken": {"value": "hunter2-hunter2", "secret": True},
        "tpuserve:nested": {
            "value": '{"a":["deep-secret"]}',
            "objectValue": {"a": ["deep-secret"]},
            "secret": True,
        },
        "gcp:project": {"value": "my-project", "secret": False},
    }
    assert secrets_of_config(json.dumps(printed)) == ["hunter2-hunter2", "deep-secret"]


@pytest.mark.parametrize(
    ("kind", "path", "inputs"),
    [
        ("kubernetes:core/v1:Secret", "stringData.token", {"stringData": {"token": "s3cr3t-x"}}),
        ("kubernetes:core/v1:Secret", "data.token", {"data": {"token": "s3cr3t-x"}}),
        (
            "gcp:secretmanager/secretVersion:SecretVersion",
            "secretData",
            {"secretData": "s3cr3t-x"},
        ),
        ("pulumi:providers:kubernetes", "kubeconfig", {"kubeconfig": "s3cr3t-x"}),
        ("any:kind:At", "spec.adminPassword", {"spec": {"adminPassword": "s3cr3t-x"}}),
        (
            "kubernetes:apps/v1:Deployment",
            "spec.env[0].value",
            {"spec": {"env": [{"name": "HF_TOKEN", "value": "s3cr3t-x"}]}},
        ),
        (
            "kubernetes:apps/v1:Deployment",
            "spec.env",
            {"spec": {"env": [{"name": "API_KEY", "value": "s3cr3t-x"}]}},
        ),
        (
            "kubernetes:apps/v1:Deployment",
            'metadata.annotations["kubectl.kubernetes.io/last-applied-configuration"]',
            {
                "metadata": {
                    "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "s3cr3t-x"}
                }
            },
        ),
    ],
)
def test_values_in_secret_places_are_blanked_even_if_unmarked(
    kind: str, path: str, inputs: dict[str, object]
) -> None:
    made = plan(
        step("create", kind, "x", new=inputs),
        step("update", kind, "y", old={}, new=inputs, detail={path: "add"}),
    )
    told = repr([change.leaves for change in made.changes])
    assert "s3cr3t-x" not in told
    assert HIDDEN in told


def test_a_program_that_prints_its_token_does_not_get_it_posted() -> None:
    (warning,) = recorded("delete-and-replace").warnings
    assert warning.message == f"a warning with {MARK}"


def test_a_redacted_log_still_reports_the_same(tmp_path: Path) -> None:
    redactor = Redactor(["us-central1-a"])
    lines = (EVENTS / "delete-and-replace.jsonl").read_text().splitlines()
    redacted = [json.dumps(redactor.event(json.loads(line))) for line in lines]
    assert not [line for line in redacted if "hf_BBBB" in line or "us-central1-a" in line]
    path = tmp_path / "delete-and-replace.jsonl"
    path.write_text("\n".join(redacted))
    before, after = recorded("delete-and-replace"), recorded(str(path))
    assert [(c.urn, c.operation) for c in after.acting] == [
        (c.urn, c.operation) for c in before.acting
    ]


def test_the_configuration_in_the_prelude_is_dropped() -> None:
    event = {"preludeEvent": {"config": {"tpuserve:x": "anything"}}}
    assert Redactor().event(event) == {"preludeEvent": {"config": {}}}
