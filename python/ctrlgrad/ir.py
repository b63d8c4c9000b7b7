"""Versions of blobs: the SSA form of nets, and the class `IR` as Caffe2 has it.

Two numberings are in use, as in Caffe2. `IR` counts a blob from 0 whether it is read or
written first. `get_ssa` counts what is written from 1, so that 0 means "comes from outside".

Source: `caffe2.python.core` of torch 1.10.2.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, ClassVar, Union

from . import _core, _messages
from ._gradient_map import GradientMap
from ._host import OURS, GradGenMeta, Host, OpSSA, Scope, SparseGradGenMeta
from .blobs import Target, targets_to_core, text_of
from .errors import UnknownBlobError
from .gradients import Makers, Targets, of_operators

__all__ = ["IR", "get_op_ids_in_path", "get_output_producers", "get_ssa", "get_undefined_blobs"]

Versioned = tuple[str, int]
Ssa = list[tuple[list[Versioned], list[Versioned]]]
History = defaultdict[str, list[tuple[Any, int]]]


Generators = defaultdict[str, defaultdict[int, list[Union[GradGenMeta, SparseGradGenMeta]]]]


class IR:
    """A list of operators with the versions of their blobs, and its backward pass.

    operators: a list or a repeated field of OperatorDef of any class with the Caffe2 schema.
    Raises OrphanError, a ValueError, if nothing reads what a StopGradient writes.

    The views below are made when they are first read after the last `GetBackwardPass`.
    """

    _host: ClassVar[Host] = OURS

    IS_AUTO_GEN_SUM_OPS_TAG = "is_auto_gen_sum_ops"
    """With `:1` behind it, in the extra information of the device option of every sum."""
    ONLY_KEEP_IS_AUTO_GEN_SUM_OPS_TAG = "only_keep_is_auto_gen_sum_ops_tag"
    """With `:1` behind it, in the device option of an operator: sums of its gradients carry no
    other extra information than the tag above."""
    AUTOGEN_GRAD_SUFFIX = "_autogen_grad"
    """What stands behind the name of a target in that of its ones."""

    def __init__(self, operators: Iterable[Any]) -> None:
        self._operators = _messages.operators_of(operators)
        self._wires = self._host.wires(self._operators)
        self._versions = _core.versions(self._wires)
        self._targets: list[list[Target]] = []
        self._answer: list[Any] = []
        self._asked: tuple[list[bytes], Scope] = [], None
        self._played: _Played | None = None
        self._traced: tuple[dict[str, int], Generators] | None = None

    def GetBackwardPass(self, ys: Targets) -> tuple[list[Any], GradientMap]:
        """The gradient operators and the map of gradients, as `GradientRegistry` gives them."""
        # The operators are the caller's, who may have changed them since.
        wires = self._host.wires(self._operators)
        targets = targets_to_core(ys, self._host.in_scope)
        self._answer, grads = of_operators(self._host, self._operators, targets, wires)
        self._asked = wires, self._host.scope()
        self._targets.append(targets)
        self._played = self._traced = None
        return list(self._answer), grads

    @property
    def ssa(self) -> list[OpSSA]:
        """For each operator the versions of its inputs and outputs."""
        return self._views().ssa

    @property
    def input_usages(self) -> defaultdict[str, defaultdict[int, list[int]]]:
        """Blob -> version -> indices of the operators that read it.

        A target of a backward pass counts as read behind the last operator.
        """
        return self._views().input_usages

    @property
    def frontier(self) -> defaultdict[str, int]:
        """Blob -> its version behind the last operator."""
        return self._views().frontier

    @property
    def in_version_history(self) -> History:
        """Blob -> (operator, version) for each time it is read."""
        return self._views().in_version_history

    @property
    def out_version_history(self) -> History:
        """Blob -> (operator, version) for each time it is written."""
        return self._views().out_version_history

    @property
    def gradient_frontier(self) -> dict[str, int]:
        """Blob -> the version that its gradient speaks of, after the last backward pass."""
        return self._trace()[0]

    @property
    def gradient_generators(self) -> Generators:
        """Blob -> version -> who gives its gradient, after the last backward pass."""
        return self._trace()[1]

    def _views(self) -> _Played:
        if self._played is None:
            self._played = _Played(
                self._host, self._operators, self._wires, self._versions, self._targets
            )
        return self._played

    def _trace(self) -> tuple[dict[str, int], Generators]:
        if self._traced is None:
            generators: Generators = defaultdict(lambda: defaultdict(list))
            frontier: dict[str, int] = {}
            if self._targets:
                cls = self._host.operator_class(self._operators)
                makers = Makers.of(self._host, cls, self._operators)
                wires, scope = self._asked
                _, _, frontier, found = _core.trace(
                    wires, self._targets[-1], makers=makers, scope=scope
                )
                for blob, version, entries in found:
                    generators[blob][version] += map(self._generator, entries)
            self._traced = frontier, generators
        return self._traced

    def _generator(self, entry: Any) -> GradGenMeta | SparseGradGenMeta:
        kind, *parts = entry
        if kind == "dense":
            at, output, gradient, forward = parts
            made: GradGenMeta = self._host.grad_gen_meta(
                self._gradient_op(at), output, gradient, self._device_option(at, forward)
            )
            return made
        at_indices, indices, at_values, values, gradient, forward = parts
        made_sparse: SparseGradGenMeta = self._host.sparse_grad_gen_meta(
            self._gradient_op(at_indices),
            indices,
            self._gradient_op(at_values),
            values,
            self._host.gradient_slice(*gradient),
            self._device_option(at_values if at_indices is None else at_indices, forward),
        )
        return made_sparse

    def _gradient_op(self, at: int | None) -> Any:
        return None if at is None else self._answer[at]

    def _device_option(self, at: int | None, forward: int | None) -> Any:
        if at is not None:
            return self._answer[at].device_option
        if forward is not None:
            return self._operators[forward].device_option
        return self._host.operator_class(self._operators)().device_option


class _Played:
    """The views of an `IR` that tell of the forward operators."""

    def __init__(
        self,
        host: Host,
        operators: list[Any],
        wires: list[bytes],
        versions: list[tuple[list[int], list[int]]],
        passes: list[list[Target]],
    ) -> None:
        self.ssa: list[OpSSA] = []
        self.input_usages: defaultdict[str, defaultdict[int, list[int]]] = defaultdict(
            lambda: defaultdict(list)
        )
        self.frontier: defaultdict[str, int] = defaultdict(int)
        self.in_version_history: History = defaultdict(list)
        self.out_version_history: History = defaultdict(list)
        for index, (op, wire, (reads, writes)) in enumerate(zip(operators, wires, versions)):
            # The caller may have changed the blobs of the operator since.
            played = _messages.from_bytes(type(op), wire)
            inputs = list(zip(map(text_of, played.input), reads))
            outputs = list(zip(map(text_of, played.output), writes))
            self.ssa.append(host.op_ssa(op, dict(inputs), dict(outputs)))
            for blob, version in inputs:
                self.input_usages[blob][version].append(index)
                self.in_version_history[blob].append((op, version))
            for blob, version in outputs:
                self.out_version_history[blob].append((op, version))
            self.frontier.update(inputs)
            self.frontier.update(outputs)
        for targets in passes:
            for blob, _, _ in targets:
                self.input_usages[blob][self.frontier[blob]].append(len(operators))


def get_ssa(net: Any, blob_versions: dict[str, int] | None = None) -> tuple[Ssa, dict[str, int]]:
    """The version of each blob that each operator of a net reads and writes.

    net: a NetDef message of any class, or an object whose `Proto()` is one.
    blob_versions: blob -> the version to start from (0 if it is not there); brought up to date.

    Returns the list with (inputs, outputs) for each operator, as (blob, version), and the last
    version of each blob. Raises UsageError for anything else than a net.
    """
    if _messages.full_name(type(net)) is None and callable(getattr(net, "Proto", None)):
        net = net.Proto()
    if blob_versions is None:
        blob_versions = {}
    known = {text_of(blob): version for blob, version in blob_versions.items()}
    ssa, last = _core.get_ssa(_messages.net_to_bytes(net), known)
    blob_versions.update(last)
    return ssa, blob_versions


def get_undefined_blobs(ssa: Ssa) -> set[str]:
    """The blobs that are read before anything writes them; `ssa` is of `get_ssa`."""
    undefined: set[str] = set()
    for inputs, _ in ssa:
        # As Caffe2 joins them: its builders list blobs in the order that the set has then.
        undefined |= {blob for blob, version in inputs if version == 0}
    return undefined


def get_output_producers(ssa: Ssa) -> dict[Versioned, int]:
    """(blob, version) -> index of the operator that writes it; `ssa` is of `get_ssa`."""
    return {output: index for index, (_, outputs) in enumerate(ssa) for output in outputs}


def get_op_ids_in_path(
    ssa: Ssa, blob_versions: dict[str, int], inputs: Iterable[Any], outputs: Iterable[Any]
) -> list[int]:
    """The operators that are needed for `outputs`, given `inputs`, in order.

    ssa, blob_versions: of `get_ssa`. All blobs are meant in their last version. Raises
    UnknownBlobError, a KeyError, for a blob that the net does not have.
    """

    def last(blob: Any) -> Versioned:
        name = text_of(blob)
        if name not in blob_versions:
            raise UnknownBlobError("the net has no blob %r" % name, blob=name)
        return name, blob_versions[name]

    given = set(map(last, inputs))
    producers = get_output_producers(ssa)
    waiting = list(map(last, outputs))
    needed: set[int] = set()
    while waiting:
        blob = waiting.pop()
        index = None if blob in given else producers.get(blob)
        if index is not None and index not in needed:
            needed.add(index)
            waiting += ssa[index][0]
    return sorted(needed)
