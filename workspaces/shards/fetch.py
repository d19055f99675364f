"""Makes a virtual environment in build/, fetches the package's source archive with pip, installs it
there, and unpacks its tests next to it.

Ends with status 69 (EX_UNAVAILABLE) where the machine lacks something: callboard takes that for a
failure of the environment, not of the package.
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

NAME, VERSION = "boltons", "26.2.0"
SHA256 = "d39cfd15c1a1c3bd4d705c82252fa9edb8e4f5e8cc039f8e39afac7b1b47e92c"
RUNNER = "pytest==8.4.2"
BUILD = pathlib.Path("build")
PYTHON = BUILD / "venv" / "bin" / "python"
UNAVAILABLE = 69

# As variables, since pip starts itself again to build, and flags do not reach that far. Nothing is
# cached: what this workspace writes is in its own folder.
PIP_SETTINGS = {
    "PIP_NO_CACHE_DIR": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_RETRIES": "2",
    "PIP_TIMEOUT": "20",
    # pip asks rustc, where there is one, for its version, and rustup would make a folder in HOME.
    "RUSTUP_HOME": str(BUILD.absolute() / "rustup"),
}
# Authorities that only the machine's own store knows, where pip does not look at it by itself.
CERTIFICATES = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
]
UNREACHED = (
    "Failed to establish a new connection",
    "Temporary failure in name resolution",
    "Name or service not known",
    "Connection refused",
    "Network is unreachable",
    "No route to host",
    "timed out",
    "connection broken",
    "Cannot connect to proxy",
    "certificate verify failed",
    "CERTIFICATE_VERIFY_FAILED",
)


class Unavailable(Exception):
    """The machine lacks something."""


def make_environment():
    if run([sys.executable, "-m", "venv", str(BUILD / "venv")]).returncode != 0:
        raise Unavailable(
            f"{sys.executable} cannot make a virtual environment with pip in it"
            " (on Debian and Ubuntu: install python3-venv)"
        )


def pip(*arguments):
    """Runs pip. A second try trusts the machine's own authorities, should the first have met one
    that pip does not know."""
    command = [str(PYTHON), "-m", "pip", *arguments, "--progress-bar", "off"]
    done = run(command)
    bundle = next((path for path in CERTIFICATES if pathlib.Path(path).is_file()), None)
    if done.returncode != 0 and bundle and "CERTIFICATE_VERIFY_FAILED" in done.stdout:
        done = run([*command, "--cert", bundle])
    if done.returncode == 0:
        return
    if any(sign in done.stdout for sign in UNREACHED):
        raise Unavailable("the package index cannot be reached")
    raise Unavailable("the package index does not give it")


def run(command):
    """Shows a program's output and keeps it."""
    environment = {**os.environ, **PIP_SETTINGS}
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, env=environment, **output) as program:
        lines = []
        for line in program.stdout:
            print(f"  {line.rstrip()}", flush=True)
            lines.append(line)
    return subprocess.CompletedProcess(command, program.returncode, "".join(lines))


def unpack_tests(archive):
    """The tests alone, so that they meet the installed package and not its sources."""
    top = f"{NAME}-{VERSION}/"
    with tarfile.open(archive) as packed:
        for member in packed.getmembers():
            name = member.name[len(top):]
            if not (member.isfile() and member.name.startswith(top + "tests/")):
                continue
            target = BUILD / "suite" / name
            if ".." in pathlib.PurePosixPath(name).parts:
                raise SystemExit(f"error: {member.name} leads out of the archive")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(packed.extractfile(member).read())


def main():
    shutil.rmtree(BUILD, ignore_errors=True)
    BUILD.mkdir()
    print(f"making a virtual environment in {BUILD / 'venv'}", flush=True)
    make_environment()
    print(f"fetching the sources of {NAME} {VERSION}", flush=True)
    pip("download", "--no-deps", "--no-binary", NAME, "--dest", str(BUILD), f"{NAME}=={VERSION}")
    archive = BUILD / f"{NAME}-{VERSION}.tar.gz"
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != SHA256:
        print(f"error: {archive} has the digest {found}, not {SHA256}", file=sys.stderr)
        return 1
    print(f"installing it and {RUNNER}", flush=True)
    pip("install", str(archive), RUNNER)
    unpack_tests(archive)
    print(f"{NAME} {VERSION} is ready")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Unavailable as error:
        print(f"error: {NAME} {VERSION} cannot be fetched: {error}", file=sys.stderr)
        sys.exit(UNAVAILABLE)
