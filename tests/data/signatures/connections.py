"""tests/data/signatures/connections.py: connections between a few hosts, and rules that ask which way a packet of one
goes, what state it is in, and for bits that other rules set, for ./make."""
import random


class Rules:
    """Groups of seven, each with bits of its own."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def one_in(self, count):
        return self.random.randrange(count) == 0

    def packet(self, protocol):
        if protocol == "tcp":
            return self.random.choice(["dsize:>0; ", "dsize:1; ", "dsize:2; ", "flags:S; ", "flags:SA; ", "flags:A; ",
                                       "flags:*FR; "])
        return self.random.choice(["dsize:>0; ", "dsize:1; ", "dsize:2; ", "dsize:3; "])

    def flow(self):
        way = self.random.choice(["", "to_server", "to_client", "from_server", "from_client"])
        state = self.random.choice(["", "established", "not_established", "stateless"])
        asked = ",".join(one for one in (way, state) if one)
        return f"flow:{asked}; " if asked else ""

    def bit(self, group, asks):
        does = self.random.choice(["isset", "isset", "isnotset"] if asks else ["set", "set", "set", "unset", "toggle"])
        name = f"{self.random.choice('ab')}{group}"
        kind = self.random.randrange(4)
        if kind < 2:
            if asks and self.one_in(5):
                name += f"|c{group}"
            return f"flowbits:{does},{name}; "
        if kind == 2:
            return f"hostbits:{does},{name},{self.random.choice(['src', 'dst'])}; "
        expire = f",expire {self.random.choice([1, 2, 5])}" if not asks else ""
        return f"xbits:{does},{name},track {self.random.choice(['ip_src', 'ip_dst', 'ip_pair'])}{expire}; "

    def rule(self, sid, group, action="alert", more=""):
        protocol = self.random.choice(["tcp", "tcp", "udp", "ip", "icmp"])
        options = self.packet(protocol)
        if self.one_in(2):
            options += self.flow()
        if self.one_in(2):
            options += self.bit(group, True)
        if self.one_in(2):
            options += self.bit(group, False)
        if "set" in options and self.one_in(6):
            options += self.random.choice(["noalert; ", "flowbits:noalert; "])
        return f'{action} {protocol} any any -> any any (msg:"{sid}"; {options}{more}sid:{sid};)'


class Wire:
    """What hosts send each other, by time: of several connections, one packet of each at a time."""

    def __init__(self, seed, make):
        self.random = random.Random(seed)
        self.make = make  # ethernet, ipv4, ipv6, udp, tcp, icmp
        self.frames, self.times, self.now = [], [], 0
        self.number = 0
        self.busy = set()  # ends and ports of the connections under way

    def send(self, protocol, payload, src, dst):
        ethernet, ipv4, ipv6 = (self.make[name] for name in ("ethernet", "ipv4", "ipv6"))
        self.number += 1
        if ":" in src:
            self.frames.append(ethernet(0x86DD, ipv6(protocol, payload, src=src, dst=dst)))
        else:
            self.frames.append(ethernet(0x0800, ipv4(protocol, payload, src=src, dst=dst, number=self.number)))
        self.now += self.random.choice([100, 100, 1000, 200_000, 1_000_000])
        self.times.append(self.now)

    def ends(self):
        hosts = self.random.sample([1, 2, 3, 4], 2)
        form = "192.0.2.{}" if self.random.randrange(3) else "2001:db8::{}"
        return [form.format(host) for host in hosts]

    def tcp(self):
        """Yields behind each of its packets."""
        tcp = self.make["tcp"]
        ends, ports = self.ends(), [4000 + self.random.randrange(3), 80]
        while (*ends, *ports) in self.busy:
            ends, ports = self.ends(), [4000 + self.random.randrange(3), 80]
        self.busy.add((*ends, *ports))
        yield from self.conversation(tcp, ends, ports)
        self.busy.remove((*ends, *ports))

    def conversation(self, tcp, ends, ports):
        numbers = [self.random.randrange(1 << 32) for _ in range(2)]

        def say(side, flags, data=b""):
            other = 1 - side
            ack = numbers[other] if flags & 0x10 else 0
            self.send(6, tcp(data, sport=ports[side], dport=ports[other], seq=numbers[side], ack=ack, flags=flags,
                             window=4096), ends[side], ends[other])
            numbers[side] = (numbers[side] + len(data) + (1 if flags & 3 else 0)) % (1 << 32)

        say(0, 0x02)
        yield
        if self.random.randrange(8) == 0:
            return
        say(1, 0x12)
        yield
        say(0, 0x10)
        yield
        for _ in range(self.random.randrange(6)):
            side = self.random.randrange(2)
            say(side, 0x18, b"x" * self.random.randint(1, 3))
            yield
            if self.random.randrange(2):
                say(1 - side, 0x10)
                yield
        side = self.random.randrange(2)
        if self.random.randrange(3) == 0:
            say(side, 0x14)
            return
        # Suricata's flow is over with the second FIN.
        say(side, 0x11)
        yield
        say(1 - side, 0x11)

    def udp(self):
        udp = self.make["udp"]
        ends, ports = self.ends(), [5000 + self.number, 7]
        for i in range(self.random.randint(1, 6)):
            side = 0 if i == 0 else self.random.randrange(2)
            self.send(17, udp(b"x" * self.random.randint(1, 3), sport=ports[side], dport=ports[1 - side]), ends[side],
                      ends[1 - side])
            yield

    def run(self, connections):
        under_way = []
        while connections or under_way:
            # Few, so that none of them is forgotten between two of its packets.
            if connections and len(under_way) < 4:
                under_way.append(self.tcp() if self.random.randrange(3) else self.udp())
                connections -= 1
            one = self.random.choice(under_way)
            if next(one, self) is self:
                under_way.remove(one)
        return self.frames, self.times
