"""Swap search for many users at once, in torch: the moves of swap.py as dense operations on a device.

A *climb* is a user and a set of at most k members, in k slots of which some may be empty. All climbs of all users grow
together and then make their best exchanges together. For a slot p and a candidate c, with S the members in the other
slots, the value of the set after the exchange is

    F(S ∪ {c}) = f_c(a_c) + Σ_{i∈S} f_i(base_i + Σ_h (N_ip^h + w_ic^h s_c^h) / (D_ip^h + w_ic^h)),

where N_ip and D_ip are the sums of i's attention over S (sink included). They are added up without p for every p, and
not computed by subtraction, so nothing cancels. An exchange of an empty slot is an addition, one for no candidate a
removal. All values of one step are an array (climbs, k, k, m).

Start items are those of swap.py: by score, by reward beside the best-scored one, by attention received, and the
best alone. Then some climbs start from perturbations of the best set. These are the same for every user, so a result
does not depend on who else is in the batch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from setwise.ranking.device_instances import DeviceInstances
from setwise.retrieval.device_rewards import evaluated

STARTS = 5  # start items of each of three kinds
PERTURBED = 8  # climbs from perturbations of the best set in a round
ROUNDS = 1
_NUMBERS = 1 << 26  # values of members that are held at a time
_GAIN = {torch.float32: 2e-6, torch.float64: 1e-12}  # relative; a smaller gain may be rounding


class Climbs(NamedTuple):
    """Sets of some users: ``owner`` (b,) is the user, ``members`` (b, k) positions of candidates in filled slots."""

    owner: torch.Tensor
    members: torch.Tensor
    filled: torch.Tensor
    value: torch.Tensor  # (b,)

    def part(self, rows: slice | torch.Tensor) -> Climbs:
        """Some of the climbs."""
        return Climbs(*(part[rows] for part in self))


def swap(problem: DeviceInstances, k: int, rounds: int = ROUNDS, seed: int = 0) -> Climbs:
    """The best set found for each user; candidates of a user are at least k."""
    draw = np.random.default_rng(seed)
    m, device = problem.score.shape[1], problem.score.device
    patterns = [_Pattern.drawn(draw, k, m, device) for _ in range(rounds)]
    step = max(1, _NUMBERS // ((3 * STARTS + 1) * k * k * m))
    pieces = []
    for first in range(0, len(problem.score), step):
        rows = slice(first, first + step)
        best = _swap(problem.part(rows), k, patterns)
        pieces.append(best._replace(owner=best.owner + first))
    return Climbs(*(torch.cat(parts) for parts in zip(*pieces, strict=True)))


def _swap(problem: DeviceInstances, k: int, patterns: list[_Pattern]) -> Climbs:
    """``swap`` for so few users that memory suffices for all their climbs."""
    starts = _start_items(problem)
    best = _best_of_each(_climbed(problem, _grown(problem, starts, k)), starts.shape[1])
    for pattern in patterns:
        perturbed = _climbed(problem, _perturbed(problem, best, pattern))
        both = [_by_user(climbs, len(best.owner)) for climbs in (perturbed, best)]
        joined = Climbs(*(torch.cat(pair, 1).flatten(0, 1) for pair in zip(*both, strict=True)))
        best = _best_of_each(joined, PERTURBED + 1)
    return best


def _by_user(climbs: Climbs, users: int) -> Climbs:
    """The climbs, as many of each user in a row: arrays (users, climbs of one, ·)."""
    return Climbs(*(part.reshape(users, -1, *part.shape[1:]) for part in climbs))


def _best_of_each(climbs: Climbs, count: int) -> Climbs:
    """The best climb of each user, who has ``count`` in a row."""
    at = climbs.value.reshape(-1, count).argmax(1)
    return climbs.part(torch.arange(len(at), device=at.device) * count + at)


# --- values ---


def exchanges(problem: DeviceInstances, climbs: Climbs, others: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The values of all sets one exchange away, (b, P, m), and of those one removal away, (b, P).

    ``others`` (P, k) is 1 for the slots that stay when slot p is exchanged. Candidates that are members, or that do not
    exist, have −∞.
    """
    owner, members = climbs.owner[:, None], climbs.members
    filled = climbs.filled.to(problem.score.dtype)
    weight, received = problem.weight[owner, members], problem.received[owner, members]  # (b, k, H, m)
    of_member, of_all = (
        problem.score[owner, members],
        problem.score[climbs.owner].transpose(1, 2),
    )  # (b, k, H), (b, H, m)
    among = torch.take_along_dim(weight, members[:, None, None, :], 3) * filled[:, None, None, :]  # (b, i, H, j)
    sink, sink_part = (terms[owner, members][..., None] for terms in (problem.sink_weight, problem.sink_part))
    above = (among * of_member.transpose(1, 2)[:, None]) @ others.T + sink_part  # (b, i, H, P)
    below = among @ others.T + sink
    stays = filled[:, None, :] * others  # (b, P, i)
    base = problem.base[owner, members]
    classes = None if problem.of_class is None else problem.of_class[owner, members]
    value = _of_members(problem, weight, of_all, above, below, base, classes)  # (b, P, i, m)
    value = torch.matmul(stays[:, :, None, :], value)[:, :, 0]
    value += _of_added(problem, climbs, received, of_member, filled, others)
    value.masked_fill_(~problem.held[climbs.owner][:, None, :], -torch.inf)
    present = torch.zeros_like(value[:, 0]).scatter_add_(1, members, filled) > 0  # an empty slot may name a member
    value.masked_fill_(present[:, None, :], -torch.inf)
    ratio = torch.where(below > 0, above / below, 0.0).sum(2)  # (b, i, P)
    left = evaluated(problem.rewards, None if classes is None else classes[..., None], base[..., None] + ratio)
    return value, torch.einsum("bpi,bip->bp", stays, left)


