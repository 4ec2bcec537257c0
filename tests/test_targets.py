import platform
from dataclasses import replace
from pathlib import Path

import pytest

from redfuser.errors import UnsupportedTargetError
from redfuser.machine import host
from redfuser.targets import CpuTarget, GpuTarget, load_target, target_names

SKYLAKE = "fpu sse2 cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3 avx avx2 bmi1 bmi2 f16c fma abm movbe"
AVX512 = f"{SKYLAKE} avx512f avx512bw avx512cd avx512dq avx512vl"


def test_every_listed_target_loads_and_prints() -> None:
    names = target_names()
    assert {"cpu", "cpu-avx2", "cpu-avx512", "cpu-x86-64", "a10", "a100-40g", "a100-80g", "h800", "h20", "h200"} <= set(
        names
    )
    for name in names:
        assert str(load_target(name)).startswith(f"{name}: ")


def test_gpu_figures() -> None:
    h800, a10 = load_target("h800"), load_target("a10")
    assert isinstance(h800, GpuTarget) and isinstance(a10, GpuTarget)
    assert (h800.arch, h800.multiprocessors, h800.shared_block_kb, h800.threads) == ("sm_90a", 132, 227, 2048)
    assert (a10.fp8_tflops, a10.threads, a10.registers) == (0.0, 1536, 65536)
    assert h800.has("wgmma") and h800.has("tma") and h800.has("fp8") and not a10.has("fp8")
    assert h800.peak_tflops == 1979 and "driver 580.65 or newer" in str(h800)


@pytest.mark.parametrize(
    ("line", "wrong", "complaint"),
    [
        ('arch = "sm_90a"', 'arch = "sm_90"', "'sm_90' is not one of sm_80"),
        ('"tma"', '"TMA"', "'TMA' is not one of cp.async"),
        ('arch = "sm_90a"', 'arch = "sm_86"', "'fp8' is not one of cp.async, which sm_86 can have"),
        ("fp8_tflops = 1979\n", "", "fp8_tflops"),
        ("multiprocessors = 132", "multiprocessors = 0", "must be positive"),
        ('driver = "580.65"', 'driver = "new"', "'new' is not a version"),
        ("shared_kb", "shared_kB", "unknown key 'shared_kB'"),
        ("memory_gb = 80", 'memory_gb = "80"', "expected an integer, found text"),
    ],
)
def test_a_wrong_gpu_description_is_refused_in_one_line(tmp_path: Path, line: str, wrong: str, complaint: str) -> None:
    text = (Path(__file__).parents[1] / "configs/targets/h800.toml").read_text()
    assert line in text
    path = tmp_path / "mine.toml"
    path.write_text(text.replace(line, wrong))
    with pytest.raises(UnsupportedTargetError) as caught:
        load_target(str(path))
    assert complaint in caught.value.message and "\n" not in caught.value.message and caught.value.exit_code == 4


def test_the_host_is_described_by_its_level_never_as_native() -> None:
    target = load_target("cpu")
    assert isinstance(target, CpuTarget)
    assert target.level in host.LEVELS and target.machine == platform.machine()
    llvm = target.llvm()
    assert llvm["mcpu"] in (target.arch, "generic") and llvm["num-cores"] == host.usable_cores()
    assert ("-prefer-256-bit" in llvm["mattr"]) == (target.vector_bits == 512)
    assert target.l1_kb <= target.l2_kb <= target.l3_kb
    assert target.gflops > 0 and target.lanes * 32 == target.vector_bits


