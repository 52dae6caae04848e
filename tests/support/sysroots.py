"""Make a folder with the programs of another processor: `python tests/support/sysroots.py arm64 FOLDER`.

It holds Debian's Python, numpy and ONNX Runtime (and the libraries that `dovetail-run` is linked with), unpacked and
not installed, for `qemu-user`. Nothing of this machine changes and root is not needed; it takes apt, dpkg-deb and a
network.
`DOVETAIL_BOARDS` names the folder that holds `arm64` and `armhf`, each made by this script.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "DOVETAIL_BOARDS"
SUITE = "trixie"
"""The first whose numpy is new enough (1.26)."""
_PACKAGES = ("python3", "python3-numpy", "libonnxruntime-dev")
_LINKED = ("zlib1g-dev", "libminizip-dev", "libmd-dev")
_OWNED_LINKS = ("bin", "lib", "sbin")
_EMULATORS = {"arm64": "qemu-aarch64-static", "armhf": "qemu-arm-static"}
_PROCESSORS = {"arm64": "max,pauth-impdef=on", "armhf": "max"}
"""All extensions that the emulator knows; signing pointers as real processors do would make it five times slower."""
_WHEEL_PLATFORMS = {"arm64": "manylinux_2_28_aarch64"}
_CPUINFO = (
    "processor\t: {}\nFeatures\t: fp asimd crc32\nCPU implementer\t: 0x41\nCPU architecture: 8\n"
    "CPU variant\t: 0x0\nCPU part\t: 0xd08\n\n"
)
"""A Cortex-A72: where it reads this machine's own `/proc/cpuinfo`, ONNX Runtime's library for aarch64 crashes."""
_TRIPLETS = {"arm64": "aarch64-linux-gnu", "armhf": "arm-linux-gnueabihf"}


@dataclass(frozen=True)
class Sysroot:
    """A folder that this script has made."""

    architecture: str
    folder: Path

    @property
    def root(self) -> Path:
        """Return what the emulator takes for `/`."""
        return self.folder / "root"

    @property
    def emulator(self) -> str:
        """Return the name of the emulator's program."""
        return _EMULATORS[self.architecture]

    @property
    def triplet(self) -> str:
        """Return the name that compilers have for the architecture."""
        return _TRIPLETS[self.architecture]

    @property
    def onnxruntime(self) -> Path | None:
        """Return ONNX Runtime's library: that of its own package, of this machine's version, else Debian's."""
        own = sorted(self.folder.glob("wheel/libonnxruntime.so.*"))
        debian = sorted(self.root.glob("usr/lib/*/libonnxruntime.so.*"))
        return next(iter((*own, *debian)), None)

    def command(self, program: Path | str, *arguments: object, processor: str = "") -> list[str]:
        """Return the words that run a program of the architecture, on a processor that the emulator knows."""
        chosen = processor or _PROCESSORS[self.architecture]
        return [self.emulator, "-cpu", chosen, "-L", str(self.root), str(program), *map(str, arguments)]

    def python(self, *arguments: object) -> list[str]:
        """Return the words that run its Python."""
        return self.command(self.root / "usr/bin/python3", *arguments)