def _of_members(
    problem: DeviceInstances,
    weight: torch.Tensor,
    score: torch.Tensor,
    above: torch.Tensor,
    below: torch.Tensor,
    base: torch.Tensor,
    classes: torch.Tensor | None,
) -> torch.Tensor:
    """f_i of every member i when slot p is exchanged for c: (b, P, i, m)."""
    argument: torch.Tensor | None = None
    for head in range(weight.shape[2]):
        w = weight[:, None, :, head]  # (b, 1, i, m)
        ratio = above[:, :, head].transpose(1, 2)[..., None] + w * score[:, None, None, head]
        ratio /= below[:, :, head].transpose(1, 2)[..., None] + w
        argument = ratio if argument is None else argument.add_(ratio)
    assert argument is not None
    argument += base[:, None, :, None]
    return evaluated(problem.rewards, None if classes is None else classes[:, None, :, None], argument)


def _of_added(
    problem: DeviceInstances,
    climbs: Climbs,
    received: torch.Tensor,
    of_member: torch.Tensor,
    filled: torch.Tensor,
    others: torch.Tensor,
) -> torch.Tensor:
    """f_c of every candidate c that is exchanged for slot p: (b, P, m)."""
    owner = climbs.owner
    count, k, heads, m = received.shape
    weight = (received * filled[..., None, None]).reshape(count, k, heads * m)
    own_weight, score = problem.own[owner].transpose(1, 2), problem.score[owner].transpose(1, 2)  # (b, H, m)
    sink, sink_part = (terms[owner].transpose(1, 2) for terms in (problem.sink_weight, problem.sink_part))
    below = (others @ weight).reshape(count, -1, heads, m) + (own_weight + sink)[:, None]
    weighted = (weight.reshape(count, k, heads, m) * of_member[..., None]).reshape(count, k, heads * m)
    above = (others @ weighted).reshape(count, -1, heads, m) + (own_weight * score + sink_part)[:, None]
    argument = torch.where(below > 0, above / below, 0.0).sum(2) + problem.base[owner][:, None]
    classes = None if problem.of_class is None else problem.of_class[owner][:, None]
    return evaluated(problem.rewards, classes, argument)


