"""tests/data/signatures/streams.py: TCP conversations, and rules for what is said in them, for ./make."""
import random

import pcre  # beside it

BINARY = b"aabbAB\x00\x01\x02\x03 1"
WORDS = [b"login", b"Password", b"admin", b"select", b"UNION", b"index.html", b"cmd.exe", b"id=17", b"../..", b"root",
         b"token", b"%20", b"passwd", b"Upload", b"shell", b"x=1&y=2"]
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16


class Texts:
    """What sides say."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def words(self, count, between=b" "):
        return between.join(self.random.choice(WORDS) for _ in range(count))

    def binary(self, size):
        return bytes(self.random.choice(BINARY) for _ in range(size))

    def request(self, size):
        text = self.random.choice([b"GET", b"POST"]) + b" /" + self.words(2, b"/") + b" HTTP/1.1\r\n"
        text += b"Host: " + self.words(1) + b".example.com\r\nUser-Agent: " + self.words(2) + b"\r\n"
        body = self.words(max(1, size // 10))
        return text + b"Content-Length: %d\r\n\r\n" % len(body) + body

    def answer(self, size):
        body = self.words(max(1, size // 8), b"\n")
        return b"HTTP/1.1 200 OK\r\nServer: " + self.words(1) + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    def lines(self, size):
        text = b""
        while len(text) < size:
            text += self.words(self.random.randint(1, 5)) + b"\r\n"
        return text

    def pair(self, kind, least, most):
        sizes = [self.random.randint(least, most) for _ in range(2)]
        if kind == "http":
            return [self.request(sizes[0]), self.answer(sizes[1])]
        one = self.lines if kind == "lines" else self.binary
        return [one(size) for size in sizes]


PORTS = {"http": 80, "lines": 2525, "binary": 7777}


class Conversations:
    """Connections of a few hosts, several of them at a time, each with a client's port of its own."""

    def __init__(self, seed, make):
        self.random = random.Random(seed)
        self.texts = Texts(seed + 1)
        self.make = make  # ethernet, ipv4, ipv6, tcp
        self.said = []  # server's port, and both texts

    def one_in(self, count):
        return self.random.randrange(count) == 0

    def cut(self, text, most):
        pieces, at = [], 0
        while at < len(text):
            size = self.random.randint(1, self.random.choice([8, 100, most]))
            pieces.append((at, text[at:at + size]))
            at += size
        return pieces

    def moved(self, pieces):
        """Some come early, by a place or two."""
        pieces = list(pieces)
        for i in range(len(pieces) - 1):
            if self.one_in(4):
                other = min(len(pieces) - 1, i + self.random.randint(1, 2))
                pieces[i], pieces[other] = pieces[other], pieces[i]
        return pieces

    def again(self, pieces, text):
        """Some come again, the same, in other pieces."""
        made = []
        for at, piece in pieces:
            made.append((at, piece))
            if self.one_in(5):
                begin = max(0, at - self.random.randint(0, 60))
                end = at + self.random.randint(0, len(piece))
                if end > begin:
                    made.append((begin, text[begin:end]))
        return made

    def conversation(self, number, kind, least, most, ways):
        """Its frames. ways: what may become of its segments, "moved", and of some connections "lost"."""
        if not self.one_in(3):
            ways = [way for way in ways if way != "lost"]
        texts = self.texts.pair(kind, least, most)
        ports = [10000 + number, PORTS[kind]]
        self.said.append((ports[1], texts))
        form = "2001:db8::{}" if self.one_in(4) else "192.0.2.{}"
        ends = [form.format(self.random.randint(1, 4) + 10 * i) for i in range(2)]
        return self.frames(texts, ends, ports, self.random.choice([(), (), (), (7,), (7, 9)]), most, ways)

    def frames(self, texts, ends, ports, tags=(), most=1400, ways=()):
        """ends, ports: the client's first."""
        ethernet, ipv4, ipv6, tcp = (self.make[name] for name in ("ethernet", "ipv4", "ipv6", "tcp"))
        v6 = ":" in ends[0]
        first = [self.random.choice([self.random.randrange(1 << 32), (1 << 32) - 100]) for _ in range(2)]
        reached = [0, 0]
        frames = []

        def send(side, flags, at, data=b""):
            other = 1 - side
            ack = (first[other] + reached[other]) % (1 << 32) if flags & ACK else 0
            body = tcp(data, sport=ports[side], dport=ports[other], seq=(first[side] + at) % (1 << 32), ack=ack,
                       flags=flags, window=65000)
            packet = ipv6(6, body, src=ends[side], dst=ends[other]) if v6 else ipv4(
                6, body, src=ends[side], dst=ends[other], number=len(frames))
            frames.append(ethernet(0x86DD if v6 else 0x0800, packet, tags))

        send(0, SYN, 0)
        reached[0] = 1
        send(1, SYN | ACK, 0)
        reached[1] = 1
        if not self.one_in(6):
            send(0, ACK, 1)
        queues = []
        for text in texts:
            pieces = self.cut(text, 300 if most < 2000 else 1400)
            if "moved" in ways:
                pieces = self.moved(pieces)
            queues.append(self.again(pieces, text))
        side, come = 0, [set(), set()]
        while queues[0] or queues[1]:
            for _ in range(self.random.randint(1, 4)):
                if not queues[side]:
                    break
                at, piece = queues[side].pop(0)
                if "lost" in ways and self.one_in(12):
                    # It is not in the capture, and its receiver has it.
                    come[side].update(range(at, at + len(piece)))
                    continue
                send(side, ACK | PSH, 1 + at, piece)
                come[side].update(range(at, at + len(piece)))
                while reached[side] - 1 in come[side]:
                    reached[side] += 1
            if self.one_in(2):
                send(1 - side, ACK, reached[1 - side])
            side = 1 - side
        while reached[0] - 1 in come[0]:
            reached[0] += 1
        while reached[1] - 1 in come[1]:
            reached[1] += 1
        if self.one_in(4):
            send(side, RST | ACK, reached[side])
            return frames
        for one in (side, 1 - side):
            send(one, FIN | ACK, reached[one])
            reached[one] += 1
        send(side, ACK, reached[side])
        return frames

    def run(self, count, least, most, ways=()):
        """Their frames: of several at a time, a few frames each in turn."""
        waiting = [self.conversation(i, self.random.choice(["http", "lines", "binary", "binary"]), least, most, ways)
                   for i in range(count)]
        under_way, frames = [], []
        while waiting or under_way:
            while waiting and len(under_way) < 4:
                under_way.append(waiting.pop(0))
            one = self.random.choice(under_way)
            for _ in range(self.random.randint(1, 3)):
                if one:
                    frames.append(one.pop(0))
            if not one:
                under_way.remove(one)
        return frames


