"""The certificate of a session's gateway: self-signed, known to the operator by itself, trusted by nothing else.

There is no authority: the operator pins the one certificate that it put into the session's Secret. A pinned
certificate ends with its session (deleting the Secret is its revocation), so its validity is long on purpose: expiry
would only break sessions that live on. A new one is made whenever the Secret is.

It says that it may sign certificates, which it never does: BoringSSL, and so every gRPC client, takes a self-signed certificate
for trusted only if it may have signed itself.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from datetime import datetime, timedelta
from ipaddress import IPv4Address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sparksql.api import names

VALIDITY = timedelta(days=3650)
_CLOCK_SKEW = timedelta(hours=1)
_COMMON_NAME_LENGTH = 64  # ub-common-name of RFC 5280


def session_certificate(name: str, uid: str, namespace: str, now: datetime) -> tuple[str, str]:
    """A new certificate of the session's gateway and its private key (EC P-256, PKCS #8), both PEM. `now` is aware.

    It names the session's Service, and localhost for port-forwards and for what runs in the pod itself.
    """
    server = names.gateway_server_name(name, uid, namespace)
    return self_signed((server, f"{server}.cluster.local", "localhost"), now)


def self_signed(hosts: Sequence[str], now: datetime) -> tuple[str, str]:
    """Makes a certificate for these names, the first of which is its subject, and 127.0.0.1; returns it and its key, both PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:_COMMON_NAME_LENGTH])])
    alternatives = [x509.DNSName(host) for host in hosts]
    usage = x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + VALIDITY)
        .add_extension(x509.SubjectAlternativeName([*alternatives, x509.IPAddress(IPv4Address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        .add_extension(usage, True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        .sign(key, hashes.SHA256())
    )
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM).decode(), key_pem.decode()


def ssl_context(cert_pem: str) -> ssl.SSLContext:
    """A client's TLS that trusts this certificate alone and checks the server's name against it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=cert_pem)
    return context
