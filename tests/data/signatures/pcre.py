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
