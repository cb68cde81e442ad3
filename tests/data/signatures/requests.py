"""tests/data/signatures/requests.py: what clients ask by HTTP/1, as they should and not, for ./make."""
import random
import re

SYN, PSH, ACK, FIN = 2, 8, 16, 1
EOL = b"\r\n"


def head(line, *headers):
    return EOL.join([line, *headers, b"", b""])


def get(uri, *headers):
    return head(b"GET " + uri + b" HTTP/1.1", *headers)


HOST = b"Host: www.example.com"


def chunks(body, sizes):
    """A body in chunks, as `Transfer-Encoding: chunked` says: of these sizes, by where each begins."""
    made, at = b"", 0
    while at < len(body):
        piece = body[at:at + sizes[at % len(sizes)]]
        made += b"%x" % len(piece) + (b";a=b" if at % 3 == 1 else b"") + EOL + piece + EOL
        at += len(piece)
    return made + b"0" + EOL + EOL


def options_of(rule):
    """A rule's keywords in their order, each with its value."""
    return re.findall(r'([\w.]+)(?::((?:"(?:[^"\\]|\\.)*"|[^;"\\]|\\.)*))?;', rule[rule.index("(") + 1:])


def usual_ones():
    yield get(b"/", HOST, b"User-Agent: Mozilla/5.0 (X11)", b"Accept: */*")
    yield get(b"/index.php?id=1%27+UNION+SELECT+1", HOST, b"User-Agent: sqlmap/1.0", b"Referer: http://example.com/a")
    yield get(b"/a/../etc/passwd", HOST, b"Cookie: session=1; evil=2", b"Accept-Encoding: gzip, deflate")
    yield get(b"/%2e%2e/%65vil//x\\y?q=%2F%41", b"Host: BAD.example", b"Accept-Language: en", b"Connection: close")
    yield get(b"/%u0065vil/caf\xc3\xa9/%c3%a9/%c0%ae%c0%ae/", HOST)
    yield get(b"http://user:pw@Proxy.example:81/evil", HOST)
    yield get(b"/shell.jsp", b"Host: bad.example:8080", b"X-Forwarded-For: 1.1.1.1", b"x-forwarded-for: 2.2.2.2")
    yield get(b"/f", b"Host: a.bad.example", b"User-Agent: one", b"\ttwo", b"X-Long: a", b" evil")
    yield head(b"POST /login HTTP/1.1", HOST, b"Content-Type: text/plain", b"Content-Length: 9") + b"evil=body"
    yield (head(b"POST /chunks HTTP/1.1", HOST, b"Transfer-Encoding: chunked") + b"5\r\nevil!\r\n3;x=y\r\nabc\r\n0\r\n\r\n" +
           get(b"/behind", HOST))
    yield (head(b"PUT /put HTTP/1.1", HOST, b"Content-Length: 24") + get(b"/inside", b"") + get(b"/after", HOST))
    yield get(b"/one", HOST) + get(b"/two", HOST) + get(b"/three", b"Host: bad.example")
    yield head(b"OPTIONS * HTTP/1.1", HOST)
    yield head(b"PROPFIND /dav HTTP/1.1", HOST, b"Depth: 1")
    yield head(b"GET /old HTTP/1.0")
    yield head(b"GET /x HTTP/1.1", b"Host : www.example.com", b"No colon evil", b": empty", b"User-Agent:")
    yield head(b"GET  /spaces \t HTTP/1.1 ", HOST)
    yield b"GET /lf HTTP/1.1\nHost: bad.example\nUser-Agent: lf\n\n"
    yield b"\r\n\r\nGET /lines HTTP/1.1\r\nHost: bad.example\r\n\r\n"
    yield get(b"/no#frag%41ment?x", HOST)
    yield get(b"/twice", b"Host: a.example", b"Host: bad.example")
    yield get(b"/" + b"a" * 300 + b"evil", HOST)
    yield get(b"/cookies", HOST, b"Cookie: a=1", b"Cookie: evil=2")
    yield b"EHLO evil.example\r\n" + get(b"/evil", HOST)
    yield get(b"/nul%00byte", b"Host: x\0y", b"User-Agent: a\0b")


