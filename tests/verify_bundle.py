#!/usr/bin/env python3
"""Verifies a bundle of the audit log: a second implementation, with nothing but the standard library.

    verify_bundle.py FILE [PUBLIC_KEY]     exit code 0: intact, 1: broken, 2: it cannot be told
    verify_bundle.py --vectors             its own vectors

It shares no code with the service. Ed25519 is RFC 8032, section 6; trees are RFC 9162, section 2.1.
"""
import hashlib
import json
import re
import sys


class Broken(Exception):
    pass


class Incomplete(Exception):
    pass


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


# Ed25519 (RFC 8032). Slow, and for public values only.
P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT_OF_MINUS_ONE = pow(2, (P - 1) // 4, P)


def add(a, b):
    e = (a[1] - a[0]) * (b[1] - b[0]) % P
    f = (a[1] + a[0]) * (b[1] + b[0]) % P
    g, h = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    x, y, z, t = f - e, h - g, h + g, f + e
    return (x * y % P, z * t % P, y * z % P, x * t % P)


def times(number, point):
    result = (0, 1, 1, 0)
    while number:
        if number & 1:
            result = add(result, point)
        point = add(point, point)
        number >>= 1
    return result


def same(a, b):
    return (a[0] * b[2] - b[0] * a[2]) % P == 0 and (a[1] * b[2] - b[1] * a[2]) % P == 0


def point_of(data):
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & ((1 << 255) - 1)
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT_OF_MINUS_ONE % P
    if (x * x - square) % P or (x == 0 and sign):
        return None
    if x & 1 != sign:
        x = P - x
    return (x, y, 1, x * y % P)


BASE = point_of((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))


def signature_is_good(public, message, signature):
    if len(public) != 32 or len(signature) != 64:
        return False
    key, commitment = point_of(public), point_of(signature[:32])
    s = int.from_bytes(signature[32:], "little")
    if key is None or commitment is None or s >= ORDER:
        return False
    challenge = hashlib.sha512(signature[:32] + public + message).digest()
    challenge = int.from_bytes(challenge, "little") % ORDER
    return same(times(s, BASE), add(commitment, times(challenge, key)))


# Trees, by the algorithm of RFC 9162, section 2.1.3.2.
def leaf(data):
    return sha256(b"\x00", data)


def root_by_path(index, size, hash_of_leaf, path):
    if index >= size:
        return None
    place, last, result = index, size - 1, hash_of_leaf
    for other in path:
        if last == 0:
            return None
        if place & 1 or place == last:
            result = sha256(b"\x01", other, result)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            result = sha256(b"\x01", result, other)
        place, last = place >> 1, last >> 1
    return result if last == 0 else None


def canonical(value):
    """RFC 8785, as far as this file needs it: keys in ASCII, whole numbers."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8")


def unhex(text, length=32):
    data = bytes.fromhex(text)
    if len(data) != length or data.hex() != text:
        raise ValueError("not a hash")
    return data


def read(file):
    line = file.readline()
    if not line.endswith(b"\n"):
        raise Incomplete("the file ends before its proof")
    return json.loads(line)


TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")


def time_of(text):
    """Times in this one form are in the order of their texts."""
    if not isinstance(text, str) or not TIME.fullmatch(text):
        raise ValueError("not a time")
    return text


def period_of(header):
    given = [header.get("since"), header.get("until")]
    since, until = (None if text is None else time_of(text) for text in given)
    if header["v"] != (2 if since or until else 1):
        raise Broken("line 1: its version has no such period")
    if since and until and until <= since:
        raise Broken("line 1: the period ends before it begins")
    return since, until


def content_of(header, times, signed):
    """What the entries prove about the period: the neighbours show that none is left out."""
    since, until = period_of(header)
    if not since and not until:
        return ""
    if not (since and times[0] < since) and header["first"] != 1:
        raise Broken("line 1: the entry before the period is missing")
    if not (until and times[-1] >= until) and header["last"] != signed:
        raise Broken("line 1: the entry after the period is missing")
    inside = sum((not since or at >= since) and (not until or at < until) for at in times)
    reach = "" if until and times[-1] >= until else " up to the checkpoint"
    return f"\n{inside or 'no'} entries in this period{reach}: {since} to {until}"


def verify_entries(file, header, times):
    previous = unhex(header["previous_hash"])
    if not 1 <= header["first"] <= header["last"]:
        raise Broken("line 1: no chain has such places")
    if header["first"] == 1 and previous != bytes(32):
        raise Broken("line 1: nothing is before the first entry")
    for sequence in range(header["first"], header["last"] + 1):
        line = read(file)
        entry = line["entry"].encode("utf-8")
        said = json.loads(entry)
        where = f"entry {sequence} of firm {header['firm_id']}"
        if canonical(said) != entry:
            raise Broken(f"{where}: its bytes are not canonical")
        if (said["firm_id"], said["sequence"], said["v"]) != (header["firm_id"], sequence, 1):
            raise Broken(f"{where}: it is of another firm, place or version")
        if sha256(previous, entry) != unhex(line["hash"]):
            raise Broken(f"{where}: its hash is not that of its bytes and the hash before")
        previous = unhex(line["hash"])
        times.append(time_of(said["at"]))
    return previous


def verify(file, believed):
    header = read(file)
    if header["bundle"] != "firmforms-audit" or header["v"] not in (1, 2):
        raise Incomplete("not a bundle of version 1 or 2")
    period_of(header)
    times = []
    last = verify_entries(file, header, times)
    proof = read(file)
    if file.read(1):
        raise Broken("nothing belongs after the proof")
    head, signed = proof["head"], proof["signed"]
    said = signed["checkpoint"]
    if head["firm_id"] != header["firm_id"] or header["last"] > head["sequence"]:
        raise Broken("the head is of another chain")
    path = [unhex(text) for text in proof["entry_path"]]
    root = root_by_path(header["last"] - 1, head["sequence"], leaf(last), path)
    if root != unhex(head["root"]):
        raise Broken("the last entry is not in the tree of the firm's entries")
    if header["last"] == head["sequence"] and last != unhex(head["hash"]):
        raise Broken("the last entry is not the head")
    path = [unhex(text) for text in proof["head_path"]]
    root = root_by_path(proof["head_index"], said["firms"], leaf(canonical(head)), path)
    if root != unhex(said["heads"]):
        raise Broken("the head is not in the tree of all heads")
    public = unhex(signed["public_key"])
    message = b"firmforms audit checkpoint v1\n" + canonical(said)
    if not signature_is_good(public, message, unhex(signed["signature"], 64)):
        raise Broken("the signature is not that of its key over what it says")
    if sha256(public).hex()[:16] != said["key_id"]:
        raise Broken("the key has another id")
    if believed is not None and public != believed:
        raise Broken("it is signed with a key that is not believed")
    first, of = header["first"], head["sequence"]
    content = content_of(header, times, of)
    return f"intact: entries {first} to {header['last']} of {of} of firm {header['firm_id']}{content}"


def vectors():
    # RFC 8032, section 7.1, tests 1 and 2.
    for public, message, signature in [
        ("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
         "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e3970"
         "1cf9b46bd25bf5f0595bbe24655141438e7a100b"),
        ("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
         "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613"
         "d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"),
    ]:
        public, message, signature = map(bytes.fromhex, (public, message, signature))
        assert signature_is_good(public, message, signature)
        assert not signature_is_good(public, message + b"x", signature)
    # Certificate Transparency's: the root over eight leaves, from the third one up.
    leaves = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657",
              "606162636465666768696a6b6c6d6e6f"]
    level = [leaf(bytes.fromhex(text)) for text in leaves]
    path, place = [], 2
    start = level[place]
    while len(level) > 1:
        path.append(level[place ^ 1])
        level = [sha256(b"\x01", *level[at:at + 2]) for at in range(0, len(level), 2)]
        place >>= 1
    root = "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"
    assert root_by_path(2, 8, start, path).hex() == root
    assert root_by_path(3, 8, start, path).hex() != root
    return "the vectors hold"


def main(arguments):
    if arguments == ["--vectors"]:
        print(vectors())
        return 0
    believed = bytes.fromhex(arguments[1]) if len(arguments) > 1 else None
    try:
        with open(arguments[0], "rb") as file:
            print(verify(file, believed))
        return 0
    except (Broken, ValueError, KeyError, TypeError) as why:
        print(f"BROKEN: {why}")
        return 1
    except (Incomplete, OSError) as why:
        print(f"INCOMPLETE: {why}")
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
