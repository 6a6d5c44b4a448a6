#!/usr/bin/env python3
"""Reads an archive of the log with the standard library alone.

    read_archive.py DIR verify                 compares events, blocks, seals and links
    read_archive.py DIR stream ID              all events of a delivery or an occurrence
    read_archive.py DIR firm ID [2026-03]      the events of a firm, of a month

Exit code 0: as the manifests say, 1: broken. Signatures are `firmforms archive verify`'s work.
"""
import gzip
import hashlib
import json
import pathlib
import sys
import uuid

class Broken(Exception):
    pass


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def canonical(value):
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def root(leaves):
    """The root of a tree (RFC 6962) over hashed leaves."""
    while len(leaves) > 1:
        odd = leaves[len(leaves) // 2 * 2:]
        leaves = [sha256(b"\1", *leaves[i:i + 2]) for i in range(0, len(leaves) - 1, 2)] + odd
    return leaves[0] if leaves else sha256()


def manifests(folder):
    for path in sorted(folder.glob("*.json")):
        yield json.loads(path.read_text())["manifest"]


def block_lines(events, block):
    """Yields position and bytes of each event of a block."""
    events.seek(block["offset"])
    packed = events.read(block["bytes"])
    if hashlib.sha256(packed).hexdigest() != block["sha256"]:
        raise Broken(f"block {block['number']}: its bytes are not those of the manifest")
    for line in gzip.decompress(packed).splitlines():
        position, event = line.removeprefix(b'{"position":').split(b',"event":', 1)
        yield int(position), event[:-1]


def verify(folder):
    count, seal, before = 0, None, None
    for manifest in manifests(folder):
        if before and manifest["manifest_before"] != before:
            raise Broken(f"segment {manifest['number']} does not follow the one before")
        seal = seal or bytes.fromhex(manifest["seal_before"])
        with open(folder / manifest["events_file"]["name"], "rb") as events:
            for block in manifest["blocks"]:
                lines = block_lines(events, block)
                leaves = [sha256(b"\0", at.to_bytes(8, "big"), sha256(event)) for at, event in lines]
                sealed = {"events": len(leaves), "last_position": block["number"] * 1024,
                          "number": block["number"], "root": root(leaves).hex()}
                seal = sha256(seal, canonical(sealed))
                count += len(leaves)
        if seal.hex() != manifest["last_seal"]:
            raise Broken(f"segment {manifest['number']}: its seals do not follow each other")
        before = sha256(canonical(manifest)).hex()
    print(f"{count} events, last seal {seal.hex() if seal else 'none'}")


def blocks_of(folder, manifest, stream):
    index = (folder / manifest["index_file"]["name"]).read_bytes()
    key = uuid.UUID(stream).bytes
    records = (index[at:at + 24] for at in range(0, len(index), 24))
    return {int.from_bytes(record[16:], "big") for record in records if record[:16] == key}


def find(folder, column, wanted, month=""):
    for manifest in manifests(folder):
        blocks = manifest["blocks"]
        if column == "aggregate_id":
            numbers = blocks_of(folder, manifest, wanted)
            blocks = [block for block in blocks if block["number"] in numbers]
        with open(folder / manifest["events_file"]["name"], "rb") as events:
            for position, text in (line for block in blocks for line in block_lines(events, block)):
                event = json.loads(text)
                if event[column] == wanted and event["recorded_at"].startswith(month):
                    print(position, text.decode())


if __name__ == "__main__":
    place, command, *rest = sys.argv[1:]
    try:
        if command == "verify":
            verify(pathlib.Path(place))
        else:
            columns = {"stream": "aggregate_id", "firm": "firm_id"}
            find(pathlib.Path(place), columns[command], *rest)
    except Broken as broken:
        sys.exit(f"BROKEN: {broken}")
