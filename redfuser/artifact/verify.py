"""Check an artifact against its manifest."""

from __future__ import annotations

from pathlib import Path

from redfuser.artifact.manifest import MANIFEST, REPORT, Manifest, hash_file, read_manifest
from redfuser.artifact.write import files_below
from redfuser.errors import UsageError, VerificationError
from redfuser.records import RecordError
from redfuser.report.value import FusionReport


def verify_files(folder: Path) -> Manifest:
    """Hash every file again. Only files found below the folder are opened, whatever the manifest lists.

    Returns:
        The manifest.

    Raises:
        UsageError: the folder isn't an artifact.
        VerificationError: names the files that are missing, changed or not in the manifest.
    """
    manifest = read_manifest(folder)
    found = [name for name in files_below(folder) if name != MANIFEST]
    problems = [f"{name} is missing" for name in manifest.files if name not in set(found)]
    for name in found:
        path = folder / name
        if name not in manifest.files:
            problems.append(f"{name} isn't in the manifest")
        elif path.is_symlink() or not path.is_file():
            problems.append(f"{name} isn't a regular file")
        elif hash_file(path) != manifest.files[name]:
            problems.append(f"{name} has changed")
    if problems:
        more = f" and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise VerificationError(
            f"{str(folder)!r} doesn't match its manifest: {', '.join(problems[:5])}{more}", "compile the model again"
        )
    return manifest


def read_report(path: Path) -> FusionReport:
    """The report of an artifact folder, or a report file.

    Raises:
        UsageError: there is none.
        VerificationError: it isn't a report of this version.
    """
    file = path / REPORT if path.is_dir() else path
    try:
        return FusionReport.from_json(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"cannot read the report {str(file)!r}: {error.strerror}", "give an artifact or report.json"
        ) from error
    except (UnicodeDecodeError, RecordError) as error:
        raise VerificationError(
            f"cannot read the report {str(file)!r}: {error}", "give an artifact or report.json"
        ) from error
