"""Tiles: vectors as int8, sixteen items side by side, and their scores for several users at once.

A tile holds sixteen items. A coordinate pair of all sixteen is 32 neighbouring bytes, so that one step multiplies 32
int8 by a user's two int16, adds the pairs and keeps sixteen int32 sums in registers: no sum across lanes, a quarter of
the memory of float32. It is written as vector code of LLVM, because numba widens products of int8 to int64, which
forbids the compiler to find the machine's multiply-add.

Item v is stored as s·q (q int8, s > 0), the user y as t·p (p int16). The approximate score s t (q · p) differs from
v · y by at most

    margin = ρ ‖y‖ + (ν + ρ) ‖y − t p‖ + rounding,     ρ = max ‖v − s q‖,  ν = max ‖v‖  over a group of items.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

Floats32 = NDArray[np.float32]

LANES = 16  # items in a tile
SEGMENT = 4096  # items whose approximate scores are held at a time: they stay in the cache
_INT32 = 2.0**31 - 1
_HALF = LANES // 2
_BYTES, _WORDS = ir.VectorType(ir.IntType(8), LANES), ir.VectorType(ir.IntType(16), LANES)
_SUMS, _FLOATS = ir.VectorType(ir.IntType(32), _HALF), ir.VectorType(ir.FloatType(), _HALF)


def _pair_products(builder: Any, left: Any, right: Any) -> Any:
    """left_0 right_0 + left_1 right_1, left_2 right_2 + left_3 right_3, …: sixteen int16 by sixteen to eight int32."""
    if binding.get_host_cpu_features().get("avx2"):  # one instruction there, which LLVM does not find by itself
        name = "llvm.x86.avx2.pmadd.wd"
        kind = ir.FunctionType(_SUMS, [_WORDS, _WORDS])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [left, right])

    def half(vector: Any, odd: int) -> Any:
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), _HALF), [2 * lane + odd for lane in range(_HALF)])
        return builder.sext(builder.shuffle_vector(vector, ir.Constant(_WORDS, ir.Undefined), lanes), _SUMS)

    return builder.add(builder.mul(half(left, 0), half(right, 0)), builder.mul(half(left, 1), half(right, 1)))


def _repeated(builder: Any, pair: Any) -> Any:
    """Two int16, read as one int32, in every lane."""
    lane = builder.insert_element(ir.Constant(_SUMS, ir.Undefined), pair, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), _HALF), [0] * _HALF)
    return builder.bitcast(builder.shuffle_vector(lane, ir.Constant(_SUMS, ir.Undefined), zeros), _WORDS)


def _largest(builder: Any, left: Any, right: Any) -> Any:
    """The largest of sixteen floats in two halves."""
    larger = builder.select(builder.fcmp_ordered(">", left, right), left, right)
    kind = ir.FunctionType(ir.FloatType(), [_FLOATS])
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.vector.reduce.fmax.v{_HALF}f32")
    return builder.call(function, [larger], fastmath=("nnan",))


def _load(builder: Any, pointer: Any, kind: Any) -> Any:
    loaded = builder.load(builder.bitcast(pointer, kind.as_pointer()))
    loaded.align = 1
    return loaded


def _tile_scores(users: int) -> Callable[..., Any]:
    """An intrinsic: approximate scores of one tile for ``users`` users at once.

    tile_scores(tiles, at, query, first, width, scale, scale_at, out, out_at, peak, peak_at) reads the tile that starts
    at ``tiles[at]`` and the users first, first + 1, …, each a row of ``width`` int16 in ``query``. A user's sixteen
    scores go to ``out[out_at + user * SEGMENT]`` and following, the largest of them to
    ``peak[peak_at + user * SEGMENT // LANES]``.
    """

    @intrinsic
    def tile_scores(
        typing: Any, tiles: Any, at: Any, query: Any, first: Any, width: Any, scale: Any, scale_at: Any, out: Any,
        out_at: Any, peak: Any, peak_at: Any,
    ) -> Any:  # fmt: skip
        signature = types.void(tiles, at, query, first, width, scale, scale_at, out, out_at, peak, peak_at)

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            items, asked, scales, target, peaks = (
                context.make_array(signature.args[place])(context, builder, arguments[place]).data
                for place in (0, 2, 5, 7, 9)
            )
            at, first, width, scale_at, out_at, peak_at = (arguments[place] for place in (1, 3, 4, 6, 8, 10))

            def number(value: int) -> Any:
                return ir.Constant(at.type, value)

            nothing = ir.Constant(_SUMS, [0] * _HALF)
            totals = [[cgutils.alloca_once(builder, _SUMS) for _ in range(2)] for _ in range(users)]
            for total in (half for pair in totals for half in pair):
                builder.store(nothing, total)
            rows = [builder.mul(builder.add(first, number(user)), width) for user in range(users)]
            with cgutils.for_range(builder, builder.sdiv(width, number(2))) as loop:
                place = builder.add(at, builder.mul(loop.index, number(2 * LANES)))
                halves = [
                    builder.sext(
                        _load(builder, builder.gep(items, [builder.add(place, number(part * LANES))]), _BYTES), _WORDS
                    )
                    for part in range(2)
                ]
                for row, total in zip(rows, totals, strict=True):
                    pair = builder.gep(asked, [builder.add(row, builder.mul(loop.index, number(2)))])
                    weights = _repeated(builder, _load(builder, pair, ir.IntType(32)))
                    for half, part in zip(halves, total, strict=True):
                        builder.store(builder.add(builder.load(part), _pair_products(builder, half, weights)), part)
            for user, total in enumerate(totals):
                scores = []
                for part in range(2):
                    lane = number(part * _HALF)
                    steps = _load(builder, builder.gep(scales, [builder.add(scale_at, lane)]), _FLOATS)
                    scores.append(builder.fmul(builder.sitofp(builder.load(total[part]), _FLOATS), steps))
                    place = builder.add(out_at, number(user * SEGMENT + part * _HALF))
                    builder.store(
                        scores[part], builder.bitcast(builder.gep(target, [place]), _FLOATS.as_pointer())
                    ).align = 4
                place = builder.add(peak_at, number(user * SEGMENT // LANES))
                builder.store(_largest(builder, *scores), builder.gep(peaks, [place]))
            return context.get_dummy_value()

        return signature, codegen

    return tile_scores  # type: ignore[no-any-return]


one_user, four_users = _tile_scores(1), _tile_scores(4)


@njit(cache=True, error_model="numpy", nogil=True)
def quantise(vectors: Floats32, start: Any, tile_start: Any, tiles: Any, scale: Floats32, spread: Floats32) -> None:
    """Fill tiles and scales from vectors sorted by cell; spread (C, 2) receives ρ and ν of each cell."""
    d = vectors.shape[1]
    groups = (d + 1) // 2
    for c in range(len(start) - 1):
        for i in range(start[c], start[c + 1]):
            place = tile_start[c] * LANES + i - start[c]
            largest, square = np.float32(0), 0.0
            for j in range(d):
                largest = max(largest, abs(vectors[i, j]))
                square += np.float64(vectors[i, j]) ** 2
            step = largest / np.float32(127)
            if step <= 0:
                continue
            scale[place] = step
            rest = 0.0
            for j in range(d):
                q = np.rint(vectors[i, j] / step)
                at = ((place // LANES) * groups + j // 2) * 2 * LANES + (place % LANES) * 2 + j % 2
                tiles[at] = np.int8(q)
                rest += (np.float64(vectors[i, j]) - np.float64(step) * q) ** 2
            spread[c, 0] = max(spread[c, 0], math.sqrt(rest) * 1.000001)
            spread[c, 1] = max(spread[c, 1], math.sqrt(square) * 1.000001)


@njit(cache=True, error_model="numpy", nogil=True)
def quantise_user(user: Floats32, row: Any) -> tuple[float, float, float]:
    """Write the user as int16 to ``row``; return t, ‖y‖ and ‖y − t p‖. Sums of 127·p over a row fit in int32."""
    largest = 0.0
    for j in range(len(user)):
        largest = max(largest, abs(user[j]))
    step = largest / min(32767.0, math.floor(_INT32 / (127.0 * len(row)))) if largest > 0 else 1.0
    length, rest = 0.0, 0.0
    for j in range(len(user)):
        p = np.rint(user[j] / step)
        row[j] = np.int16(p)
        length += np.float64(user[j]) ** 2
        rest += (np.float64(user[j]) - step * p) ** 2
    return step, math.sqrt(length), math.sqrt(rest)


@njit(cache=True, error_model="numpy", nogil=True)
def error_bound(spread: Floats32, length: float, rest: float) -> float:
    """The margin of this file's docstring, from (ρ, ν) and the user's ‖y‖ and ‖y − t p‖."""
    return spread[0] * length + (spread[1] + spread[0]) * rest + 4e-6 * spread[1] * length  # type: ignore[no-any-return]
