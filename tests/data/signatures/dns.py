"""tests/data/signatures/dns.py: DNS messages (RFC 1035) for ./make, well and ill, and rules that ask for what they
say."""
import random
import re
import struct

QUERY, ANSWER = 0x0100, 0x8180


def name(text):
    """As a message has it: a dot ends a label."""
    if isinstance(text, bytes):
        return text
    labels = [label.encode("latin-1") for label in text.split(".") if label]
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def question(text, kind=1):
    return name(text) + struct.pack("!HH", kind, 1)


def record(kind, data, owner=b"\xc0\x0c", length=None):
    return name(owner) + struct.pack("!HHIH", kind, 1, 60, len(data) if length is None else length) + data


def message(questions=(), answers=(), authorities=(), additional=(), flags=QUERY, number=7, counts=None, more=b""):
    counts = counts or tuple(len(part) for part in (questions, answers, authorities, additional))
    return struct.pack("!HHHHHH", number, flags, *counts) + b"".join((*questions, *answers, *authorities,
                                                                      *additional)) + more


def query(text, **more):
    return message([question(text)], **more)


def pointer(to):
    return struct.pack("!H", 0xC000 | to)


def queries():
    """Each by itself, the first one of its flow, to port 53."""
    names = ["example.com", "www.example.com", "WWW.Example.COM", "notexample.com", "example.com.evil.org", "a", "",
             "com", "x" * 63 + ".com", ".".join(["y" * 63] * 4), ".".join(["z" * 50] * 30), ".".join("abcdefgh"),
             "a\0b.example.com", "\xff\xfe.com", "-._.example.com", "xn--exmple-cua.com", "aaaaaaaaaaab"]
    yield from (query(text) for text in names)
    # Operations, bits, and what says that it is an answer.
    for flags in (0x0000, 0x0800, 0x1000, 0x2000, 0x2800, 0x3800, 0x7800, 0x0140, 0x0200, 0x03FF, 0x8180, 0x8580,
                  0xA000):
        yield query("example.com", flags=flags)
    # No question, and several.
    yield message()
    yield message(flags=ANSWER)
    yield message([question("first.com"), question("second.com"), question("third.com")])
    yield message([question("first.com"), question(""), question("third.com")])
    yield message([question(""), question("second.com")])
    yield message([question("first.com"), question(b"\4next" + pointer(12))])
    yield message([question(f"{i}.com") for i in range(40)])
    # Pointers: to labels, to others, to itself, in a circle, to the end, behind it.
    whole = name("example.com")
    yield message([question(pointer(18))], more=whole)
    yield message([question(b"\3www" + pointer(22))], more=whole)
    yield message([question(pointer(18))], more=pointer(20) + whole)
    yield message([question(pointer(12))])
    yield message([question(b"\1a" + pointer(14))])
    yield message([question(b"\1a" + pointer(12))])
    yield message([question(pointer(14))], more=pointer(12))
    yield message([question(pointer(18))])
    yield message([question(pointer(19))])
    yield message([question(b"\1a" + pointer(20))])
    yield message([question(b"\1a" + pointer(0x3FFF))])
    yield message([question(pointer(18))], more=pointer(18))
    yield message([question(b"\3abc" + pointer(0))], number=0x0161)
    yield message([question(pointer(2))])
    # As many labels as are followed, and one more; a name as long as is kept, and longer ones.
    for labels in (254, 255, 256):
        yield query(".".join("a" * labels))
        yield message([question(pointer(18))], more=name(".".join("a" * (labels - 1))))
        yield message([question(pointer(18))], more=name(".".join("a" * labels)))
    for size in (1023, 1024, 1025, 1026, 1027, 1090):
        labels, left = divmod(size, 50)
        long = ".".join(["b" * 49] * labels + ["c" * left] * (left > 0))
        yield query(long)
        yield query(long + ".tail.example.com")
        yield message([question(pointer(18))], more=name(long + ".tail.example.com"))
    # Behind what is kept of a name nothing is looked at, if a pointer was followed.
    most = name(".".join(["d" * 50] * 21))[:-1]
    yield message([question(pointer(18))], more=most + b"\x40")
    yield message([question(pointer(18))], more=most + pointer(18))
    yield message([question(most + b"\x40")])
    # Labels of other kinds, and messages that end early.
    for first in (0x40, 0x7F, 0x80, 0xBF):
        yield message([question(bytes([first]) + b"abc\0")])
    good = query("www.example.com")
    yield from (good[:end] for end in (0, 1, 11, 12, 13, 16, 28, 29, 30, 31, 32))
    # Counts that it has room for, and not.
    for counts in ((2, 0, 0, 0), (1, 1, 0, 0), (1, 0, 0, 8), (1, 0, 0, 9), (10, 0, 0, 0), (11, 0, 0, 0), (0, 0, 0, 1),
                   (0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF)):
        yield message([question("example.com")], counts=counts)
    # Records behind a question: of a query they are not looked at.
    yield message([question("example.com")], additional=[b"\0" + struct.pack("!HHIH", 41, 1232, 0, 0)])
    yield message([question("example.com")], answers=[b"\x40"])
    yield query("example.com", more=b"behind")


