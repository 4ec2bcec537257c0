import re
from dataclasses import replace

import pytest

from redfuser.report import html, markdown, terminal
from redfuser.report.ascii import to_ascii
from redfuser.report.describe import bytes_text, describe_report, summary_lines
from redfuser.report.document import plain
from redfuser.report.value import ChoiceEntry, FusionReport, ProductEntry, Time


def test_the_terminal_shows_what_a_person_asks_for(report: FusionReport) -> None:
    text = terminal.render(describe_report(report), details=True)
    for expected in (
        "found 2 cascaded reductions (1 other, 1 softmax); fused 1",
        "not fused: cascade_1: the map mixes the element and an earlier result [not-finite-rank]",
        "8.21 KB moved instead of 41 KB (5.0 times less)",
        "m[row<4] = max over k<512 of x[row, k]",
        "tile    m ← max(m, max_tile x)",
        "tile    t ← t·exp(m′ − m̃) + Σ_tile exp(x − m̃)",
        "merge   t ← t_A·exp(m_A − m̃) + t_B·exp(m_B − m̃)",
        "proved  t: F = G·H (pivot)",
        "checked 13 elements in float64, folded and merged; largest error: random 2e-16, all -inf 0",
        "witness: tanh((x[k] - m))",
        "root mean square 1.25e-07 (unfused 1.50e-07), largest 4.50e-07: within the accuracy rule",
        "/layer.0/Softmax",
    ):
        assert expected in text, text


def test_products_outside_cascades_tell_their_schedule(report: FusionReport) -> None:
    product = ProductEntry(
        "product_0", "single-segment", {"tile_m": 64, "stages": 3}, {"registers": 120, "threads": 128}
    )
    text = terminal.render(describe_report(replace(report, products=(product,))), details=True)
    for expected in ("product_0: matrix product", "single-segment: stages 3, tile_m 64", "registers 120, threads 128"):
        assert expected in text, text


@pytest.mark.parametrize(
    ("products", "lines"),
    [
        (
            ("tf32",),
            ["float32 as TF32 on tensor cores: factors are rounded to 11 bits (--fp32 3xtf32 or --fp32 ieee for more)"],
        ),
        (("3xtf32",), ["float32 as three products of TF32 on tensor cores"]),
        (("ieee",), ["float32 without tensor cores"]),
        (("float16", "int8"), ["float16 on tensor cores", "int8 on tensor cores"]),
    ],
)
def test_how_products_are_computed_on_a_gpu_is_told(
    report: FusionReport, products: tuple[str, ...], lines: list[str]
) -> None:
    told = replace(report, cascades=(replace(report.cascades[0], products=products), report.cascades[1]))
    assert FusionReport.from_json(told.to_json()) == told
    text = terminal.render(describe_report(told), details=True)
    assert "  matrix products\n" + "".join(f"    {line}\n" for line in lines) in text
    rounded = [line for line in summary_lines(told) if "TF32" in line]
    assert rounded == ([f"1 kernel multiplies {lines[0]}"] if products == ("tf32",) else [])


def test_a_kernel_without_products_says_nothing_of_them(report: FusionReport) -> None:
    assert "matrix products" not in terminal.render(describe_report(report), details=True)


SURVEYED = {"points": 1536, "candidates": 412, "excluded": {"over shared memory": 1024, "over registers": 100}}


