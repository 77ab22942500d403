"""Rules on weights: where they come from, who may fetch them, where they lie."""

from collections.abc import Iterator

from catalog.buckets import BUCKET_NAMES, split, why_illegal
from catalog.source import READ, Source
from config.checks.serving import SINGLE_HOST
from config.checks.sizes import PATH
from config.problem import Problem
from config.serving import HUB, ServedModel
from config.storage import Storage

STORAGE = "tpuserve:storage"
TOKEN = "tpuserve:huggingFaceToken"  # noqa: S105  the name of a key


def weights_come_from_one_place(serving: dict[str, ServedModel]) -> Iterator[Problem]:
    for key, said in serving.items():
        path = f"{PATH}.{key}.revision"
        if said.revision is None and said.weights is None:
            yield Problem(
                path=path,
                value=None,
                rule="the commit to stage is missing: what a branch names today is other weights "
                "tomorrow",
                fix=f"take it from https://huggingface.co/{said.profile.id}/commits/main, or set "
                "`weights:` to where they are staged already",
                source=HUB,
            )
        elif said.revision is not None and said.weights is not None:
            yield Problem(
                path=path,
                value=said.revision,
                rule="weights that are staged already have no revision to stage",
                fix="remove `revision` or `weights`",
                source=HUB,
            )


def gated_models_have_a_token(
    serving: dict[str, ServedModel],
    named_models: frozenset[str],
    storage: Storage,
    secrets: frozenset[str],
) -> Iterator[Problem]:
    given = bool(secrets or storage.hugging_face_secret)
    staged = {key: said for key, said in serving.items() if said.revision is not None}
    for key, said in staged.items():
        if said.profile.gated and not given:
            yield Problem(
                path=TOKEN,
                value=None,
                rule=f"{said.profile.id} ({PATH}.{key}) is gated: the hub asks for a token whose "
                "owner has accepted its licence",
                fix=f"pulumi config set --secret {TOKEN}, or name an existing secret in "
                f"{STORAGE}.huggingFaceSecret",
                source=Source("Hugging Face Hub docs, 'Gated models'", READ),
            )
    if secrets and storage.hugging_face_secret:
        yield Problem(
            path=f"{STORAGE}.huggingFaceSecret",
            value=storage.hugging_face_secret,
            rule=f"{TOKEN} is set too: one token is enough",
            fix="remove one of them",
            source="tpuserve's configuration schema",
        )
    elif (
        given
        and not staged
        and all(key in serving and serving[key].weights for key in named_models)
    ):
        yield Problem(
            path=TOKEN if secrets else f"{STORAGE}.huggingFaceSecret",
            value=None,
            rule="nothing is staged from the hub, so the token reaches nothing",
            fix="remove it",
            severity="warning",
        )


def buckets_have_good_names(
    storage: Storage, project: str, name: str, serving: dict[str, ServedModel]
) -> Iterator[Problem]:
    if not serving:
        return
    weights, cache = storage.weights(project, name), storage.cache(project, name)
    for field, given, bucket in (
        ("weightsBucket", storage.weights_bucket, weights),
        ("cacheBucket", storage.cache_bucket, cache),
    ):
        if given is None and (rule := why_illegal(bucket)):
            yield Problem(
                path=f"{STORAGE}.{field}",
                value=bucket,
                rule=f"{rule}; this follows from the project and tpuserve:name",
                fix=f"name one in {STORAGE}.{field}",
                source=BUCKET_NAMES,
            )


def cache_and_weights_lie_apart(
    storage: Storage, project: str, name: str, serving: dict[str, ServedModel]
) -> Iterator[Problem]:
    cache = storage.cache(project, name)
    rule = "compiled programs and weights lie apart: servers write the first and only read the last"
    if storage.weights(project, name) == cache:
        yield Problem(
            path=f"{STORAGE}.cacheBucket",
            value=cache,
            rule=rule,
            fix="name another bucket",
            source=SINGLE_HOST,
        )
    for key, said in serving.items():
        if said.weights is not None and split(said.weights)[0] == cache:
            yield Problem(
                path=f"{PATH}.{key}.weights",
                value=said.weights,
                rule=rule,
                fix="move the weights, or name another cacheBucket",
                source=SINGLE_HOST,
            )


CHECKS = (
    weights_come_from_one_place,
    gated_models_have_a_token,
    buckets_have_good_names,
    cache_and_weights_lie_apart,
)
