"""Requests that are malformed in every part, each with a mark where clients have their tokens.

A request is bytes for a raw socket. `send` takes any port; `found` searches a log for the mark, whole, encoded and in parts.
As a program: `python -m tests.attack.malformed HOST PORT [tls]` sends all to a port and prints the mark to search logs for.
"""

from __future__ import annotations

import base64
import secrets
import socket
import ssl
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress

PART = 9
SECONDS = 3.0
HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_FRAME_SETTINGS, _FRAME_HEADERS, _END_HEADERS = 4, 1, 0x4


def new_mark() -> str:
    """A token-like text that is in no log by chance."""
    return secrets.token_hex(24)


def found(mark: str, log: str) -> set[str]:
    """Parts of the mark that a log holds: whole, as Base64 of it or of a login with it, in any nine characters in a row."""
    plain = [mark, *(base64.b64encode(b"x" * shift + mark.encode()).decode()[4:-4] for shift in range(3))]
    plain += [mark.encode().hex(), mark.upper()]
    return {text[at : at + PART] for text in plain for at in range(len(text) - PART + 1) if text[at : at + PART] in log}


def send(host: str, port: int, request: bytes, tls: ssl.SSLContext | None = None) -> bytes:
    """Sends bytes, as far as the port takes them, and returns what it answers, at most 64 KiB of it."""
    answer = b""
    with (
        suppress(OSError),
        socket.create_connection((host, port), SECONDS) as plain,
        plain if tls is None else tls.wrap_socket(plain, server_hostname="localhost") as connection,
    ):
        connection.settimeout(SECONDS)
        connection.sendall(request)
        if tls is None:
            connection.shutdown(socket.SHUT_WR)
        while len(answer) < 64 << 10 and (piece := connection.recv(16 << 10)):
            answer += piece
            if tls is not None:
                break  # the first piece says how it ends
    return answer


def everything(mark: str) -> Iterator[tuple[str, bytes]]:
    """All requests, with names: those of HTTP, HiveServer2, gRPC and none of them."""
    yield from http_requests(mark)
    yield from thrift_messages(mark)
    yield from grpc_frames(mark)


def http_requests(mark: str) -> Iterator[tuple[str, bytes]]:
    """Requests whose line, headers or body break HTTP/1.1, or ask in forms that are seldom used."""
    token = mark.encode()
    bearer = b"Authorization: Bearer " + token
    for name, header in _headers(token, bearer):
        yield f"header {name}", _http(b"GET /v4/info HTTP/1.1", header)
        yield f"header {name} of a POST", _http(b"POST /v4/sessions HTTP/1.1", header, b"Content-Length: 2", body=b"{}")
    for name, line in _lines(token):
        yield f"line {name}", _http(line, bearer)
    for name, header, body in _bodies(token):
        for path in (b"/v4/sessions", b"/cliservice", b"/control/v1/bind"):
            yield f"body {name} to {path.decode()}", _http(b"POST " + path + b" HTTP/1.1", bearer, header, body=body)
    yield (
        "two requests at once, the second malformed",
        _http(b"GET /healthz HTTP/1.1") + _http(b"G@T / HTTP/1.1", bearer),
    )


def thrift_messages(mark: str) -> Iterator[tuple[str, bytes]]:
    """SASL messages and frames of HiveServer2 that are none, or are broken."""
    token = mark.encode()
    for status in (0, 1, 2, 3, 4, 5, 6, 255):
        for payload in (token, b"PLAIN", b"\0u\0" + token, b"\xff" + token):
            yield f"SASL status {status} {payload[:1]!r}", struct.pack(">BI", status, len(payload)) + payload
    start = struct.pack(">BI", 1, 5) + b"PLAIN"
    for name, login in (
        ("login", b"\0u\0" + token),
        ("login without user", b"\0\0" + token),
        ("login of one part", token),
        ("login of many parts", b"\0".join([token] * 5)),
        ("login of other bytes", b"\0\xff\xfe\0" + token + b"\xff"),
        ("login of two lines", b"\0u\0" + token + b"\r\n" + token),
    ):
        yield name, start + struct.pack(">BI", 5, len(login)) + login
    yield "mechanism", struct.pack(">BI", 1, len(token)) + token + struct.pack(">BI", 5, 1) + b"x"
    yield "SASL of any size", struct.pack(">BI", 1, 0x7FFFFFFF) + token
    call = struct.pack(">I", 0x80010001) + struct.pack(">I", len(token)) + token + b"\0\0\0\1"
    yield "frame before a login", struct.pack(">I", len(call)) + call
    yield "garbage", b"\x80\x01" + token * 10


