"""How a password is kept: the old way, and the old way wrapped in a slow one."""

import hashlib
import hmac

# A real table asks for hundreds of thousands; this keeps the example at a few seconds.
ITERATIONS = 3_000


def legacy_digest(password):
    """The old way: a bare SHA-1, too fast to withstand a guess."""
    return hashlib.sha1(password.encode()).hexdigest()


def wrap(digest, salt):
    """Wraps a legacy digest, so that nobody's password has to be known or asked for again."""
    key = hashlib.pbkdf2_hmac("sha256", digest.encode(), salt, ITERATIONS)
    return f"pbkdf2-sha1${ITERATIONS}${salt.hex()}${key.hex()}"


def matches(password, stored):
    """Whether a password fits what is stored, in either form."""
    if "$" not in stored:
        return hmac.compare_digest(legacy_digest(password), stored)
    _, iterations, salt, key = stored.split("$")
    found = hashlib.pbkdf2_hmac(
        "sha256", legacy_digest(password).encode(), bytes.fromhex(salt), int(iterations)
    )
    return hmac.compare_digest(found.hex(), key)
