"""What isn't fused, over symbolic sizes: packed products, reductions and element-wise operations with tails."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import redfuser as library
from models.builder import Builder, weights
from redfuser.artifact.load import LoadedModel
from redfuser.codegen.cpu.remainder.products.heights import height_ranges
from redfuser.codegen.cpu.remainder.products.tiling import Tiling
from redfuser.extents import Dim, size_of
from redfuser.oracle.run import run_onnxruntime
from redfuser.signature import DimRange

#: Fewer rows than a register tile has, than half of one, its multiples and their neighbours, several blocks of rows.
ROWS = [1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 14, 27, 64, 97, 130, 300]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    build, generator = Builder("mixed"), np.random.RandomState(0)
    x = build.input("x", ("n", 40))
    product = build.node("MatMul", x, build.constant(weights(generator, 40, 48)))
    product = build.node("Relu", build.node("Add", product, build.constant(weights(generator, 48))))
    build.output(product, ("n", 48), name="product")
    build.output(build.node("Transpose", x, perm=[1, 0]), (40, "n"), name="transposed")
    build.output(build.node("ReduceSum", x, build.constant([0]), keepdims=0), (40,), name="columns")
    scale = build.node("Cast", build.node("Shape", x, start=0, end=1), to=1)
    build.output(build.node("Mul", build.node("Sigmoid", x), scale), ("n", 40), name="scaled")
    path = tmp_path_factory.mktemp("mixed") / "mixed.onnx"
    onnx.save(build.model(), path)
    return path


@pytest.fixture(scope="module")
def artifact(path: Path) -> Path:
    dump = path.with_name("dump")
    from redfuser.api import compile_to_folder
    from redfuser.options import CompileOptions
    from redfuser.progress import Silent
    from redfuser.targets import load_target

    options = CompileOptions(load_target("cpu"), dims={"n": DimRange(1, 300)})
    return compile_to_folder(path, options, path.with_name("out"), force=False, progress=Silent(), dump=dump).path


@pytest.fixture(scope="module")
def model(artifact: Path) -> LoadedModel:
    return library.load(artifact)


def test_products_are_packed_and_nothing_is_left_as_lowered(artifact: Path) -> None:
    (text,) = (p.read_text() for p in artifact.with_name("dump").glob("*-module.txt"))
    assert "product: 1\n" in text and "default" not in text.split("\n\n")[0].partition("called")[0]


@pytest.mark.parametrize("rows", ROWS)
def test_any_number_of_rows(path: Path, model: LoadedModel, rows: int) -> None:
    feeds = {"x": np.random.default_rng(rows).standard_normal((rows, 40)).astype(np.float32)}
    outputs = model(feeds)
    for name, expected in run_onnxruntime(onnx.load(path), feeds, 1).items():
        np.testing.assert_allclose(outputs[name], expected, rtol=2e-5, atol=2e-5, err_msg=name)


def test_few_rows_go_through_the_tiles_that_waste_the_least() -> None:
    """Of five rows a second tile of four would compute three again; of many the highest tile wastes little."""
    ranges = height_ranges(Tiling(4, 3, 8), size_of(Dim("n", 1, 300)))
    heights = {rows: height for height, found in ranges.items() for a, b in found for rows in range(a, b + 1)}
    assert sorted(heights) == list(range(1, 301))
    assert [heights[rows] for rows in (1, 2, 3, 4, 5, 6, 8, 12, 100, 300)] == [1, 2, 3, 4, 3, 3, 4, 4, 4, 4]
    assert list(height_ranges(Tiling(4, 3, 8), size_of(Dim("n", 8, 300)))) == [4]


def test_rows_joined_along_an_open_dimension_are_moved_as_vectors(tmp_path: Path) -> None:
    """Which part an element is of depends on its row alone: only that part is read."""
    build = Builder("joined")
    past, new = build.input("past", (2, "p", 32)), build.input("new", (2, "n", 32))
    build.output(build.node("Concat", past, new, axis=1), (2, "both", 32), name="y")
    onnx.save(build.model(), tmp_path / "joined.onnx")
    from redfuser.api import compile_to_folder
    from redfuser.options import CompileOptions
    from redfuser.progress import Silent
    from redfuser.targets import load_target

    options = CompileOptions(load_target("cpu"), dims={"p": DimRange(0, 300), "n": DimRange(1, 300)})
    place, dump = tmp_path / "out", tmp_path / "dump"
    module = compile_to_folder(tmp_path / "joined.onnx", options, place, force=False, progress=Silent(), dump=dump)
    (text,) = (p.read_text() for p in dump.glob("*-module.txt"))
    assert "T.if_then_else(" in text and "T.Shuffle(" not in text
    rng = np.random.default_rng(0)
    for before, count in ((0, 1), (0, 40), (1, 1), (17, 3), (300, 300)):
        parts = {
            name: rng.random((2, rows, 32)).astype(np.float32) for name, rows in (("past", before), ("new", count))
        }
        np.testing.assert_array_equal(module.load()(parts)["y"], np.concatenate([parts["past"], parts["new"]], 1))