def connection(make, number, text, cuts, ends=("192.168.1.5", "198.51.100.7"), said=None, said_cuts=()):
    """Its frames. The client says the text, cut at these places, and the server what is said, or answers each request at
    the end."""
    (src, dst), sport = ends, 20000 + number

    def frame(up, flags, at, seen, payload=b""):
        ends = dict(src=src, dst=dst) if up else dict(src=dst, dst=src)
        ports = dict(sport=sport, dport=80) if up else dict(sport=80, dport=sport)
        body = make["tcp"](payload, seq=(1000 if up else 9000) + at, ack=(9000 if up else 1000) + seen, flags=flags,
                           window=65535, **ports)
        return make["ethernet"](0x0800, make["ipv4"](6, body, number=number % 65536, **ends))

    frames = [frame(True, SYN, 0, 0), frame(False, SYN | ACK, 0, 1), frame(True, ACK, 1, 1)]
    places = [0, *sorted(set(cuts)), len(text)]
    for first, end in zip(places, places[1:]):
        frames.append(frame(True, PSH | ACK, 1 + first, 1, text[first:end]))
        frames.append(frame(False, ACK, 1, 1 + end))
    answers = said or b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" * len(re.findall(rb"HTTP/1\.", text))
    places = [0, *sorted(set(said_cuts)), len(answers)]
    for first, end in zip(places, places[1:]):
        frames.append(frame(False, PSH | ACK, 1 + first, 1 + len(text), answers[first:end]))
        if said:
            frames.append(frame(True, ACK, 1 + len(text), 1 + end))
    frames.append(frame(True, FIN | ACK, 1 + len(text), 1 + len(answers)))
    frames.append(frame(False, FIN | ACK, 1 + len(answers), 2 + len(text)))
    frames.append(frame(True, ACK, 2 + len(text), 2 + len(answers)))
    return frames


