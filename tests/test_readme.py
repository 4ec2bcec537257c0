"""What the README says must work as it stands there."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from redfuser_cli.parser import COMMANDS, build_parser

README = Path(__file__).resolve().parents[1] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_the_first_screen_has_two_commands() -> None:
    commands = blocks("sh")
    assert len(commands) == 2 and all(command.count("\n") == 1 for command in commands)
    assert "pip install" in commands[0] and "compile models/tiny_bert.onnx" in commands[0] and "pytest" in commands[1]


def test_an_artifact_runs_with_tvm_alone(artifact: Path, tmp_path: Path) -> None:
    (snippet,) = [block for block in blocks("python") if "relax.VirtualMachine" in block]
    assert snippet.count("\n") <= 11 and "redfuser" not in re.sub(r"tiny_bert\.redfuser", "", snippet)
    shutil.copytree(artifact, tmp_path / "tiny_bert.redfuser")
    script = f"{snippet}\nimport sys\nassert 'redfuser' not in sys.modules\nassert result[0].numpy().shape == (2, 3)"
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)


def test_every_command_line_of_the_readme_parses() -> None:
    lines = [line.partition("#")[0].split()[1:] for line in "".join(blocks("console")).splitlines()]
    assert {line[0] for line in lines} == {command.__name__.rpartition(".")[2] for command in COMMANDS}
    for line in lines:
        build_parser().parse_args(line)
