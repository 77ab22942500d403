"""The gRPC service the engine talks to: one instance for each half of the cloud."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from google.protobuf import any_pb2, empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc, status_pb2

from simcloud.clock import Clock
from simcloud.cloud import Package, RefusedError, Request
from simcloud.guard import Guard
from simcloud.operations import NotReadyError, Operations
from simcloud.plan import Plan, top
from simcloud.store import Call, Store
from simcloud.values import Props, plain
from simcloud.wire import to_dict, to_struct


class Service(provider_pb2_grpc.ResourceProviderServicer):
    """Answers for one package. `guard` refuses an engine that is not on the scratch backend.

    The engine opens one connection for each provider it configures; requests do not say which
    provider they are for, so settings are kept by connection.
    """

    def __init__(
        self, package: Package, store: Store, clock: Clock, guard: Guard | None = None
    ) -> None:
        self.package = package
        self.store = store
        self.guard = guard
        self.operations = Operations(package, store, clock, self._kill)
        self._configs: dict[str, Props] = {}

    # Start and settings

    def Handshake(self, request: Any, context: Any) -> Any:  # noqa: N802
        del request, context
        return provider_pb2.ProviderHandshakeResponse(accept_secrets=True)

    def Attach(self, request: Any, context: Any) -> Any:  # noqa: N802
        del request, context
        return empty_pb2.Empty()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:  # noqa: N802
        del request, context
        return plugin_pb2.PluginInfo(version=self.package.version)

    def GetSchema(self, request: Any, context: Any) -> Any:  # noqa: N802
        del request, context
        schema = {"name": self.package.name, "version": self.package.version}
        return provider_pb2.GetSchemaResponse(schema=json.dumps(schema))

    def GetMapping(self, request: Any, context: Any) -> Any:  # noqa: N802
        del request, context
        return provider_pb2.GetMappingResponse()

    def CheckConfig(self, request: Any, context: Any) -> Any:  # noqa: N802
        del context
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: Any, context: Any) -> Any:  # noqa: N802
        del context
        olds = to_dict(request.old_inputs) or to_dict(request.olds)
        return _response(self.package.diff_config(olds, to_dict(request.news)))

    def Configure(self, request: Any, context: Any) -> Any:  # noqa: N802
        self._configs[context.peer()] = plain(to_dict(request.args))
        return provider_pb2.ConfigureResponse(
            acceptSecrets=True, supportsPreview=True, acceptResources=False, acceptOutputs=False
        )

    def Cancel(self, request: Any, context: Any) -> Any:  # noqa: N802
        del request, context
        return empty_pb2.Empty()

    def Invoke(self, request: Any, context: Any) -> Any:  # noqa: N802
        with self._answering("Invoke", request, context) as answer:
            config = dict(answer.request.config)
            value = self.package.invoke(request.tok, to_dict(request.args), config, self.store)
            return provider_pb2.InvokeResponse(**{"return": to_struct(value)})

    # Plans

    def Check(self, request: Any, context: Any) -> Any:  # noqa: N802
        with self._answering("Check", request, context) as answer:
            checked = self.package.check(
                answer.request, to_dict(request.news), to_dict(request.olds), request.randomSeed
            )
            failures = [
                provider_pb2.CheckFailure(property="", reason=reason) for reason in checked.failures
            ]
            return provider_pb2.CheckResponse(inputs=to_struct(checked.inputs), failures=failures)

    def Diff(self, request: Any, context: Any) -> Any:  # noqa: N802
        with self._answering("Diff", request, context) as answer:
            plan = self.package.diff(
                answer.request,
                to_dict(request.old_inputs),
                to_dict(request.olds),
                to_dict(request.news),
                list(request.ignoreChanges),
            )
            return _response(plan)

    # Changes

    def Create(self, request: Any, context: Any) -> Any:  # noqa: N802
        inputs = to_dict(request.properties)
        if request.preview:
            with self._answering("Create (preview)", request, context) as answer:
                known = self.package.preview(answer.request, inputs, None)
                return provider_pb2.CreateResponse(properties=to_struct(known))
        with self._answering("Create", request, context, real=True) as answer:
            done = self.operations.create(answer.request, inputs)
            answer.minutes = done.minutes
            return provider_pb2.CreateResponse(id=done.id, properties=to_struct(done.outputs or {}))

    def Update(self, request: Any, context: Any) -> Any:  # noqa: N802
        news = to_dict(request.news)
        if request.preview:
            with self._answering("Update (preview)", request, context) as answer:
                known = self.package.preview(answer.request, news, to_dict(request.olds))
                return provider_pb2.UpdateResponse(properties=to_struct(known))
        with self._answering("Update", request, context, real=True) as answer:
            done = self.operations.update(answer.request, request.id, news)
            answer.minutes = done.minutes
            return provider_pb2.UpdateResponse(properties=to_struct(done.outputs or {}))

    def Read(self, request: Any, context: Any) -> Any:  # noqa: N802
        with self._answering("Read", request, context) as answer:
            done = self.operations.read(
                answer.request, request.id, to_dict(request.properties), to_dict(request.inputs)
            )
            return provider_pb2.ReadResponse(
                id=done.id,
                properties=to_struct(done.outputs or {}),
                inputs=to_struct(done.inputs or {}),
            )

    def Delete(self, request: Any, context: Any) -> Any:  # noqa: N802
        with self._answering("Delete", request, context, real=True) as answer:
            done = self.operations.delete(answer.request, request.id, to_dict(request.properties))
            answer.minutes = done.minutes
            return empty_pb2.Empty()

    # Around every call

    @contextmanager
    def _answering(
        self, method: str, request: Any, context: Any, *, real: bool = False
    ) -> Iterator[_Answer]:
        """Log the call with its start and end; turn a refusal into the call's error."""
        answer = self._answer(request, context)
        error, started = "", time.time()
        try:
            if real and self.guard is not None:
                self.guard.admit(answer.request.urn, context.peer())
            yield answer
        except RefusedError as refusal:
            error = str(refusal)
            context.abort(grpc.StatusCode.UNKNOWN, error)
        except NotReadyError as problem:
            error = str(problem)
            _abort_not_ready(context, problem)
        finally:
            call = Call(
                started=started,
                ended=time.time(),
                package=self.package.name,
                method=method,
                urn=answer.request.urn,
                type=answer.request.type,
                name=answer.request.name,
                minutes=answer.minutes,
                error=error,
            )
            self.store.log(call)

    def _answer(self, request: Any, context: Any) -> _Answer:
        urn = getattr(request, "urn", "")
        parts = urn.split("::", 3)
        named = len(parts) == 4
        return _Answer(
            Request(
                urn=urn,
                type=parts[2].rpartition("$")[2] if named else getattr(request, "tok", ""),
                name=parts[3] if named else "",
                config=self._configs.get(context.peer(), {}),
                store=self.store,
                timeout=getattr(request, "timeout", 0.0) / 60,
                scale=self.operations.clock.scale,
            )
        )

    def _kill(self) -> None:
        """Kill the engine that holds the scratch backend's lock, as a machine that dies would."""
        for pid in self.guard.engines() if self.guard is not None else []:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.2)
        message = "the engine was killed on purpose"
        raise RefusedError(message)


class _Answer:
    """One call under way: the request, and the simulated minutes it takes."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.minutes = 0.0


def _abort_not_ready(context: Any, problem: NotReadyError) -> None:
    detail = any_pb2.Any()
    detail.Pack(
        provider_pb2.ErrorResourceInitFailed(
            id=problem.id,
            properties=to_struct(problem.outputs),
            inputs=to_struct(problem.inputs),
            reasons=[str(problem)],
        )
    )
    code = grpc.StatusCode.UNKNOWN
    status = status_pb2.Status(code=code.value[0], message=str(problem), details=[detail])
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.abort(code, str(problem))


def _response(plan: Plan) -> Any:
    kinds = provider_pb2.PropertyDiff.Kind
    response = provider_pb2.DiffResponse
    return response(
        changes=response.DIFF_SOME if plan.detail or plan.replaces else response.DIFF_NONE,
        replaces=plan.replaces,
        diffs=sorted({top(path) for path in plan.detail}),
        detailedDiff={
            path: provider_pb2.PropertyDiff(
                kind=kinds.Value(kind.upper().replace("-", "_")), inputDiff=True
            )
            for path, kind in plan.detail.items()
        },
        hasDetailedDiff=True,
        deleteBeforeReplace=plan.delete_before_replace,
    )
