"""Build deploy/container/Containerfile where no container engine runs.

buildah obeys the file itself, step by step, each in a root of its own (chroot isolation, which asks nothing of the
kernel but mounts). The base image, which an engine would fetch, is made by debootstrap. What pip is told on this
machine (indexes, certificates, folders with wheels) it is told while it builds; nothing of that is in the image, but
empty places where it was mounted. Needs root, and Debian's buildah and debootstrap. Prints names and sizes as one JSON
object; exit status 1 if a step fails.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "deploy" / "container" / "Containerfile"
TARGETS = ("cpu", "cuda")
SUITE = "bookworm"
BASE = f"localhost/oscine-base:{SUITE}"
INSIDE = "/run/pip"
"""Where the files that pip needs lie while an image is built."""
# What Debian's own slim images leave out, by their rule for dpkg; licences stay.
LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*", "/usr/share/lintian/*")
KEPT = ("/usr/share/doc/*/copyright",)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--target", choices=TARGETS, default="cpu")
    parser.add_argument("--tag", help="name of the image (default localhost/oscine:TARGET)")
    parser.add_argument("--build-arg", action="append", default=[], metavar="NAME=VALUE", help="of the container file")
    options = parser.parse_args()
    tag = options.tag or f"localhost/oscine:{options.target}"
    try:
        make_base()
        build(options.target, tag, options.build_arg)
        print(json.dumps({"image": tag, "base_bytes": size(BASE), "bytes": size(tag), "parts": parts(tag)}))
    except subprocess.CalledProcessError as error:
        print(f"build_image: {' '.join(map(str, error.cmd[:3]))} ... ended with {error.returncode}", file=sys.stderr)
        return 1
    return 0


def buildah(*arguments: str) -> str:
    """Run it; returns what it prints. Its progress goes to standard error."""
    return subprocess.run(["buildah", *arguments], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def exists(image: str) -> bool:
    return (
        subprocess.run(["buildah", "inspect", "--type", "image", image], capture_output=True, check=False).returncode
        == 0
    )


def make_base() -> None:
    """The image that the container file builds on, if it is not there yet."""
    if exists(BASE):
        return
    with tempfile.TemporaryDirectory(prefix="oscine-base-") as folder:
        root = Path(folder, "root")
        subprocess.run(["debootstrap", "--variant=minbase", SUITE, str(root)], stdout=sys.stderr, check=True)
        rules = [f"path-exclude={each}" for each in LEFT_OUT] + [f"path-include={each}" for each in KEPT]
        Path(root, "etc/dpkg/dpkg.cfg.d/slim").write_text("\n".join(rules) + "\n")
        for each in (root / "var/cache/apt/archives", root / "var/lib/apt/lists"):
            remove(path for path in each.rglob("*") if path.is_file())
        for pattern in LEFT_OUT:
            found = Path(root).glob(f"{pattern[1:].removesuffix('/*')}/**/*")
            remove(path for path in found if not path.is_dir() and path.name != "copyright")
        container = buildah("from", "scratch")
        buildah("add", "--quiet", container, str(root), "/")
        buildah("config", "--cmd", "bash", container)
        buildah("commit", "--quiet", "--rm", container, BASE)


def remove(paths: Iterable[Path]) -> None:
    for path in list(paths):
        path.unlink()


def build(target: str, tag: str, arguments: Iterable[str]) -> None:
    """Every step of the container file, up to `target`."""
    given = [f"--build-arg={each}" for each in (f"BASE={BASE}", *arguments)]
    with pip_settings() as volumes:
        command = ["buildah", "build", "--isolation", "chroot", "--pull=never", "--layers", "--format", "docker"]
        command += [f"--volume={each}:ro" for each in volumes]
        command += [f"--ignorefile={FILE}.dockerignore", f"--file={FILE}", f"--target={target}", f"--tag={tag}"]
        subprocess.run([*command, *given, str(ROOT)], stdout=sys.stderr, check=True)


@contextmanager
def pip_settings() -> Iterator[list[str]]:
    """Mounts, FROM:TO, that tell pip in there what pip is told here."""
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    with tempfile.TemporaryDirectory(prefix="oscine-pip-") as folder:
        mounts: list[str] = []
        lines = ["[global]"]
        for name, value in settings(listed.stdout).items():
            words = value.split()
            for number, word in enumerate(words):
                if (path := local(word)) is not None:
                    inside = f"{INSIDE}/{len(mounts)}"
                    # An index of its own refers to files beside its folder.
                    source = path.parent if word.startswith("file:") else path
                    mounts.append(f"{source}:{inside}")
                    words[number] = word.replace(str(path), f"{inside}{str(path)[len(str(source)) :]}")
            lines.append(f"{name} = {' '.join(words)}")
        conf = Path(folder, "pip.conf")
        conf.write_text("\n".join(lines) + "\n")
        yield [*mounts, f"{conf}:/etc/pip.conf"]


def settings(listed: str) -> dict[str, str]:
    """What `pip config list` prints: the environment's count before files'."""
    found: dict[str, str] = {}
    for line in sorted(listed.splitlines(), key=lambda each: each.startswith(":env:")):
        name, _, value = line.partition("=")
        text = value.strip("'\"").replace("\\n", " ")
        found[name.removeprefix(":env:.").partition(".")[2] or name.removeprefix(":env:.")] = text
    return found


def local(word: str) -> Path | None:
    """The file or folder here that a setting names, as a path or an address."""
    path = Path(urlsplit(word).path if word.startswith("file:") else word)
    return path if path.is_absolute() and path.exists() else None


def size(image: str) -> int:
    """Bytes of what lies in it, unpacked."""
    return sum(parts(image).values())


def parts(image: str) -> dict[str, int]:
    """Bytes under the folders that make it large."""
    container = buildah("from", "--pull=never", image)
    try:
        root = Path(buildah("mount", container))
        packages = sorted(root.glob("opt/oscine/lib/python3*/site-packages/*"))
        inside = {path.name: used(path) for path in packages if path.is_dir()}
        largest = dict(sorted(inside.items(), key=lambda each: -each[1])[:8])
        oscine = used(root / "opt/oscine") if (root / "opt/oscine").exists() else 0
        return {"system": used(root) - oscine, **largest, "other packages": oscine - sum(largest.values())}
    finally:
        buildah("rm", container)


def used(path: Path) -> int:
    told = subprocess.run(["du", "--summarize", "--bytes", str(path)], capture_output=True, text=True, check=True)
    return int(told.stdout.split()[0])


if __name__ == "__main__":
    sys.exit(main())