def grpc_frames(mark: str) -> Iterator[tuple[str, bytes]]:
    """HTTP/2 with a token in headers that break HPACK or gRPC."""
    token = mark.encode()
    path = b"/spark.connect.SparkConnectService/AnalyzePlan"
    base = _literal(b":method", b"POST") + _literal(b":scheme", b"http") + _literal(b":path", path)
    base += (
        _literal(b":authority", b"x") + _literal(b"content-type", b"application/grpc") + _literal(b"te", b"trailers")
    )
    for name, block in (
        ("token", _literal(b"authorization", b"Bearer " + token)),
        ("token of other bytes", _literal(b"authorization", b"Bearer " + token + b"\xff\xfe")),
        ("token of two lines", _literal(b"authorization", b"Bearer " + token + b"\r\n" + token)),
        ("name in capitals", _literal(b"Authorization", b"Bearer " + token)),
        ("name of other bytes", _literal(b"auth\xff" + token, b"Bearer " + token)),
        ("name with the token", _literal(token + b"-bin", token)),
        ("binary value that is none", _literal(b"token-bin", token + b"!")),
        ("length beyond the block", b"\x00\x0dauthorization\x7f\xff\x7f" + token),
        ("index that is none", b"\xff\xff\x7f" + token),
        ("huge", _literal(b"authorization", token * 2_000)),
        ("path", _literal(b":path", b"/" + token)),
        ("timeout", _literal(b"grpc-timeout", token)),
        ("encoding", _literal(b"grpc-encoding", token)),
    ):
        headers = _frame(_FRAME_HEADERS, _END_HEADERS, 1, base + block)
        yield f"gRPC {name}", HTTP2_PREFACE + _frame(_FRAME_SETTINGS, 0, 0, b"") + headers + _frame(0, 1, 1, token)
    for kind in range(12):
        yield f"frame {kind}", HTTP2_PREFACE + _frame(_FRAME_SETTINGS, 0, 0, b"") + _frame(kind, 0xFF, 1, token)
    yield "HTTP/2 without settings", HTTP2_PREFACE + token * 20
    yield "frame of any size", HTTP2_PREFACE + b"\xff\xff\xff\0\0\0\0\0\1" + token


def _headers(token: bytes, bearer: bytes) -> Iterator[tuple[str, bytes]]:
    yield "plain", bearer
    for code in (*range(0x20), 0x7F, 0x80, 0xFF):
        yield f"value with {code:#x}", bearer[:-4] + bytes([code]) + bearer[-4:]
        yield f"name with {code:#x}", b"Autho" + bytes([code]) + b"rization: Bearer " + token
    for sign in b' "(),/:;<=>?@[\\]{}':
        yield f"name with {chr(sign)}", b"Autho" + bytes([sign]) + b"rization: Bearer " + token
    yield "no colon", b"Authorization Bearer " + token
    yield "space before the colon", b"Authorization : Bearer " + token
    yield "no name", b": Bearer " + token
    yield "continued", b"Authorization: Bearer\r\n  " + token
    yield "two lines", bearer + b"\r\n" + token
    yield "huge", b"Authorization: Bearer " + token * 2_000
    yield "huge name", token * 2_000 + b": x"
    yield "many", b"\r\n".join([bearer] * 200)
    yield "Basic that is no Base64", b"Authorization: Basic " + token + b"!"
    yield "Basic without a colon", b"Authorization: Basic " + base64.b64encode(token)
    yield "Basic of other bytes", b"Authorization: Basic " + base64.b64encode(b"u:\xff\xfe" + token)
    yield "Basic of two lines", b"Authorization: Basic " + base64.b64encode(b"u:" + token + b"\r\n" + token)
    yield "other scheme", b"Authorization: Digest " + token
    yield "no scheme", b"Authorization: " + token
    yield "not ASCII", b"Authorization: Bearer " + token + "ü€".encode()
    yield "host", b"Host: " + token + b" " + token
    yield "upgrade", b"Connection: Upgrade\r\nUpgrade: " + token + b"\r\n" + bearer
    yield "expect", b"Expect: " + token + b"\r\n" + bearer
    yield "session", b"x-sparksql-session: " + token + b"\r\n" + bearer
    yield "cookie", b"Cookie: " + token + b"=" + token + b"; \x01" + token
    yield "content type", b"Content-Type: " + token + b"; charset=" + token + b"\r\n" + bearer


