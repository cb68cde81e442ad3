"""tests/data/signatures/hellos.py: TLS clients' first words, as they should be and not, for ./make."""
import random
import struct

NAMES = [b"www.example.com", b"bad.example", b"WWW.Bad.Example", b"a.b.c.d.e", b"xn--bcher-kva.example", b"localhost",
         b"cdn-1.static.example.net", b"x" * 63 + b".example.org", b"bad.example.org", b"notbad.example"]
SYN, PSH, ACK, FIN = 2, 8, 16, 1


def sized(width, data):
    return len(data).to_bytes(width, "big") + data


def extension(kind, data):
    return struct.pack("!H", kind) + sized(2, data)


def server_name(name, kind=0, behind=b""):
    return extension(0, sized(2, bytes([kind]) + sized(2, name) + behind))


def hello(extensions, session=b"s" * 32, kind=1):
    body = b"\x03\x03" + b"r" * 32 + sized(1, session) + sized(2, b"\x13\x01\x13\x02\xc0\x2b") + sized(1, b"\0")
    return bytes([kind]) + sized(3, body + sized(2, extensions))


def record(data, kind=22, version=b"\x03\x01"):
    return bytes([kind]) + version + sized(2, data)


GROUPS = extension(10, sized(2, b"\0\x1d\0\x17"))
VERSIONS = extension(43, sized(1, b"\x03\x04\x03\x03"))


def odd_ones():
    """Each with what is odd about it."""
    name = b"bad.example"
    entry = b"\0" + sized(2, name)
    yield record(hello(GROUPS + VERSIONS))
    yield record(hello(server_name(b"") + GROUPS))
    yield record(hello(GROUPS + extension(0, b"") + server_name(name)))
    yield record(hello(server_name(name) + server_name(b"good.example")))
    yield record(hello(server_name(name + b"\0good")))
    yield record(hello(server_name(b"\0" + name)))
    yield record(hello(server_name(b"y" * 255)))
    yield record(hello(server_name(b"y" * 256 + name)))
    yield record(hello(server_name(name, kind=1)))
    yield record(hello(extension(0, sized(2, entry + entry))))
    yield record(hello(server_name(name), session=b""))
    yield record(hello(server_name(name), kind=2))
    yield record(hello(server_name(name)), version=b"\x03\x03")
    yield record(hello(server_name(name)), version=b"\x03\x04")
    yield b"x" + record(hello(server_name(name)))
    yield record(b"\x02\x28", kind=21) + record(hello(server_name(name)))
    yield record(hello(extension(21, b"\0" * 1500) + server_name(name)))
    message = hello(GROUPS + server_name(name))
    yield record(message[:60]) + record(message[60:])
    yield record(message[:-4]) + record(message[-4:])
    yield record(message) + record(b"\1", kind=20) + record(b"x" * 40, kind=23)


def connection(make, number, text, cuts):
    """Its frames. The client says the text, cut at these places, and the server acknowledges."""
    src, dst, sport = "192.168.1.5", "198.51.100.7", 20000 + number

    def frame(up, flags, at, seen, payload=b""):
        ends = dict(src=src, dst=dst) if up else dict(src=dst, dst=src)
        ports = dict(sport=sport, dport=443) if up else dict(sport=443, dport=sport)
        body = make["tcp"](payload, seq=(1000 if up else 9000) + at, ack=(9000 if up else 1000) + seen, flags=flags,
                           window=65535, **ports)
        return make["ethernet"](0x0800, make["ipv4"](6, body, number=number, **ends))

    frames = [frame(True, SYN, 0, 0), frame(False, SYN | ACK, 0, 1), frame(True, ACK, 1, 1)]
    places = [0, *sorted(set(cuts)), len(text)]
    for first, end in zip(places, places[1:]):
        frames.append(frame(True, PSH | ACK, 1 + first, 1, text[first:end]))
        frames.append(frame(False, ACK, 1, 1 + end))
    answer = record(b"\x02" + sized(3, b"\x03\x03" + b"R" * 32 + b"\0\x13\x01\0"))
    frames.append(frame(False, PSH | ACK, 1, 1 + len(text), answer))
    frames.append(frame(True, ACK, 1 + len(text), 1 + len(answer)))
    return frames


def run(seed, make):
    chance = random.Random(seed)
    texts = [record(hello(GROUPS + server_name(name) + VERSIONS)) for name in NAMES] + list(odd_ones())
    frames = []
    for number, text in enumerate(texts * 3):
        cuts = [chance.randint(1, len(text) - 1) for _ in range(number // len(texts) * 2)]
        frames += connection(make, number, text, cuts)
    return frames


RULES = r"""alert tls any any -> any any (tls.sni; content:"bad.example"; sid:1;)
alert tls any any -> any any (flow:established,to_server; tls.sni; content:"bad.example"; endswith; nocase; sid:2;)
alert tls any any -> any any (tls.sni; dotprefix; content:".bad.example"; endswith; sid:3;)
alert tls any any -> any any (tls.sni; dotprefix; content:".bad.example"; nocase; endswith; sid:4;)
alert tls any any -> any any (tls.sni; content:!"bad"; sid:5;)
alert tls any any -> any any (tls.sni; content:"e"; bsize:11; sid:6;)
alert tls any any -> any any (tls.sni; content:"y"; bsize:>200; sid:7;)
alert tls any any -> any any (tls.sni; content:"www."; startswith; sid:8;)
alert tls any any -> any any (tls.sni; pcre:"/^[a-z]\.[a-z]/"; sid:9;)
alert tcp any any -> any 443 (tls.sni; content:"example"; content:"."; distance:0; sid:10;)
alert tcp any any -> any 443 (tls.sni; content:"good"; sid:11;)
alert tls any any -> any any (tls.sni; isdataat:16; sid:12;)
alert tls any any -> any any (flow:to_client; tls.sni; content:"bad"; sid:13;)
alert tcp any any -> any any (content:"bad.example"; sid:14;)
"""
