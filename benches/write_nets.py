"""Writes nets of bench_nets.py to files, for the benches that are written in Rust.

    python benches/write_nets.py FOLDER FAMILY:SIZE ...

For each entry FOLDER gets FAMILY-SIZE.pb, the serialized NetDef, and FAMILY-SIZE.ys: the number of
operators, then each target in a line of its own, behind a tab its gradient if one is given. Prints
the paths of the nets.
"""

import importlib
import pathlib
import sys

import bench_nets


def write(pb, folder, entry):
    """The path of the net of an entry like `chain:1000`, written anew."""
    family, _, size = entry.partition(":")
    case = bench_nets.build(pb, family, int(size))
    path = pathlib.Path(folder) / ("%s-%s.pb" % (family, size))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(case.net.SerializeToString())
    targets = ("\t".join(filter(None, target)) for target in case.ys.items())
    path.with_suffix(".ys").write_text("\n".join([str(case.ops), *targets]), encoding="utf-8")
    return path


def main():
    pb = importlib.import_module("ctrlgrad.caffe2_pb2")
    folder, *entries = sys.argv[1:]
    for entry in entries:
        print(write(pb, folder, entry))


if __name__ == "__main__":
    main()
