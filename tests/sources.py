"""tests/sources.py: which C++ sources compile in one go.

Most of what a compiler and clang-tidy do is the headers of the system and of libraries, anew for each source file. Two
files that would not compile together, since each has a name of its own that the other one has too, are kept apart.
It goes by clang-format's style: what begins in the first column is declared.
"""
import hashlib
import os
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
AT_ONCE = 20  # files: with more, two cores end further apart
# The analyzer follows each path through a function. In tests and benches that takes longer than all else, for
# code whose every path is run by itself, and much of it under the sanitizers.
NOT_ANALYZED = ("tests/", "bench/")
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.M)
BPF = re.compile(r"pcap/|bpf/|xdp/|linux/bpf\.h")  # libpcap's struct bpf_insn is not the kernel's


class Source:
    """A file that the build compiles."""

    def __init__(self, path, command, headers, common=b"", renamed=True):
        self.path = path  # from the repository's root
        self.analyzed = not path.startswith(NOT_ANALYZED)
        self.text = (ROOT / path).read_text()
        options = re.findall(r"(?<=\s)(-isystem|-[ID])\s*(\S+)", command)
        self.includes = [(kind, value) for kind, value in options if kind != "-D"]
        self.generated = {value for value in self.includes if value[1].endswith("/generated")}
        self.defines = dict((value.replace('\\"', '"').partition("=")[::2]) for kind, value in options if kind == "-D")
        ours, others = headers.of(self.text, [value for _, value in self.includes])
        digest = hashlib.sha256(common)
        for part in (path, str(self.defines).replace(str(ROOT), ""), self.text, *(headers.text[h] for h in ours)):
            digest.update(part.encode() + b"\0")
        self.key = digest.hexdigest()[:40]
        self.own, self.shared, self.wrapped = own_names(self.text)
        if self.wrapped and renamed:  # its names get a namespace of their own
            self.own = set()
        self.bpf = {"pcap" if name.startswith("pcap") else "kernel" for name in others if BPF.match(name)}
        self.public = set().union(*(headers.names(header) for header in ours))


class Headers:
    """Our own headers, and the build's generated ones."""

    def __init__(self, build):
        self.below = (str(ROOT), str(build))
        self.text, self.declared = {}, {}

    def of(self, text, folders):
        """What a file of this text includes, directly or not: paths of ours, and the names of others."""
        ours, others, todo = {}, set(), [text]
        while todo:
            for name in INCLUDE.findall(todo.pop()):
                header = self.resolve(name, folders)
                if header and header not in ours:
                    ours[header] = None
                    todo.append(self.text[header])
                elif not header:
                    others.add(name)
        return list(ours), others

    def resolve(self, name, folders):
        for folder in folders:
            path = os.path.join(folder, name)
            if not path.startswith(self.below):
                continue
            if path not in self.text:
                try:
                    self.text[path] = pathlib.Path(path).read_text(errors="replace")
                except OSError:
                    continue
            return path
        return None

    def names(self, header):
        if header not in self.declared:
            self.declared[header] = {name for line in self.text[header].splitlines() if (name := declared(line))}
        return self.declared[header]


def declared(line):
    """The name that a line of clang-format's style declares, if it begins in the first column."""
    if not re.match(r"[A-Za-z_\[]", line) or line.startswith(("namespace", "using namespace", "return", "static_assert")):
        return None
    if test := re.match(r"(?:TYPED_)?TEST(?:_[FP])?\((\w+), (\w+)", line):
        return f"{test[1]}_{test[2]}"
    if kind := re.match(r"(?:template <.*?> ?)?(?:struct|class|enum class|enum|union|using) (?:alignas\(.*?\) )?(\w+)", line):
        return kind[1]
    name = re.search(r"([\w:]+)(?:<.*>)?\s*[(={\[;]", line)
    return name[1] if name and "::" not in name[1] else None


def own_names(text):
    """What the file declares for itself alone, what for others, too, and whether there is any code for others."""
    inside, unnamed, own, shared, open_code = False, 0, set(), set(), False
    for line in text.splitlines():
        if line == "namespace {":
            inside, unnamed = True, unnamed + 1
        elif inside and line.startswith("}  // namespace"):
            inside = False
        elif macro := re.match(r"#(define|undef) (\w+)", line):
            (own.add if macro[1] == "define" else own.discard)(macro[2])
        elif re.match(r"[A-Za-z_\[]", line) and not line.startswith(("namespace ", "using namespace ")):
            open_code = open_code or not inside
            if name := declared(line):
                (own if inside else shared).add(name)
            if line.startswith("constexpr ") and inside:  # more than one
                own.update(re.findall(r", (\w+) = ", line))
    return own, shared, unnamed == 1 and not open_code


def batches(sources, most=AT_ONCE):
    """Sources that compile in one go, `most` at a time, in as few batches as that takes."""
    made = []
    for source in sources:
        for batch in made:
            if len(batch) < most and not any(clash(source, other) for other in batch):
                batch.append(source)
                break
        else:
            made.append([source])
    return sorted(made, key=lambda batch: -sum(len(source.text) for source in batch))


def clash(one, other):
    if one.analyzed != other.analyzed or len(one.bpf | other.bpf) > 1:
        return True
    if any(one.defines.get(name, value) != value for name, value in other.defines.items()):
        return True
    if one.generated and other.generated and one.generated != other.generated:
        return True
    return bool(
        one.own & (other.own | other.shared | other.public)
        or other.own & (one.shared | one.public)
        or one.shared & other.shared
    )