@pytest.mark.parametrize(
    ("flags", "level", "features", "bits"),
    [
        ("", "x86-64", (), 128),
        ("sse2 cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3 avx", "x86-64-v2", (), 128),
        (SKYLAKE, "x86-64-v3", (), 256),
        (f"{SKYLAKE} avx_vnni", "x86-64-v3", ("avxvnni",), 256),
        # A machine that hides part of AVX-512 must not get any of it, AMX included.
        (f"{SKYLAKE} avx512f avx512_vnni amx_tile", "x86-64-v3", (), 256),
        (f"{AVX512} avx512_vnni amx_tile amx_int8", "x86-64-v4", ("amx-int8", "amx-tile", "avx512vnni"), 512),
    ],
)
def test_levels_from_cpu_flags(flags: str, level: str, features: tuple[str, ...], bits: int) -> None:
    found, extra = host.classify(frozenset(flags.split()), "x86_64")
    assert (found.name, extra, found.vector_bits) == (level, features, bits)


def test_aarch64() -> None:
    level, features = host.classify(frozenset({"fp", "asimd", "asimddp"}), "aarch64")
    assert (level.name, level.vector_bits, level.registers, features) == ("aarch64", 128, 32, ())
    assert host.missing_features("aarch64", (), frozenset({"asimd"})) == ()
    assert host.missing_features("aarch64", (), frozenset(AVX512.split())) == ("asimd",)
    assert "sse2" in host.missing_features("x86-64", (), frozenset({"asimd"}))
    assert host.read_flags("processor\t: 0\nFeatures\t: fp asimd\n") == {"fp", "asimd"}
    target = load_target("cpu-aarch64")
    assert isinstance(target, CpuTarget) and target.machine == "aarch64" and target.lanes == 4
    assert target.llvm()["mtriple"].startswith("aarch64-") and target.llvm()["mcpu"] == "generic"
    with pytest.raises(ValueError, match="none beyond its level are used on aarch64"):
        replace(target, features=("avx512vnni",))


def test_flags_are_read_from_cpuinfo() -> None:
    assert host.read_flags("processor\t: 0\nflags\t\t: fpu avx2\n\nprocessor\t: 1\nflags\t\t: none\n") == {
        "fpu",
        "avx2",
    }
    assert host.read_flags("") == frozenset()


def test_cache_sizes(tmp_path: Path) -> None:
    for i, (level, kind, size) in enumerate(
        [("1", "Instruction", "64K"), ("1", "Data", "48K"), ("2", "Unified", "2048K")]
    ):
        folder = tmp_path / f"index{i}"
        folder.mkdir()
        for name, text in (("level", level), ("type", kind), ("size", size)):
            (folder / name).write_text(text + "\n")
    assert host.cache_kb(1, 32, tmp_path) == 48
    assert host.cache_kb(2, 256, tmp_path) == 2048
    assert host.cache_kb(3, 7, tmp_path) == 7


def test_another_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(UnsupportedTargetError, match="riscv64"):
        load_target("cpu")
    assert load_target("cpu-avx2").name == "cpu-avx2"


def test_an_unknown_target_names_near_ones() -> None:
    with pytest.raises(UnsupportedTargetError) as caught:
        load_target("h100")
    assert caught.value.exit_code == 4 and "h100-sxm" in caught.value.hint
    with pytest.raises(UnsupportedTargetError, match="unknown target"):
        load_target("../targets/cpu")


def test_an_own_description(tmp_path: Path) -> None:
    text = (Path(__file__).parents[1] / "configs/targets/cpu-avx2.toml").read_text()
    path = tmp_path / "mine.toml"
    path.write_text(text.replace("cores = 4", "cores = 64"))
    target = load_target(str(path))
    assert isinstance(target, CpuTarget) and (target.name, target.cores) == ("mine", 64)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "kind = ",
        'kind = "tpu"',
        'kind = "cpu"',
        'kind = "gpu"\narch = 3',
        'kind = "cpu"\narch = "host"\nbad = 1',
        "\xff",
    ],
)
def test_a_broken_description_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UnsupportedTargetError, match="cannot read the target description"):
        load_target(str(path))
    with pytest.raises(UnsupportedTargetError):
        load_target(str(tmp_path / "absent.toml"))