def run(seed, make):
    chance = random.Random(seed)
    texts = list(usual_ones())
    frames = []
    for number, text in enumerate(texts * 3):
        cuts = [chance.randint(1, len(text) - 1) for _ in range(number // len(texts) * 3)]
        frames += connection(make, number, text, cuts)
    return frames


def pattern(text):
    made = b""
    for i, part in enumerate(text.split("|")):
        if i % 2:
            made += bytes.fromhex(part.replace(" ", ""))
        else:
            made += re.sub(r"\\(.)", r"\1", part).encode("latin-1")
    return made


def asked_by(rule):
    """A request that has what a rule looks for, roughly; None: it is not about requests."""
    of = {"http.uri": "uri", "http.uri.raw": "uri", "http.method": "method", "http.host": "host",
          "http.user_agent": "User-Agent", "http.cookie": "Cookie", "http.referer": "Referer", "http.header": "header",
          "http.request_line": "line", "http.request_body": "body", "http.content_type": "Content-Type", "http.accept": "Accept"}
    found, buffer, any_of = {}, None, False
    for name, value in options_of(rule):
        if name in of or name.startswith(("http.", "file.", "file_")) or name == "pkt_data":
            buffer = of.get(name)
            any_of = any_of or buffer is not None
        elif name == "content" and buffer and not value.strip().startswith("!"):
            found.setdefault(buffer, []).append(pattern(value.strip().strip('"')))
    if not any_of or "to_client" in rule or "from_server" in rule:
        return None
    uri = b"".join(found.get("uri", []))
    uri = uri.replace(b" ", b"%20")
    if not uri.startswith(b"/") and "uri" in found:
        uri = uri if b"/" in uri[:1] else b"/" + uri
    body = b"".join(found.get("body", []))
    line = b"".join(found.get("line", [])) or b"".join(found.get("method", [b"POST" if body else b"GET"])) + b" " + (uri or b"/") + b" HTTP/1.1"
    if not line.rstrip().endswith((b"HTTP/1.1", b"HTTP/1.0")):
        line += b" HTTP/1.1"
    headers = [b"Host: " + (b"".join(found.get("host", [])).lower() or b"www.example.com")]
    for name in ("User-Agent", "Cookie", "Referer", "Content-Type", "Accept"):
        if name in found:
            headers.append(name.encode() + b": " + b"".join(found[name]))
    more = b"".join(found.get("header", []))
    if more:
        headers.append(more.strip(b"\r\n"))
    if body:
        headers.append(b"Content-Length: %d" % len(body))
    return head(line, *headers) + body


def real(make, rules):
    frames = []
    number = 0
    for rule in rules:
        text = asked_by(rule)
        if text is None:
            continue
        ends = ("192.168.1.5", "198.51.100.7")
        if re.match(r"alert \S+ (\$EXTERNAL_NET|any) ", rule):
            ends = ends[::-1]
        frames += connection(make, number, text, [len(text) // 2] if number % 3 == 0 else [], ends)
        number += 1
    return frames


RULES = r"""alert http any any -> any any (http.uri; content:"evil"; sid:1;)
alert http any any -> any any (http.uri; content:"/evil//"; sid:2;)
alert http any any -> any any (http.uri.raw; content:"%65vil"; sid:3;)
alert http any any -> any any (http.uri.raw; content:"../"; sid:4;)
alert http any any -> any any (http.uri; content:"/etc/passwd"; startswith; endswith; sid:5;)
alert http any any -> any any (http.uri; content:"x/y"; sid:6;)
alert http any any -> any any (http.uri; content:"?q=/A"; endswith; sid:7;)
alert http any any -> any any (http.uri; content:"caf|e9|/|e9|/"; sid:8;)
alert http any any -> any any (http.method; content:"POST"; sid:9;)
alert http any any -> any any (http.method; content:"GET"; http.uri; content:"/two"; bsize:4; sid:10;)
alert http any any -> any any (http.method; content:!"GET"; http.uri; content:"/"; sid:11;)
alert http any any -> any any (http.host; content:"bad.example"; sid:12;)
alert http any any -> any any (http.host; content:"bad.example"; bsize:11; sid:13;)
alert http any any -> any any (http.host; dotprefix; content:".bad.example"; endswith; sid:14;)
alert http any any -> any any (http.host.raw; content:"BAD"; sid:15;)
alert http any any -> any any (http.host; content:"proxy.example"; sid:16;)
alert http any any -> any any (http.user_agent; content:"sqlmap"; nocase; startswith; sid:17;)
alert http any any -> any any (http.user_agent; content:"one|09|two"; sid:18;)
alert http any any -> any any (http.user_agent; bsize:0; sid:19;)
alert http any any -> any any (http.cookie; content:"evil"; sid:20;)
alert http any any -> any any (http.cookie; content:"a=1, evil"; sid:21;)
alert http any any -> any any (flow:to_server; http.header; content:"evil"; sid:22;)
alert http any any -> any any (flow:to_server; http.header; content:"Host|3a 20|bad"; sid:23;)
alert http any any -> any any (flow:to_server; http.header; content:"1.1.1.1, 2.2.2.2|0d 0a|"; sid:24;)
alert http any any -> any any (flow:to_server; http.header_names; content:"|0d 0a|Host|0d 0a|"; startswith; sid:25;)
alert http any any -> any any (flow:to_server; http.header_names; content:!"User-Agent"; sid:26;)
alert http any any -> any any (flow:to_server; http.header_names; content:"|0d 0a 0d 0a|"; endswith; sid:27;)
alert http any any -> any any (http.referer; content:"example.com"; sid:28;)
alert http any any -> any any (http.accept; content:"*/*"; sid:29;)
alert http any any -> any any (http.accept_enc; content:"deflate"; sid:30;)
alert http any any -> any any (http.accept_lang; content:"en"; sid:31;)
alert http any any -> any any (flow:to_server; http.connection; content:"close"; sid:32;)
alert http any any -> any any (flow:to_server; http.content_type; content:"text"; sid:33;)
alert http any any -> any any (flow:to_server; http.content_len; content:"9"; bsize:1; sid:34;)
alert http any any -> any any (flow:to_server; http.protocol; content:"HTTP/1.0"; sid:35;)
alert http any any -> any any (http.request_line; content:"PROPFIND /dav"; startswith; sid:36;)
alert http any any -> any any (http.uri; content:"/behind"; sid:37;)
alert http any any -> any any (http.uri; content:"/inside"; sid:38;)
alert http any any -> any any (http.uri; content:"/after"; sid:39;)
alert http any any -> any any (http.uri; content:"/three"; http.host; content:"bad"; sid:40;)
alert http any any -> any any (http.uri; content:"/one"; http.host; content:"bad"; sid:41;)
alert http any any -> any any (urilen:>300; http.uri; content:"evil"; sid:42;)
alert http any any -> any any (urilen:4; http.method; content:"GET"; sid:43;)
alert http any any -> any any (urilen:>20,raw; http.method; content:"GET"; sid:44;)
alert http any any -> any any (uricontent:"/shell.jsp"; sid:45;)
alert http any any -> any any (http.uri; pcre:"/id=\d+'/"; sid:46;)
alert http any any -> any any (http.uri; pcre:"/^\/(one|two)$/"; sid:47;)
alert tcp any any -> any 80 (flow:established,to_server; http.uri; content:"/lf"; sid:48;)
alert http any any -> any 8080 (http.uri; content:"/"; sid:49;)
alert http any any -> any any (http.uri; content:"#frag"; sid:50;)
alert http any any -> any any (http.uri; content:"a"; offset:100; depth:10; sid:51;)
alert http any any -> any any (http.uri; content:"/"; content:"e"; distance:0; within:1; content:"vil"; distance:0; sid:52;)
alert http any any -> any any (flow:to_server; http.header; content:"evil"; http.uri; content:"/x"; sid:53;)
alert http any any -> any any (http.uri; content:"nul|00|byte"; sid:54;)
alert http any any -> any any (http.uri; isdataat:100; sid:55;)
alert http any any -> any any (http.uri; content:"/old"; isdataat:!1,relative; sid:56;)
alert http any any -> any any (http.method; content:"OPTIONS"; http.uri; content:"*"; bsize:1; sid:57;)
alert http any any -> any any (flow:to_client; http.header; content:"Content"; sid:58;)
alert http any any -> any any (http.host; content:"x|00|y"; sid:59;)
"""
