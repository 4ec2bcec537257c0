"""The cost model: what must be dearer is dearer; rates are sane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from redfuser.algebra import derive
from redfuser.cascade.model import Cascade
from redfuser.expr import axis
from redfuser.targets import CpuTarget, load_target
from redfuser.tile import build, verify
from redfuser.tile.ir import Schedule, TileProgram
from redfuser.tile.strategies.apart import APART
from redfuser.tuning.cache import Cache
from redfuser.tuning.cost import Cost
from redfuser.tuning.costs import calibrate
from redfuser.tuning.costs.calibrate import calibrated, programs
from redfuser.tuning.costs.cpu import CpuModel
from redfuser.tuning.costs.rates import CpuRates
from redfuser.tuning.spaces import space_of
from redfuser.tuning.spaces.space import Survey
from redfuser.tuning.timing.job import Failure, Job, Plan, Result, Timing
from redfuser.tuning.tuner import rank
from tests.tile.build import Attention, Rows, quantised_product

CPU = CpuTarget("test", "", "x86-64-v4", 512, 2, 48, 2048, 3.0, 25.0)
MODEL = CpuModel(CPU, CpuRates.nominal(CPU))
ATTENTION = Attention(heads=12, q_len=512, kv_len=512, dim=64, v_dim=64, mask="none")
DECODE = Attention(heads=2, q_len=1, kv_len=8192, dim=64, v_dim=64, mask="none")


def cost(cascade: Cascade, schedule: Schedule, model: CpuModel = MODEL) -> Cost:
    """The cost of one schedule."""
    return model.cost(build(cascade, derive(cascade), schedule))


def attention(rows: int, **more: object) -> Cost:
    """Attention with so many queries a block."""
    schedule = Schedule("single-segment", (("i", rows), ("j", 64)), 1, "i")
    return cost(ATTENTION.cascade(), replace(schedule, **more))  # type: ignore[arg-type]


def test_few_queries_a_block_move_more() -> None:
    assert attention(16).cache > attention(64).cache
    assert attention(16).us > attention(64).us


def test_attention_takes_no_less_than_its_multiply_adds() -> None:
    least = 2 * 2 * 12 * 512 * 512 * 64 / CPU.gflops / 1e3
    assert least < attention(64).us < 3 * least


def test_products_of_bytes_take_as_long_as_the_instructions_that_make_them() -> None:
    """Four at once by VNNI; by AVX2 in pairs, of vectors half as wide here; none in processors that have neither."""
    schedule = Schedule("resident", (("i", 64), ("j", 2048), ("l", 1024)), options=((APART, 1),))
    products, lanes = 64 * 1024 * (2048 - 1024), {256: 8, 512: 16}

    def time_of_a_product(features: tuple[str, ...], bits: int, level: str) -> float:
        """In that of a multiply-add of float32 in one lane, by what more columns take."""
        target = replace(CPU, arch=level, features=features, vector_bits=bits)
        model = CpuModel(target, MODEL.rates)
        few, many = (cost(quantised_product(64, 1024, n), schedule, model).arithmetic for n in (1024, 2048))
        return (many - few) * 1e3 / (products / lanes[bits] * MODEL.rates.multiply_add_ns)

    tiles = time_of_a_product(("amx-int8", "amx-tile", "avx512vnni"), 512, "x86-64-v4")
    quads = time_of_a_product(("avx512vnni",), 512, "x86-64-v4")
    pairs = time_of_a_product((), 256, "x86-64-v3")
    assert 1 / 32 < tiles < 1 / 8 < 1 / 4 < quads < 3 / 8 < 3 / 4 < pairs < 1


def test_compulsory_traffic_is_counted_once() -> None:
    assert attention(64).memory_bytes == 4 * 12 * 512 * 64 * 4


def test_segments_help_only_where_cores_would_be_idle() -> None:
    server = CpuModel(replace(CPU, cores=16), replace(MODEL.rates, memory_gbs=400.0))
    one = cost(DECODE.cascade(), Schedule("single-segment", (("j", 64),)), server)
    many = cost(DECODE.cascade(), Schedule("multi-segment", (("j", 64),), 8), server)
    assert many.us < one.us and many.launch > one.launch
    cut = attention(64, strategy="multi-segment", segments=4)
    assert cut.us > attention(64).us and cut.memory_bytes > attention(64).memory_bytes


def test_lanes_across_memory_are_dear() -> None:
    cascade = Rows(axis("i", 4096), axis("l", 4096)).softmax()
    along = cost(cascade, Schedule("resident", (("i", 1), ("l", 1024)), 1, "l"))
    across = cost(cascade, Schedule("resident", (("i", 16), ("l", 1024)), 1, "i"))
    assert across.us > 1.5 * along.us


def test_a_row_beyond_the_cache_is_fetched_for_every_pass() -> None:
    small, large = Rows(axis("i", 64), axis("l", 4096)), Rows(axis("i", 64), axis("l", 1 << 20))
    schedule = Schedule("resident", (("l", 1024),), 1, "l")
    assert cost(small.logsumexp(), schedule).memory_bytes < 1.1 * 64 * 4096 * 4
    assert cost(large.logsumexp(), schedule).memory_bytes > 1.9 * 64 * (1 << 20) * 4


def test_the_ranking_begins_with_the_usual_choice() -> None:
    cascade = ATTENTION.cascade()
    survey: Survey = space_of(cascade, derive(cascade), CPU).survey()
    ranked = rank(survey, MODEL)
    assert ranked[0] == survey.candidates[0] and set(ranked) == set(survey.candidates)
    costs = [MODEL.cost(candidate.program).us for candidate in ranked[1:]]
    assert all(a <= b * 1.01 for a, b in pairwise(costs))


class Machine:
    """A runner whose every program takes a millisecond, give or take a spread."""

    def __init__(self, spread: float = 0.0) -> None:
        self.spread, self.runs = spread, 0

    def run(self, jobs: Sequence[Job], plan: Plan) -> list[Result]:
        self.runs += 1
        return [Timing(tuple(1e-3 * (1 + self.spread * k) for k in range(plan.rounds))) for _ in jobs]

    def close(self) -> None:
        """Nothing is held."""


def as_job(program: TileProgram) -> Job | Failure:
    """A job by name."""
    return Job("", program.name, (), 1)


def test_programs_for_calibration_verify() -> None:
    for name, program in programs(CPU).items():
        verify(program)
        assert program.name == name


def test_rates_are_measured_once_a_machine(tmp_path: Path) -> None:
    machine, cache = Machine(), Cache(tmp_path)
    first, second = (calibrated(CPU, machine, as_job, cache) for _ in range(2))
    assert first == second and first.measured and machine.runs == 1
    assert first.memory_gbs == 2 * calibrate.COPIED * 4 / 1e6


def test_a_busy_machine_or_a_failed_build_leaves_nominal_rates(tmp_path: Path) -> None:
    nominal = CpuRates.nominal(CPU)
    assert calibrated(CPU, Machine(1.0), as_job, Cache(tmp_path)) == nominal
    assert calibrated(CPU, Machine(), lambda _: Failure("no"), Cache(tmp_path)) == nominal
    assert not Cache(tmp_path).entries()


def test_nominal_rates_follow_the_target() -> None:
    avx2, avx512 = load_target("cpu-avx2"), load_target("cpu-avx512")
    assert isinstance(avx2, CpuTarget) and isinstance(avx512, CpuTarget)
    assert CpuRates.nominal(avx2).multiply_add_ns == CpuRates.nominal(avx512).multiply_add_ns
    assert "nominal" in str(CpuRates.nominal(avx2))


def test_two_calibrations_of_one_machine_rank_alike() -> None:
    nominal = CpuRates.nominal(CPU)
    measured = replace(nominal, exp_ns=nominal.exp_ns * 1.3, memory_gbs=nominal.memory_gbs * 1.9, measured=True)
    coarse = measured.coarse(nominal)
    assert coarse == replace(nominal, memory_gbs=nominal.memory_gbs * 2, measured=True)
    assert coarse == replace(measured, exp_ns=nominal.exp_ns * 0.8, memory_gbs=nominal.memory_gbs * 2.2).coarse(nominal)
    assert replace(nominal, launch_us=0.0).coarse(nominal).launch_us == nominal.launch_us
