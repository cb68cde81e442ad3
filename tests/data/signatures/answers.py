"""tests/data/signatures/answers.py: what servers answer by HTTP/1, as they should and not, for ./make."""
import random
import re

from requests import HOST, chunks, connection, get, head, options_of, pattern

GET = get(b"/", HOST)
HEAD = head(b"HEAD / HTTP/1.1", HOST)


def answer(status, body, *headers):
    return head(b"HTTP/1.1 " + status, *headers, b"Content-Length: %d" % len(body)) + body


def chunked(body, sizes, *headers):
    return head(b"HTTP/1.1 200 OK", *headers, b"Transfer-Encoding: chunked") + chunks(body, sizes)


def usual_ones():
    """What is asked, and what is answered."""
    html = b"Content-Type: text/html; charset=utf-8"
    page = b"<html><head><title>evil</title></head><body><script>document.write('x')</script></body></html>"
    yield GET, answer(b"200 OK", page, b"Server: Apache/2.4", html)
    yield GET, chunked(page, [3, 5, 1], html)
    yield GET, chunked(page, [60], b"Server: nginx", html, b"Connection: keep-alive")
    yield GET, head(b"HTTP/1.1 200 OK", html, b"Connection: close") + page
    yield GET, head(b"HTTP/1.0 200 OK") + b"evil to the end"
    yield GET, answer(b"404 Not Found", b"not here", b"Server: evil/1")
    yield GET, answer(b"302 Found", b"", b"Location: http://evil.example/next", b"Set-Cookie: a=b; path=/", b"Set-Cookie: evil=1")
    yield GET, answer(b"500 Internal Server Error", b"Microsoft OLE DB Provider for SQL Server error", html)
    yield GET, head(b"HTTP/1.1 204 No Content", b"Server: a")
    yield HEAD, head(b"HTTP/1.1 200 OK", b"Content-Length: 4000", html)
    yield HEAD + GET, head(b"HTTP/1.1 200 OK", b"Content-Length: 4000", html) + answer(b"200 OK", b"evil")
    yield GET + HEAD + GET, answer(b"200 OK", b"good") + head(b"HTTP/1.1 200 OK", b"Content-Length: 9") + answer(b"403 No", b"evil")
    yield GET + GET, answer(b"200 OK", b"ev") + answer(b"200 OK", b"il")
    yield GET + GET, head(b"HTTP/1.1 304 Not Modified", b"ETag: a") + chunked(b"evil", [2])
    yield get(b"/a", HOST) + get(b"/b", HOST), chunked(b"first=evil", [2]) + answer(b"404 x", b"second=good")
    yield GET, answer(b"200 OK", bytes(range(256)), b"Content-Type: application/octet-stream")
    yield GET, answer(b"200 OK", b"MZ\x90\x00\x03" + b"\0" * 50 + b"This program cannot be run in DOS mode", b"Content-Type: application/x-dosexec")
    yield GET, answer(b"200 OK", b'{"user": "admin", "cmd": "evil"}', b"content-type: application/json")
    yield GET, b"HTTP/1.1 200 OK\nServer: lf\nContent-Length: 4\n\nevil"
    yield GET, b"  HTTP/1.1  200   OK  \r\nServer : spaces\r\nNo colon evil\r\n: empty\r\nContent-Length: 3\r\n\r\nabc"
    yield GET, answer(b"200 OK", b"abc", b"X-Folded: a", b" evil", b"X-Other: b", b"\tY: evil", b"Server: a", b"server: b")
    yield GET, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz no chunk evil\r\nmore evil"
    yield GET, b"HTTP/1.1 200\r\nContent-Length: 4\r\n\r\nevil"
    yield GET, b"http/1.1 200 evil message\r\nContent-Length: 4\r\n\r\ngood"
    yield GET, b"HTTP/1.1 200 OK\r\nContent-Length: nothing\r\n\r\nevil"
    yield b"GET /\r\n", b"<html>evil without a head</html>\r\n"
    yield head(b"CONNECT a:80 HTTP/1.1", HOST), answer(b"403 Forbidden", b"evil proxy")
    yield head(b"POST /x HTTP/1.1", HOST, b"Content-Length: 4") + b"good", answer(b"200 OK", b"evil at the end of it: evil")
    yield GET, answer(b"200 OK", b"evil at the start")
    yield GET, answer(b"200 OK", b"0123456789")
    yield GET, answer(b"200 OK", b"", b"Server: empty")


def long_ones():
    for at in (10, 900, 1800, 2500):
        body = bytearray(b"abcdefgh" * 375)
        body[at:at + 8] = b"evil one"
        body[at + 300:at + 308] = b"evil two"
        yield GET, answer(b"200 OK", bytes(body))
        yield GET, chunked(bytes(body), [100, 37, 250])
        yield GET, head(b"HTTP/1.1 200 OK") + bytes(body)


def run(seed, make):
    chance = random.Random(seed)
    frames = []
    number = 0
    for asked, said in [*usual_ones(), *long_ones()]:
        for cuts in (0, 2, 6):
            places = [chance.randint(1, len(said) - 1) for _ in range(cuts)]
            # No segment is longer than an Ethernet frame takes.
            places += range(1400, len(said), 1400)
            frames += connection(make, 4000 + number, asked, [], said=said, said_cuts=places)
            number += 1
    return frames


