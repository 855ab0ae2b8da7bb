"""metadata.generateName: the prefix, cut to fit, and five characters that spell no words (apiserver's names)."""

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
RANDOM_CHARACTERS = 5
LONGEST_PREFIX = 63 - RANDOM_CHARACTERS


def name(prefix: str, uid: str) -> str:
    """A name from a fresh uid: randomness comes in from outside, so that histories can be repeated."""
    number = int(uid.replace("-", ""), 16)
    suffix = []
    for _ in range(RANDOM_CHARACTERS):
        number, digit = divmod(number, len(ALPHABET))
        suffix.append(ALPHABET[digit])
    return prefix[:LONGEST_PREFIX] + "".join(suffix)
