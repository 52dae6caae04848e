"""The server: both faces over one repository, in one loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dovetail.errors import RemoteError
from dovetail.oip.messages import without_package
from dovetail.serve.options import ServeOptions
from dovetail.serve.repository import Repository

try:
    import uvicorn

    from dovetail.serve.access import AccessToken, is_loopback
    from dovetail.serve.budget import ByteBudget
    from dovetail.serve.changes import RepositoryChanges
    from dovetail.serve.grpc_answers import GrpcAnswers
    from dovetail.serve.grpc_face import GrpcFace, start_grpc
    from dovetail.serve.http_protocol import bounded_protocol
    from dovetail.serve.peers import Peers
    from dovetail.serve.regions import SharedRegions
    from dovetail.serve.rest_face import RestFace
except ImportError as missing:
    raise without_package(missing) from missing

_LOG = logging.getLogger("dovetail.serve")
_HEAD_BYTES = 32 << 10


@dataclass(frozen=True, slots=True)
class Listening:
    """Where a server listens."""

    rest: str
    grpc: str
    repository: Repository


class _Rest(uvicorn.Server):
    """uvicorn that leaves signals to us, as both faces stop together, and says when it takes connections."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Take connections."""
        await super().startup(sockets)
        self.up.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield


def run(options: ServeOptions, ready: Callable[[Listening], None]) -> Repository:
    """Serve as `serve` does, in a loop of its own: uvloop's where that is installed."""
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    with contextlib.suppress(ImportError):  # No wheels for every board.
        from uvloop import new_event_loop as factory
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(serve(options, ready))


async def serve(options: ServeOptions, ready: Callable[[Listening], None]) -> Repository:
    """Serve until the process is asked to end (SIGINT, SIGTERM) or the task is cancelled; requests under way end first.

    `ready` hears where it listens once both faces take connections. Raises BundleError where there is no such folder,
    RemoteError where a port is taken.
    """
    limits = options.limits
    repository = Repository(options.folder, limits)
    await asyncio.to_thread(repository.load_all)
    stop = asyncio.Event()
    with _stopping_on_signals(stop):
        token, budget = AccessToken(options.token), ByteBudget(limits.held_bytes)
        peers = Peers(budget, limits)
        changes = RepositoryChanges(repository, allowed=options.changes)
        regions = SharedRegions(budget, limits.request_bytes, allowed=is_loopback(options.host))
        answers = GrpcAnswers(repository, changes, regions, limits.profile_runs)
        with _listener(options) as listener:
            grpc_server, grpc_port = start_grpc(GrpcFace(answers, token, peers, limits), options)
            await grpc_server.start()
            rest = _rest(RestFace(repository, changes, token, peers, regions, options), peers, options)
            serving, up = asyncio.create_task(rest.serve(sockets=[listener])), asyncio.create_task(rest.up.wait())
            try:
                await asyncio.wait({up, serving}, return_when=asyncio.FIRST_COMPLETED)
                if rest.up.is_set():
                    ready(_listening(options, listener.getsockname()[1], grpc_port, repository))
                ended = asyncio.create_task(stop.wait())
                await asyncio.wait({ended, serving}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                up.cancel()
                repository.stopping = True
                rest.should_exit = True
                await asyncio.gather(grpc_server.stop(limits.stop_s), serving, return_exceptions=True)
                await asyncio.to_thread(repository.close)
    return repository


def _rest(face: RestFace, peers: Peers, options: ServeOptions) -> _Rest:
    limits, tls = options.limits, options.tls
    config = uvicorn.Config(
        face.app(),
        http=bounded_protocol(limits.head_s, peers),
        ws="none",
        lifespan="off",
        loop="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=limits.requests,
        h11_max_incomplete_event_size=_HEAD_BYTES,
        timeout_graceful_shutdown=int(limits.stop_s),
        ssl_certfile=None if tls is None else tls.cert,
        ssl_keyfile=None if tls is None else tls.key,
        ssl_ca_certs=None if tls is None or tls.client_ca is None else str(tls.client_ca),
        ssl_cert_reqs=ssl.CERT_REQUIRED if tls is not None and tls.client_ca is not None else ssl.CERT_NONE,
    )
    return _Rest(config)


def _listener(options: ServeOptions) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
        return socket.create_server((options.host, options.port), family=family, backlog=256)
    except OSError as error:
        raise RemoteError(
            f"{options.host}:{options.port}: cannot listen there: {error.strerror}.", hint="Choose another port."
        ) from error


def _listening(options: ServeOptions, port: int, grpc_port: int, repository: Repository) -> Listening:
    host = f"[{options.host}]" if ":" in options.host else options.host
    safe = "s" if options.tls is not None else ""
    return Listening(f"http{safe}://{host}:{port}", f"grpc{safe}://{host}:{grpc_port}", repository)


@contextlib.contextmanager
def _stopping_on_signals(stop: asyncio.Event) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    known = (signal.SIGINT, signal.SIGTERM)
    # Only the main thread hears signals; elsewhere the task is cancelled.
    hears = True
    try:
        for number in known:
            loop.add_signal_handler(number, stop.set)
    except (RuntimeError, ValueError):
        hears = False
    try:
        yield
    finally:
        for number in known if hears else ():
            loop.remove_signal_handler(number)
