"""Messages among ranks. The only verbs there are; each returns at once and is finished by ``wait``.

A :class:`Group` stands on a torch ``ProcessGroup`` whose methods are called directly, not through
the functions of ``torch.distributed`` that assume one global group per process. So ranks can be
processes, or threads of one process over any store (tests do that).

CPU tensors always travel by gloo and CUDA tensors by NCCL, so control messages, which are CPU
tensors, never touch the device.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from torch import distributed as dist
from torch.distributed.distributed_c10d import PrefixStore

from lightwork.comm.backends import break_gloo, connected, kept
from lightwork.comm.lane import Lane
from lightwork.comm.message import Finished, Message, Pending, Transfer

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup, Work
    from torch.distributed.distributed_c10d import Store

__all__ = ["MAX_JSON_BYTES", "Group", "Pending", "Transfer"]

MAX_JSON_BYTES = 256 * 2**20
"""The most one rank may give :meth:`Group.gather_json`, encoded: every rank holds all of them."""

_OPS = {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX, "min": dist.ReduceOp.MIN}
_NOT_JSON = -1


class Group:
    """Some ranks that send each other messages. Every rank calls the same verbs in the same order.

    Tensors must be contiguous, and of equal shape and dtype on all ranks.
    """

    def __init__(
        self, process_group: ProcessGroup | None, store: Store | None, timeout_s: float, device: str
    ) -> None:
        """Take charge of a connected ``process_group`` (None: alone).

        Args:
            process_group: gloo for CPU tensors and, if ``device`` is "cuda", NCCL for CUDA ones.
            store: where the members find each other; groups made by ``split`` use it again.
            timeout_s: how long a message may wait for its peers.
            device: "cpu" or "cuda".
        """
        self.rank = process_group.rank() if process_group is not None else 0
        self.size = process_group.size() if process_group is not None else 1
        self._process_group = process_group
        self._store = store
        self._timeout_s = timeout_s
        self._device = device
        self._splits = 0
        self._parts: list[Group] = []
        self._lanes: list[Lane] = []

    @classmethod
    def alone(cls) -> Group:
        """A group of one: every verb is finished as soon as it is called."""
        return cls(None, None, 0.0, "cpu")

    @classmethod
    def connect(
        cls, store: Store, rank: int, size: int, timeout_s: float, device: str = "cpu"
    ) -> Group:
        """Join ``size`` ranks that meet at ``store``, which nobody else may use for this.

        Knows nothing of torch's global group, so several ranks may live in one process.
        """
        if size == 1:
            return cls.alone()
        process_group = connected(store, rank, size, timeout_s, device)
        return cls(process_group, store, timeout_s, device)

    @property
    def on_cuda(self) -> bool:
        """Whether it carries CUDA tensors."""
        return self._device == "cuda"

    @property
    def process_group(self) -> ProcessGroup | None:
        """The torch group underneath; None when this is a group of one."""
        return self._process_group

    def all_reduce(self, tensor: Tensor, op: Literal["sum", "max", "min"] = "sum") -> Pending:
        """Replace ``tensor`` by the sum, maximum or minimum over all ranks."""
        if self.size == 1:
            return Finished()
        group = self._connected()
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp(_OPS[op])
        return self._collective("all_reduce", tensor, lambda: group.allreduce([tensor], options))

    def broadcast(self, tensor: Tensor, source: int = 0) -> Pending:
        """Replace ``tensor`` by the one of rank ``source``."""
        self._check_rank(source)
        if self.size == 1:
            return Finished()
        group = self._connected()
        options = dist.BroadcastOptions()
        options.rootRank = source
        options.rootTensor = 0
        sends = self.rank == source
        return self._collective(
            "broadcast", tensor, lambda: group.broadcast([tensor], options), sends=sends
        )

    def all_gather(self, output: Tensor, tensor: Tensor) -> Pending:
        """Fill ``output``, of shape ``(size, *tensor.shape)``, with the tensors of all ranks."""
        if output.shape != (self.size, *tensor.shape) or not output.is_contiguous():
            raise ValueError(
                f"all_gather needs a contiguous output of shape {(self.size, *tensor.shape)}, "
                f"got {tuple(output.shape)}"
            )
        if self.size == 1:
            output[0].copy_(tensor)
            return Finished()
        group = self._connected()
        rows = list(output.unbind(0))
        return self._collective("all_gather", tensor, lambda: group.allgather([rows], [tensor]))

    def exchange(
        self, sends: Sequence[tuple[int, Tensor]], receives: Sequence[tuple[int, Tensor]]
    ) -> Pending:
        """Send and receive several tensors at once; pairs are ``(peer, tensor)``.

        The n-th tensor sent to a peer is the n-th that peer receives from here. Every receive is
        posted before the first send, so no order of the peers can stop the others, and what
        arrives finds its place waiting. There is no other point-to-point verb.
        """
        for peer, tensor in (*receives, *sends):
            self._check_rank(peer)
            if peer == self.rank or not tensor.is_contiguous():
                raise ValueError("exchange takes contiguous tensors and peers other than itself")
        if self.size == 1:
            return Finished()
        group = self._connected()
        device = next((t.device for _, t in (*sends, *receives) if t.is_cuda), None)

        def post() -> list[Work]:
            if device is not None:  # NCCL would run them one after the other, and stop
                group._start_coalescing(device)
            works = [group.recv([tensor], peer, 0) for peer, tensor in receives]
            works += [group.send([tensor], peer, 0) for peer, tensor in sends]
            return kept(works) if device is None else [group._end_coalescing(device)]

        return Message("exchange", sum(tensor.nbytes for _, tensor in sends), post)

    def gather_json(self, value: Any) -> list[Any]:
        """Every rank's ``value`` in rank order, on every rank, as JSON gives it back.

        Waits. Travels as UTF-8 in CPU tensors, at most ``MAX_JSON_BYTES`` from each rank; all
        ranks raise together if one of them breaks that or gives what JSON cannot say.

        Raises:
            ValueError: a value too long or not JSON, naming the rank.
            PeerLostError: as for every message.
        """
        text = _encode(value)
        own_bytes = torch.tensor([_NOT_JSON if text is None else len(text)])
        counts = torch.empty(self.size, 1, dtype=torch.int64)
        self.all_gather(counts, own_bytes).wait()
        lengths = [int(count) for count in counts]
        for rank, length in enumerate(lengths):
            if not 0 <= length <= MAX_JSON_BYTES:
                what = "is not JSON" if length == _NOT_JSON else f"takes {length} bytes"
                raise ValueError(
                    f"the value of rank {rank} {what}; gather_json takes JSON of at most "
                    f"{MAX_JSON_BYTES} bytes"
                )
        own = torch.zeros(max(lengths), dtype=torch.uint8)
        own[: lengths[self.rank]] = torch.frombuffer(bytearray(text or b""), dtype=torch.uint8)
        rows = torch.empty(self.size, len(own), dtype=torch.uint8)
        self.all_gather(rows, own).wait()
        return [_decode(row, length) for row, length in zip(rows, lengths, strict=True)]

    def split(self, ranks: Sequence[int]) -> Group | None:
        """A group of these ranks of this one, in this order; None on all others.

        Every rank calls it the same number of times; disjoint lists may be given in one call.
        Closing this group closes it too.
        """
        for rank in ranks:
            self._check_rank(rank)
        self._splits += 1
        if self.rank not in ranks:
            return None
        if len(ranks) == 1 or self._store is None:
            return Group.alone()
        name = f"split{self._splits}:{'-'.join(map(str, ranks))}"
        store = PrefixStore(name, self._store)
        place = list(ranks).index(self.rank)
        part = Group.connect(store, place, len(ranks), self._timeout_s, self._device)
        self._parts.append(part)
        return part

    def lane(self) -> Lane:
        """For exchanges of several messages in a row; every rank calls it the same number of times.

        Closing this group closes it too.
        """
        own = self if self.on_cuda else self.split(range(self.size))
        assert own is not None
        self._lanes.append(Lane(own))
        return self._lanes[-1]

    def abort(self) -> None:
        """Break every connection now, so that messages under way fail here and at the peers."""
        for part in self._parts:
            part.abort()
        if self._process_group is not None and self.size > 1:
            break_gloo(self._process_group)
            if self._device == "cuda":
                self._process_group.abort()
        self.close()

    def close(self) -> None:
        """Let go of the connections. Messages must have been waited for; use ``abort`` if not."""
        for lane in self._lanes:
            lane.close()
        for part in self._parts:
            part.close()
        self._lanes, self._parts = [], []
        self._process_group = None
        self._store = None

    def _connected(self) -> ProcessGroup:
        if self._process_group is None:
            raise RuntimeError("this group was closed; it carries no more messages")
        return self._process_group

    def _check_rank(self, rank: int) -> None:
        if not 0 <= rank < self.size:
            raise ValueError(f"rank {rank} is not in this group of {self.size}")

    def _collective(
        self, verb: str, tensor: Tensor, start: Callable[[], Work], sends: bool = True
    ) -> Pending:
        if not tensor.is_contiguous():
            raise ValueError(f"{verb} needs a contiguous tensor")
        message = Message(verb, tensor.nbytes if sends else 0, lambda: kept([start()]))
        return message if tensor.is_cuda else message.note_end()


def _encode(value: Any) -> bytes | None:
    try:
        # lone surrogates, which some data sets contain, survive the journey
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError, RecursionError):
        return None


def _decode(row: Tensor, length: int) -> Any:
    return json.loads(row[:length].numpy().tobytes().decode("utf-8", "surrogatepass"))
