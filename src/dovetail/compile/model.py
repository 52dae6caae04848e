"""PartitionedGraph -> Bundle, one backend per target; compilers that may crash run in a process of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum

from dovetail.backend.containment import CompilerPlace, Worker, WorkerLimits, compile_contained
from dovetail.backend.failures import FailureMemory, FailureScope
from dovetail.backend.protocols import Backend, Blob, CompileOptions
from dovetail.backend.registry import backend, backends_for, find_target
from dovetail.backend.target import Target
from dovetail.bundle.bundle import Bundle, CompiledPartition
from dovetail.compile.cache import BlobCache, cache_key
from dovetail.errors import CompileError, CompileFailure, DeviceNotFound, DovetailError
from dovetail.ir.graph import Graph
from dovetail.ir.macs import graph_macs
from dovetail.ir.memory import graph_memory
from dovetail.partition.partitioned import Partition, PartitionedGraph
from dovetail.plan.plan import Plan

_IMAGE_RANK = 4
SLOWER = 2.0
"""How many times the limit a part that hung gets before that is believed."""


class Isolation(Enum):
    """Which compilers run in a worker process."""

    UNTRUSTED = "untrusted"
    """All but those whose backend says that they are safe."""
    ALL = "all"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """How to compile, and where."""

    options: CompileOptions = field(default_factory=CompileOptions)
    """For every target: each backend is given what it obeys, and what none of them obeys is refused."""
    backends: Mapping[str, str] = field(default_factory=dict)
    """Which backend serves a target, where several could."""
    per_target: Mapping[str, CompileOptions] = field(default_factory=dict)
    """Options of single targets, instead of the common ones; what its backend does not obey is refused."""
    isolation: Isolation = Isolation.UNTRUSTED
    limits: WorkerLimits = field(default_factory=WorkerLimits)
    cache: BlobCache | None = None
    """Keeps blobs by content."""
    memory: FailureMemory | None = None
    """Knows on which parts compilers crash or hang: a partition that holds one is refused at once."""


def compile_model(partitioned: PartitionedGraph, request: CompileRequest | None = None) -> Bundle:
    """Return the compiled model; raise CompileError naming the partition whose compiler refuses, crashes or hangs.

    Raises BundleError when an output is a constant and there is no partition to hand it out.
    """
    how = request or CompileRequest()
    source = partitioned.source
    graph = source.graph
    with Compiler(how) as compiler:
        parts = compiler.compile_all(partitioned)
    bundle = Bundle(
        name=graph.name,
        plan=source.plan,
        inputs={name: graph.types[name] for name in graph.inputs},
        outputs={name: graph.types[name] for name in graph.outputs},
        partitions=parts,
        origins=dict(graph.origins),
    )
    bundle.check()
    return bundle


def choose_backend(target: str, chosen: Mapping[str, str]) -> Backend:
    """Return the backend that compiles for a target; raise DeviceNotFound when none does."""
    able = backends_for(target)
    if target in chosen:
        named = backend(chosen[target])
        if named.name not in {owner.name for owner in able}:
            raise DeviceNotFound(
                f"backend '{named.name}' does not compile for target '{target}'.",
                hint=f"These do: {', '.join(owner.name for owner in able) or 'none'}.",
            )
        return named
    if not able:
        find_target(target)
        raise DeviceNotFound(f"no backend compiles for target '{target}'.")
    return able[0]


def _channels_last(partitioned: PartitionedGraph, request: CompileRequest) -> frozenset[str]:
    """Return the border tensors of images whose every side computes channels-last."""
    able: dict[str, bool] = {}
    for part in partitioned.partitions:
        if part.target not in able:
            takes = choose_backend(part.target, request.backends).abilities().takes_channels_last
            able[part.target] = takes is not None and takes(find_target(part.target))
    handed_out = set(partitioned.source.graph.outputs)
    return frozenset(
        border.name
        for border in partitioned.borders
        if border.kind.rank == _IMAGE_RANK
        and border.kind.static_shape is not None
        and border.name not in handed_out
        and all(able[partitioned.partitions[index].target] for index in (border.producer, *border.consumers))
    )


class Compiler:
    """Compile partitions one by one; a context manager that owns the worker process, if one is needed."""

    def __init__(self, request: CompileRequest) -> None:
        self._request = request
        self._worker = Worker(request.limits)
        self._owners: dict[str, tuple[Backend, str, Target]] = {}
        """Backend, its version and the target, by the target's name: asking plug-ins for them takes its time."""

    def compile_all(self, partitioned: PartitionedGraph) -> tuple[CompiledPartition, ...]:
        """Return all partitions, compiled; raise CompileError for an option that no backend among them obeys."""
        self._check_options(dict.fromkeys(part.target for part in partitioned.partitions))
        channels_last = _channels_last(partitioned, self._request)
        return tuple(self.compile(part, channels_last) for part in partitioned.partitions)

    def compile(self, part: Partition, channels_last: frozenset[str] = frozenset()) -> CompiledPartition:
        """Return a partition, compiled or from the cache; raise CompileError naming it."""
        request = self._request
        compiler, version, target = self._owner(part.target)
        graph = part.graph
        edges = dict.fromkeys((*graph.inputs, *graph.outputs))
        options = _obeyed(request.per_target.get(part.target, request.options), compiler.abilities().options)
        options = replace(options, channels_last=tuple(name for name in edges if name in channels_last))
        try:
            blob = self._blob(compiler, target, graph, options)
        except CompileError as error:
            raise CompileError(
                f"partition {part.index} ({part.target}, backend {compiler.name}): {error.message}",
                partition=part.index,
                failure=error.failure,
                log_path=error.log_path,
                hint=error.hint,
            ).naming(error.nodes) from error
        hidden = graph.constants.keys() - set(graph.outputs)
        needs, memory = compiler.abilities().needs, graph_memory(graph)
        return CompiledPartition(
            target=part.target,
            backend=compiler.name,
            backend_version=version,
            blob=blob,
            inputs=graph.inputs,
            outputs=graph.outputs,
            tensors={name: kind for name, kind in graph.types.items() if name not in hidden},
            nodes=tuple(node.name for node in graph.nodes),
            macs=graph_macs(graph),
            constant_bytes=memory.constant_bytes,
            alive_bytes=memory.alive_bytes,
            needs={} if needs is None else needs(blob),
        )

    @property
    def limit_s(self) -> float:
        """Return how long one compilation may take."""
        return self._request.limits.compile_s

    def target(self, name: str) -> Target:
        """Return a target by name."""
        return self._owner(name)[2]

    def software(self, target: str) -> str:
        """Return the vendor's software that compiles for a target; "its compiler" where the backend does not say."""
        return self._owner(target)[0].abilities().software or "its compiler"

    def fails_again(self, part: Partition, failure: CompileFailure | None) -> bool:
        """Tell whether a part fails in the same way in a process of its own; what hung gets twice the time."""
        limits, slower = self._request.limits, SLOWER if failure is CompileFailure.HUNG else 1.0
        limits = replace(limits, compile_s=limits.compile_s * slower)
        with Compiler(replace(self._request, limits=limits, cache=None, memory=None)) as again:
            try:
                again.compile(part)
            except CompileError as error:
                return error.failure is failure
        return False

    def remember(self, part: Partition, failure: CompileFailure, reason: str) -> bool:
        """Keep a part on which its compiler crashes or hangs, where there is a memory; tell whether it was kept."""
        memory = self._request.memory
        if memory is None:
            return False
        owner, version, target = self._owner(part.target)
        scope = FailureScope(owner.name, version, target.name, target.mark)
        return memory.remember(scope, part.graph, failure, reason, owner.abilities().software)

    def stand_in(self, graph: Graph, name: str, plan: Plan) -> Partition | None:
        """Return what a target tries a node of a float graph by; None where there is no such thing, or no such node."""
        node = next((item for item in graph.nodes if item.name == name), None)
        if node is None:
            return None
        placement = plan.placement(name)
        owner, _, target = self._owner(placement.target)
        make = owner.abilities().stand_in
        return None if make is None else Partition(0, target.name, make(graph, node, placement.precision, target))

    def __enter__(self) -> Compiler:
        return self

    def __exit__(self, *raised: object) -> None:
        self._worker.close()

    def _owner(self, target: str) -> tuple[Backend, str, Target]:
        if target not in self._owners:
            owner = choose_backend(target, self._request.backends)
            self._owners[target] = owner, owner.version, find_target(target)
        return self._owners[target]

    def _check_options(self, targets: Iterable[str]) -> None:
        own = self._request.per_target
        obeyed = {target: self._owner(target)[0].abilities().options for target in targets}
        for target in obeyed.keys() & own.keys():
            _refuse_unknown(own[target], obeyed[target], f"target '{target}'")
        common = [options for target, options in obeyed.items() if target not in own]
        if common:
            where = ", ".join(f"'{target}'" for target in obeyed if target not in own)
            _refuse_unknown(self._request.options, frozenset().union(*common), f"none of the targets {where}")

    def _blob(self, compiler: Backend, target: Target, graph: Graph, options: CompileOptions) -> Blob:
        cache = self._request.cache
        key = cache_key(compiler, target, graph, options) if cache is not None else ""
        kept = cache.get(key) if cache is not None else None
        if kept is not None:
            return kept
        self._check_known(compiler, target, graph)
        limited = compiler.abilities().with_limit
        if limited is not None:
            compiler = limited(self._request.limits.compile_s)
        if self._isolated(compiler, target):
            blob = compile_contained(self._worker, CompilerPlace(compiler.name, target.name), graph, options)
        else:
            blob = _compile_here(compiler, target, graph, options)
        if cache is not None:
            cache.put(key, blob)
        return blob

    def _check_known(self, compiler: Backend, target: Target, graph: Graph) -> None:
        """Raise CompileError where a graph holds a part that the compiler is known to crash or hang on."""
        memory = self._request.memory
        if memory is None or not memory.stamp:
            return
        found = memory.find(FailureScope(compiler.name, self._owner(target.name)[1], target.name, target.mark), graph)
        if found is not None:
            raise CompileError(
                f"{found.known.told.rstrip('.')}.",
                failure=found.known.failure,
                hint="Place one of the nodes elsewhere, or have it forgotten (dovetail sdk failures).",
            ).naming(found.nodes)

    def _isolated(self, compiler: Backend, target: Target) -> bool:
        if self._request.isolation is not Isolation.UNTRUSTED:
            return self._request.isolation is Isolation.ALL
        is_safe = compiler.abilities().compiles_in_process
        return is_safe is None or not is_safe(target)


def _set_options(options: CompileOptions) -> set[str]:
    """Return the names of the options that differ from their defaults."""
    default = CompileOptions()
    return {item.name for item in fields(options) if getattr(options, item.name) != getattr(default, item.name)}


def _obeyed(options: CompileOptions, known: frozenset[str]) -> CompileOptions:
    """Return the options with those at their defaults that a backend does not obey."""
    default = CompileOptions()
    return replace(options, **{name: getattr(default, name) for name in _set_options(options) - known})


def _refuse_unknown(options: CompileOptions, known: frozenset[str], where: str) -> None:
    unknown = sorted(_set_options(options) - known)
    if unknown:
        verb = "obeys" if where.startswith("none") else "does not obey"
        raise CompileError(
            f"option '{unknown[0]}': {where} {verb} it.",
            hint=f"Leave it out; what is obeyed here: {', '.join(sorted(known)) or 'nothing'}.",
        )


def _compile_here(compiler: Backend, target: Target, graph: Graph, options: CompileOptions) -> Blob:
    try:
        return compiler.compile(graph, target, options)
    except DovetailError:
        raise
    except Exception as error:
        # A plug-in is anybody's code: what it raises is a refusal.
        raise CompileError(f"{type(error).__name__}: {error}.") from error
