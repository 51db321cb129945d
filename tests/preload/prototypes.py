#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The host functions of every nccl.h, and capo's rows for them.

usage: prototypes.py make RELEASE=NCCL.H...         print the list of those releases (tests/preload/prototypes.txt)
       prototypes.py add LIST RELEASE=NCCL.H...     put those releases into the list
       prototypes.py headers LIST RELEASE=NCCL.H... is each header what the list says of its release? A release that is not in
                                                    the list is compared with the last one that is: what it brought is said
       prototypes.py rows LIST ROWS CC...           has include/capo/nccl_calls.def, read for each release, the functions of
                                                    that release's header and no others, and the same prototypes?
       prototypes.py standin ROWS STANDIN.DEF C...  has the stand-in each function whose calls are recorded, and does one of its
                                                    tests (C) call it?

A line of the list: the first and the last release that has it, and the prototype without the names of its parameters.
"""
import re
import subprocess
import sys


def key(release):
    return tuple(int(n) for n in release.split("."))


def code(release):
    x, y, z = key(release)
    return x * 10000 + y * 100 + z


def one_type(text):
    text = re.sub(r"\s*\*\s*", "*", " ".join(text.split()))
    named = re.match(r"^(.*[\w*][ *])(\w+)$", text.replace("*", "* "))
    if named and not re.match(r"^(const|unsigned|struct)$", named.group(1).strip()):
        text = named.group(1)
    return re.sub(r"\s*\*\s*", "*", " ".join(text.split())).replace("unsigned int", "unsigned").strip()


def prototype(result, name, parameters):
    parameters = parameters.strip() or "void"  # older headers: ()
    return f"{one_type(result + ' x')} {name}({', '.join(one_type(p) for p in parameters.split(','))})"


def of_header(path):
    text = open(path, encoding="utf-8").read()
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", " ", text, flags=re.M)
    found = re.findall(r"((?:const\s+)?\w+(?:\s*\*)*)\s+(nccl[A-Z]\w*)\s*\(([^()]*)\)\s*;", text)
    return {name: prototype(result, name, parameters) for result, name, parameters in found}


def of_rows(rows, release, cc):
    macros = ["-DCALL(name,params,...)=@ncclResult_t;name;params@", "-DHAND(name,params,...)=@ncclResult_t;name;params@",
              "-DPASS(type,name,params,...)=@type;name;params@"]
    text = subprocess.run([*cc, "-E", "-P", "-x", "c", f"-DCAPO_NCCL_CODE={code(release)}", *macros, rows], check=True,
                          stdout=subprocess.PIPE, encoding="utf-8").stdout
    out = {}
    for row in re.findall(r"@([^@]*)@", " ".join(text.split())):
        result, name, parameters = (part.strip() for part in row.split(";"))
        out[name] = prototype(result, name, parameters[1:-1])
    return out


def read_list(path):
    lines = open(path, encoding="utf-8").read().splitlines()
    releases = next(line for line in lines if line.startswith("# releases:")).split(":")[1].split()
    rows = [line.split(" ", 2) for line in lines if line and not line.startswith("#")]
    table = {r: {} for r in releases}
    for first, last, text in rows:
        name = re.search(r"(nccl\w+)\(", text).group(1)
        for r in releases:
            if key(first) <= key(r) <= key(last):
                table[r][name] = text
    return releases, table


def differences(what, wanted, found, where):
    lines = [f"{what}: {where} has not: {wanted[name]}" for name in sorted(wanted.keys() - found.keys())]
    lines += [f"{what}: only {where} has: {found[name]}" for name in sorted(found.keys() - wanted.keys())]
    lines += [f"{what}: {where} has {found[name]}, not {wanted[name]}" for name in sorted(wanted.keys() & found.keys())
              if wanted[name] != found[name]]
    return lines


def make(table):
    """{release: {name: prototype}} as the lines of the list"""
    releases = sorted(table, key=key)
    spans = []
    for i, functions in enumerate(table[r] for r in releases):
        for name in sorted(functions):
            for span in spans:
                if span[2] == functions[name] and span[1] == i - 1:
                    span[1] = i
                    break
            else:
                spans.append([i, i, functions[name]])
    return ["# Host functions of nccl.h, as the headers of the Python packages have them: made by prototypes.py make.",
            "# releases: " + " ".join(releases)] + [
        f"{releases[first]} {releases[last]} {text}"
        for first, last, text in sorted(spans, key=lambda s: (re.search(r"(nccl\w+)\(", s[2]).group(1), s[0]))]


def standin(rows, standin_def, tests):
    functions = re.findall(r"^(?:CALL|HAND)\((nccl\w+),", open(rows, encoding="utf-8").read(), re.M)
    there = {"nccl" + name for name in re.findall(r"^NCCL\([\w *]+, (\w+),", open(standin_def, encoding="utf-8").read(), re.M)}
    called = set(re.findall(r"\bnccl\w+", "\n".join(open(test, encoding="utf-8").read() for test in tests)))
    # the other spelling of a function that is called, with its body
    alike = {name for name in functions if name.endswith("Config") and name.removesuffix("Config") in called} | {"ncclBcast"}
    return [f"{standin_def}: the stand-in has no {name}" for name in functions if name not in there] + [
        f"no test of the stand-in calls {name}" for name in functions if name in there - called - alike]


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    if sys.argv[1] in ("make", "add"):
        add = sys.argv[1] == "add"
        table = read_list(sys.argv[2])[1] if add else {}
        table.update({r: of_header(path) for r, path in (h.split("=", 1) for h in sys.argv[3 if add else 2:])})
        lines = "\n".join(make(table)) + "\n"
        if not add:
            print(lines, end="")
            return 0
        with open(sys.argv[2], "w", encoding="utf-8") as f:
            f.write(lines)
        return 0
    if sys.argv[1] == "standin":
        bad = standin(*sys.argv[2:4], sys.argv[4:])
        print("\n".join(bad) if bad else "the same")
        return 1 if bad else 0
    bad = []
    releases, table = read_list(sys.argv[2])
    if sys.argv[1] == "headers":
        for release, path in (h.split("=", 1) for h in sys.argv[3:]):
            bad += differences(release, table.get(release, table[releases[-1]]), of_header(path), "nccl.h")
    elif sys.argv[1] == "rows":
        for release in releases:
            if release == "2.30.4":  # there ncclParamHandle_t is the struct, not the pointer to it: the same register
                table[release] = {n: t.replace("ncclParamHandle_t*", "ncclParamHandle_t") for n, t in table[release].items()}
            bad += differences(release, table[release], of_rows(sys.argv[3], release, sys.argv[4:]), "nccl_calls.def")
        later = of_rows(sys.argv[3], "9.99.99", sys.argv[4:]).keys() - table[releases[-1]].keys()
        bad += [f"nccl_calls.def: {name} is younger than {releases[-1]}, the last release of the list: add its nccl.h with "
                "prototypes.py add" for name in sorted(later)]
    else:
        sys.exit(__doc__)
    print("\n".join(bad) if bad else f"{len(releases)} releases, {len(table[releases[-1]])} functions in the last: the same")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