# --- climbs ---


def _start_items(problem: DeviceInstances) -> torch.Tensor:
    """For each user the best candidate alone, then the best by three measures in turns: (B, 1 + 3 ``STARTS``)."""
    held, score, own_weight = problem.held, problem.score, problem.own
    total = torch.where(held, score.sum(2) + problem.base, -torch.inf)
    partner = total.argmax(1)[:, None]
    received = torch.take_along_dim(problem.received, partner[..., None, None], 1)[:, 0].transpose(1, 2)  # (B, m, H)
    s_l = torch.take_along_dim(score, partner[..., None], 1)
    alone = _rewards(problem, own_weight * score + problem.sink_part, own_weight + problem.sink_weight)
    above = own_weight * score + received * s_l + problem.sink_part
    beside = _rewards(problem, above, own_weight + received + problem.sink_weight)
    attention = problem.weight / (problem.weight.sum(3) + problem.sink_weight)[..., None]
    attention = (attention * held[:, :, None, None]).sum((1, 2))
    measures = [torch.where(held, measure, -torch.inf) for measure in (alone, total, beside, attention)]
    count = min(STARTS, held.shape[1])
    turns = torch.stack([torch.topk(measure, count, dim=1).indices for measure in measures[1:]], 2).flatten(1)
    return torch.cat([measures[0].argmax(1)[:, None], turns], 1)


def _rewards(problem: DeviceInstances, above: torch.Tensor, below: torch.Tensor) -> torch.Tensor:
    """f_i of the candidates (B, m) with these sums of attention (B, m, H)."""
    argument = problem.base + torch.where(below > 0, above / below, 0.0).sum(2)
    return evaluated(problem.rewards, problem.of_class, argument)


def _grown(problem: DeviceInstances, starts: torch.Tensor, k: int) -> Climbs:
    """Sets of k members, grown from each start item by the best addition at a time, whether or not it raises F.

    The sums of attention of all candidates and members are kept and added to, so a step takes few operations.
    """
    users, count = starts.shape
    owner = torch.arange(users, device=starts.device).repeat_interleave(count)
    climb = torch.arange(len(owner), device=starts.device)
    score, base = problem.score[owner].transpose(1, 2), problem.base[owner]  # (b, H, m), (b, m)
    classes = None if problem.of_class is None else problem.of_class[owner]
    own_weight, full = problem.own, len(owner)
    above = (own_weight * problem.score + problem.sink_part)[owner].transpose(1, 2).contiguous()  # (b, H, m)
    below = (own_weight + problem.sink_weight)[owner].transpose(1, 2).contiguous()
    absent = ~problem.held[owner]
    members = starts.new_empty((full, k))
    weight = score.new_empty((full, k, *score.shape[1:]))
    member_above, member_below = score.new_empty((2, full, k, score.shape[1]))
    value, new = score.new_full((full,), torch.finfo(score.dtype).min), starts.flatten()
    for size in range(k):
        earlier, now = slice(0, size), slice(0, size + 1)
        of_new, received = score[climb, :, new], problem.received[owner, new]
        members[:, size], absent[climb, new] = new, True
        member_above[:, size], member_below[:, size] = above[climb, :, new], below[climb, :, new]
        weight[:, size] = problem.weight[owner, new]
        to_new = weight[climb, earlier, :, new]  # (b, size, H)
        member_above[:, earlier] += to_new * of_new[:, None]
        member_below[:, earlier] += to_new
        above.addcmul_(received, of_new[..., None])
        below += received
        if size == k - 1:
            break
        ratio = torch.addcmul(member_above[:, now, :, None], weight[:, now], score[:, None])
        ratio = ratio.div_(member_below[:, now, :, None] + weight[:, now]).sum(2)  # (b, i, m)
        at = members[:, now]
        of_members = None if classes is None else classes.gather(1, at)[..., None]
        value_of_set = evaluated(problem.rewards, of_members, ratio.add_(base.gather(1, at)[..., None])).sum(1)
        value_of_set += evaluated(problem.rewards, classes, base + (above / below).sum(1))
        value, new = value_of_set.masked_fill_(absent, -torch.inf).max(1)
    return Climbs(owner, members, torch.ones_like(members, dtype=torch.bool), value)


