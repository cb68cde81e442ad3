"""tests/data/signatures/pcre.py: random regular expressions in rules over few bytes, and payloads of the same few
bytes, for ./make."""
import random

BYTES = b"aabbAB1_ \n\n-\xff"


def payloads(seed, count):
    chance = random.Random(seed)
    made = [b"\n", b"a", b"a\n", b"\na", b"a\n\n", b"abab", b"a b", b"ab\nab", b"_a-1"]
    while len(made) < count:
        made.append(bytes(chance.choice(BYTES) for _ in range(chance.randint(1, chance.choice([4, 12, 40])))))
    return made


class Rules:
    """Each has a regular expression, mostly with contents. What Suricata would refuse is seldom among them."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def one_in(self, count):
        return self.random.randrange(count) == 0

    def literal(self):
        return self.random.choice(["a", "a", "b", "b", "A", "B", "1", "_", " ", "-", r"\n", r"\xff", r"\x61", r"\-"])

    def one(self):
        kind = self.random.randrange(12)
        if kind < 6:
            return self.literal()
        if kind < 7:
            return "."
        if kind < 9:
            return self.random.choice([r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", r"\h", r"\v", r"\N"])
        members = ["a", "b", "B", "1", "_", r"\n", r"\xff", "a-b", r"\d", r"\s", "[:upper:]"]
        inside = "".join(self.random.choice(members) for _ in range(self.random.randint(1, 3)))
        return f"[{self.random.choice(['', '', '^'])}{inside}]"

    def asserted(self):
        return self.random.choice(["^", "$", r"\A", r"\z", r"\Z", r"\b", r"\B", "(?=a)", "(?!a)", "(?<=b)", "(?<!b)",
                                   r"(?=\n)", r"(?<=\n)", r"(?![\w\n])"])

    def repeated(self, depth):
        one = self.one() if depth == 0 or not self.one_in(4) else self.group(depth - 1)
        if self.one_in(3):
            one += self.random.choice(["*", "+", "?", "{2}", "{1,2}", "{0,2}", "{2,}"])
            one += self.random.choice(["", "", "?"])
        return one

    def group(self, depth):
        return self.random.choice(["(", "(?:", "(?:", "(?i:", "(?<n>"]) + self.either(depth) + ")"

    def either(self, depth):
        return "|".join(self.sequence(depth) for _ in range(self.random.choice([1, 1, 1, 2, 3])))

    def sequence(self, depth):
        return "".join(self.asserted() if self.one_in(8) else self.repeated(depth)
                       for _ in range(self.random.choice([1, 2, 2, 3, 4])))

    def pcre(self, may_be_relative):
        text = self.either(2)
        named = text.count("(?<n>")
        for i in range(named):
            text = text.replace("(?<n>", f"(?<n{i}>", 1)
        letters = "".join(letter for letter in "ismE" if self.one_in(4)) + ("A" if self.one_in(10) else "")
        if self.one_in(12):
            letters += "G"
        if may_be_relative and not self.one_in(3):
            letters += "R"
        return f'pcre:{"!" if self.one_in(5) else ""}"/{text}/{letters}"'

    def content(self, first):
        some = bytes(self.random.choice(BYTES) for _ in range(self.random.randint(1, 2)))
        words = [f'content:{"!" if self.one_in(8) else ""}"|{some.hex(" ")}|"']
        if self.one_in(4):
            words.append("nocase")
        if not first and self.one_in(2):
            words.append(f"distance:{self.random.randint(-3, 3)}")
            if self.one_in(2):
                words.append(f"within:{len(some) + self.random.randrange(5)}")
        elif self.one_in(3):
            words.append(f"depth:{len(some) + self.random.randrange(8)}")
        return words

    def other(self):
        relative = self.random.choice(["", ",relative"])
        return self.random.choice([f"byte_test:1,>,64,{self.random.randrange(3)}{relative}",
                                   f"isdataat:{self.random.choice(['', '!'])}{self.random.randrange(9)}{relative}",
                                   f"byte_extract:1,{self.random.randrange(3)},n{relative}",
                                   "byte_jump:0,0,from_end,post_offset -2"])

    def rule(self, sid):
        words, matches = [], False
        for _ in range(self.random.choice([0, 1, 1, 2])):
            words += self.content(not matches)
            matches = True
        if self.one_in(5):
            words.append(self.other())
        words.append(self.pcre(matches))
        if self.one_in(3):
            words += self.content(False) if self.one_in(2) else [self.other()]
        if self.one_in(8):
            words.append(self.pcre(True))
        if sum("byte_extract" in word for word in words) > 1:
            words = [word for word in words if "byte_extract" not in word]
        return f'alert udp any any -> any any ({"; ".join(words)}; sid:{sid};)'


class HostRules(Rules):
    """Most have an expression that no automaton decides, or one behind which something is relative to its match."""

    def either(self, depth):
        return super().either(min(depth, 1))

    def sequence(self, depth):
        return "".join(self.asserted() if self.one_in(7) else self.repeated(depth)
                       for _ in range(self.random.choice([1, 1, 2, 2, 3])))

    def one(self):
        return self.random.choice([".", r"\w", "[ab]", "[^b]"]) if self.one_in(3) else super().one()

    def repeated(self, depth):
        kind = self.random.randrange(16)
        if kind == 0:
            return f"(?>{self.either(max(depth - 1, 0))})"
        if kind == 1:
            return self.one() + self.random.choice(["*+", "++", "?+", "{1,2}+"])
        if kind == 2:
            return "(" + self.one() + ")" + self.random.choice(["", self.one(), "-?"]) + r"\g{-1}"
        return super().repeated(depth)

    def asserted(self):
        if self.one_in(3):
            return super().asserted()
        return self.random.choice(["(?=ab)", "(?!ab)", "(?=a.b|b)", r"(?!\w\w)", "(?<=ab)", "(?<!ab)", r"(?<=\n.)", "(?<!a|bb)",
                                   "(?=a*b)", r"\K", r"(?<=^a)", r"\G"])

    def pcre(self, may_be_relative):
        made = super().pcre(may_be_relative)
        if self.one_in(4) and "(?<" not in made:
            # What a group has kept, a condition, or a group anew.
            tail = self.random.choice([r"\1", r"\1+", r"(?:\1|b)", "(?(1)a|b)", "(?1)", r"(?i:\1)"])
            end = made.rindex("/")
            made = made[:end].replace("/", "/(a|b|.)", 1) + tail + made[end:]
        return made

    def behind(self):
        kind = self.random.randrange(10)
        if kind < 5:
            some = bytes(self.random.choice(BYTES) for _ in range(self.random.choice([1, 1, 1, 2])))
            words = [f'content:{"!" if self.one_in(6) else ""}"|{some.hex(" ")}|"', f"distance:{self.random.randint(-2, 3)}"]
            if self.one_in(2):
                words.append(f"within:{len(some) + self.random.randrange(5)}")
            return words
        return [self.random.choice([
            f"byte_test:1,{self.random.choice('<>=')},{self.random.choice(BYTES)},{self.random.randint(-1, 2)},relative",
            f"isdataat:{self.random.choice(['', '!'])}{self.random.randrange(1, 5)},relative",
            f"byte_jump:1,{self.random.randrange(2)},relative,post_offset -{self.random.randint(90, 100)}",
            self.pcre(True), self.pcre(True), self.other()])]

    def rule(self, sid):
        words, matches = [], False
        for _ in range(self.random.choice([0, 0, 1, 1, 2])):
            words += self.content(not matches)
            matches = True
        if self.one_in(6):
            words.append(self.other())
        words.append(self.pcre(matches))
        for _ in range(self.random.choice([0, 1, 1, 1, 2])):
            words += self.behind()
        if self.one_in(4):
            words += self.content(True)
            if self.one_in(2):
                words.append("fast_pattern")
        if sum("byte_extract" in word for word in words) > 1:
            words = [word for word in words if "byte_extract" not in word]
        protocol = self.random.choice(["udp", "udp", "udp", "icmp", "tcp-pkt"])
        return f'alert {protocol} any any -> any any ({"; ".join(words)}; sid:{sid};)'
