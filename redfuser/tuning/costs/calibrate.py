"""Rates of this machine, from a few tile programs made to be timed; kept in the cache, once a machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from redfuser.expr import Axis, Expr, Tensor, axis, index, load, number, op
from redfuser.records import digest
from redfuser.targets import CpuTarget
from redfuser.tile.ir import Buffer, Contract, Fill, Map, Phase, Schedule, Statement, Store, Stream, Tile, TileProgram
from redfuser.tuning.cache import Cache
from redfuser.tuning.costs.rates import CpuRates
from redfuser.tuning.fingerprint import generator_digest, machine_name
from redfuser.tuning.timing.job import Failure, Job, Plan, Timing
from redfuser.tuning.timing.runner import Runner

RATES = "rates"
#: Points of an on-chip buffer, times that a block goes through it, sides of a matrix product, elements copied.
POINTS, TURNS, SIDE, CACHED, COPIED = 2048, 512, 64, 65536, 1 << 24
FLOAT_BYTES = 4
PLAN = Plan(9, 5.0)
#: Noisier times say nothing about the machine.
STEADY = 0.25


def calibrated(
    target: CpuTarget, runner: Runner, build: Callable[[TileProgram], Job | Failure], cache: Cache, where: str = ""
) -> CpuRates:
    """Rates measured now or before; the nominal ones where a program can't be built or run.

    Args:
        build: compiles a program for the target.
        where: the machine that the runner times on, if not this one.
    """
    key = digest({"target": target, "machine": where or machine_name(), "generator": generator_digest()})
    rates = cache.read(CpuRates, RATES, key)
    if rates is None:
        rates = measure(target, runner, build)
        if rates.measured:
            cache.write(RATES, key, rates)
    return rates


def measure(target: CpuTarget, runner: Runner, build: Callable[[TileProgram], Job | Failure]) -> CpuRates:
    """Rates measured now; the nominal ones on a machine too busy to tell."""
    built = {name: build(program) for name, program in programs(target).items()}
    jobs = {name: job for name, job in built.items() if isinstance(job, Job)}
    results = dict(zip(jobs, runner.run(list(jobs.values()), PLAN), strict=True))
    steady = {n: r.least_us for n, r in results.items() if isinstance(r, Timing) and r.noise <= STEADY}
    return _rates(steady, target) if steady.keys() == built.keys() else CpuRates.nominal(target)


def _rates(us: Mapping[str, float], target: CpuTarget) -> CpuRates:
    vectors = POINTS * TURNS / target.lanes
    products = TURNS * SIDE**3 / target.lanes
    return CpuRates(
        multiply_add_ns=us["product"] * 1e3 / products,
        simple_ns=us["add"] * 1e3 / vectors,
        exp_ns=us["exp"] * 1e3 / vectors,
        cache_gbs=2 * CACHED * TURNS * FLOAT_BYTES / us["cached"] / 1e3,
        memory_gbs=2 * COPIED * FLOAT_BYTES / us["copy"] / 1e3,
        launch_us=us["launch"],
        measured=True,
    )


def programs(target: CpuTarget) -> dict[str, TileProgram]:
    """What is timed, by name. All but ``copy`` and ``launch`` run on one core."""
    return {
        "product": _product(),
        "add": _repeated("add", POINTS, lambda value: op("add", value, number(1.0, "float32"))),
        "exp": _repeated("exp", POINTS, lambda value: op("exp", op("mul", value, number(-1.0, "float32")))),
        "cached": _repeated("cached", CACHED, lambda value: op("add", value, number(1.0, "float32"))),
        "copy": _copy("copy", COPIED, 64 * target.cores),
        "launch": _copy("launch", 64 * target.cores, target.cores),
    }


def _repeated(name: str, points: int, step: Callable[[Expr], Expr]) -> TileProgram:
    """``y[i] = step(step(…x[i]))``, on chip."""
    i, turn = axis("i", points), axis("turn", TURNS)
    x, y = Tensor("x", (points,), "float32"), Tensor("y", (points,), "float32")
    chip = Buffer(Tensor("chip", (points,), "float32"), (i,))
    body = (Map(chip, load(x, i)), _turns(turn, (Map(chip, step(chip.value)),)), Store(y, (i,), (i,), chip.value))
    return TileProgram(name, (x,), (y,), (), (Phase((), (chip,), body),), Schedule("resident", lanes="i"))


def _product() -> TileProgram:
    """A product of two square tiles on chip, again and again."""
    i, j, k, turn = axis("i", SIDE), axis("j", SIDE), axis("k", SIDE), axis("turn", TURNS)
    tensors = [Tensor(name, (SIDE, SIDE), "float32") for name in ("a", "b", "y")]
    left = Buffer(Tensor("left", (SIDE, SIDE), "float32"), (i, k))
    right = Buffer(Tensor("right", (SIDE, SIDE), "float32"), (k, j))
    total = Buffer(Tensor("total", (SIDE, SIDE), "float32"), (i, j))
    a, b, y = tensors
    body = (
        Map(left, load(a, i, k)),
        Map(right, load(b, k, j)),
        Fill(total, 0.0),
        _turns(turn, (Contract(total, left.value, right.value, k),)),
        Store(y, (i, j), (i, j), total.value),
    )
    phase = Phase((), (left, right, total), body)
    return TileProgram("product", (a, b), (y,), (), (phase,), Schedule("resident", lanes="j"))


def _copy(name: str, points: int, blocks: int) -> TileProgram:
    """``y = x`` in blocks."""
    i = axis("i", points)
    x, y = Tensor("x", (points,), "float32"), Tensor("y", (points,), "float32")
    grid = (Tile(i, -(-points // blocks)),)
    return TileProgram(
        name, (x,), (y,), (), (Phase(grid, (), (Store(y, (i,), (i,), load(x, i)),)),), Schedule("resident", lanes="i")
    )


def _turns(turn: Axis, body: tuple[Statement, ...]) -> Stream:
    return Stream(turn, 1, body, index(0), index(turn.extent))


def peak_gflops(rates: CpuRates, target: CpuTarget) -> float:
    """float32 operations a second of all cores, as the product reached them."""
    return 2 * target.lanes * target.cores / rates.multiply_add_ns
