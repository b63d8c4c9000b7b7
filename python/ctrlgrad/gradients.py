"""Backward passes of nets, and gradients of single operators.

`backward` and `backward_bytes` are the plain way in; `GradientRegistry` has the names and the
signatures of Caffe2's class. All of them convert, call the core, and convert back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    ClassVar,
    Optional,
    Protocol,
    TypeVar,
    Union,
    cast,
)

from . import _core, _messages
from ._gradient_map import GradientMap, empty_map
from ._host import OURS, Host, Maker
from .blobs import (
    CoreTargets,
    Gradient,
    GradientSlice,
    gradients_to_core,
    names_to_core,
    plain_targets,
)
from .errors import RefusedError, UsageError

if TYPE_CHECKING:
    from .caffe2_pb2 import OperatorDef

__all__ = ["BackwardPass", "GradientRegistry", "backward", "backward_bytes"]


class MessageLike(Protocol):
    """Any protobuf message; which ones are taken is told by their full name."""

    def SerializeToString(self) -> bytes: ...


Operator = TypeVar("Operator", bound=MessageLike)
Function = TypeVar("Function", bound=Callable[..., Any])
InputGradient = Optional[Union[str, GradientSlice]]
Targets = Union[list[Any], dict[Any, Any]]


class BackwardPass:
    """The answer of `backward`.

    ops_bytes: a serialized NetDef whose operators are the gradient operators, nothing else.
    ops: these operators as messages, of the class that the net's operators have. If the net
        came as bytes: of Caffe2's class if Caffe2 has been imported, else of
        `ctrlgrad.caffe2_pb2`; they are made when they are first asked for.
    grads: blob -> gradient, a `BlobReference` or, if it is sparse, a `GradientSlice` of two.
    """

    def __init__(self, ops_bytes: bytes, grads: GradientMap, net_class: type | None = None) -> None:
        self.ops_bytes = ops_bytes
        self.grads = grads
        self._net_class = net_class
        self._ops: list[OperatorDef] | None = None

    @property
    def ops(self) -> list[OperatorDef]:
        """The gradient operators as messages.

        Raises MissingPackageError without protobuf, TooDeepError if protobuf cannot hold them.
        """
        if self._ops is None:
            cls = self._net_class or _messages.default_class("NetDef")
            self._ops = list(_messages.from_bytes(cls, self.ops_bytes).op)
        return self._ops

    def __repr__(self) -> str:
        return "<BackwardPass: %d bytes of operators, gradients of %d blobs>" % (
            len(self.ops_bytes),
            len(self.grads),
        )


def backward(
    net: bytes | MessageLike,
    ys: Targets,
    *,
    no_grad: Iterable[Any] = (),
    wrt: Iterable[Any] | None = None,
) -> BackwardPass:
    """The backward pass of a net: the operators that compute the gradients of `ys`.

    net: a NetDef message of any class with the Caffe2 schema, or the bytes of one.
    ys: what to differentiate. A list of blobs, whose gradients start with ones; or a dict from
        blobs to the name of a gradient that the caller provides, to a sparse one
        (`GradientSlice`, or any pair of indices and values), or to None for ones.
    no_grad: blobs that get no gradient, in all their versions; the walk stops there.
    wrt: if given, only the gradients of these blobs, and the operators they need.

    A blob may be named by `str`, `bytes`, `BlobReference`, or any object whose text is the name.

    Raises UnknownBlobError for a name that stands nowhere in the net, and another CtrlgradError
    where the net has no right backward pass; `except` clauses for what Caffe2 raises there work.
    """
    wire = _messages.net_to_bytes(net)
    net_class: Any = type(net) if _messages.full_name(type(net)) else None
    if net_class is None:
        makers = Makers.of(OURS)
    else:
        makers = Makers.of(OURS, _messages.operator_class(net_class), cast(Any, net).op)
    grads = empty_map(OURS)
    ops = _core.backward(
        wire,
        plain_targets(ys),
        grads,
        makers,
        None,
        known=True,
        no_grad=names_to_core(no_grad, "no_grad"),
        wrt=None if wrt is None else names_to_core(wrt, "wrt"),
    )
    return BackwardPass(ops, grads, net_class)


def backward_bytes(
    net: bytes,
    ys: Targets,
    *,
    no_grad: Iterable[Any] = (),
    wrt: Iterable[Any] | None = None,
) -> tuple[bytes, dict[str, str | tuple[str, str]]]:
    """`backward` from bytes to bytes, for which no protobuf package is needed.

    net: a serialized NetDef. The other arguments and the errors are those of `backward`.

    Returns a serialized NetDef whose operators are the gradient operators, and a dict from
    blobs to their gradients: a name, or a pair (indices, values) if it is sparse.
    """
    if not isinstance(net, (bytes, bytearray, memoryview)):
        raise UsageError(
            "backward_bytes takes the bytes of a NetDef, not %s; ctrlgrad.backward takes messages"
            % type(net).__name__
        )
    grads: dict[str, str | tuple[str, str]] = {}
    ops = _core.backward(
        bytes(net),
        plain_targets(ys),
        grads,
        Makers.of(OURS),
        None,
        known=True,
        no_grad=names_to_core(no_grad, "no_grad"),
        wrt=None if wrt is None else names_to_core(wrt, "wrt"),
    )
    return ops, grads


class GradientRegistry:
    """Gradient makers written in Python, and what Caffe2's class of this name offers.

    Source: `caffe2.python.core.GradientRegistry` of torch 1.10.2.
    """

    gradient_registry_: ClassVar[dict[str, Maker]] = OURS.registry
    """Operator type -> function; Do, If and While are in it."""

    @classmethod
    def RegisterGradient(cls, op_type: str) -> Callable[[Function], Function]:
        """A decorator: the function makes gradients of `op_type`.

        It is asked where ctrlgrad has no maker for the type, or its maker refuses, also inside
        nested nets. It is called with the operator and the gradients of its outputs (None, a
        name, or a `GradientSlice`), and returns the gradient operators (None, one, or a list)
        and a list with the gradients of the operator's inputs. What it raises comes through.
        """

        def register(function: Function) -> Function:
            cls.gradient_registry_[op_type] = function
            return function

        return register

    @classmethod
    def GetGradientForOp(
        cls, op: Operator, g_output: Iterable[Any]
    ) -> tuple[list[Operator], list[InputGradient]]:
        """The gradient of one operator.

        op: an OperatorDef of any class. g_output: the gradient of each of its outputs.
        Returns the gradient operators, of the class of `op`, and the gradients of its inputs.
        Raises NoGradientError or another CtrlgradError where there is none.
        """
        return one_operator(OURS, _core.operator_gradient, op, g_output)

    @classmethod
    def GetBackwardPass(
        cls, operators: Iterable[Operator], ys: Targets, ys_generate_gradient: bool = False
    ) -> tuple[list[Operator], GradientMap]:
        """The gradient operators of a list of operators, and the map of gradients.

        operators: a list or a repeated field of OperatorDef of any class.
        ys: as in `backward`, but for a blob that the operators do not know: that is legal.
        ys_generate_gradient: is there because Caffe2 has it, and does as much there: nothing.
        Raises what `backward` raises.
        """
        messages = _messages.operators_of(operators)
        return of_operators(OURS, messages, plain_targets(ys))


def of_operators(
    host: Host, messages: list[Any], targets: CoreTargets, wires: list[bytes] | None = None
) -> tuple[list[Any], GradientMap]:
    """The backward pass of operators; `wires` is their wire form where the caller needs it too."""
    cls = host.operator_class(messages)
    grads = empty_map(host)
    pieces = _core.backward(
        host.wires(messages) if wires is None else wires,  # not kept while the answer is parsed
        targets,
        grads,
        Makers.of(host, cls, messages),
        host.scope(),
    )
    return _messages.operators_from_bytes(cls, pieces), grads


def one_operator(
    host: Host,
    ask: Callable[..., tuple[list[bytes], list[Gradient]]],
    op: Operator,
    g_output: Iterable[Any],
) -> tuple[list[Operator], list[Any]]:
    """The gradient of one operator by a function of the core; `op` decides the class."""
    _messages.check_class(type(op), _messages.OPERATOR)
    [wire] = _messages.all_to_bytes([op])
    makers = Makers.of(host, type(op), [op])
    ops, g_input = ask(wire, gradients_to_core(g_output), makers=makers, scope=host.scope())
    messages = _messages.messages_from_bytes(type(op), ops)
    if makers is not None and makers.given is not None:
        return messages, makers.given
    return messages, [host.gradient(g) for g in g_input]


class Makers:
    """The makers that are written in Python, as the core asks them.

    types: their operator types; they are asked where the core has no maker, or its maker refuses.
    given: the gradients that a maker gave for an operator of the outermost net, as it gave them.
    goes_first: (operator type, an operator of it) -> whether `ask` goes before the core's maker;
        None if that is never so.
    """

    def __init__(
        self, host: Host, types: dict[str, Maker], op_class: Any, operators: Iterable[Any]
    ) -> None:
        self.types = types
        self.goes_first = host.goes_first if host.has_first else None
        self.given: list[Any] | None = None
        self._host = host
        self._op_class = op_class
        # An operator of the outermost net is given as the caller's own object, as Caffe2 does it.
        self._own = list(operators)

    @classmethod
    def of(cls, host: Host, op_class: Any = None, operators: Iterable[Any] = ()) -> Makers | None:
        """The makers of a host, which get messages of `op_class`; None if there are none."""
        types = host.makers()
        return cls(host, types, op_class, operators) if types or host.has_first else None

    def ask(
        self, wire: bytes, g_output: list[Gradient], path: tuple[int, ...]
    ) -> tuple[list[bytes], list[Gradient]] | None:
        """The gradient of an operator: (gradient operators, gradients of its inputs), or None.

        path: operator indices from the outermost net inwards; an operator that is asked alone
            counts as operator 0 of a net.
        """
        if self._own and len(path) == 1:
            op = self._own[path[0]]
        else:
            op = _messages.from_bytes(
                self._op_class or _messages.default_class("OperatorDef"), wire
            )
        given = [self._host.gradient(gradient) for gradient in g_output]
        maker = self.types.get(op.type)
        refusal = None
        if self.goes_first:
            try:
                first = self._host.ask_first(op, given)
            except RuntimeError as error:
                refusal = str(error).partition("\n")[0]
            else:
                if first is not None:
                    return first
        if maker is None:
            if refusal is None or _core.has_gradient(op.type) != "unknown":
                return None
            raise RefusedError(
                "operator %d (%s): Caffe2's own maker of the type refuses it: %s"
                % (path[-1], op.type, refusal),
                path=path,
                op_type=op.type,
            )
        answer = maker(op, given)
        if not isinstance(answer, (tuple, list)) or len(answer) != 2:
            raise UsageError(
                "the gradient maker registered for %s must return a pair: gradient operators "
                "(None, one, or a list) and a list of gradients of the inputs" % op.type,
                path=path,
                op_type=op.type,
            )
        ops, g_input = answer
        if ops is None:
            ops = []
        elif _messages.full_name(type(ops)) is not None:
            ops = [ops]
        made = _messages.all_to_bytes(_messages.operators_of(ops)), gradients_to_core(g_input)
        if len(path) == 1:
            self.given = list(g_input)
        return made
