"""tests/data/signatures/bodies.py: what clients send behind the heads of their requests by HTTP/1, for ./make."""
import random

from requests import HOST, chunks, connection, get, head


def post(uri, body, *headers):
    return head(b"POST " + uri + b" HTTP/1.1", HOST, *headers, b"Content-Length: %d" % len(body)) + body


def chunked(uri, body, sizes, *headers):
    return head(b"POST " + uri + b" HTTP/1.1", HOST, *headers, b"Transfer-Encoding: chunked") + chunks(body, sizes)


def usual_ones():
    form = b"Content-Type: application/x-www-form-urlencoded"
    yield post(b"/login", b"user=admin&pass=x%27+or+1=1", form)
    yield post(b"/cgi-bin/x", b"cmd=evil&n=1", form)
    yield post(b"/api", b'{"user": "admin", "cmd": "evil"}', b"Content-Type: application/json")
    yield post(b"/empty", b"") + post(b"/second", b"evil=2")
    yield head(b"PUT /file.jsp HTTP/1.1", HOST, b"Content-Length: 8") + b"<% evil%"
    yield chunked(b"/chunks", b"cmd=evil&x=admin&end", [3, 5, 1])
    yield chunked(b"/one", b"evil", [400])
    yield chunked(b"/two", b"ev", [1]) + post(b"/three", b"il")
    yield post(b"/a", b"first=evil") + post(b"/b", b"second=good") + get(b"/c", HOST)
    yield post(b"/b", b"second=good") + chunked(b"/a", b"first=evil", [2]) + get(b"/c", HOST)
    yield post(b"/multi", b"--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a.php\"\r\n\r\n<?php evil\r\n--b--\r\n",
               b"Content-Type: multipart/form-data; boundary=b")
    yield post(b"/bin", bytes(range(256)))
    yield get(b"/none?evil", HOST)
    yield post(b"/nothing", b"0123456789")
    yield post(b"/start", b"evil at the start")
    yield post(b"/end", b"at the end evil")


def long_ones():
    for at in (10, 900, 1800, 2500):
        body = bytearray(b"abcdefgh" * 375)
        body[at:at + 8] = b"evil one"
        body[at + 300:at + 308] = b"evil two"
        yield post(b"/long", bytes(body))
        yield chunked(b"/long", bytes(body), [100, 37, 250])


def run(seed, make):
    chance = random.Random(seed)
    frames = []
    number = 0
    for text in [*usual_ones(), *long_ones()]:
        for cuts in (0, 2, 6):
            places = [chance.randint(1, len(text) - 1) for _ in range(cuts)]
            # No segment is longer than an Ethernet frame takes.
            places += range(1400, len(text), 1400)
            frames += connection(make, 2000 + number, text, places)
            number += 1
    return frames


RULES = r"""alert http any any -> any any (http.request_body; content:"evil"; sid:1;)
alert http any any -> any any (http.request_body; content:"cmd=evil"; sid:2;)
alert http any any -> any any (http.request_body; content:"EVIL"; nocase; sid:3;)
alert http any any -> any any (http.uri; content:"/a"; http.request_body; content:"evil"; sid:4;)
alert http any any -> any any (http.uri; content:"/b"; fast_pattern; http.request_body; content:"evil"; sid:5;)
alert http any any -> any any (http.method; content:"POST"; http.request_body; content:"user"; content:"admin"; distance:0; sid:6;)
alert http any any -> any any (http.method; content:"PUT"; http.request_body; content:"<%"; startswith; sid:7;)
alert http any any -> any any (http.request_body; content:"evil"; depth:4; sid:8;)
alert http any any -> any any (http.request_body; content:"cmd="; content:"evil"; distance:0; within:4; sid:9;)
alert http any any -> any any (http.request_body; pcre:"/cmd=\w{4}&/"; sid:10;)
alert http any any -> any any (http.request_body; content:"user"; pcre:"/^user=[a-z]+&/"; sid:11;)
alert http any any -> any any (http.request_body; content:"|0d 0a|"; sid:12;)
alert http any any -> any any (http.request_body; content:"filename=|22|"; content:".php|22|"; distance:0; sid:13;)
alert http any any -> any any (http.content_type; content:"multipart"; http.request_body; content:"<?php"; sid:14;)
alert http any any -> any any (http.request_body; content:"|00 01 02|"; startswith; content:"|fe ff|"; distance:0; sid:15;)
alert http any any -> any any (http.request_body; content:"evil one"; content:"evil two"; distance:0; sid:16;)
alert http any any -> any any (http.request_body; content:"evil two"; sid:17;)
alert http any any -> any any (http.request_body; content:"hevil"; sid:18;)
alert http any any -> any any (http.request_body; content:"evil"; offset:4; depth:10; sid:19;)
alert http any any -> any any (http.request_body; isdataat:100; content:"|80 81|"; sid:20;)
alert http any any -> any any (http.host; content:"www.example.com"; http.request_body; content:"good"; sid:21;)
alert http any any -> any any (http.request_body; content:"first=evil"; http.uri; content:"/c"; sid:22;)
alert http any any -> any any (http.request_body; content:"evil"; http.request_body; content:"x="; sid:23;)
alert http any any -> any any (flow:to_server; http.header; content:"json"; http.request_body; content:"|22|evil|22|"; sid:24;)
alert http any any -> any any (http.request_body; byte_test:1,=,0x7b,0; content:"user"; sid:25;)
alert http any any -> any any (http.request_body; content:"0123456789"; bsize:10; sid:26;)
alert http any any -> any any (http.request_body; content:"evil"; endswith; sid:27;)
alert http any any -> any any (http.request_body; content:"evil"; isdataat:!1,relative; sid:28;)
alert http any any -> any any (http.request_body; content:"user"; content:!"evil"; sid:29;)
alert http any any -> any any (http.uri; content:"/"; http.request_body; content:!"evil"; sid:30;)
alert http any any -> any any (http.request_body; bsize:<5; sid:31;)
alert tcp any any -> any 80 (flow:established,to_server; content:"evil"; http_client_body; sid:32;)
"""
