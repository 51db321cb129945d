# SPDX-License-Identifier: Apache-2.0
"""What is linked into the programs, as CycloneDX 1.5: https://cyclonedx.org/docs/1.5/json/"""
import datetime
import json
import subprocess
import uuid

LICENCES = {"libexpat1-dev": "MIT", "libhwloc-dev": "BSD-3-Clause", "libjansson-dev": "MIT", "libncurses-dev": "MIT-X11", "libsqlite3-dev": "blessing",
            "libxxhash-dev": "BSD-2-Clause", "libzstd-dev": "BSD-3-Clause", "zlib1g-dev": "Zlib"}


def version_of(package, root):
    """The version of the Debian package whose archive was linked; root: of a cross-built one, whose package files were unpacked there."""
    admin = ["--admindir", f"{root}/var/lib/dpkg"] if root else []
    said = subprocess.run(["dpkg-query", *admin, "-W", "-f", "${source:Package} ${Version}\n", package], text=True, capture_output=True)
    words = said.stdout.split("\n")[0].split()
    return words if len(words) == 2 else [package.removesuffix("-dev"), "unknown"]


def sbom(version, machine, linked, epoch, root=None):
    def component(package):
        source, number = version_of(package, root)
        return {"type": "library", "name": source, "version": number, "licenses": [{"license": {"name": LICENCES[package]}}],
                "purl": f"pkg:deb/debian/{source}@{number}?distro=bookworm"}

    return json.dumps({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "serialNumber": "urn:uuid:" + str(uuid.uuid5(uuid.NAMESPACE_URL, f"capo-{version}-{machine}-{epoch}")),
        "metadata": {"timestamp": datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                     "component": {"type": "application", "name": "capo", "version": version, "licenses": [{"license": {"id": "Apache-2.0"}}]}},
        "components": [component(package) for package in linked]}, indent=1) + "\n"
