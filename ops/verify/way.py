"""How an endpoint is reached: at its address, through a tunnel, or through a pod that relays."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ops.verify import port_forward
from ops.verify.endpoints import Endpoint, public_url
from ops.verify.relay import relay


@dataclass(frozen=True, kw_only=True)
class Way:
    """The address now, and the proxies that take requests there and to pods, where needed."""

    address: Callable[[], str]
    proxy: Callable[[], str] | None = None
    pods: Callable[[], str] | None = None


@contextmanager
def way_to(endpoint: Endpoint, *, direct: bool) -> Iterator[Way]:
    """`direct` asks the address from here; pods answer their own namespace alone in any case."""
    if endpoint.groups is not None:
        with relay(endpoint, endpoint.groups) as proxy:
            yield Way(
                address=lambda: endpoint.url or "", proxy=None if direct else proxy, pods=proxy
            )
        return
    with port_forward.connect(endpoint, direct=direct) as address:
        yield Way(address=address)


def describe(endpoint: Endpoint, *, direct: bool) -> str:
    """How the endpoint is reached, for people; without user and password."""
    if endpoint.groups is not None and not direct:
        return f"{public_url(endpoint.url or '')} through a pod in {endpoint.groups.namespace}"
    return port_forward.describe(endpoint, direct=direct)
