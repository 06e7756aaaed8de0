"""make-corpus.py FILE: 8192 tokens below 128, two bytes each, as exported test models take them."""
import random
import struct
import sys

random.seed(1)
with open(sys.argv[1], "wb") as file:
    file.write(struct.pack("<8192H", *(random.randrange(128) for _ in range(8192))))