def _climbed(problem: DeviceInstances, climbs: Climbs) -> Climbs:
    """Make the best exchange, addition or removal of each climb as long as F rises."""
    owner, members, filled, value = climbs
    k = members.shape[1]
    others = 1 - torch.eye(k, dtype=value.dtype, device=value.device)
    active = torch.arange(len(owner), device=owner.device)
    for _ in range(4 * k + 20):
        if not len(active):
            break
        now = Climbs(owner, members, filled, value).part(active)
        new, slot, item = _best_moves(*exchanges(problem, now, others), now)
        rises = torch.nonzero(new > now.value + _GAIN[value.dtype] * now.value.abs())[:, 0]
        active, slot, item = active[rises], slot[rises], item[rises]
        value[active], filled[active, slot] = new[rises], item >= 0
        members[active, slot] = item.clamp_min(0)
    return Climbs(owner, members, filled, value)


def _best_moves(
    exchanged: torch.Tensor, removed: torch.Tensor, climbs: Climbs
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The value of each climb's best move, its slot, and the candidate that it puts there: −1 is a removal."""
    m = exchanged.shape[2]
    best, at = exchanged.flatten(1).max(1)
    may_leave = climbs.filled & (climbs.filled.sum(1) > 1)[:, None]
    without, leaving = torch.where(may_leave, removed, -torch.inf).max(1)
    removes = without > best
    return (
        torch.where(removes, without, best),
        torch.where(removes, leaving, at // m),
        torch.where(removes, -1, at % m),
    )


# --- perturbations ---


class _Pattern(NamedTuple):
    """Which slots of the best set lose their member, and the candidates that take the places of some of these."""

    leaves: torch.Tensor  # (``PERTURBED``, k)
    item: torch.Tensor  # (``PERTURBED``, k) −1: none

    @classmethod
    def drawn(cls, draw: np.random.Generator, k: int, m: int, device: torch.device) -> _Pattern:
        """As swap_climbs.py: at least two members leave (one of one), and one fewer come in their place."""
        leaves, item = np.zeros((PERTURBED, k), bool), np.full((PERTURBED, k), -1)
        for slots_of_leaf, new in zip(leaves, item, strict=True):
            slots = draw.permutation(k)[: min(2 + draw.integers(max(1, k // 2)), k)]
            slots_of_leaf[slots], new[slots[1:]] = True, draw.choice(m, size=len(slots) - 1, replace=False)
        return cls(torch.from_numpy(leaves).to(device), torch.from_numpy(item).to(device))


def _perturbed(problem: DeviceInstances, best: Climbs, pattern: _Pattern) -> Climbs:
    """Perturbations of the best set of each user; their first move is made in any case."""
    users = len(best.members)
    owner = torch.arange(users, device=best.owner.device).repeat_interleave(PERTURBED)
    members, filled = best.members[owner], best.filled[owner]
    leaves, item = pattern.leaves.repeat(users, 1), pattern.item.repeat(users, 1)
    present = (members[:, :, None] == item[:, None, :]) & filled[:, :, None]
    comes = (item >= 0) & ~present.any(1) & torch.take_along_dim(problem.held[owner], item.clamp_min(0), 1)
    value = torch.full(
        (len(owner),), torch.finfo(problem.score.dtype).min, device=owner.device, dtype=problem.score.dtype
    )
    return Climbs(owner, torch.where(comes, item, members), (filled & ~leaves) | comes, value)