def answers():
    """Each behind a query for www.example.com in its flow, from port 53."""
    asked = [question("www.example.com")]
    datas = [(1, b"\1\2\3\4"), (1, b""), (1, b"\1"), (28, bytes(16)), (5, name("a.example.com")), (5, pointer(16)),
             (5, b""), (5, b"\x40"), (5, b"\3ab"), (2, pointer(12)), (2, pointer(0x3FFF)), (12, b"\1a"), (12, b"\0"),
             (15, b"\0\1" + pointer(12)), (15, b"\0\1"), (15, b"\0"), (15, b"\0\1\x80"),
             (6, pointer(12) + pointer(12) + bytes(20)), (6, pointer(12) + pointer(12) + bytes(19)),
             (6, pointer(12) * 2 + bytes(24)), (16, b"\3abc"), (16, b"\3abc\2de"), (16, b"\3abc\5de"), (16, b"\5abc"),
             (16, b""), (16, b"\0"), (16, bytes(50)), (33, bytes(6) + pointer(12)), (33, bytes(6)), (33, bytes(5)),
             (44, b"\1\1"), (44, b"\1"), (44, b"\1\1" + bytes(20)), (10, b"null"), (10, b""), (255, b"any"), (255, b""),
             (41, b""), (64, bytes(9))]
    for kind, data in datas:
        yield message(asked, [record(kind, data)], flags=ANSWER)
        yield message(asked, [record(1, b"\1\2\3\4")], [record(kind, data)], flags=ANSWER)
        yield message(asked, [record(1, b"\1\2\3\4")], [], [record(kind, data)], flags=ANSWER)
    yield message(asked, [record(1, b"\1\2\3\4", length=5)], flags=ANSWER)
    yield message(asked, [record(1, b"\1\2\3\4", owner=b"\x40")], flags=ANSWER)
    yield message(asked, [record(1, b"\1\2\3\4", owner=b"")], flags=ANSWER)
    yield message(asked, [record(1, b"\1\2\3\4")], flags=ANSWER, counts=(1, 2, 0, 0))
    yield message(asked, [record(5, pointer(43)), record(5, pointer(43))], flags=ANSWER)
    # What looks like a pointer to itself, since the message ends like it.
    yield message(asked, [record(5, pointer(59)), record(5, pointer(59))], flags=ANSWER)
    yield message(asked, [record(5, pointer(59)), record(1, pointer(59))], flags=ANSWER)
    for flags in (0x8000, 0x8180, 0x8183, 0xA000, 0xA800, 0xF800, 0x81C0):
        yield message(asked, flags=flags)
        yield message(asked, [record(1, b"\1\2\3\4")], flags=flags)


LABELS = ["a", "b", "ab", "aB", "A", "ba", "aab", "bab", "a-b", "1", "12", "a.b", "com", "b1a"]


class Messages:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def name(self):
        labels = [self.random.choice(LABELS).encode() for _ in range(self.random.choice([0, 1, 1, 2, 2, 3, 4, 6]))]
        end = b"\0"
        if self.random.random() < 0.2:
            end = pointer(self.random.randint(12, 30))
        return b"".join(bytes([len(label)]) + label for label in labels) + end

    def message(self, flags):
        if self.random.random() < 0.2:
            flags ^= 1 << self.random.randrange(15)
        questions = [question(self.name()) for _ in range(self.random.choice([0, 1, 1, 1, 1, 2, 3]))]
        made = message(questions, flags=flags)
        if flags & 0x8000:
            kinds = (1, 2, 5, 6, 12, 15, 16, 28, 33, 44, 99)
            datas = lambda: [self.name(), b"\1\2\3\4", b"\2ab", bytes(6) + self.name(), self.name() * 2 + bytes(20)]
            some = lambda: [record(self.random.choice(kinds), self.random.choice(datas()), owner=self.name())
                            for _ in range(self.random.choice([0, 0, 1, 2]))]
            made = message(questions, some(), some(), flags=flags)
        return made

    def garbled(self, flags):
        made = bytearray(self.message(flags))
        for _ in range(self.random.randint(1, 3)):
            at = self.random.randrange(2, len(made))
            made[at] = self.random.choice([0, 1, 0xC0, 0x40, self.random.randrange(256),
                                           made[at] ^ 1 << self.random.randrange(8)])
        return bytes(made[:self.random.randrange(len(made))] if self.random.random() < 0.2 else made)