class Rules:
    """For what was said: pieces of a text, where they stand or next to that."""

    def __init__(self, seed, said):
        self.random = random.Random(seed)
        self.said = said
        self.expressions = pcre.Rules(seed + 1)

    def one_in(self, count):
        return self.random.randrange(count) == 0

    def near(self, number, by=2):
        return number if self.one_in(2) else number + self.random.randint(-by, by)

    def literal(self, some, negated=False):
        words = []
        if self.one_in(3):
            some = some.swapcase() if self.one_in(2) else some
            words = ["nocase"]
        elif self.one_in(15):
            some = bytes([some[0] ^ 1]) + some[1:]
        return [f'content:{"!" if negated else ""}"|{some.hex(" ")}|"'] + words

    def placed(self, some, at):
        """From the text's start."""
        if at == 0 and self.one_in(2):
            return ["startswith"]
        offset = max(0, self.near(at, 3) - self.random.choice([0, 0, 5, 50]))
        words = [f"offset:{offset}"] if not self.one_in(3) else []
        if self.one_in(2):
            words.append(f"depth:{max(len(some), self.near(at + len(some) - (offset if words else 0)))}")
        return words

    def behind(self, some, gap):
        words = [f"distance:{self.near(gap) - self.random.choice([0, 0, 3])}"] if not self.one_in(3) else []
        if not words or self.one_in(2):
            words.append(f"within:{max(len(some), self.near(gap + len(some)))}")
        return words

    def expression(self, text, at):
        """Regular, for what stands at a place; or any."""
        if self.one_in(4):
            return [self.expressions.pcre(True)]
        size = self.random.randint(1, 4)
        some, rest = text[at:at + size], text[at + size:at + size + 3]
        escaped = lambda part: "".join(f"\\x{byte:02x}" for byte in part)
        body = escaped(some) + self.random.choice(["", ".{0,4}", "[^\\n]*", ".+?", "\\s*"]) + escaped(rest)
        return [f'pcre:"/{body}/{self.random.choice(["", "s", "i", "si"])}{self.random.choice(["", "", "R"])}"']

    def number(self, text, at, end):
        size = self.random.choice([1, 1, 2])
        if at + size > len(text):
            return []
        value = int.from_bytes(text[at:at + size], "big")
        if self.one_in(3):
            jump = self.random.choice(["", ",multiplier 2", ",post_offset 1", ",align"])
            return [f"byte_jump:{size},{at - end},relative{jump}"]
        if self.one_in(4):
            return [f"byte_extract:{size},{at - end},n,relative", f"byte_test:1,<,n,{self.random.randint(0, 3)},relative"]
        return [f"byte_test:{size},{self.random.choice(['=', '<', '>', '!='])},{max(0, self.near(value, 1))},{at - end},relative"]

    def steps(self, text):
        words, at, end = [], self.random.choice([0, self.random.randrange(len(text))]), None
        searched = False
        for i in range(self.random.choice([1, 1, 2, 2, 3, 4])):
            size = self.random.randint(2 if i == 0 else 1, 10)
            some = text[at:at + size]
            if not some:
                break
            words += self.literal(some)
            if end is None:
                words += self.placed(some, at) if self.one_in(3) else []
            elif not self.one_in(4):
                words += self.behind(some, at - end)
            if not searched and self.one_in(8):
                words.append("fast_pattern")
                searched = True
            end = at + len(some)
            if self.one_in(8):
                words += self.number(text, end + self.random.randint(0, 2), end)
            if self.one_in(10):
                words.append(f"isdataat:{self.near(min(len(text) - end, self.random.choice([5, 2000])))},relative")
            if self.one_in(6):
                words += self.expression(text, min(end, max(0, len(text) - 4)))
            at = end + self.random.choice([0, 1, 3, self.random.randrange(200)])
        if self.one_in(8):
            absent = text[self.random.randrange(len(text)):][:self.random.randint(2, 6)] if self.one_in(3) else bytes(
                self.random.choice(BINARY) for _ in range(self.random.randint(2, 4)))
            words += self.literal(absent, negated=True)
            if self.one_in(2):
                words.append(f"within:{len(absent) + self.random.randint(0, 30)}")
        return words

    def rule(self, sid, action="alert"):
        port, texts = self.random.choice(self.said)
        side = self.random.randrange(2)
        protocol = self.random.choice(["tcp"] * 6 + ["tcp-stream", "tcp-pkt"])
        ports = self.random.choice([("any", "any"), ("any", port) if side == 0 else (port, "any"), ("!80", "any")])
        way = self.random.choice(["", "", ["to_server", "to_client"][side], ["from_client", "from_server"][side]])
        if way and self.one_in(10):
            way = "to_client"
        asked = [word for word in (way, self.random.choice(["", "", "established", "stateless"])) if word]
        if self.one_in(12) and protocol == "tcp":
            asked.append(self.random.choice(["only_stream", "no_stream"]))
        words = ["flow:" + ",".join(asked)] if asked else []
        words += self.steps(texts[side])
        return f'{action} {protocol} any {ports[0]} -> any {ports[1]} ({"; ".join(words)}; sid:{sid};)'

    def group(self, first):
        """Seven of which some pass, drop or reject, and the others alert."""
        return "".join(self.rule(sid, self.random.choice(["pass", "drop", "reject", "alert", "alert", "alert", "alert"])) +
                       "\n" for sid in range(first, first + 7))
