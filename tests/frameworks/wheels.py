# SPDX-License-Identifier: Apache-2.0
"""What ./dev frameworks fetches: unmodified packages of the Python index, pinned, unpacked below .deps/frameworks.

Nothing is installed into a Python of the machine, and nothing of a package's own requirements is fetched but what is named here:
CUDA's libraries are the stand-in's (stubs.py).
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import zipfile

# For all of them; the two with another release for Python 3.10 are the last that it can load.
COMMON = """filelock==4.2.11 typing_extensions==4.16.0 sympy==1.14.0 mpmath==1.3.0 jinja2==3.1.6 MarkupSafe==3.0.4 fsspec==2026.9.0
            setuptools==84.2.1 packaging==26.3
            networkx==3.6.1;python_version>='3.11' networkx==3.4.2;python_version<'3.11'
            numpy==2.4.6;python_version>='3.11' numpy==2.2.6;python_version<'3.11'""".split()


def say(text):
    print("frameworks:", text, file=sys.stderr, flush=True)


class Missing(Exception):
    """It cannot be had here; what needs it is skipped by this name."""


class Wheels:
    def __init__(self, folder):
        self.folder = folder
        self.pip = None

    def _run(self, *words, env=None):
        if not self.pip:
            venv = os.path.join(self.folder, "venv")
            if not os.path.exists(os.path.join(venv, "bin", "pip")):
                subprocess.run([sys.executable, "-m", "venv", venv], check=True, stdout=subprocess.DEVNULL)
            self.pip = os.path.join(venv, "bin", "pip")
        return subprocess.run([self.pip, "-q", "--disable-pip-version-check", "--retries", "1", *words],
                              capture_output=True, text=True, env=env)

    def get(self, name, *requirements, options=(), env=None, only=None):
        """The folder with @requirements unpacked in it, without theirs; fetched if it is not there. With @only just the files of that pattern."""
        to = os.path.join(self.folder, name)
        packages = os.path.join(to, "site-packages")  # so that the paths look as they do where it is installed
        if os.path.isdir(packages):
            return packages
        shutil.rmtree(to, ignore_errors=True)
        part = to + ".part"
        shutil.rmtree(part, ignore_errors=True)
        os.makedirs(self.folder, exist_ok=True)
        say("fetching " + " ".join(requirements))
        target = os.path.join(part, "site-packages")
        how = ["download", "--only-binary", ":all:", "--dest", part] if only else ["install", "--no-compile", "--target", target]
        done = self._run(*how, "--no-deps", "--no-cache-dir", *options, *requirements, env=env)
        if done.returncode:
            shutil.rmtree(part, ignore_errors=True)
            raise Missing(f"{' '.join(requirements)} could not be had: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
        for wheel in glob.glob(os.path.join(part, "*.whl")):
            with zipfile.ZipFile(wheel) as z:
                z.extractall(target, [member for member in z.namelist() if re.match(only, member)])
            os.remove(wheel)
        os.rename(part, to)
        size = sum(os.lstat(os.path.join(d, f)).st_size for d, _, files in os.walk(to) for f in files)
        say(f"{name}: {size / 1e6:.0f} MB unpacked")
        return packages

    def common(self):
        return self.get("common", *COMMON)


def requirements(folder, name):
    """{package: version} of the exact versions that the package @name unpacked in @folder asks for."""
    found = {}
    for path in glob.glob(os.path.join(folder, name + "-*.dist-info", "METADATA")):
        with open(path) as f:
            for line in f:
                if m := re.match(r"Requires-Dist: ([\w-]+)(?:\[.*?\])?\s*\(?==\s*([\d.]+)", line):
                    found[m[1]] = m[2]
    return found


def cuda_of(wanted):
    """Release of CUDA (13.2) that those requirements name."""
    if "cuda-toolkit" in wanted:
        version = wanted["cuda-toolkit"]
    else:
        version = next((v for k, v in wanted.items() if k.startswith("nvidia-cuda-runtime")), None)
    if not version:
        raise Missing("the package does not say which CUDA it wants")
    return ".".join(version.split(".")[:2])


def version_of(wanted, prefix, otherwise):
    return next((v for k, v in wanted.items() if k.startswith(prefix)), otherwise)


def headers(wheels, cuda):
    """CUDA's own headers of that release, out of its runtime's package."""
    package = "nvidia-cuda-runtime" if int(cuda.split(".")[0]) >= 13 else "nvidia-cuda-runtime-cu12"
    folder = wheels.get("cuda-" + cuda, f"{package}=={cuda}.*")
    return os.path.dirname(glob.glob(os.path.join(folder, "nvidia", "*", "include", "cuda_runtime_api.h"))[0])
