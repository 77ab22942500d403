"""Weights: buckets, the hub's token, and the copy of what the models need."""

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi

from assembly.foundation import Foundation
from components.secrets import HuggingFaceToken, HuggingFaceTokenArgs
from components.storage import ModelStore, ModelStoreArgs, Reader, Staged, Staging, StagingArgs
from config.servers import Server, hub_secret
from config.sliced import SlicedServer
from config.stack import Stack


@dataclass(frozen=True, kw_only=True)
class Weights:
    store: ModelStore
    staging: Staging


def model_weights(
    stack: Stack,
    models: Mapping[str, Server | SlicedServer],
    base: Foundation,
    hub_token: pulumi.Output[str] | None,
) -> Weights:
    store = ModelStore(
        stack.name,
        ModelStoreArgs(
            project=stack.project,
            region=stack.location.region,
            weights_bucket=stack.storage.weights(stack.project, stack.name),
            cache_bucket=stack.storage.cache(stack.project, stack.name),
            soft_delete_days=stack.storage.soft_delete_days,
            force_destroy=not stack.protect,
            labels=stack.resource_labels,
            readers={
                key: Reader(
                    namespace=server.said.namespace, account=key, bucket=server.foreign_bucket
                )
                for key, server in models.items()
            },
            after=[base.services.services["storage"]],
        ),
        base.on_google,
    )
    secret = hub_secret(stack, token=hub_token is not None)
    token = None
    if secret is not None:
        token = HuggingFaceToken(
            "hugging-face",
            HuggingFaceTokenArgs(
                project=stack.project,
                region=stack.location.region,
                secret=secret,
                token=hub_token,
                reader=store.stager,
                protect=stack.protect,
                after=[base.services.services["secretmanager"]],
            ),
            base.on_google,
        )
    staging = Staging(
        "staging",
        StagingArgs(
            weights_bucket=store.weights,
            image=stack.images.staging,
            models={
                key: Staged(model=server.said.profile, revision=server.said.revision)
                for key, server in models.items()
                if server.said.revision is not None
            },
            token=token.path if token else None,
            after=[base.cluster.ready, *store.may_stage, *(token.ready if token else [])],
        ),
        base.on_cluster,
    )
    return Weights(store=store, staging=staging)