def answered_by(rule):
    """An answer that has what a rule looks for, roughly; None: it is not about answers."""
    of = {"http.stat_code": "code", "http.stat_msg": "message", "http.server": "Server", "http.location": "Location",
          "http.cookie": "Set-Cookie", "http.content_type": "Content-Type", "http.header": "header", "file.data": "body",
          "file_data": "body", "http.response_body": "body", "http.connection": "Connection"}
    found, buffer = {}, None
    for name, value in options_of(rule):
        if name in of or name.startswith(("http.", "file.", "file_")) or name == "pkt_data":
            buffer = of.get(name)
        elif name == "content" and buffer and not value.strip().startswith("!"):
            found.setdefault(buffer, []).append(pattern(value.strip().strip('"')))
    if not found or "to_server" in rule or not re.match(r"alert http ", rule) or not ("to_client" in rule or "from_server" in rule):
        return None
    code = b"".join(found.get("code", [b"200"]))
    headers = [name.encode() + b": " + b"".join(found[name])
               for name in ("Server", "Location", "Set-Cookie", "Content-Type", "Connection") if name in found]
    more = b"".join(found.get("header", []))
    if more:
        headers.append(more.strip(b"\r\n"))
    return answer(code + b" " + b"".join(found.get("message", [b"OK"])), b"".join(found.get("body", [])), *headers)


def real(make, rules):
    frames = []
    number = 0
    for rule in rules:
        text = answered_by(rule)
        if text is None:
            continue
        ends = ("192.168.1.5", "198.51.100.7")
        if re.match(r"alert \S+ (\$HOME_NET|\$HTTP_SERVERS) ", rule):
            ends = ends[::-1]
        cuts = [len(text) // 2] if number % 3 == 0 else []
        frames += connection(make, 8000 + number, GET, [], ends, text, [*cuts, *range(1400, len(text), 1400)])
        number += 1
    return frames


RULES = r"""alert http any any -> any any (flow:to_client; http.stat_code; content:"200"; sid:1;)
alert http any any -> any any (http.stat_code; content:"404"; sid:2;)
alert http any any -> any any (http.stat_msg; content:"Not Found"; sid:3;)
alert http any any -> any any (http.response_line; content:"HTTP/1.1 302 Found"; sid:4;)
alert http any any -> any any (flow:to_client; http.protocol; content:"HTTP/1.0"; sid:5;)
alert http any any -> any any (http.server; content:"evil"; sid:6;)
alert http any any -> any any (http.location; content:"http|3a|//evil."; startswith; sid:7;)
alert http any any -> any any (flow:to_client; http.cookie; content:"evil=1"; sid:8;)
alert http any any -> any any (flow:to_client; http.content_type; content:"text/html"; sid:9;)
alert http any any -> any any (flow:to_client; http.content_len; content:"4000"; bsize:4; sid:10;)
alert http any any -> any any (flow:to_client; http.connection; content:"close"; sid:11;)
alert http any any -> any any (flow:to_client; http.header; content:"Server|3a| "; sid:12;)
alert http any any -> any any (flow:to_client; http.header; content:"evil"; sid:13;)
alert http any any -> any any (flow:to_client; http.header_names; content:"|0d 0a|Server|0d 0a|"; sid:14;)
alert http any any -> any any (flow:to_client; file.data; content:"evil"; sid:15;)
alert http any any -> any any (flow:to_client; file_data; content:"<script>"; content:"</script>"; distance:0; sid:16;)
alert http any any -> any any (http.stat_code; content:"200"; file.data; content:"evil"; sid:17;)
alert http any any -> any any (flow:to_client; http.stat_code; content:"403"; fast_pattern; file.data; content:"evil"; sid:18;)
alert http any any -> any any (flow:to_client; http.response_body; content:"evil"; depth:4; sid:19;)
alert http any any -> any any (flow:to_client; file.data; content:"MZ"; startswith; content:"DOS mode"; distance:0; sid:20;)
alert http any any -> any any (flow:to_client; file.data; content:"|00 01 02|"; startswith; content:"|fe ff|"; distance:0; sid:21;)
alert http any any -> any any (flow:to_client; file.data; content:"evil one"; content:"evil two"; distance:0; sid:22;)
alert http any any -> any any (flow:to_client; file.data; content:"evil two"; sid:23;)
alert http any any -> any any (flow:to_client; file.data; content:"evil"; offset:4; depth:10; sid:24;)
alert http any any -> any any (flow:to_client; file.data; pcre:"/<title>\w{4}</"; sid:25;)
alert http any any -> any any (flow:to_client; http.content_type; content:"json"; file.data; content:"|22|evil|22|"; sid:26;)
alert http any any -> any any (flow:to_client; file.data; byte_test:1,=,0x7b,0; content:"user"; sid:27;)
alert http any any -> any any (flow:to_client; file.data; content:"0123456789"; bsize:10; sid:28;)
alert http any any -> any any (flow:to_client; file.data; content:"evil"; endswith; sid:29;)
alert http any any -> any any (flow:to_client; file.data; content:"evil"; isdataat:!1,relative; sid:30;)
alert http any any -> any any (flow:to_client; file.data; content:"html"; content:!"good"; sid:31;)
alert http any any -> any any (flow:to_client; http.stat_code; content:"200"; file.data; content:!"evil"; sid:32;)
alert http any any -> any any (flow:to_client; http.server; content:"nginx"; file.data; content:"evil"; sid:33;)
alert http any any -> any any (flow:to_client; http.stat_code; content:"5"; startswith; file.data; content:"OLE DB"; sid:34;)
alert http any any -> any any (flow:to_client; file.data; content:"first=evil"; http.stat_code; content:"404"; sid:35;)
alert http any any -> any any (flow:to_client; http.header; content:"Y|3a| evil"; sid:36;)
alert http any any -> any any (flow:to_client; http.server; content:"a, b"; sid:37;)
alert http any any -> any any (flow:to_client; http.stat_code; content:!"200"; sid:38;)
alert http any any -> any any (flow:established,from_server; content:"200"; http_stat_code; content:"evil"; http_server_body; sid:39;)
alert http any any -> any any (flow:to_client; http.stat_msg; content:"message"; sid:40;)
"""
