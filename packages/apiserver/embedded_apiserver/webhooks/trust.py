"""Which servers of webhooks are trusted: those whose certificate an authority of the ``caBundle`` has signed.

Some operators give their authority and its server certificate the same name. OpenSSL takes such a server certificate for one that
has signed itself, and rejects it; the clients of Go look at the signature. So it is done here.
"""

import asyncio
import base64
import contextlib
import ssl

from cryptography import x509
from cryptography.exceptions import InvalidSignature

_SIGNED_BY_ITSELF = 18
"""OpenSSL's code of the error."""


class TrustError(ValueError):
    """A bundle without certificates."""


class Trust:
    """The trust in the servers of one webhook."""

    def __init__(self, bundle: str) -> None:
        """`bundle` is the base64 of certificates in PEM; the authorities of this machine if it is empty. Raises TrustError."""
        try:
            self._authorities = base64.b64decode(bundle)
            self.context = ssl.create_default_context(cadata=self._authorities.decode())
        except (ssl.SSLError, ValueError) as error:
            raise TrustError(f"its caBundle has no certificates ({error})") from None

    async def extends_to(self, host: str, port: int | None, error: Exception) -> bool:
        """Whether a server that was rejected is trusted after all, and `context` accepts it now."""
        if getattr(error, "verify_code", 0) != _SIGNED_BY_ITSELF or not self._authorities:
            return False
        shown = await _shown_by(host, port or 443)
        if shown is None or not self._has_signed(shown):
            return False
        self.context.load_verify_locations(cadata=shown)
        self.context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        return True

    def _has_signed(self, shown: bytes) -> bool:
        """Whether an authority of the bundle has signed a certificate."""
        certificate = x509.load_der_x509_certificate(shown)
        for authority in x509.load_pem_x509_certificates(self._authorities):
            with contextlib.suppress(InvalidSignature, ValueError, TypeError):
                certificate.verify_directly_issued_by(authority)
                return True
        return False


async def _shown_by(host: str, port: int) -> bytes | None:
    """The certificate that a server shows (DER), not verified; None if it shows none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        _, writer = await asyncio.open_connection(host, port, ssl=context)
    except OSError:
        return None
    shown: bytes | None = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return shown
