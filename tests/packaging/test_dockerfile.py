"""The image: its file is in order, its steps work, and a run needs one folder that it can write."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from tests import processes
from tests.packaging.built import PROJECT, ROOT, SOURCES, VERSIONS, copied
from tests.packaging.dockerfile import environment, faults, stages

TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
BUILD, LAST = stages(TEXT)


def test_dockerfile_has_no_problems() -> None:
    assert faults(TEXT) == []
    assert BUILD.image == LAST.image
    assert re.search(r":(3\.\d+)-", LAST.image)[1] in VERSIONS  # type: ignore[index]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("USER 10001:10001", "USER root"),
        ("USER 10001:10001", "USER 0:0"),
        ("USER 10001:10001\n", ""),
        ('ENTRYPOINT ["dprelease"]', "ENTRYPOINT dprelease"),
        ("--no-cache-dir ", ""),
        ("python:3.13-slim\n", "python:latest\n"),
        ("python:3.13-slim\n", "python\n"),
        ("--from=build", "--from=builder"),
        ("COPY dprelease dprelease", "COPY . ."),
        ("COPY dprelease dprelease", "ADD dprelease dprelease"),
        ("WORKDIR /data", "WORKDIR data"),
        ("WORKDIR /data", "WORKDIR /data\nRUN touch /here"),
    ],
)
def test_dockerfile_faults_are_found(old: str, new: str) -> None:
    assert old in TEXT
    assert faults(TEXT.replace(old, new))


def test_copied_files_exist_in_the_build_context() -> None:
    """The build gets the files that the package is made of, and the ignored rest stays at home."""
    given = [text.split()[:-1] for text in BUILD.all("COPY")]
    assert sorted(name for names in given for name in names) == sorted(SOURCES)
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    sent = [line for line in lines if line and not line.startswith("#")]
    assert sent[0] == "*"
    assert sorted(line[1:] for line in sent if line.startswith("!")) == sorted(SOURCES)


def test_extras_of_the_image_exist() -> None:
    (extras,) = (text.partition("=")[2] for text in BUILD.all("ARG"))
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])


def test_guide_uses_the_image_correctly() -> None:
    """Read-only, without a network, with the folder mounted where the image works."""
    guide = (ROOT / "docs/how-to/container.md").read_text(encoding="utf-8")
    words = shlex.split(re.search(r"\$ (docker run .*?)\n```", guide, re.DOTALL)[1])  # type: ignore[index]
    assert {"--read-only", "--rm"} <= set(words)
    assert words[words.index("--network") + 1] == "none"
    assert words[words.index("--tmpfs") + 1] == environment(LAST)["HOME"]
    assert words[words.index("--volume") + 1] == f"$PWD:{LAST.all('WORKDIR')[0]}"
    assert words[-2:] == ["run", "release.yaml"]


# The package and its environment may lie below /tmp, which is another one in there.
READ_ONLY = """
set -e
mount --make-rprivate /
mount --bind {folder} /mnt
mount --bind {root} /media
mount --bind {prefix} /srv
mount -t tmpfs none /tmp
for place in /media /srv /; do mount -o remount,bind,ro $place; done
cd /mnt
if touch /media/here 2>/dev/null; then rm /media/here; echo "the file system can be written"; exit 9; fi
"""


def without_a_network(script: str, folder: Path, **variables: str) -> str:
    """Return what a script prints where the file system is read-only but for one folder and /tmp."""
    whole = READ_ONLY.format(folder=folder, root=ROOT, prefix=sys.prefix) + script
    command = processes.unshared("--mount", "--net", "--user", "--map-root-user")
    shown = {"PATH": os.environ["PATH"], **variables}
    done = processes.run([*command, "sh", "-c", whole], capture_output=True, text=True, env=shown)
    if done.returncode and "mount" in done.stderr:
        pytest.skip(f"mounts are not allowed here: {done.stderr}")
    assert done.returncode == 0, (done.stdout, done.stderr)
    return str(done.stdout)


def test_run_writes_only_to_its_folder(tmp_path: Path) -> None:
    """With the image's variables: a read-only system, no network, a mounted folder, and /tmp."""
    example = tmp_path / "nist_acs"
    shutil.copytree(ROOT / "examples/nist_acs", example, ignore=shutil.ignore_patterns("out"))
    program = "/srv/bin/python -m dprelease"
    script = f"{program} run release.yaml && {program} verify out/persons && ls /tmp | wc -l"
    variables = {name: text for name, text in environment(LAST).items() if name != "PATH"}
    told = without_a_network(script, example, PYTHONPATH="/media", **variables)
    assert "The release claims to be (" in told
    assert told.splitlines()[-1].strip() == "0"  # a run leaves nothing in its temporary folder
    assert (example / "out/persons/manifest.json").exists()


@pytest.mark.audit
def test_build_steps_run(tmp_path: Path) -> None:
    """Each RUN, in a shell, in a folder with what is copied; the program then stands where PATH says."""
    source, home = copied(tmp_path / "src"), tmp_path / "opt"
    (extras,) = (text.partition("=")[2] for text in BUILD.all("ARG"))
    for command in BUILD.all("RUN"):
        own = command.replace("/opt/dprelease", str(home))
        shown = {
            **os.environ,
            "EXTRAS": extras,
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        }
        done = processes.run(
            ["sh", "-c", own], cwd=source, env=shown, capture_output=True, text=True, patience=1800
        )
        assert done.returncode == 0, done.stderr
    shutil.rmtree(source)
    told = processes.run([home / "bin/dprelease", "--version"], capture_output=True, text=True)
    assert told.stdout.startswith("dprelease ")
