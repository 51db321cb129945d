#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the stored topology of a machine as NCCL's XML: topologies.py NAME.

A machine is a table: its processors with their PCI trees, and the attributes of each kind of device. In a tree a word is
the bus of a GPU, "*" marks a NIC, and parentheses follow a PCI switch. Devices are numbered in the order of the tree.
Files of Amazon and Microsoft that are copies (p4d, ndv4, ndv5) are in topologies/ as they came.
"""
import re
import sys

XEON = 'arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="%d"'
AMD = 'arch="x86_64" vendor="AuthenticAMD" familyid="%d" modelid="%d"'
GRACE = 'arch="arm64" vendor="ARM" familyid="0" modelid="0"'


def ids(vendor, device, subsystem="0x0000"):
    return f'vendor="{vendor}" device="{device}" subsystem_vendor="{vendor}" subsystem_device="{subsystem}" '


def lanes(gts, width=16):
    return f'link_speed="{gts}" link_width="{width}"'


def by_numa(attributes, *cpus):
    return [(f'numaid="{i}" affinity="{mask}" {attributes}', tree) for i, (mask, tree) in enumerate(cpus)]


def machine(cpus, sm, gpu, links, nic="0x1021", mbs=400000, switch=("0x10b5", "0x9797"), gts="32.0 GT/s PCIe", **more):
    """@gpu, @nic, @switch: PCI ids; @links: NVLinks of a GPU as (target, count), to switches; a dict: to GPUs, by its bus"""
    return {"cpus": cpus, "sm": sm, "links": links, "rank": "", "gpu": ids("0x10de", *gpu.split()) + lanes(gts),
            "nic": 'class="0x020700" ' + ids("0x15b3", *nic.split()) + lanes(gts), "switch": ids(*switch) + lanes(gts),
            "net": f'name="mlx5_{{n}}" dev="{{n}}" speed="{mbs}" port="1" latency="0.000000" guid="0x{{guid:x}}" maxconn="131072" gdr="1"'} | more


def links_to(targets, count):
    return [(bus, count) for bus in targets.split()]


def cube(*rows):
    """"06 07 0b:2": the GPU at 06 has a link to 07 and two to 0b"""
    return {row[:2]: [(word[:2], word[3:] or "1") for word in row.split()[1:]] for row in rows}


DGX1 = by_numa(XEON % 79, ("0000,0fffff00,000fffff", "03(06 07 05*) 08(0a 0b 0c*)"), ("ffff,f00000ff,fff00000", "82(85 86 84*) 87(89 8a 8b*)"))
HGX = by_numa(XEON % 143, ("00000000,0000ffff,ffffffff", "16(1b 18*) 3e(43 40*) 4d(52 4f*) 5c(61 5e*)"),
          ("ffffffff,ffff0000,00000000", "98(9d 9a*) be(c3 c0*) cc(d1 ce*) da(df dc*)"))
TRAY = by_numa(GRACE, ("ff,ffffffff,ffffffff", "0008:01 0000:03* 0009:01 0002:03*"),
           ("ffff,ffffffff,ffffff00,00000000,00000000", "0018:01 0010:03* 0019:01 0012:03*"))
HOPPER, BLACKWELL = links_to("04", 5) + links_to("05 06", 4) + links_to("07", 5), links_to("04 05", 9)

MACHINES = {
    "dgx1p": machine(DGX1, 60, "0x15f9", cube("06 07 0a 0b 85", "07 06 0a 0b 86", "0a 06 07 0b 89", "0b 06 07 0a 8a", "85 06 86 89 8a",
                                              "86 07 85 89 8a", "89 0a 85 86 8a", "8a 0b 85 86 89"),
                     "0x1013", 100000, ("0x10b5", "0x8764"), "8 GT/s"),
    "dgx1v": machine(DGX1, 70, "0x1db5 0x1249",
                     cube("06 07 0a 0b:2 85:2", "07 86:2 0a:2 0b 06", "0a 89 0b:2 06 07:2", "0b 06:2 07 0a:2 8a",
                          "85 06:2 86 89 8a:2", "86 89:2 8a 85 07:2", "89 8a:2 85 86:2 0a", "8a 0b 85:2 86 89:2"),
                     "0x1013 0x0003", 100000, ("0x10b5", "0x8764", "0x8764"), "8 GT/s", rank=' rank="{n}"',
                     second=ids("0x10b5", "0x8780", "0x8780") + lanes("8 GT/s"), seconds=("08", "87")),
    "dgx2": machine(by_numa(XEON % 85, ("00000000,00ffffff,00000000,00ffffff", "2b(32(34 36 35*) 37(39 3b 3a*)) 4e(55(57 59 58*) 5a(5c 5e 5d*))"),
                        ("ffffff00,00000000,ffffff00,00000000", "ae(b5(b7 b9 b8*) ba(bc be bd*)) d7(de(e0 e2 e1*) e3(e5 e7 e6*))")),
                    70, "0x1db8", links_to("c1 c2 c3 c5 c6 c7", 1), "0x1013", 100000, ("0x10b5", "0x9781", "0x9781"), "8.0 GT/s PCIe",
                    second=ids("0x10b5", "0x9781") + lanes("8.0 GT/s PCIe"), seconds=("2b", "4e", "ae", "d7")),
    "dgxa100": machine([(f'numaid="{numa}" affinity="{mask}" {AMD % (143, 49)}', tree) for numa, mask, tree in (
                            (3, "0000ffff", "01(07 0c* 0f 12*)"), (1, "ffff0000", "41(47 4b* 4e 54*)"),
                            (7, "0000ffff,00000000", "81(87 8d* 90 94*)"), (5, "ffff0000,00000000", "b1(b7 ba* bd cc*)"))],
                       80, "0x20b0", links_to("c4 c5 c6 c7 c8 c9", 2), "0x101b", 200000, ("0x1000", "0xc010"), "16.0 GT/s PCIe"),
    "p5": {"cpus": by_numa(AMD % (25, 17), ("00000000,00000000,0000ffff,ffffffff",
                                        "00(4f 50* 51* 52* 53*) 01(60 61* 62* 63* 64*) 02(70 71* 72* 73* 74*) 03(80 81* 82* 83* 84*) "
                                        "04(90 91* 92* 93* 94*) 05(a0 a1* a2* a3* a4*) 06(b0 b1* b2* b3* b4*) 07(c0 c1* c2* c3* c4*)")),
           "sm": 90, "links": [], "rank": ' rank="{n}"', "gpu": lanes("32.0 GT/s PCIe"), "switch": lanes("16.0 GT/s PCIe"),
           "nic": 'class="0x020000" ' + lanes("16.0 GT/s PCIe", 8),
           "net": 'name="rdmap{efa}s0" dev="{n}" speed="100000" port="1" latency="0.0" guid="{n}" maxconn="1024" gdr="1"'},
    "hgxh100": machine(HGX, 90, "0x2330", HOPPER),
    "hgxh200": machine(HGX, 90, "0x2335", HOPPER),
    "hgxb200": machine(HGX, 100, "0x2901", BLACKWELL),
    "gb200": machine(TRAY, 100, "0x2941", BLACKWELL),
    "gb300": machine(TRAY, 103, "0x31c2", BLACKWELL, "0x1023", 800000, gts="64.0 GT/s PCIe"),
}

ASF = "SPDX-License-Identifier: Apache-2.0\n"
NVL72 = ASF + """One compute tray of GB{0}00 NVL72: 2 Grace, 4 B{0}00 (18 NVLink 5 each to the rack's switches), 4 x {1}00 Gb/s.
Written from the public reference design. NVLink ends at the tray; the platform gb{0}00-nvl72 joins trays.
Not modelled: the C2C link between Grace and its GPUs. Not a dump."""

SOURCES = {
    "dgx1p": ASF + """DGX-1 with P100: 8 GPUs, 4 NVLink 1 each: both quads fully connected, each GPU to its counterpart.
Written from public wiring (NVIDIA DGX-1 white paper, 2017); PCI tree and bus ids as on the DGX-1V. Not a dump.""",
    "dgx1v": ASF + """DGX-1 with V100: 8 GPUs, hybrid cube mesh of NVLink 2, one 100 Gb/s NIC per PCIe switch.
Source: NCCL topology dump of a real DGX-1V (UCBerkeley-Spring2022-CS267-project/blinkplus,
Apache-2.0): GPUs, PCI tree, NVLinks as measured there. Changed: the dump machine had no InfiniBand; its Ethernet and bridge
interfaces are left out, and the four ConnectX-4 of the public DGX-1 block diagram are put behind the four PCIe switches.""",
    "dgx2": ASF + """DGX-2: 16 V100 on NVSwitch (6 NVLinks each), 8 x 100 Gb/s.
GPU and switch bus ids from the DGX-2 lstopo of the hwloc test suite (nvidiaDGX2.xml, BSD); the NICs, absent there, are
put one per pair of GPUs as in the public block diagram. Not an NCCL dump.""",
    "dgxa100": ASF + """DGX A100: 8 A100 on 6 NVSwitches (12 NVLink 3 each), one 200 Gb/s NIC per GPU, AMD EPYC.
Written from public wiring (NVIDIA DGX A100 system architecture white paper): a PCIe switch has two GPUs and two NICs. Not a dump.""",
    "p5": """Copyright (c) Amazon.com, Inc. or its affiliates. All rights reserved. SPDX-License-Identifier: Apache-2.0
AWS p5.48xlarge: 8 H100, 32 EFA of 100 Gb/s, PCI affinity only.
From topology/p5.48xl-topo.xml of aws/aws-ofi-nccl (commit 79565c0), rebuilt from its regular pattern. capo plan's platform p5 adds 18 NVLink 4
per GPU and 100 Gb/s per NIC. aws-ofi-nccl itself shows NCCL one grouped device per GPU.""",
    "hgxh100": ASF + """HGX H100 (DGX H100 and like): 8 H100 on 4 NVSwitches (18 NVLink 4 each: 5+4+4+5), one 400 Gb/s NIC per GPU.
Written from public wiring (NVIDIA DGX H100 system architecture); 18 links of 26.6 GB/s as nvidia-smi lists them. Not a dump.
On it NCCL 2.28.9 and 2.29.2 print the tuning tables that 2.29.2 logged on a real 8-H100 machine, digit for digit.""",
    "hgxh200": ASF + """HGX H200: 8 H200 on 4 NVSwitches (18 NVLink 4 each), one 400 Gb/s NIC per GPU.
Written from public wiring; for NCCL it differs from HGX H100 in nothing that it looks at. Not a dump.""",
    "hgxb200": ASF + """HGX B200: 8 B200 on 2 NVSwitches (18 NVLink 5 each), one 400 Gb/s NIC per GPU.
Written from the public block diagram; bus ids are those of an HGX H100. Not a dump.""",
    "gb200": NVL72.format(2, 4),
    "gb300": NVL72.format(3, 8),
}


def put(depth, line):
    print("  " * depth + line)


def put_gpu(m, depth, word, n):
    links = m["links"].get(word) if isinstance(m["links"], dict) else m["links"]
    put(depth, f'<gpu dev="{n}" sm="{m["sm"]}"{m["rank"].format(n=n)} gdr="1"{">" if links else "/>"}')
    for target, count in links:
        tclass = "0x030200" if isinstance(m["links"], dict) else "0x068000"
        put(depth + 1, f'<nvlink target="0000:{target}:00.0" count="{count}" tclass="{tclass}"/>')
    if links:
        put(depth, "</gpu>")


def main(name):
    m, gpus, nics = MACHINES[name], 0, 0
    print("<!--", SOURCES[name], "-->", '<system version="1">', sep="\n")
    for attributes, tree in m["cpus"]:
        put(1, f"<cpu {attributes}>")
        depth = 2
        for word, mark in re.findall(r"([\w:]+)([(*]?)|(?=\))", tree.replace(")", " )")):
            pci = f'<pci busid="{word if ":" in word else "0000:" + word}:00.0" '
            if mark == "(":
                put(depth, pci + 'class="0x060400" ' + m["second" if word in m.get("seconds", ()) else "switch"] + ">")
                depth += 1
                continue
            if not word:
                depth -= 1
            elif mark:
                put(depth, pci + m["nic"] + ">")
                put(depth + 1, "<nic>")
                put(depth + 2, "<net " + m["net"].format(n=nics, guid=0x1000 + nics, efa=79 + nics // 4 * 17 + nics % 4) + "/>")
                put(depth + 1, "</nic>")
                nics += 1
            else:
                put(depth, pci + 'class="0x030200" ' + m["gpu"] + ">")
                put_gpu(m, depth + 1, word, gpus)
                gpus += 1
            put(depth, "</pci>")
        put(1, "</cpu>")
    print("</system>")


if __name__ == "__main__":
    main(sys.argv[1])