def _lines(token: bytes) -> Iterator[tuple[str, bytes]]:
    for version in (b"HTTP/9.9", b"HTTP/1", b"HTTQ/1.1", b"", b"HTTP/1.1 " + token, b"HTTP/" + token):
        yield f"version {version[:9]!r}", b"GET /info " + version
    for method in (b"G@T", b"get", b"", token, b"G\x01T", b"\xff"):
        yield f"method {method[:9]!r}", method + b" /info HTTP/1.1"
    for target in (
        b"http://host/v4/info?t=" + token, b"http://[" + token + b"/", b"http://" + token + b":x/", b"*", b"host:443",
        token, b"/%" + token, b"/%00" + token, b"/v4/\xff" + token, b"//" + token, b"/?" + token + b" " + token,
        b"/" + token * 400, b"/\x01" + token, b"",
    ):  # fmt: skip
        for method in (b"GET", b"OPTIONS", b"CONNECT", b"POST"):
            yield f"target {method.decode()} {target[:9]!r}", method + b" " + target + b" HTTP/1.1"


def _bodies(token: bytes) -> Iterator[tuple[str, bytes, bytes]]:
    yield "chunk size", b"Transfer-Encoding: chunked", token + b"\r\n" + token
    yield "chunk size that is negative", b"Transfer-Encoding: chunked", b"-1\r\n" + token
    yield "chunk extension", b"Transfer-Encoding: chunked", b"2;" + token + b"\r\n{}\r\n0\r\n\r\n"
    yield "chunk without an end", b"Transfer-Encoding: chunked", b"2\r\n{}" + token
    yield "trailer", b"Transfer-Encoding: chunked", b"2\r\n{}\r\n0\r\nAutho rization: " + token + b"\r\n\r\n"
    yield "transfer coding", b"Transfer-Encoding: " + token, token
    yield "compression", b"Content-Encoding: gzip\r\nContent-Length: 48", token
    yield "short body", b"Content-Length: 4000", token
    for size in (b"-1", b"1x", b"+3", token, b"99999999999999999999", b"1, 2", b""):
        yield f"length {size[:9]!r}", b"Content-Length: " + size, token
    yield "both lengths", b"Content-Length: 3\r\nTransfer-Encoding: chunked", b"3\r\n" + token[:3] + b"\r\n0\r\n\r\n"
    yield "no JSON", b"Content-Type: application/json\r\nContent-Length: 48", token


def _http(line: bytes, *headers: bytes, body: bytes = b"") -> bytes:
    return b"\r\n".join([line, b"Host: localhost", b"Connection: close", *headers, b"", body])


def _literal(name: bytes, value: bytes) -> bytes:
    """A header field of HPACK: a literal without indexing and without Huffman's code (RFC 7541, 6.2.2)."""
    return b"\0" + _text(name) + _text(value)


def _text(value: bytes) -> bytes:
    size = len(value)
    if size < 0x7F:
        return bytes([size]) + value
    prefix, size = bytearray([0x7F]), size - 0x7F
    while size >= 0x80:
        prefix.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*prefix, size]) + value


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def main(host: str, port: str, tls: str = "") -> None:
    """Sends all to a port, by TLS without a look at its certificate if `tls` is given."""
    mark = new_mark()
    context = ssl._create_unverified_context() if tls else None
    for _, request in everything(mark):
        send(host, int(port), request, context)
    print(mark)


if __name__ == "__main__":
    main(*sys.argv[1:])