@pytest.mark.parametrize(
    ("choice", "time"),
    [
        (
            ChoiceEntry(**SURVEYED, how="modelled", compiled=9, refused={"spill": 4, "over threads": 1}, next_us=13.1),
            "the least modelled time of 4 that fit; 5 of 9 compiled refused: 4 spill, 1 over threads; "
            "412 of 1,536 candidates: 1,024 over shared memory, 100 over registers\n"
            "  time\n    12.3 us (modelled, the next best 13.1 us)",
        ),
        (
            ChoiceEntry(how="rule", why="16 rows a block", compiled=1, next_us=13.1),
            "by rule: 16 rows a block\n  time\n    12.3 us (modelled, the next in line 13.1 us)",
        ),
        (
            ChoiceEntry(**SURVEYED, how="modelled", locked=True),
            "the least modelled time, says the lock; "
            "412 of 1,536 candidates: 1,024 over shared memory, 100 over registers\n  time\n    12.3 us (modelled)",
        ),
        (ChoiceEntry(how="rule", locked=True), "by rule, says the lock\n  time\n    12.3 us (modelled)"),
        (ChoiceEntry(6, 0.02), "the fastest of 6 timed, ±2%\n  time\n    12.3 us (modelled)"),
    ],
    ids=["modelled", "rule", "modelled, locked", "rule, locked", "measured"],
)
def test_how_a_schedule_was_chosen_is_told_alike(report: FusionReport, choice: ChoiceEntry, time: str) -> None:
    modelled = Time(12.3, "modelled")
    product = ProductEntry("product_0", "resident", {"stages": 3}, {}, choice, modelled)
    cascade = replace(report.cascades[0], choice=choice, time=modelled)
    told = replace(report, cascades=(cascade,), products=(product,))
    assert FusionReport.from_json(told.to_json()) == told
    text = terminal.render(describe_report(told), details=True)
    assert [text.count(f"    {part}\n") for part in time.split("\n  time\n    ")] == [2, 2], text


def test_plain_characters_stand_in_for_signs(report: FusionReport) -> None:
    text = terminal.render(describe_report(report), details=True, ascii=True)
    assert text.isascii()
    assert "tile    t <- t*exp(m' - m~) + sum_tile exp(x - m~)" in text
    assert to_ascii("o₁₂\u0303 ≤ ∞ größe") == "o_12~ <= inf gr\\xf6\\xdfe"


def test_details_are_only_shown_when_asked_for(report: FusionReport) -> None:
    assert "derivation" not in terminal.render(describe_report(report))


@pytest.mark.parametrize("color", [False, True])
def test_names_from_the_model_cannot_drive_the_terminal(report: FusionReport, color: bool) -> None:
    text = terminal.render(describe_report(report), details=True, color=color)
    assert "\x1b[2J" not in text and "\u202e" not in text
    assert "evil\\x1b[2J<script>" in text
    assert ("\x1b[" in text) == color


def test_names_from_the_model_cannot_become_markup(report: FusionReport) -> None:
    page = html.render(describe_report(report))
    assert "<script" not in page and "\x1b" not in page and "&lt;script&gt;" in page
    named = replace(report, model=replace(report.model, name="<img src=x>|[a](b)`"))
    text = markdown.render(describe_report(named))
    assert r"\<img src=x\>\|\[a\](b)\`" in text
    assert markdown.escape("https://a.b www.a.b WWW.c 1.5: 2") == r"https\://a.b www\.a.b WWW\.c 1.5: 2"
    assert html.escape('"><b>') == "&quot;&gt;&lt;b&gt;"


def test_a_name_cannot_close_a_markdown_fence(report: FusionReport) -> None:
    entry = replace(report.cascades[1], onnx_nodes=("```` # title",))
    text = markdown.render(describe_report(replace(report, cascades=(entry,))))
    assert "`````text\n```` # title\n`````" in text


def test_html_loads_nothing(report: FusionReport) -> None:
    page = html.render(describe_report(report))
    assert not re.search(r"<(script|link|img|iframe)\b|https?://", page)


def test_rendering_is_deterministic(report: FusionReport) -> None:
    again = FusionReport.from_json(report.to_json())
    for render in (terminal.render, markdown.render, html.render):
        assert render(describe_report(report)) == render(describe_report(again))


def test_a_model_without_cascades_is_said_so(report: FusionReport) -> None:
    empty = replace(report, cascades=())
    assert summary_lines(empty) == ["no cascaded reductions found"]
    for render in (terminal.render, markdown.render, html.render):
        assert "no cascaded reductions found" in render(describe_report(empty))


def test_plain_keeps_letters_and_escapes_controls() -> None:
    assert plain("größe/日本") == "größe/日本"
    assert plain("a\nb\x9b\u2028\ud800\U000e0001") == "a\\x0ab\\x9b\\u2028\\ud800\\U000e0001"


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1 KB"), (4_700_000, "4.7 MB"), (10**16, "1e+04 TB")]
)
def test_bytes_are_short(count: int, text: str) -> None:
    assert bytes_text(count) == text