def make_sysroot(architecture: str, folder: Path, mirror: str, suite: str = SUITE) -> Sysroot:
    """Fill a folder, which may hold an older one; raise CalledProcessError where apt or dpkg-deb cannot."""
    made = Sysroot(architecture, folder.absolute())
    packages, linked = folder / "packages", folder / "linked"
    for path in (made.root, packages, linked, folder / "wheel"):
        shutil.rmtree(path, ignore_errors=True)
    (made.root / "usr").mkdir(parents=True)
    for name in _OWNED_LINKS:
        (made.root / "usr" / name).mkdir()
        (made.root / name).symlink_to(f"usr/{name}")
    _download(architecture, made.folder / "apt", packages, suite, mirror, _PACKAGES)
    # Static libraries of this machine's release: newer ones may ask for a newer C library than the cross compiler's.
    _download(architecture, made.folder / "apt-here", linked, _suite_here(), mirror, _LINKED)
    for archive in sorted(packages.glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", str(archive), str(made.root)], check=True)
    for archive in sorted(linked.glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", str(archive), str(linked / "root")], check=True)
    (made.root / "proc").mkdir(exist_ok=True)
    (made.root / "proc/cpuinfo").write_text("".join(_CPUINFO.format(core) for core in range(2)))
    # Which library stands for BLAS is chosen by a script of the package, which is not run here.
    for name in ("blas", "lapack"):
        for path in made.root.glob(f"usr/lib/*/{name}/lib{name}.so.3"):
            (path.parent.parent / path.name).symlink_to(f"{name}/{path.name}")
    if architecture in _WHEEL_PLATFORMS:
        _unpack_wheel(made)
    return made


def _download(architecture: str, state: Path, cache: Path, suite: str, mirror: str, packages: Sequence[str]) -> None:
    """Download packages and what they depend on, with lists of apt's own in a folder."""
    shutil.rmtree(state, ignore_errors=True)
    (state / "lists/partial").mkdir(parents=True)
    (cache / "partial").mkdir(parents=True)
    (state / "status").touch()
    (state / "sources").write_text(f"deb [arch={architecture}] {mirror} {suite} main\n")
    settings = {
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Install-Recommends": "0",
        "APT::Sandbox::User": "",
        "Dir::State": str(state),
        "Dir::State::status": str(state / "status"),
        "Dir::Cache": str(state),
        "Dir::Cache::archives": str(cache),
        "Dir::Etc::sourcelist": str(state / "sources"),
        "Dir::Etc::sourceparts": "-",
        "Debug::NoLocking": "1",
    }
    options = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
    for words in (["update"], ["install", "-y", "--download-only", *packages]):
        subprocess.run(["apt-get", "-q", *options, *words], check=True, stdout=subprocess.DEVNULL)


def _unpack_wheel(made: Sysroot) -> None:
    """Take ONNX Runtime's library of this machine's version from its own package for the other processor."""
    from importlib.metadata import version

    python = next(made.root.glob("usr/bin/python3.*")).name.removeprefix("python")
    wheels = made.folder / "wheel"
    words = ["download", "-q", "--no-deps", "--only-binary=:all:", "--python-version", python, "-d", str(wheels)]
    words += ["--platform", _WHEEL_PLATFORMS[made.architecture], f"onnxruntime=={version('onnxruntime')}"]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True)
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if re.fullmatch(r"onnxruntime/capi/libonnxruntime\.so\.[\d.]+", name):
                    (wheels / Path(name).name).write_bytes(archive.read(name))


def _suite_here() -> str:
    """Return the name of this machine's release."""
    found = re.search(r"^VERSION_CODENAME=(\S+)$", Path("/etc/os-release").read_text(), re.MULTILINE)
    return found.group(1) if found else SUITE


def _mirror_here() -> str:
    """Return where this machine's own packages come from."""
    words = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian"]
    found = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    return next((line for line in found if "security" not in line), "")


def find_sysroot(architecture: str) -> Sysroot | None:
    """Return the sysroot below the folder that the variable names; None where there is none."""
    given = os.environ.get(VARIABLE, "")
    made = Sysroot(architecture, Path(given) / architecture) if given else None
    return made if made is not None and (made.root / "usr/bin/python3").exists() else None


def main() -> int:
    """Make one sysroot and say what is in it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("architecture", choices=sorted(_EMULATORS))
    parser.add_argument("folder", type=Path, help="made anew; the last part of its name should be the architecture")
    parser.add_argument("--suite", default=SUITE, help="Debian's release (default %(default)s)")
    parser.add_argument("--mirror", default="", help="a Debian mirror (by default that of this machine)")
    given = parser.parse_args()
    mirror = given.mirror or _mirror_here()
    if not mirror:
        parser.error("this machine's apt names no Debian mirror: give one with --mirror")
    made = make_sysroot(given.architecture, given.folder, mirror, given.suite)
    sys.stdout.write(f"{made.root}\nONNX Runtime: {made.onnxruntime}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