class Rules:
    """Random steps on names. What Suricata would refuse is seldom among them."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def one_in(self, many):
        return self.random.random() * many < 1

    def content(self):
        some = self.random.choice(["a", "b", "ab", "ba", ".", "a.", ".a", ".b", "b.a", ".ab", "1", "A", "aB", "com",
                                   ".com", "-", "aab.b", "ab.ab", ".a.b"])
        negated = self.one_in(7)
        words = [f'content:{"!" if negated else ""}"{some}"']
        if self.one_in(3):
            words.append("nocase")
        kind = self.random.random()
        if kind < 0.3:
            words.append(f"distance:{self.random.randint(-3, 4)}")
            if self.one_in(2):
                words.append(f"within:{len(some) + self.random.randint(0, 6)}")
        elif kind < 0.4:
            words.append(f"within:{len(some) + self.random.randint(0, 6)}")
        elif kind < 0.5:
            words.append(f"offset:{self.random.randint(0, 4)}")
            if self.one_in(2):
                words.append(f"depth:{len(some) + self.random.randint(0, 6)}")
        elif kind < 0.55:
            words.append(f"depth:{len(some) + self.random.randint(0, 6)}")
        elif kind < 0.7:
            words.append("startswith")
        if self.one_in(4):
            words.append(self.random.choice(["endswith", "endswith", "isdataat:!1,relative"]))
        if not self.found and not negated and self.one_in(8):
            self.found = True
            words.append(self.random.choice(["fast_pattern", f"fast_pattern:{len(some) - 1},1"]))
        return words

    def step(self):
        kind = self.random.random()
        if kind < 0.65:
            return self.content()
        relative = self.random.choice(["", ",relative"])
        if kind < 0.75:
            return [f"isdataat:{self.random.choice(['', '!'])}{self.random.randint(0, 9)}{relative}"]
        if kind < 0.83:
            return [f"byte_test:1,{self.random.choice('<>=')},{self.random.choice([46, 97, 98])},"
                    f"{self.random.randint(0, 3)}{relative}"]
        if kind < 0.88:
            return [f"byte_jump:1,{self.random.randint(0, 2)}{relative},string,dec"]
        return [self.random.choice(["bsize:{}", "bsize:!{}", "bsize:<{}", "bsize:>{}", "bsize:2<>{}"]).format(
            self.random.randint(8, 14))]

    def name(self):
        words = ["dns.query"] + ["dotprefix"] * self.one_in(3)
        for _ in range(self.random.choice([1, 1, 2, 2, 3])):
            words += self.step()
        return words

    def rule(self, sid):
        self.found = False
        words = []
        if self.one_in(8):
            words.append(f'content:{self.random.choice(["", "", "!"])}"|' +
                         self.random.choice(["01 00", "00 01", "03", "61", "01 61", "00 01 00 01"]) + '|"' +
                         self.random.choice(["", "; depth:6", "; offset:10", "; nocase", "; endswith"]))
        if self.one_in(5):
            words.append(f'dns.opcode:{self.random.choice(["", "!"])}{self.random.choice([0, 0, 1, 4, 15])}')
        if self.one_in(5):
            words.append("flow:" + self.random.choice(["to_server", "from_client", "stateless", "to_server,stateless",
                                                       "to_client", "from_server", "no_frag"]))
        asks = self.random.choice([0, 1, 1, 1, 1, 1, 1, 2])
        if any(one in word for word in words for one in ("to_client", "from_server")):
            asks = 0
        for _ in range(asks):
            words += self.name()
        protocol = self.random.choice(["dns", "dns", "dns", "udp"])
        if not asks and not any("opcode" in word for word in words):
            protocol = "dns"
        ports = self.random.choice(["any any -> any any", "any any -> any any", "any any -> any 53",
                                    "any 53 -> any any"])
        return f'alert {protocol} {ports} ({"; ".join(words)}{"; " * bool(words)}sid:{sid};)'


class SetRules(Rules):
    """The same with sets of strings: those of `strings()`, half of them with a dot in front."""

    def step(self):
        if self.random.random() < 0.5:
            return super().step()
        which = self.random.choice(["bare", "bare", "dotted"])
        return [f"dataset:{self.random.choice(['isset', 'isset', 'isnotset'])},{which},type string,"
                f"load random-{which}.lst"]


def strings(seed):
    """Names of messages that are made at random, and what is near them."""
    chance = random.Random(seed)
    for _ in range(250):
        some = [chance.choice(LABELS) for _ in range(chance.choice([1, 1, 1, 2, 2, 3]))]
        yield ".".join(some).encode()


def names_of(rule):
    """Of a real rule: names that it roughly asks for, and some that it does not."""
    contents = "".join(re.findall(r'content:"([^"]*)"', rule[rule.index("dns"):]))
    text = re.sub(r"\|([0-9A-Fa-f ]+)\|", lambda found: bytes.fromhex(found[1]).decode("latin-1"), contents).strip(".")
    yield from (text, "www." + text, "x" + text, text + ".org", text.upper(), "a.b." + text)
