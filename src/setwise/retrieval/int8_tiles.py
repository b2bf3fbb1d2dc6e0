"""Tiles: vectors as int8, sixteen items interleaved, and their scores for several users at once.

A tile holds sixteen items. A coordinate pair of all sixteen is 32 neighbouring bytes, so that one step multiplies 32
int8 by a user's two int16, adds the pairs and keeps sixteen int32 sums in registers: no sum across lanes, a quarter of
the memory of float32. It is written as LLVM vector code, because numba widens products of int8 to int64, and then
the compiler does not find the machine's multiply-add.

Item v is stored as s·q (q int8, s > 0), the user y as t·p (p int16). With ρ = max ‖v − s q‖ and ν = max ‖v‖ over the
items of a tile, the approximate score s t (q · p) differs from v · y, summed in float32, by at most

    margin = ρ ‖y‖ + (ν + ρ) ‖y − t p‖ + rounding,     rounding = d 2⁻²⁴ ν ‖y‖ + d 2⁻¹⁵⁰:

d products are added one after another, each operation errs by 2⁻²⁴ of Σ|v_j y_j| ≤ ν ‖y‖, and a product that
underflows by 2⁻¹⁵⁰. (ρ, ν) belong to a tile, so that a long item costs precision only to its fifteen
neighbours. An item too small or too large for s and s q · p to be normal float32 is stored as zeros, with ρ = ν = ‖v‖.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from setwise._types import Floats32
from setwise.kernels.options import OUTER, njit

LANES = 16  # items in a tile
SEGMENT = 4096  # items whose approximate scores are held at a time: they stay in the cache
_INT32 = 2.0**31 - 1
_SMALLEST, _LARGEST = 127 * 2.0**-126, 127 * 2.0**96  # the largest coordinates of items that are not stored as zeros
_MULTIPLY_ADD = {16: ("avx512bw", "llvm.x86.avx512.pmaddw.d.512"), 8: ("avx2", "llvm.x86.avx2.pmadd.wd")}


class _Vectors:
    """Vector types of the machine's width: sixteen or eight 32-bit lanes."""

    def __init__(self, builder: Any) -> None:
        features = binding.get_host_cpu_features()
        self.builder = builder
        self.width = 16 if features.get("avx512bw") else 8
        feature, self.name = _MULTIPLY_ADD[self.width]
        self.native = bool(features.get(feature))
        self.bytes = ir.VectorType(ir.IntType(8), 2 * self.width)
        self.words = ir.VectorType(ir.IntType(16), 2 * self.width)
        self.sums = ir.VectorType(ir.IntType(32), self.width)
        self.floats = ir.VectorType(ir.FloatType(), self.width)

    def pair_products(self, left: Any, right: Any) -> Any:
        """left_0 right_0 + left_1 right_1, left_2 right_2 + left_3 right_3, …, from int16 to half as many int32."""
        builder = self.builder
        if self.native:  # one instruction, which LLVM does not select by itself
            kind = ir.FunctionType(self.sums, [self.words, self.words])
            return builder.call(cgutils.get_or_insert_function(builder.module, kind, self.name), [left, right])

        def half(vector: Any, odd: int) -> Any:
            places = ir.Constant(self.sums, [2 * lane + odd for lane in range(self.width)])
            return builder.sext(
                builder.shuffle_vector(vector, ir.Constant(self.words, ir.Undefined), places), self.sums
            )

        return builder.add(builder.mul(half(left, 0), half(right, 0)), builder.mul(half(left, 1), half(right, 1)))

    def repeated(self, pair: Any) -> Any:
        """Two int16, read as one int32, in every lane."""
        nothing = ir.Constant(self.sums, ir.Undefined)
        lane = self.builder.insert_element(nothing, pair, ir.Constant(ir.IntType(32), 0))
        zeros = ir.Constant(self.sums, [0] * self.width)
        return self.builder.bitcast(self.builder.shuffle_vector(lane, nothing, zeros), self.words)

    def largest(self, vectors: list[Any]) -> Any:
        """The largest of all floats in ``vectors``."""
        builder, result = self.builder, vectors[0]
        for other in vectors[1:]:
            result = builder.select(builder.fcmp_ordered(">", result, other), result, other)
        kind = ir.FunctionType(ir.FloatType(), [self.floats])
        name = f"llvm.vector.reduce.fmax.v{self.width}f32"
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [result], fastmath=("nnan",))

    def load(self, pointer: Any, kind: Any) -> Any:
        """The value at ``pointer``, with any alignment."""
        loaded = self.builder.load(self.builder.bitcast(pointer, kind.as_pointer()))
        loaded.align = 1
        return loaded

    def store(self, value: Any, pointer: Any) -> None:
        """Write ``value`` to ``pointer``, with any alignment."""
        self.builder.store(value, self.builder.bitcast(pointer, value.type.as_pointer())).align = 4


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
            v = _Vectors(builder)
            parts = range(LANES // v.width)

            def element(data: Any, start: Any, offset: int) -> Any:
                return builder.gep(data, [builder.add(start, ir.Constant(at.type, offset))])

            totals = [[cgutils.alloca_once(builder, v.sums) for _ in parts] for _ in range(users)]
            for total in (part for user in totals for part in user):
                builder.store(ir.Constant(v.sums, [0] * v.width), total)
            rows = [builder.mul(builder.add(first, ir.Constant(at.type, user)), width) for user in range(users)]
            with cgutils.for_range(builder, builder.sdiv(width, ir.Constant(at.type, 2))) as loop:
                twice = builder.mul(loop.index, ir.Constant(at.type, 2))
                place = builder.add(at, builder.mul(twice, ir.Constant(at.type, LANES)))
                words = [
                    builder.sext(v.load(element(items, place, 2 * part * v.width), v.bytes), v.words) for part in parts
                ]
                for row, total in zip(rows, totals, strict=True):
                    pair = v.load(builder.gep(asked, [builder.add(row, twice)]), ir.IntType(32))
                    weights = v.repeated(pair)
                    for part in parts:
                        products = v.pair_products(words[part], weights)
                        builder.store(builder.add(builder.load(total[part]), products), total[part])
            steps = [v.load(element(scales, scale_at, part * v.width), v.floats) for part in parts]
            for user, total in enumerate(totals):
                scores = [
                    builder.fmul(builder.sitofp(builder.load(total[part]), v.floats), steps[part]) for part in parts
                ]
                for part in parts:
                    v.store(scores[part], element(target, out_at, user * SEGMENT + part * v.width))
                v.store(v.largest(scores), element(peaks, peak_at, user * SEGMENT // LANES))
            return context.get_dummy_value()

        return signature, codegen

    return tile_scores  # type: ignore[no-any-return]


one_user, eight_users = _tile_scores(1), _tile_scores(8)


@njit(**OUTER)
def rounding(d: int) -> tuple[float, float]:
    """(a, b): v · y, summed in float32 over d coordinates, is off by at most a ‖v‖ ‖y‖ + b; a little is added."""
    return (d + 8) * 2.0**-24, d * 2.0**-149


@njit(**OUTER)
def quantise(vectors: Floats32, start: Any, tile_start: Any, tiles: Any, scale: Floats32, spread: Any) -> None:
    """Fill tiles and scales, which hold zeros, from vectors sorted by cell; spread (tiles, 2) receives ρ and ν."""
    d = vectors.shape[1]
    groups = (d + 1) // 2
    for c in range(len(start) - 1):
        for i in range(start[c], start[c + 1]):
            place = tile_start[c] * LANES + i - start[c]
            tile, lane = place // LANES, place % LANES
            largest, square = np.float32(0), 0.0
            for j in range(d):
                largest = max(largest, abs(vectors[i, j]))
                square += np.float64(vectors[i, j]) ** 2
            rest = square
            if _SMALLEST <= largest <= _LARGEST:
                step = largest / np.float32(127)
                scale[place] = step
                rest = 0.0
                for j in range(d):
                    q = np.rint(vectors[i, j] / step)
                    tiles[(tile * groups + j // 2) * 2 * LANES + lane * 2 + j % 2] = np.int8(q)
                    rest += (np.float64(vectors[i, j]) - np.float64(step) * q) ** 2
            spread[tile, 0] = max(spread[tile, 0], math.sqrt(rest))
            spread[tile, 1] = max(spread[tile, 1], math.sqrt(square))


@njit(**OUTER)
def quantise_user(user: Floats32, row: Any) -> tuple[float, float, float, float]:
    """Write the user as int16 to ``row``; return t, α, β, γ: the margin of a tile is t (α ρ + β ν + γ), and a little.

    Sums of 127·p over a row fit in int32.
    """
    largest, d = 0.0, len(user)
    for j in range(d):
        largest = max(largest, abs(user[j]))
    step = largest / min(32767.0, math.floor(_INT32 / (127.0 * len(row)))) if largest > 0 else 1.0
    square, rest = 0.0, 0.0
    for j in range(d):
        p = np.rint(user[j] / step)
        row[j] = np.int16(p)
        square += np.float64(user[j]) ** 2
        rest += (np.float64(user[j]) - step * p) ** 2
    length, missed = math.sqrt(square), 1.000001 * math.sqrt(rest)
    relative, absolute = rounding(d)
    return step, (1.000001 * length + missed) / step, (missed + relative * length) / step, absolute / step
